"""The files of a task as a target: its description, its part of a plan, its results."""

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from burnish.core.cases import Split
from burnish.core.money import total
from burnish.core.sections import Section, Table, Text
from burnish.core.surfaces import ChoiceSurface, FileSurface, NumberSurface, Surface
from burnish.core.words import counted, spending
from burnish.projects.artifacts.building import build
from burnish.projects.artifacts.homes import TaskHomes
from burnish.projects.artifacts.results import TaskLog, TaskResults
from burnish.projects.artifacts.spec import ArtifactsSpec
from burnish.runs.header import Header
from burnish.runs.homes import Homes
from burnish.runs.parts import Building, TargetParts
from burnish.runs.plans import asking, surface_words
from burnish.runs.plugins import ResultFiles, StrategyPlugin, TargetPlugin
from burnish.runs.record import RunRecord, result_of
from burnish.runs.report_sections import SPLITS
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.runs.spec import TargetSpec
from burnish.targets.artifacts.target import ArtifactsTarget
from burnish.targets.artifacts.task import Runner, Scoring


class ArtifactsPlugin(TargetPlugin):
    """A task: whoever edits its files, its commands and numbers are what a user wants to see."""

    kind: ClassVar[str] = "artifacts"
    Spec: ClassVar[type[TargetSpec]] = ArtifactsSpec
    surfaces: ClassVar[tuple[type[Surface], ...]] = (FileSurface, NumberSurface, ChoiceSurface)
    takes_cases: ClassVar[bool] = False

    def build(self, building: Building, strategy: StrategyPlugin) -> TargetParts | None:
        """The files, their one or two cases, and what measures them."""
        return build(building, strategy)

    def plan(self, setup: Setup, strategy: StrategyPlugin) -> Iterable[str]:
        """The lines of `--dry-run`; no command is started for them."""
        target = setup.target
        assert isinstance(target, ArtifactsTarget)
        yield from _files(setup, target, strategy.plan_title(setup))
        yield from _steps(target)
        yield from _decision(setup, strategy)
        yield from strategy.plan_bounds(setup)
        yield f"limits    {', '.join(strategy.limits(setup)) or 'none'}"
        yield from _costs(setup, strategy.repeats(setup))
        yield from (f"! {note}" for note in setup.notes if note not in target.notes)
        yield "nothing was run or paid; leave out --dry-run to start"

    def baseline(
        self, run: RunRecord, strategy: StrategyPlugin, *, quiet: bool
    ) -> Sequence[Section]:
        """Every number of the files as they are."""
        del strategy, quiet
        results = {split: result_of(run.baseline, split) for split in SPLITS}
        there = {split: result for split, result in results.items() if result is not None}
        if not there:
            return ()
        names = sorted({name for each in there.values() for name in each.measurement.values})
        rows = tuple(
            (name, *(_number(each.measurement.values.get(name)) for each in there.values()))
            for name in names
        )
        errors = tuple(
            f"! the files as they are do not run: {error}"
            for result in there.values()
            for error in result.errors.values()
        )
        table = Table(("", *there), rows)
        return (table, Text(errors)) if errors else (table,)

    def homes(self, header: Header) -> Homes | None:
        """The files of the task."""
        return TaskHomes.of(header)

    def offers_fork(self, strategy: StrategyPlugin) -> bool:
        """The numbers stand alone."""
        del strategy
        return False

    def result_files(self, run: Run) -> ResultFiles | None:
        """The rows and candidates of the task."""
        log = TaskLog.of(run.directory.header.project.config)
        if log is None:
            return None
        assert isinstance(run.target, ArtifactsTarget)
        return TaskResults(run.directory.folder, log, run.target.files_of)


def _number(value: float | None) -> str:
    return "—" if value is None else f"{value:g}"


def _files(setup: Setup, target: ArtifactsTarget, title: str) -> Iterator[str]:
    yield f"folder    {target.task.folder}"
    yield f"strategy  {title}"
    values = target.baseline.values
    yield f"files     {len(target.texts)}"
    for path, text in target.texts.items():
        yield f"  {path}: {counted(len(text.splitlines()), 'line')}"
    for surface in setup.target.surfaces:
        if isinstance(surface, NumberSurface | ChoiceSurface):
            yield f"  {surface.id}: {surface_words(surface, values[surface.id])}"


def _steps(target: ArtifactsTarget) -> Iterator[str]:
    task = target.task
    if task.runner is not None:
        yield f"runner    {_runner(task.runner)}"
    yield f"scorer    {_scorer(task.scoring)}"
    if task.holdout_runner is not None:
        yield f"holdout   runner {_runner(task.holdout_runner)}"
    if task.holdout_scoring is not None:
        yield f"holdout   scorer {_scorer(task.holdout_scoring)}"
    yield f"sandbox   {target.sandbox.isolation.told}"
    if task.env:
        yield f"variables {', '.join(task.env)}"


def _runner(step: Runner) -> str:
    place = "" if step.cwd == "." else f" in {step.cwd}"
    return f"{step.command}{place}, at most {step.timeout_seconds:g} s"


def _scorer(step: Scoring) -> str:
    if step.kind == "metrics":
        return f"metrics over {step.reads}"
    return f"{step.command or step.function}, at most {step.timeout_seconds:g} s"


def _decision(setup: Setup, strategy: StrategyPlugin) -> Iterator[str]:
    log = TaskLog.of(setup.project.config)
    decision = [*strategy.plan_decision(setup)]
    if not decision and log is not None:
        decision = [f"keeps     what has a better {log.primary}"]
    yield from decision
    if setup.metrics:
        yield f"metrics   {', '.join(metric.name for metric in setup.metrics)}"
    if setup.objective.constraints:
        yield f"only if   {', '.join(map(str, setup.objective.constraints))}"
    breakers = [f"{each.prefer} {each.metric}" for each in setup.objective.tie_breakers]
    if breakers:
        yield f"at a tie  {', then '.join(breakers)}"
    if log is not None:
        yield f"results   {log.results_file}, candidates in {log.candidate_dir}"


def _costs(setup: Setup, repeats: int) -> Iterator[str]:
    runs = counted(repeats, "run")
    yield f"a trial   {runs} of the task{_judging(setup, Split.TRAIN, repeats)}"
    if setup.dataset.holdout:
        held = f"{runs} of the holdout where that is better"
        yield f"          + {held}{_judging(setup, Split.HOLDOUT, repeats)}"
    if setup.strategy.roles:
        yield f"          + about {spending(asking(setup.strategy.roles))} for the edit"
    yield "          what your own commands cost is not known here"


def _judging(setup: Setup, split: Split, repeats: int) -> str:
    cases = setup.dataset.cases(split)
    spend = total(metric.estimate(case) for metric in setup.metrics for case in cases)
    return f", about {spending(spend.times(repeats))} for judges" if spend.calls else ""
