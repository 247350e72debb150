"""The files of a task as a target: building, scoring, its part of a plan."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from burnish.core.cases import Case, Dataset, Split
from burnish.core.content import short_id
from burnish.core.errors import ConfigError, Problem
from burnish.core.evaluations import Objective, Score
from burnish.core.formatting import Section, Table, Text, counted, spending
from burnish.core.money import NOTHING, Spend, total
from burnish.core.outcomes import Outcome
from burnish.core.protocols import Effects, Metric
from burnish.core.surfaces import ChoiceSurface, FileSurface, NumberSurface, Surface
from burnish.metrics.factory import MetricMaking, check_names
from burnish.metrics.files import make_agent_metric, metric_name
from burnish.metrics.judged import judged_parts
from burnish.metrics.turns import Layered, TurnMetric
from burnish.projects.artifacts.results import TaskHomes, TaskLog, TaskResults, task_record
from burnish.projects.artifacts.spec import (
    ArtifactsSpec,
    NumericSurface,
    ScorerBlock,
    check_task,
    checked_axes,
    plain,
)
from burnish.runs.directory import Header, RunRecord, result_of
from burnish.runs.homes import Homes
from burnish.runs.plugins import Building, ResultFiles, StrategyPlugin, TargetParts, TargetPlugin
from burnish.runs.progress import asking, surface_words
from burnish.runs.report_sections import SPLITS
from burnish.runs.run import Run
from burnish.runs.setup import RESULTS, Setup
from burnish.runs.spec import ObjectiveSpec, TargetSpec
from burnish.system.workspaces.paths import covers
from burnish.targets.artifacts.target import ArtifactsTarget
from burnish.targets.artifacts.task import HOLDOUT, TASK, Runner, Scoring, Task


@dataclass(frozen=True, kw_only=True)
class ScaledScore:
    """How far a number in its own unit lies on the way from the worst to the best."""

    measure: str
    worst: float
    best: float
    clamped: bool = False
    """Whether what lies beyond counts as the end; else it is no score."""
    name: str = "scaled_score"

    @property
    def fingerprint(self) -> str:
        """A hash of its settings."""
        return short_id([self.measure, self.worst, self.best, self.clamped])

    def estimate(self, case: Case) -> Spend:
        """It computes."""
        del case
        return NOTHING

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """Where the number lies."""
        del case, effects
        number = outcome.measures.get(self.measure)
        if number is None:
            return [Score.of_nothing(self.name, f"the scorer gave no '{self.measure}'")]
        share = (number - self.worst) / (self.best - self.worst)
        reason = f"{self.measure} {number:g}"
        if not 0 <= share <= 1 and not self.clamped:
            outside = f"{reason} is not between {self.worst:g} and {self.best:g}"
            return [Score.of_nothing(self.name, f"{outside}: say objective.worst and best")]
        return [Score(metric=self.name, value=min(1.0, max(0.0, share)), reason=reason)]


def _task_dataset(purpose: str, *, holdout: bool) -> Dataset:
    """One case, and one more where something else decides; judges read what the files are for."""
    train = Case.single(purpose, name=TASK)
    # No proposer may see the text of a holdout case, so it says nothing of its own.
    held = (Case.single(f"{purpose} (held out)", name=HOLDOUT),) if holdout else ()
    return Dataset(train=(train,), holdout=held)


def _task_metrics(
    scorer: ScorerBlock, holdout: ScorerBlock | None, makings: Mapping[str, MetricMaking]
) -> tuple[Metric, ...]:
    """The metrics of a task; a holdout with a scorer of its own has metrics of its own."""
    here = _made(scorer, makings[TASK])
    if holdout is None:
        return tuple(here.values())
    there = _made(holdout, makings[HOLDOUT])
    names = dict.fromkeys((*here, *there))
    return tuple(
        Layered(
            name=name,
            default=None,
            places={TASK: (here.get(name),), HOLDOUT: (there.get(name),)},
        )
        for name in names
    )


def _with_reads(task: Task, files: Sequence[str]) -> Task:
    """The task with the file that its metrics read: the one that is named, or the only one."""
    held = task.holdout_scoring
    return replace(
        task,
        scoring=_reading(task.scoring, files),
        holdout_scoring=None if held is None else _reading(held, files),
    )


def _reading(scoring: Scoring, files: Sequence[str]) -> Scoring:
    if scoring.kind != "metrics" or scoring.reads in files:
        return scoring
    if scoring.reads or len(files) != 1:
        amiss = f"'{scoring.reads}' is none of them" if scoring.reads else f"there are {len(files)}"
        message = f"metrics score one file, and {amiss}"
        remedy = f"name it: scorer: {{reads: …}}, one of {', '.join(files)}"
        raise ConfigError([Problem(where="scorer.reads", message=message, remedy=remedy)])
    return replace(scoring, reads=files[0])


def _made(scorer: ScorerBlock, making: MetricMaking) -> dict[str, TurnMetric]:
    made: dict[str, TurnMetric] = {}
    problems: list[Problem] = []
    check_names(scorer.names)
    for block in scorer.metrics:
        if not getattr(block, "enabled", True):
            continue
        try:
            made[metric_name(block)] = make_agent_metric(block, making)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return made


# -- The files of a task from their description ---------------------------------------------------


_TRAINING = (
    "there is no holdout: what is kept is decided by the numbers that the editor sees, so the "
    "result is a training score"
)


def _build(building: Building, strategy: StrategyPlugin) -> TargetParts | None:
    """The files of a task; None, with what is wrong kept, where they cannot be."""
    task = _TaskBuilding(building=building, strategy=strategy)
    check_task(task.spec, task.goal, building.folder, building.problems)
    if building.spec.output.update_source:
        message = "it puts prompts where they came from, and there are none"
        building.problems.add("output.update_source", message, "take --in-place for files")
    metrics = task.metrics()
    target = task.target()
    if target is None:
        return None
    metrics = (*metrics, *task.scaled(metrics))
    purpose = task.spec.purpose(building.folder)
    return TargetParts(
        target=target,
        dataset=_task_dataset(purpose, holdout=task.spec.holdout is not None),
        metrics=metrics,
        objective=task.objective(metrics),
        primary=task.primary,
        purpose=purpose,
        written="the files",
        steady=True,
        no_model="there is nobody to edit the files",
        record=task_record(task.log(), target),
        notes=(*target.notes, *task.notes(metrics)),
        resources=(target,),
    )


@dataclass(frozen=True, kw_only=True)
class _TaskBuilding:
    """One task on its way to a target."""

    building: Building
    strategy: StrategyPlugin

    @cached_property
    def spec(self) -> ArtifactsSpec:
        return self.building.spec.target

    @property
    def goal(self) -> ObjectiveSpec:
        return self.building.spec.objective

    @property
    def primary(self) -> str:
        """The number that counts: as it is named, or the only one there is."""
        return self.goal.primary_metric or self.spec.metric_primary

    def metrics(self) -> tuple[Metric, ...]:
        """What metrics score, where metrics score."""
        held = self.spec.held_scorer

        def made() -> tuple[Metric, ...]:
            makings = {TASK: self._making(self.spec.scorer)}
            makings[HOLDOUT] = makings[TASK] if held is None else self._making(held)
            return _task_metrics(self.spec.scorer, held, makings)

        return self.building.problems.attempt("target.scorer.metrics", made, ())

    def _making(self, scorer: ScorerBlock) -> MetricMaking:
        judge = scorer.judge or self.spec.scorer.judge
        ref = None if judge is None else judge.reference()
        return MetricMaking(models=self.building.models, folder=self.building.folder, judge=ref)

    def scaled(self, metrics: tuple[Metric, ...]) -> Iterator[Metric]:
        """The primary number as a score, where it is none and the strategy compares scores."""
        if not self.strategy.compares_scores:
            return
        goal, high = self.goal, self.goal.direction == "maximize"
        if self.primary in {metric.name for metric in metrics}:
            if not high or goal.worst is not None:
                message = f"'{self.primary}' is a score from 0 to 1, which {self.strategy.name}"
                remedy = "leave out direction, worst and best"
                self.building.problems.add("objective", f"{message} makes high", remedy)
            return
        low, top = (0.0, 1.0) if high else (1.0, 0.0)
        yield ScaledScore(
            measure=self.primary,
            worst=low if goal.worst is None else goal.worst,
            best=top if goal.best is None else goal.best,
            clamped=goal.worst is not None,
        )

    def objective(self, metrics: tuple[Metric, ...]) -> Objective:
        """The loss is that of the primary number, where that is a score that should be high."""
        weighted = [metric.name for metric in metrics if isinstance(metric, ScaledScore)]
        scorers = (self.spec.scorer, self.spec.held_scorer)
        everywhere = all(self.primary in each.names for each in scorers if each is not None)
        if everywhere and self.goal.direction == "maximize":
            weighted = [self.primary]
        objective = self.goal.objective(dict.fromkeys(weighted, 1.0))
        if not objective.weights and self.building.spec.budget.score_threshold is not None:
            message = f"'{self.primary}' is in its own unit, and this is a score from 0 to 1"
            remedy = "leave it out: it goes with a metric of burnish that should be high"
            self.building.problems.add("budget.score_threshold", message, remedy)
        return objective

    def target(self) -> ArtifactsTarget | None:
        """The files, and the values in them that may be tuned."""
        problems = self.building.problems
        target = problems.attempt("target.include", lambda: self._opened(self._task()), None)
        if target is None:
            return None
        files = list(target.texts)
        task = problems.attempt(
            "target.scorer", lambda: _with_reads(target.task, files), target.task
        )
        axes = () if FileSurface in self.strategy.needs else self._axes(target)
        return ArtifactsTarget(task=task, sandbox=target.sandbox, axes=axes)

    def _axes(self, target: ArtifactsTarget) -> tuple[NumericSurface, ...]:
        """Numbers in the files, for a strategy that does not edit them whole."""
        problems, name = self.building.problems, self.strategy.name
        if not self.spec.axes:
            remedy = "name some: axes: [{file: config.yaml, path: cache.size, low: 1, high: 64}]"
            problems.add("target.axes", f"{name} has no numbers to tune", remedy)
        return checked_axes(self.spec, target.texts, problems)

    def _opened(self, task: Task) -> ArtifactsTarget:
        """What holdout said stands in the results, and no command may hear of it."""
        hidden = [task.folder / name for name in self._results]
        return ArtifactsTarget.open(task, mode=self.spec.sandbox, hidden=hidden)

    def _task(self) -> Task:
        spec, held = self.spec, self.spec.holdout
        return Task(
            folder=self.building.folder,
            include=tuple(spec.include),
            exclude=(*spec.exclude, *self._own_files),
            scratch=tuple(self._scratch()),
            allowed_file_types=tuple(spec.allowed_file_types),
            protect=tuple(spec.protect),
            runner=spec.runner.runner() if spec.runner else None,
            scoring=spec.scorer.scoring(),
            holdout_runner=held.runner.runner() if held and held.runner else None,
            holdout_scoring=held.scorer.scoring() if held and held.scorer else None,
            holdout_files=tuple(held.files) if held else (),
            primary=self.primary,
            env=tuple(spec.env),
            limits=spec.limits.made(),
            copy_git=spec.copy_git,
        )

    @property
    def _results(self) -> tuple[str, ...]:
        logging = self.spec.logging
        return logging.results_file, logging.candidate_dir, RESULTS.as_posix()

    @property
    def _own_files(self) -> tuple[str, ...]:
        """What burnish writes into the folder, and the task file: another budget is no change."""
        return (*map(plain, self._results), Path(self.building.spec.source.file).name)

    def _scratch(self) -> Iterator[str]:
        """What runs write: a pattern of `exclude` under which results lie names such files."""
        yield from self.spec.scratch
        yield from self._own_files
        logging = self.spec.logging
        written = (plain(logging.results_file), plain(logging.candidate_dir))
        for pattern in self.spec.exclude:
            if any(covers([pattern], path) for path in written):
                yield pattern

    def log(self) -> TaskLog:
        """Where results are written, and what they say."""
        spec = self.building.spec
        return TaskLog(
            task=self.spec.name(self.building.folder),
            folder=str(self.building.folder),
            results_file=self.spec.logging.results_file,
            candidate_dir=self.spec.logging.candidate_dir,
            primary=self.primary,
            direction=self.goal.direction,
            constraints=self.goal.objective({}).constraints,
            repeats=spec.strategy.settings.repeats,
        )

    def notes(self, metrics: tuple[Metric, ...]) -> Iterator[str]:
        """What is to be said of the measurement."""
        if self.spec.holdout is None:
            yield _TRAINING
        judged = [part for metric in metrics for part in judged_parts(metric)]
        alone = [metric.name for metric in judged if len(metric.panel.judges) == 1]
        if alone:
            about = f"one judge decides on {', '.join(dict.fromkeys(alone))}"
            yield f"{about}: files may come to please it; name several, or give the task a holdout"


# -- The files of a task as a target --------------------------------------------------------------


class ArtifactsPlugin(TargetPlugin):
    """A task: whoever edits its files, its commands and numbers are what a user wants to see."""

    kind: ClassVar[str] = "artifacts"
    Spec: ClassVar[type[TargetSpec]] = ArtifactsSpec
    surfaces: ClassVar[tuple[type[Surface], ...]] = (FileSurface, NumberSurface, ChoiceSurface)
    takes_cases: ClassVar[bool] = False

    def build(self, building: Building, strategy: StrategyPlugin) -> TargetParts | None:
        """The files, their one or two cases, and what measures them."""
        return _build(building, strategy)

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
    yield f"sandbox   {target.sandbox.isolation.summary}"
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
