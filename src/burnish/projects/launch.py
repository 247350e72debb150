"""From a project file or a kept run to a Setup, and launching it; judges checked against labels."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from burnish.core.content import short_id, stream
from burnish.core.errors import ConfigError, Interrupted, Problem, ResumeRefused
from burnish.core.evaluations import Evaluation
from burnish.datasets.formats import LabelledReply, read_labelled
from burnish.metrics.agreement import Agreement, Labelled, agreement
from burnish.models.factory import Models
from burnish.projects.description import Request, describe, described_again
from burnish.projects.dialects import Document, Flags
from burnish.projects.file_kinds import LabelledReplies
from burnish.reports.rendering import write_report
from burnish.runs.build import RunDescription, build
from burnish.runs.directory import NAME as HEADER
from burnish.runs.directory import Header
from burnish.runs.driver import Ending, drive
from burnish.runs.events import Listener
from burnish.runs.plugins import strategy_plugin, target_plugin
from burnish.runs.run import Run
from burnish.runs.setup import RESULTS as RUN_RESULTS
from burnish.runs.setup import Setup, resume, start
from burnish.runs.spec import Source
from burnish.strategies.measure import Measure
from burnish.system import YamlTree, read_text
from burnish.system.shutdown import run_to_end


def launch(open_run: Callable[[], Run], listeners: Sequence[Listener] = ()) -> Ending:
    """Drive a run to its end. However it ends, its report says what is known."""
    return run_to_end(launched(open_run, listeners))


def optimize(setup: Setup, folder: Path, *, listeners: Sequence[Listener] = ()) -> Ending:
    """Make the run in `folder`, or go on with the run that is there.

    So a program that was killed goes on where it was when it is started again, and one that
    had finished gives its result again without paying for anything.
    """

    def opened() -> Run:
        is_run = (folder / HEADER).exists()
        return resume(setup, folder) if is_run else start(setup, folder=folder)

    return launch(opened, listeners)


async def launched(open_run: Callable[[], Run], listeners: Sequence[Listener] = ()) -> Ending:
    """The same, in the event loop that is running."""
    run = open_run()
    plugins = (
        strategy_plugin(run.setup.strategy.name),
        target_plugin(run.target.description.kind),
    )
    files = [each for plugin in plugins if (each := plugin.result_files(run)) is not None]
    for listener in (*listeners, *files):
        run.listen(listener)
    try:
        return await drive(run)
    finally:
        try:
            await run.close()
        finally:
            try:
                for each in files:
                    each.finish()
            finally:
                write_report(run.directory.folder)  # last, since it may show what they hold


# -- Checking a judge against labels --------------------------------------------------------------


_RESULTS = Path("results") / "judge-check"


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """A reply on which judge and label do not agree."""

    case: str
    metric: str
    label: bool | float
    value: float | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class JudgeChecked:
    """What came out, metric by metric."""

    agreements: dict[str, Agreement]
    disagreements: tuple[Disagreement, ...]
    ending: Ending


@dataclass(frozen=True, kw_only=True)
class JudgeCheck:
    """Labelled replies and the metrics that are to judge them."""

    labelled: tuple[LabelledReply, ...]
    setup: Setup
    measure: Measure
    folder: Path
    """Named after what goes in: the same check again goes on, or costs nothing."""

    def run(self, listeners: Sequence[Listener] = ()) -> JudgeChecked:
        """Ask the judges, and compare."""
        ending = optimize(self.setup, self.folder, listeners=listeners)
        measured = self.measure.evaluation
        if measured is None:
            cut = _cut_short(ending)
            if ending.interrupted:
                raise Interrupted(cut.message, remedy=cut.remedy)
            raise ConfigError([cut])
        names = [metric.name for metric in self.setup.metrics]
        pairs = {name: _pairs(self.labelled, measured, name) for name in names}
        return JudgeChecked(
            agreements={
                name: agreement(
                    [pair for _, pair, _ in rows], stream(self.setup.seed, "agreement", name)
                )
                for name, rows in pairs.items()
            },
            disagreements=tuple(
                Disagreement(
                    case=case, metric=name, label=pair.label, value=pair.value, reason=reason
                )
                for name, rows in pairs.items()
                for case, pair, reason in rows
                if _differ(pair)
            ),
            ending=ending,
        )


def prepare_judge_check(labels: Path, flags: Flags, *, models: Models | None = None) -> JudgeCheck:
    """Set a check of labelled replies up; flags say by which metrics, who judges, and how far."""
    labelled = read_labelled(labels)
    tree = YamlTree(path=labels, data={}, text="")
    described = describe(Document(path=labels, tree=tree), flags, dialect=LabelledReplies())
    setup = build(described, models=models)
    assert isinstance(setup.strategy, Measure)
    home = labels.resolve().parent / _RESULTS / short_id({**setup.inputs()})
    return JudgeCheck(labelled=labelled, setup=setup, measure=setup.strategy, folder=home)


def _pairs(
    labelled: Sequence[LabelledReply], measured: Evaluation, metric: str
) -> list[tuple[str, Labelled, str]]:
    """Case, label beside verdict, and the judge's reason; what does not apply is left out."""
    rows: list[tuple[str, Labelled, str]] = []
    for reply in labelled:
        length = len(reply.case.recorded.output) if reply.case.recorded else None
        for result in measured.of_case(reply.case.id):
            rows += [
                (reply.case.id, Labelled.of(s, label=reply.label, length=length), s.reason)
                for s in result.scores
                if s.metric == metric
            ]
    return rows


def _differ(pair: Labelled) -> bool:
    if pair.value is None or pair.passed is None:
        return pair.value is None
    good = pair.label if isinstance(pair.label, bool) else pair.label >= 0.5
    return pair.passed != good


def _cut_short(ending: Ending) -> Problem:
    return Problem(
        message=f"the check was cut short ({ending.reason.detail or ending.reason.code})",
        remedy="the same command goes on where it was; give it more budget if that was the limit",
    )


# -- From a project file, or from a run that goes on, to a Setup ----------------------------------


_FLAGS_ALONE = "prompts"
"""The kind of a run that flags describe without any file."""
_OLD_NAMES = {
    "sealed_cases": "test",
    "train_cases": "train",
    "holdout_cases": "holdout",
    "prompt_files": "prompt",
    "metric_file": "metrics",
    "policy_db": "db",
    "baseline_only": "print_baseline",
    "no_rollback": "rollback",
}
"""What runs of version 0.1 call the flags that they were started with."""
_OLD_ONLY = ("agent_folder", "asked", "policy_versions")


@dataclass(frozen=True, kw_only=True)
class LoadedProject:
    """A project ready to run, and where its runs lie."""

    setup: Setup
    root: Path
    """`results/optimizer` beside the file."""


def load_project(
    path: Path,
    flags: Flags,
    *,
    environ: Mapping[str, str] | None = None,
    models: Models | None = None,
    request: Request | None = None,
) -> LoadedProject:
    """Read a project file; everything that is wrong with it is said at once.

    A folder stands for flags that say everything; what they name is found from there. A `request`
    is laid over the file, and `models` stand in for the real ones.
    """
    if path.is_dir():
        document = Document.of_flags(path, {"kind": _FLAGS_ALONE})
    else:
        document = Document.read(path)
    return _loaded(describe(document, flags, environ=environ, request=request), models)


def reload_project(
    folder: Path,
    flags: Flags,
    *,
    file: Path | None = None,
    models: Models | None = None,
    as_new: bool = False,
) -> LoadedProject:
    """A run's project as run.json describes it, with newer flags over it.

    `file` is where the project file lies now, where it was moved. `as_new` is for a new run that
    begins with the description of this one: what was to happen at the end of this one is not said
    of it.
    """
    header = Header.read(folder)
    if not header.project.spec and header.project.kind != "python":
        return _of_old_run(header, flags, file=file, models=models)
    described = described_again(folder, flags, file=file, as_new=as_new)
    project = _loaded(described, models, folder)
    # Last, since notes are told by their number, and the others were told at the start.
    notes = (*project.setup.notes, *_changed(described.spec.source, header))
    return replace(project, setup=replace(project.setup, notes=notes))


def _loaded(
    described: RunDescription, models: Models | None, folder: Path | None = None
) -> LoadedProject:
    home = Path(described.spec.source.folder)
    setup = build(described, models=models, folder=folder)
    return LoadedProject(setup=setup, root=home / RUN_RESULTS)


def _changed(source: Source, header: Header) -> tuple[str, ...]:
    """What to say where the file is not what it was when the run was started."""
    path = Path(source.file)
    if not source.digest or not path.is_file():
        return ()
    now = hashlib.sha256(read_text(path).removeprefix("\ufeff").encode()).hexdigest()[:16]
    if now == source.digest:
        return ()
    message = (
        f"{path.name} has changed since this run was started: the run goes on as it was described"
    )
    if strategy_plugin(header.strategy).over:
        return (message,)
    fork = f"`burnish optimize {path.name} --fork {header.id}`"
    return (f"{message}; {fork} starts from the file as it is now",)


def _of_old_run(
    header: Header, flags: Flags, *, file: Path | None, models: Models | None
) -> LoadedProject:
    """A run of version 0.1, which kept its file and its flags: they are described anew."""
    path = file or Path(header.project.file)
    if not path.exists():
        raise ResumeRefused(
            f"run {header.id} was started from {path}, which is gone",
            remedy="put the file back, or say where it is now: "
            f"`burnish optimize FILE --resume {header.id}`",
        )
    overrides = cast("Mapping[str, JsonValue]", header.project.config.get("overrides") or {})
    before = {_OLD_NAMES.get(k, k): v for k, v in overrides.items() if k not in _OLD_ONLY}
    return load_project(path, {**before, **flags}, models=models)
