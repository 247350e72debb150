"""What is sent of a run to the systems that track it: MLflow, Weights & Biases and others."""

import json
import logging
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, cast, get_args

from burnish.core.content import Json, codec, short_id
from burnish.core.errors import BurnishError, MissingExtra, in_shell
from burnish.core.surfaces import Candidate
from burnish.core.trials import TrialRow
from burnish.runs.directory import Header, RunRecord
from burnish.runs.events import BEST, CANDIDATES, Event, Tick, TrialRecorded, Warned
from burnish.runs.run import Run
from burnish.runs.spec import TrackingSpec
from burnish.system.extras import install_command
from burnish.system.files import leads_inside
from burnish.system.redaction import Redactor
from burnish.system.workspaces import summarize_diff

_PROJECT = "burnish"
"""The experiment or project, if none is named."""
_CHANGES = "changes.diff"
_FILES = ("report.md", "report.html", "run.json", "trials.jsonl", "trajectory.csv")
_CANDIDATE = rf"^{CANDIDATES}/(iter-\d+/)?"
"""The folder that a run has the files of one candidate in."""
_HOMES = {
    "mlflow": f"{__name__}:MlflowTracker",
    "wandb": f"{__name__}:WandbTracker",
    "otel": "burnish.tracking.otel:OtelTracker",
}
ExportName: TypeAlias = Literal["mlflow", "wandb"]
EXPORTS: tuple[ExportName, ...] = get_args(ExportName)
"""The systems that take a run that is over."""
_log = logging.getLogger("burnish.tracking")


class Tracker(Protocol):
    """Follows one run."""

    def begin(self, run: Run) -> None:
        """The run is about to be driven."""
        ...

    def event(self, event: Event) -> None:
        """Something happened."""
        ...

    def finish(self, record: RunRecord) -> None:
        """Nobody drives the run any more, and its report is written."""
        ...


class TrialTracker(ABC):
    """A system that shows a run as parameters, numbers by trial, and files."""

    library: ClassVar[str] = ""
    """The package that runs are sent with; loaded when there is a tracker."""

    def __init__(self, settings: TrackingSpec) -> None:
        self.settings = settings
        self._row: Callable[[int], TrialRow | None] = lambda _: None

    @property
    def project(self) -> str:
        return self.settings.project or _PROJECT

    @abstractmethod
    def open(self, header: Header, folder: Path) -> None:
        """Begin to show a run, or go on with one that is there."""

    @abstractmethod
    def log(self, trial: int, numbers: Mapping[str, float]) -> None:
        """Add the numbers of a trial, unless they are there."""

    @abstractmethod
    def close(self, record: RunRecord) -> None:
        """Add the result and the files of a run."""

    def begin(self, run: Run) -> None:
        self._row = run.directory.trial
        self.open(run.directory.header, run.directory.folder)

    def event(self, event: Event) -> None:
        recorded = event.read(TrialRecorded)
        row = None if recorded is None else self._row(recorded.trial)
        if row is not None:
            self.log(row.number, numbers_of(row))

    def finish(self, record: RunRecord) -> None:
        self.close(record)

    def export(self, record: RunRecord) -> None:
        """Send a whole run."""
        self.open(record.header, record.folder)
        for row in record.rows:
            self.log(row.number, numbers_of(row))
        self.close(record)


def tracker(name: str, settings: TrackingSpec) -> Tracker:
    """The tracker of a name; says which extra it needs if that is not installed."""
    module, _, attribute = _HOMES[name].partition(":")
    try:
        made = getattr(import_module(module), attribute)
        if library := getattr(made, "library", ""):
            import_module(library)
    except ModuleNotFoundError as error:
        if str(error.name).startswith("burnish"):
            raise
        message = f"tracking with {name} needs the package {error.name}"
        raise MissingExtra(message, remedy=install_command(name)) from None
    except Exception as error:
        # The library's own code: packages beside it may have other versions than it needs.
        message = f"the library of {name} cannot be imported: {type(error).__name__}: {error}"
        remedy = f"in a fresh environment: {install_command(name)}"
        raise BurnishError(message, remedy=remedy) from error
    return cast("Tracker", made(settings))


def export_run(folder: Path, name: ExportName, settings: TrackingSpec) -> None:
    """Send a run that is on disk; what is there already is not sent twice."""
    chosen, record = tracker(name, settings), RunRecord.read(folder)
    assert isinstance(chosen, TrialTracker)
    try:
        chosen.export(record)
    except Exception as error:
        # Libraries of others have errors of their own for a server that is down or says no.
        cause = Redactor.from_environment().text(f"{type(error).__name__}: {error}")
        remedy = "look at the address, the key and the network; a second export sends the rest"
        raise BurnishError(f"{name} did not take the run: {cause}", remedy=remedy) from error


class RunTracking:
    """Lets the trackers of a run follow it. One that fails is left out, and the run goes on."""

    def __init__(self, run: Run, settings: TrackingSpec) -> None:
        self._run = run
        self._trackers = {name: tracker(name, settings) for name in settings.to}
        for name, each in [*self._trackers.items()]:
            self._safely(name, lambda each=each: each.begin(run), self._warn)

    def event(self, event: Event) -> None:
        for name, each in [*self._trackers.items()]:
            self._safely(name, lambda each=each: each.event(event), self._warn)

    def tick(self, tick: Tick) -> None:
        """Cases are not tracked one by one."""

    def finish(self) -> None:
        """Send the rest. The run is closed, so trouble can only be logged."""
        folder = self._run.directory.folder
        for name, each in [*self._trackers.items()]:
            again = f"`burnish runs export {in_shell(folder.name)} --to {name}` tries again"
            self._safely(
                name,
                lambda each=each: each.finish(RunRecord.read(folder)),
                lambda _, message, again=again: _log.warning("%s; %s", message, again),
            )

    def _safely(self, name: str, act: Callable[[], None], warn: Callable[[str, str], None]) -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001 - another system may be down: the run is paid for
            del self._trackers[name]
            cause = f"{type(error).__name__}: {error}"
            text = self._run.directory.redactor.text(f"tracking with {name} failed: {cause}")
            warn(name, text)

    def _warn(self, name: str, message: str) -> None:
        session = self._run.directory.journal.session
        self._run.tell(
            Warned(message=f"{message}; the run goes on without it"),
            f"session:{session}:tracking:{name}",
        )


# -- What is sent ----------------------------------------------------------------------------------


def tracked_id(header: Header) -> str:
    """What a run is found by there; its own id is only the name of its folder."""
    return tracked_name(
        f"{header.id}-{short_id([header.id, header.started_at, header.project.file])}"
    ).replace("/", "_")


def params_of(header: Header) -> dict[str, str]:
    """What a run was started with, as flat names: no secrets, `${VAR}` as written."""
    spec = {name: value for name, value in header.project.spec.items() if name != "source"}
    facts: dict[str, Json] = {
        "strategy": header.strategy,
        "seed": header.seed,
        "burnish": header.burnish,
        "cases": dict(header.cases),
        "inputs": dict(header.inputs),
        **({"forked_from": header.forked_from} if header.forked_from else {}),
        "spec": cast("Json", spec),
    }
    return dict(_flat(facts))


def _flat(value: Json, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, str):
        yield tracked_name(name), value
    else:
        yield tracked_name(name), json.dumps(value, ensure_ascii=False)


def tracked_name(name: str) -> str:
    """A name with those characters only that every system takes."""
    return re.sub(r"[^\w\-./]", "_", name, flags=re.ASCII)


def numbers_of(row: TrialRow) -> dict[str, float]:
    """The numbers of a trial: decision, costs, and each metric on each split."""
    trial, spend = row.trial, row.spend
    values: dict[str, float | None] = {
        "trial": row.number,
        "accepted": trial.accepted,
        "seconds": row.seconds,
        "calls": spend.calls,
        "metric_calls": spend.metric_calls,
        "usd": spend.usd,
    }
    for split, result in (("train", trial.train), ("holdout", trial.holdout)):
        if result is not None:
            measured = result.measurement
            values |= {f"{split}/loss": measured.loss, f"{split}/pass_rate": measured.pass_rate}
            values |= {f"{split}/metric/{name}": v for name, v in measured.components.items()}
    return _known(values)


def result_numbers(record: RunRecord) -> dict[str, float]:
    """What a run found and cost."""
    claim, spent = record.claim, record.spent
    values: dict[str, float | None] = {
        "result/spent_usd": spent.usd,
        "result/billed_usd": record.billed.usd,
        "result/metric_calls": spent.metric_calls,
        "result/trials": record.trials,
        "result/accepted": record.accepted,
    }
    if claim is not None:
        values |= {"result/baseline": claim.baseline_score, "result/best": claim.best_score}
        if claim.gain is not None:
            gain = claim.gain
            values |= {"result/gain": gain.mean, "result/gain_low": gain.low}
            values |= {"result/gain_high": gain.high}
    return _known(values)


def result_words(record: RunRecord) -> dict[str, str]:
    """How a run ended, and what may be said of its best."""
    words = {"burnish.status": record.status}
    if record.claim is not None:
        words |= {"burnish.verdict": record.claim.verdict, "burnish.basis": record.claim.basis}
    return words


def _known(values: Mapping[str, float | None]) -> dict[str, float]:
    return {tracked_name(name): float(v) for name, v in values.items() if v is not None}


def changes_of(record: RunRecord) -> str:
    """The diff from the baseline to the best, by surface; empty if nothing is better."""
    before, after = record.baseline, record.best_candidate
    if before is None or after is None:
        return ""
    return summarize_diff(
        _contents(before.trial.candidate), _contents(after), max_chars=10_000_000
    ).text


def _contents(candidate: Candidate) -> dict[str, bytes]:
    encoded: Any = codec(Candidate).encode(candidate)
    values = cast("Mapping[str, Json]", encoded["values"])
    return {
        name: (v if isinstance(v, str) else json.dumps(v, ensure_ascii=False, indent=2)).encode()
        for name, v in values.items()
    }


def files_of(record: RunRecord) -> dict[str, Path]:
    """The files of a run that are sent, by their path there."""
    number = -1 if record.best is None else record.best.number
    best = record.files.get(number, ())
    names = {name: name for name in _FILES}
    names |= {f"{BEST}/{re.sub(_CANDIDATE, '', name)}": name for name in best}
    return {
        place: record.folder / name
        for place, name in names.items()
        # A run's folder may be from anybody, and what is sent leaves this machine.
        if leads_inside(record.folder, name) and (record.folder / name).is_file()
    }


# -- MLflow ----------------------------------------------------------------------------------------


_RUN_TAG = "burnish.run"
"""The tag that a run is found by, so that a resume and a second export go on in it."""
_AT_ONCE = 100
"""Parameters that MLflow takes in one request."""
_LONGEST = 500
"""Characters of a parameter that every version of MLflow takes."""
_STATUS = {"running": "RUNNING", "finished": "FINISHED", "failed": "FAILED"}


class MlflowTracker(TrialTracker):
    """Sends a run to a tracking server, or to the folder or database that stands in for one."""

    library = "mlflow"
    _client: Any
    _run: str
    _logged = -1
    """The last trial whose numbers are there."""

    def __init__(self, settings: TrackingSpec) -> None:
        super().__init__(settings)
        self._mlflow: Any = import_module(self.library)

    def open(self, header: Header, folder: Path) -> None:
        del folder
        self._client = self._mlflow.MlflowClient(tracking_uri=self.settings.uri)
        known = self._client.get_experiment_by_name(self.project)
        home = known.experiment_id if known else self._client.create_experiment(self.project)
        found = self._client.search_runs(
            [home], f"tags.`{_RUN_TAG}` = '{tracked_id(header)}'", max_results=1
        )
        if found:
            self._run = found[0].info.run_id
            self._logged = int(found[0].data.metrics.get("trial", -1))
            self._client.update_run(self._run, status="RUNNING")
            return
        started = int(datetime.fromisoformat(header.started_at).timestamp() * 1000)
        tags = {_RUN_TAG: tracked_id(header), "mlflow.source.name": _PROJECT}
        run = self._client.create_run(home, start_time=started, tags=tags, run_name=header.id)
        self._run = run.info.run_id
        entities = self._mlflow.entities
        params = [entities.Param(k, v[:_LONGEST]) for k, v in params_of(header).items()]
        for start in range(0, len(params), _AT_ONCE):
            self._client.log_batch(self._run, params=params[start : start + _AT_ONCE])

    def log(self, trial: int, numbers: Mapping[str, float]) -> None:
        if trial > self._logged:
            self._log(trial, numbers)
            self._logged = trial

    def close(self, record: RunRecord) -> None:
        self._log(max(0, self._logged), result_numbers(record))
        for name, word in result_words(record).items():
            self._client.set_tag(self._run, name, word)
        for place, path in files_of(record).items():
            folder = str(Path(place).parent)
            self._client.log_artifact(self._run, str(path), None if folder == "." else folder)
        if changes := changes_of(record):
            self._client.log_text(self._run, changes, _CHANGES)
        status = _STATUS.get(record.status, "KILLED")
        if status == "RUNNING":
            return
        self._client.set_terminated(self._run, status=status)

    def _log(self, step: int, numbers: Mapping[str, float]) -> None:
        now, metric = int(time.time() * 1000), self._mlflow.entities.Metric
        metrics = [metric(name, value, now, step) for name, value in numbers.items()]
        self._client.log_batch(self._run, metrics=metrics)


# -- Weights & Biases ------------------------------------------------------------------------------


class WandbTracker(TrialTracker):
    """Sends a run to Weights & Biases; with `WANDB_MODE=offline` it stays in the run's folder."""

    library = "wandb"
    _run: Any

    def __init__(self, settings: TrackingSpec) -> None:
        super().__init__(settings)
        self._wandb: Any = import_module(self.library)

    def open(self, header: Header, folder: Path) -> None:
        server = {} if self.settings.uri is None else {"base_url": self.settings.uri}
        self._run = self._wandb.init(
            project=self.project,
            id=tracked_id(header).replace(".", "_"),
            name=header.id,
            config=params_of(header),
            dir=os.environ.get("WANDB_DIR") or str(folder),
            resume="allow",
            reinit="create_new",
            settings=self._wandb.Settings(silent=True, console="off", **server),
        )

    def log(self, trial: int, numbers: Mapping[str, float]) -> None:
        # A step that is there already is left out by wandb itself.
        if trial >= self._run.step:
            self._run.log(dict(numbers), step=trial)

    def close(self, record: RunRecord) -> None:
        self._run.summary.update({**result_numbers(record), **result_words(record)})
        files = self._wandb.Artifact(f"run-{self._run.id}", type="burnish-run")
        for place, path in files_of(record).items():
            files.add_file(str(path), name=place)
        if changes := changes_of(record):
            with files.new_file(_CHANGES, mode="w", encoding="utf-8") as file:
                file.write(changes)
        self._run.log_artifact(files)
        self._run.finish(exit_code=int(record.status in ("failed", "killed")))
