"""Setup: everything a run is made of; opening, resuming and forking it; what it puts out."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from burnish.core.cases import LeakWatch, Split
from burnish.core.content import codec, short_id
from burnish.core.errors import (
    ConfigError,
    FileTrouble,
    PriceUnknown,
    Problem,
    SealedTestRead,
    TargetMismatch,
)
from burnish.core.evaluations import Objective
from burnish.core.protocols import KEY_SCHEMA, Role, Target
from burnish.core.surfaces import Candidate
from burnish.journal.once import Cache
from burnish.runs.directory import Header, RunDirectory, look_into, remember_run, what_is_lost
from burnish.runs.evaluation import CALL_LIMIT, CasePolicy, Conditions
from burnish.runs.events import Exported, Exporter, in_folders
from burnish.runs.run import Run
from burnish.system import Redactor, make_folder, remove_stale_temporaries
from burnish.version import VERSION


class Strategy(Protocol):
    """Plain async code over a Run.

    It holds no clients, opens no files, and sees budgets only through `run.stop_reason`.
    Once that gives a reason, it records nothing more: a trial is finished or dropped whole.
    Whatever it decides on comes from the run, so that running it again over the same journal
    makes the same decisions. That is all there is to resume.
    """

    @property
    def name(self) -> str:
        """What the command line and run.json call it."""
        ...

    @property
    def fingerprint(self) -> str:
        """A hash of its settings and version."""
        ...

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        """The roles it asks."""
        ...

    def mismatch(self, target: Target) -> Sequence[Problem]:
        """What it needs that the target does not have."""
        ...

    async def search(self, run: Run) -> None:
        """Search until there is a reason to stop."""
        ...


# -- Everything a run is made of, checked before anything is written or paid ----------------------


@runtime_checkable
class _KnowsSecrets(Protocol):
    """Something that was given keys, and knows their values."""

    def secrets(self) -> Sequence[str]:
        """What may not be kept anywhere."""
        ...


@dataclass(frozen=True, kw_only=True)
class Setup(Conditions):
    """What to optimise, on which cases, by which measure, how, and how far."""

    strategy: Strategy

    def secrets(self) -> list[str]:
        """The keys that anything here was given."""
        holders = [each for each in self.resources if isinstance(each, _KnowsSecrets)]
        return [secret for each in holders for secret in each.secrets()]

    def inputs(self) -> dict[str, str]:
        """Hashes of everything that decides what happens; budgets and concurrency do not."""
        return {
            "target": self.target.description.fingerprint,
            "baseline": self.target.baseline.id,
            "data": self.dataset.fingerprint,
            "metrics": short_id([[m.name, m.fingerprint] for m in self.metrics]),
            "objective": short_id(codec(Objective).encode(self.objective)),
            "case policy": short_id(codec(CasePolicy).encode(self.case_policy)),
            "strategy": short_id([self.strategy.name, self.strategy.fingerprint]),
            "role prompts": short_id([[r.name, r.fingerprint] for r in self.strategy.roles]),
            "seed": str(self.seed),
            "test repeats": str(self.test_repeats),
            "key schema": str(KEY_SCHEMA),
            "burnish version": ".".join(VERSION.split(".")[:2]),
        }

    def check(self) -> None:
        """Raise with everything that is wrong, before anything is paid."""
        problems = [*self.dataset.problems(), *self._unknown_metrics(), *self._leaked_answers()]
        if problems:
            raise ConfigError(problems)
        mismatch = self.strategy.mismatch(self.target)
        if mismatch:
            raise TargetMismatch(
                f"the strategy '{self.strategy.name}' cannot run on this target: "
                + "; ".join(map(str, mismatch))
            )
        self._check_prices()

    def _leaked_answers(self) -> list[Problem]:
        """Whoever proposes sees the texts as they are: they may hold nothing of what decides."""
        if not self.strategy.roles:
            return []
        secrets, values = LeakWatch(self.dataset), self.target.baseline.values
        return [
            Problem(
                where=name,
                message=f"the text contains text of case '{case}', which no proposer may see",
                remedy="take the case out of holdout and test, or its text out of this one",
            )
            for name, value in values.items()
            if isinstance(value, str) and (case := secrets.leaked(value)) is not None
        ]

    def _unknown_metrics(self) -> list[Problem]:
        names = {metric.name for metric in self.metrics}
        required = {
            "objective": [*self.objective.weights, *(self.objective.required or ())],
            "budget.required_metrics": list(self.budget.required_metrics),
        }
        available = ", ".join(sorted(names)) or "none"
        return [
            Problem(where=where, message=f"no metric '{name}'", remedy=f"there are: {available}")
            for where, metrics in required.items()
            for name in metrics
            if name not in names
        ]

    def _check_prices(self) -> None:
        if self.budget.max_usd is None:
            return
        cases = [case for split in Split for case in self.dataset.cases(split)]
        unpriced = [
            *(["the agent"] if any(self.target.estimate(c).unpriced for c in cases) else []),
            *(m.name for m in self.metrics if any(m.estimate(c).unpriced for c in cases)),
            *(role.name for role in self.strategy.roles if not role.priced),
        ]
        if unpriced:
            raise PriceUnknown(
                f"max_usd is set, but the price of a call is not known for: {', '.join(unpriced)}",
                remedy="give the price, or limit calls or tokens instead of USD",
            )


# -- Opening a run --------------------------------------------------------------------------------


Furnish: TypeAlias = Callable[[Path], None]
"""Puts something into a folder that is being made, such as where its journal lies."""
RESULTS = Path("results") / "optimizer"
"""Where runs lie when nobody says otherwise."""


def start(
    setup: Setup,
    *,
    root: Path = RESULTS,
    folder: Path | None = None,
    furnish: Furnish | None = None,
) -> Run:
    """A new run under `root`, or exactly in `folder`.

    `furnish` may put more into the folder than its header before it appears.
    """
    setup.check()
    return _begin(setup, root=root, folder=folder, furnish=furnish)


def resume(setup: Setup, folder: Path, *, redactor: Redactor | None = None) -> Run:
    """Go on with a run: the same strategy over the same journal."""
    setup.check()
    Header.read(folder).require_same(setup.inputs())
    redactor = redactor or Redactor.from_environment(extra=setup.secrets())
    return Run(setup, RunDirectory(folder, redactor=redactor), search=setup.strategy.search)


def fork(
    setup: Setup,
    parent: Path,
    *,
    root: Path = RESULTS,
    folder: Path | None = None,
    retry_missing: bool = False,
) -> Run:
    """A new run that takes from an earlier one's journal what it would pay for again."""
    setup.check()
    before = Header.read(parent)
    reader = look_into(parent)
    try:
        if (lost := what_is_lost(parent, reader)) is not None:
            note = f"{lost.message}; what is lost is paid for again"
            setup = replace(setup, notes=(*setup.notes, note))
        spent = "sealed_read" in reader.marks() or before.sealed_test == "spent"
        return _begin(
            setup,
            root=root,
            folder=folder,
            forked_from=before.id,
            sealed_test="spent" if spent else "unread",
            cache=Cache(reader, retry_missing=retry_missing),
        )
    except BaseException:
        reader.close()
        raise


def refuse_spent_test(folder: Path) -> None:
    """Refuse to search on in a run whose sealed test was read to the end."""
    with look_into(folder) as reader:
        if "sealed_done" in reader.marks():
            raise SealedTestRead(
                f"run {Header.read(folder).id} has read its sealed test and is finished",
                remedy=f"search on from it with --fork {folder.name}: a new run that pays for "
                "nothing twice and marks the test as spent",
            )


def _begin(
    setup: Setup,
    *,
    root: Path,
    folder: Path | None,
    forked_from: str = "",
    sealed_test: str = "unread",
    cache: Cache | None = None,
    furnish: Furnish | None = None,
) -> Run:
    redactor = Redactor.from_environment(extra=setup.secrets())
    inputs = setup.inputs()
    started = datetime.now(UTC)
    header = Header(
        id="",
        strategy=setup.strategy.name,
        seed=setup.seed,
        started_at=started.isoformat(timespec="seconds"),
        burnish=VERSION,
        project=setup.project,
        inputs=inputs,
        cases={split.value: len(setup.dataset.cases(split)) for split in Split},
        forked_from=forked_from,
        call_limit=CALL_LIMIT,
        sealed_test=sealed_test,
    ).redacted(redactor)
    name = f"{started:%Y-%m-%dT%H-%M-%S}_{short_id(dict(inputs))[:8]}"
    path = root / name if folder is None else folder
    home = _make_home(header, path, exactly=folder is not None, furnish=furnish)
    remember_run(home)
    directory = RunDirectory(home, redactor=redactor)
    return Run(setup, directory, search=setup.strategy.search, cache=cache)


def _make_home(
    header: Header, path: Path, *, exactly: bool, furnish: Furnish | None = None
) -> Path:
    """The run's folder, which appears with its header in it, under a name nobody has."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileTrouble(
            f"no run can be made under {path.parent}: {error.strerror}",
            remedy="name another folder with -o",
        ) from error
    remove_stale_temporaries(path.parent, shared=True)
    for number in range(1, 2 if exactly else 1000):
        home = path if number == 1 else path.with_name(f"{path.name}-{number}")
        if make_folder(home, partial(_fill, replace(header, id=home.name), furnish)):
            return home
    raise FileTrouble(
        f"{path} exists already", remedy="name another folder with -o, or resume the run there"
    )


def _fill(header: Header, furnish: Furnish | None, folder: Path) -> None:
    header.write(folder)
    if furnish is not None:
        furnish(folder)


# -- Exporting with something besides -------------------------------------------------------------


BASELINE_ONLY = "baseline_only"
"""Why a run stops that was to measure its baseline only."""


class BestOnly:
    """Exports as usual; when the run is closed, only the files of the last export stay.

    While a run is driven all of them are there, and a resume writes them anew: nothing that the
    journal knows is lost.
    """

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter
        self._written: set[Path] = set()
        self._best: set[Path] = set()

    def __call__(self, candidate: Candidate, folder: Path, number: int) -> Exported:
        """Export a candidate, which is the best from now on."""
        exported = self._exporter(candidate, folder, number)
        self._best = {folder / path for path in exported.files}
        self._written |= self._best
        return exported

    async def close(self) -> None:
        """Remove what is not the best."""
        for path in self._written - self._best:
            path.unlink(missing_ok=True)
            if path.parent.name.startswith("iter-"):
                with suppress(OSError):  # another file of the candidate is still there
                    path.parent.rmdir()


class AfterBaseline:
    """Exports as usual, and knows when the first candidate was: that is the baseline."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter
        self._exported = False

    def __call__(self, candidate: Candidate, folder: Path, number: int) -> Exported:
        """Export a candidate."""
        self._exported = True
        return self._exporter(candidate, folder, number)

    def reached(self) -> bool:
        """Whether the baseline has been measured, so that the run may stop."""
        return self._exported


class _OutputSettings(Protocol):
    """Who says what is to be left when a run has ended."""

    @property
    def baseline_only(self) -> bool | None:
        """Measure the baseline, and stop."""
        ...

    @property
    def keep_best_only(self) -> bool | None:
        """Remove the candidates that are not the best."""
        ...


def with_outputs(setup: Setup, outputs: _OutputSettings) -> Setup:
    """The setup of a run that keeps the best only, or that stops after its baseline."""
    exporter = setup.exporter or in_folders(setup.target)
    if outputs.baseline_only:
        after = AfterBaseline(exporter)
        # A look at the baseline must leave the sealed test sealed.
        unsealed = replace(setup.dataset, test=())
        stops = {BASELINE_ONLY: after.reached}
        return replace(setup, exporter=after, dataset=unsealed, stop_callbacks=stops)
    if outputs.keep_best_only:
        best = BestOnly(exporter)
        return replace(setup, exporter=best, resources=(*setup.resources, best))
    return setup
