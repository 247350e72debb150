"""The files of a task as a target: building, scoring, its part of a plan."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from burnish.core.cases import Case, Dataset, Outcome, Split
from burnish.core.content import short_id
from burnish.core.errors import ConfigError, Problem
from burnish.core.evaluations import Objective, Score
from burnish.core.formatting import Section, Table, Text, counted, listed, spending
from burnish.core.money import NOTHING, Spend, total
from burnish.core.protocols import Effects, Metric
from burnish.core.surfaces import ChoiceSurface, FileSurface, NumberSurface, Surface
from burnish.metrics.files import make_agent_metric, metric_name
from burnish.metrics.judged import judged_parts
from burnish.metrics.judges import MetricMaking, check_names
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
from burnish.runs.spec import TargetSpec
from burnish.system.workspaces import count_changed_lines
from burnish.system.workspaces.snapshots import covers
from burnish.targets.artifacts.safeguards import may_be_code
from burnish.targets.artifacts.target import ArtifactsTarget
from burnish.targets.artifacts.task import (
    HOLDOUT,
    TASK,
    TEST,
    HeldOut,
    Runner,
    Scoring,
    Task,
    file_and_place,
)


@dataclass(frozen=True, kw_only=True)
class ScaledScore:
    """A number in its own unit, scaled to a score between the worst and the best value."""

    measure: str
    worst: float
    best: float
    clamped: bool = False
    """Whether what lies beyond counts as the end; else it is no score."""
    name: str = "scaled_score"

    @property
    def fingerprint(self) -> str:
        return short_id([self.measure, self.worst, self.best, self.clamped])

    def estimate(self, case: Case) -> Spend:
        del case
        return NOTHING

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        del case, effects
        number = outcome.measures.get(self.measure)
        if number is None:
            return [Score.of_nothing(self.name, f"the scorer did not return '{self.measure}'")]
        share = (number - self.worst) / (self.best - self.worst)
        reason = f"{self.measure} {number:g}"
        if not 0 <= share <= 1 and not self.clamped:
            outside = f"{reason} is not between {self.worst:g} and {self.best:g}"
            return [Score.of_nothing(self.name, f"{outside}: set objective.worst and best")]
        return [Score(metric=self.name, value=min(1.0, max(0.0, share)), reason=reason)]


def _task_metrics(
    scorers: Mapping[str, ScorerBlock], cases: Iterable[str], makings: Mapping[str, MetricMaking]
) -> tuple[Metric, ...]:
    """The metrics of a task; a case with its own scorer has its own metrics."""
    made = {case: _scorer_metrics(scorer, makings[case]) for case, scorer in scorers.items()}
    here = made[TASK]
    if len(made) == 1:
        return tuple(here.values())
    there = {case: made.get(case, here) for case in (TASK, *cases)}
    return tuple(
        Layered(
            name=name,
            default=None,
            places={case: (metrics.get(name),) for case, metrics in there.items()},
        )
        for name in dict.fromkeys(name for metrics in there.values() for name in metrics)
    )


def _scorer_metrics(scorer: ScorerBlock, making: MetricMaking) -> dict[str, TurnMetric]:
    metrics: dict[str, TurnMetric] = {}
    problems: list[Problem] = []
    check_names(scorer.names)
    for block in scorer.metrics:
        if not getattr(block, "enabled", True):
            continue
        try:
            metrics[metric_name(block)] = make_agent_metric(block, making)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return metrics


def _reading(scoring: Scoring, files: Sequence[str]) -> Scoring:
    """The scoring with the file that its metrics read: the one it names, or the only one."""
    if scoring.kind != "metrics" or scoring.reads in files:
        return scoring
    if scoring.reads or len(files) != 1:
        amiss = (
            f"'{scoring.reads}' is not one of them" if scoring.reads else f"there are {len(files)}"
        )
        message = f"metrics score exactly one file, but {amiss}"
        remedy = f"name it: scorer: {{reads: …}}, one of {', '.join(files)}"
        raise ConfigError([Problem(where="scorer.reads", message=message, remedy=remedy)])
    return replace(scoring, reads=files[0])


class _TaskBuilding:
    """One task on its way to a target."""

    def __init__(self, building: Building, strategy: StrategyPlugin) -> None:
        self.building = building
        self.problems = building.problems
        self.strategy = strategy
        self.spec: ArtifactsSpec = building.spec.target
        self.goal = building.spec.objective
        self.primary = self.goal.primary_metric or self.spec.metric_primary

    def parts(self) -> TargetParts | None:
        spec, folder = self.spec, self.building.folder
        check_task(spec, self.goal, folder, self.problems)
        if self.building.spec.output.update_source:
            message = "it writes prompts back to their source, and a task has no prompts"
            self.problems.add("output.update_source", message, "use --in-place for files")
        metrics = self._metrics()
        target = self._target()
        if target is None:
            return None
        metrics = (*metrics, *self._scaled(metrics))
        purpose = spec.purpose(folder)
        return TargetParts(
            target=target,
            dataset=self._dataset(purpose),
            metrics=metrics,
            objective=self._objective(metrics),
            primary=self.primary,
            purpose=purpose,
            written="the files",
            steady=True,
            no_model="there is no model to edit the files",
            record=task_record(self._log(), target),
            notes=(*target.notes, *self._forgeable(target), *self._notes(metrics)),
            resources=(target,),
        )

    def _dataset(self, purpose: str) -> Dataset:
        spec = self.spec
        # No proposer may see the text of these cases, so they say nothing specific.
        held = Case.single(f"{purpose} (held out)", name=HOLDOUT)
        sealed = Case.single(f"{purpose} (sealed test)", name=TEST)
        return Dataset(
            train=(Case.single(purpose, name=TASK),),
            holdout=() if spec.holdout is None else (held,),
            test=() if spec.test is None else (sealed,),
        )

    def _metrics(self) -> tuple[Metric, ...]:
        own, scorers = self.spec.scorer, self.spec.scorers

        def making(scorer: ScorerBlock) -> MetricMaking:
            judge = scorer.judge or own.judge
            ref = None if judge is None else judge.reference()
            return MetricMaking(models=self.building.models, folder=self.building.folder, judge=ref)

        def metrics() -> tuple[Metric, ...]:
            makings = {case: making(scorer) for case, scorer in scorers.items()}
            return _task_metrics(scorers, self.spec.held, makings)

        return self.problems.attempt("target.scorer.metrics", metrics, ())

    def _scaled(self, metrics: tuple[Metric, ...]) -> Iterator[Metric]:
        """The primary number as a score, if it is not one and the strategy compares scores."""
        if not self.strategy.compares_scores:
            return
        goal, high = self.goal, self.goal.direction == "maximize"
        if self.primary in {metric.name for metric in metrics}:
            if not high or goal.worst is not None:
                message = f"'{self.primary}' is a score from 0 to 1, and {self.strategy.name}"
                remedy = "remove direction, worst and best"
                self.problems.add("objective", f"{message} maximizes it", remedy)
            return
        low, top = (0.0, 1.0) if high else (1.0, 0.0)
        yield ScaledScore(
            measure=self.primary,
            worst=low if goal.worst is None else goal.worst,
            best=top if goal.best is None else goal.best,
            clamped=goal.worst is not None,
        )

    def _objective(self, metrics: tuple[Metric, ...]) -> Objective:
        """The loss of the primary number, if that is a score that should be high."""
        weighted = [metric.name for metric in metrics if isinstance(metric, ScaledScore)]
        everywhere = all(self.primary in each.names for each in self.spec.scorers.values())
        if everywhere and self.goal.direction == "maximize":
            weighted = [self.primary]
        objective = self.goal.objective(dict.fromkeys(weighted, 1.0))
        if not objective.weights and self.building.spec.budget.score_threshold is not None:
            message = f"'{self.primary}' has its own unit, but the threshold is a score from 0 to 1"
            remedy = "use target_score, which is in the unit of the number"
            self.problems.add("budget.score_threshold", message, remedy)
        return objective

    def _target(self) -> ArtifactsTarget | None:
        """The files, and the values in them that may be tuned."""
        spec, problems, name = self.spec, self.problems, self.strategy.name

        def opened() -> ArtifactsTarget:
            # The results hold what holdout showed, and no command may learn it.
            hidden = [self.building.folder / name for name in self._results]
            return ArtifactsTarget.open(self._task(), mode=spec.sandbox, hidden=hidden)

        target = problems.attempt("target.include", opened, None)
        if target is None:
            return None
        task, files = target.task, list(target.texts)

        def with_reads() -> Task:
            def reading(part: HeldOut | None) -> HeldOut | None:
                if part is None or part.scoring is None:
                    return part
                return replace(part, scoring=_reading(part.scoring, files))

            return replace(
                task,
                scoring=_reading(task.scoring, files),
                holdout=reading(task.holdout),
                test=reading(task.test),
            )

        axes: tuple[NumericSurface, ...] = ()
        task = problems.attempt("target.scorer", with_reads, task)
        if FileSurface not in self.strategy.needs:
            if not spec.axes:
                example = "axes: [{file: config.yaml, path: cache.size, low: 1, high: 64}]"
                message = f"{name} needs numbers to tune"
                problems.add("target.axes", message, f"add some: {example}")
            if spec.new_files:
                message = f"{name} tunes numbers and adds no files"
                problems.add("target.new_files", message, "remove it, or use the strategy edits")
            axes = checked_axes(spec, target.texts, problems)
        return ArtifactsTarget(task=task, sandbox=target.sandbox, axes=axes)

    def _task(self) -> Task:
        spec = self.spec
        # The task file is not part of the task: another budget is no change of it.
        own = (*map(plain, self._results), Path(self.building.spec.source.file).name)
        written = (plain(spec.logging.results_file), plain(spec.logging.candidate_dir))
        # A pattern of `exclude` that covers results names files that runs write.
        excluded = [each for each in spec.exclude if any(covers([each], path) for path in written)]
        return Task(
            folder=self.building.folder,
            include=tuple(spec.include),
            exclude=(*spec.exclude, *own),
            new_files=tuple(spec.new_files),
            context=tuple(spec.context),
            scratch=(*spec.scratch, *excluded),
            own=own,
            allowed_file_types=tuple(spec.allowed_file_types),
            protect=tuple(spec.protect),
            runner=spec.runner.runner() if spec.runner else None,
            scoring=spec.scorer.scoring(),
            holdout=spec.holdout.part() if spec.holdout else None,
            test=spec.test.part() if spec.test else None,
            primary=self.primary,
            env=tuple(spec.env),
            limits=spec.limits.made(),
            copy_git=spec.copy_git,
            network=spec.network,
            readable=tuple(
                self.building.path(str(Path(each).expanduser())) for each in spec.readable
            ),
        )

    @property
    def _results(self) -> tuple[str, ...]:
        logging = self.spec.logging
        return logging.results_file, logging.candidate_dir, RESULTS.as_posix()

    def _log(self) -> TaskLog:
        return TaskLog(
            task=self.spec.name(self.building.folder),
            folder=str(self.building.folder),
            results_file=self.spec.logging.results_file,
            candidate_dir=self.spec.logging.candidate_dir,
            new_files=tuple(self.spec.new_files),
            primary=self.primary,
            direction=self.goal.direction,
            constraints=self.goal.objective({}).constraints,
            repeats=self.building.spec.strategy.settings.repeats,
        )

    def _forgeable(self, target: ArtifactsTarget) -> Iterator[str]:
        """Which numbers come from a process that can run what candidates write."""
        task = target.task
        limited = self.goal.objective({}).constrained_names
        numbers = [
            name
            for name in dict.fromkeys((self.primary, *limited))
            if any(task.is_reported(case, name) for case in (TASK, *task.held))
        ]
        axes = {file_and_place(axis.id)[0] for axis in target.axes}
        edited = [*(axes or target.texts), *task.new_files]
        if numbers and (code := [path for path in edited if may_be_code(path)]):
            yield (
                f"{listed(numbers)}: measured by a process that can run the candidate's own code "
                f"({listed(code)}), which could write any number. A gain of a candidate that "
                "changes such code is not claimed: the verdict is at best `not sure`"
            )

    def _notes(self, metrics: tuple[Metric, ...]) -> Iterator[str]:
        if self.spec.holdout is None:
            yield (
                "there is no holdout: the numbers that the editor sees decide what is kept, "
                "so the result is a training score"
            )
        judged = [part for metric in metrics for part in judged_parts(metric)]
        alone = [metric.name for metric in judged if len(metric.panel.judges) == 1]
        if alone:
            about = f"one judge decides on {', '.join(dict.fromkeys(alone))}"
            yield f"{about}: edits may learn to please it; use several, or give the task a holdout"


class ArtifactsPlugin(TargetPlugin):
    """A task: files to edit, with the commands and metrics that measure them."""

    kind: ClassVar[str] = "artifacts"
    Spec: ClassVar[type[TargetSpec]] = ArtifactsSpec
    surfaces: ClassVar[tuple[type[Surface], ...]] = (FileSurface, NumberSurface, ChoiceSurface)
    takes_cases: ClassVar[bool] = False

    runs_elsewhere: ClassVar[bool] = False

    def build(self, building: Building, strategy: StrategyPlugin) -> TargetParts | None:
        return _TaskBuilding(building, strategy).parts()

    def plan(self, setup: Setup, strategy: StrategyPlugin) -> Iterable[str]:
        target = setup.target
        assert isinstance(target, ArtifactsTarget)
        yield f"folder    {target.task.folder}"
        yield f"strategy  {strategy.plan_title(setup)}"
        yield f"files     {len(target.texts)}"
        for path, text in target.texts.items():
            lines = count_changed_lines("", text).added
            yield f"  {path}: {counted(lines, 'line')}"
        if target.task.new_files:
            yield f"new files {', '.join(target.task.new_files)}"
        for surface in target.surfaces:
            if isinstance(surface, NumberSurface | ChoiceSurface):
                words = surface_words(surface, target.baseline.values[surface.id])
                yield f"  {surface.id}: {words}"
        yield from _steps(target)
        yield from _decision(setup, strategy)
        yield from strategy.plan_bounds(setup)
        yield f"limits    {', '.join(strategy.limits(setup)) or 'none'}"
        yield from _costs(setup, strategy.repeats(setup))
        if (first := strategy.first_round(setup)) is not None:
            yield first.line()
        known = {note for note in target.notes if note not in target.doubts}
        yield from (f"! {note}" for note in setup.notes if note not in known)
        yield "nothing was run or paid; leave out --dry-run to start"

    def baseline(
        self, run: RunRecord, strategy: StrategyPlugin, *, quiet: bool
    ) -> Sequence[Section]:
        del strategy, quiet
        results = {split: result_of(run.baseline, split) for split in SPLITS}
        there = {split: result for split, result in results.items() if result is not None}
        if not there:
            return ()
        values = [each.measurement.values for each in there.values()]
        names = sorted({name for each in values for name in each})
        rows = tuple(
            (name, *(f"{each[name]:g}" if name in each else "—" for each in values))
            for name in names
        )
        errors = tuple(
            f"! the current files do not run: {error}"
            for result in there.values()
            for error in result.errors.values()
        )
        table = Table(("", *there), rows)
        return (table, Text(errors)) if errors else (table,)

    def homes(self, header: Header) -> Homes | None:
        return TaskHomes.of(header)

    def offers_fork(self, strategy: StrategyPlugin) -> bool:
        del strategy
        return False

    def result_files(self, run: Run) -> ResultFiles | None:
        log = TaskLog.of(run.directory.header.project.config)
        if log is None:
            return None
        assert isinstance(run.target, ArtifactsTarget)
        return TaskResults(run.directory.folder, log, run.target.files_of)


def _steps(target: ArtifactsTarget) -> Iterator[str]:
    task = target.task
    if task.runner is not None:
        yield f"runner    {_runner(task.runner)}"
    yield f"scorer    {_scorer(task.scoring)}"
    for case, part in task.held.items():
        if part.runner is not None:
            yield f"{case:<9} runner {_runner(part.runner)}"
        if part.scoring is not None:
            yield f"{case:<9} scorer {_scorer(part.scoring)}"
    yield f"sandbox   {target.sandbox.summary}"
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
        held = f"{runs} of the holdout if the trial is better"
        yield f"          + {held}{_judging(setup, Split.HOLDOUT, repeats)}"
    if setup.strategy.roles:
        yield f"          + about {spending(asking(setup.strategy.roles))} for the edit"
    if setup.confirm:
        last = counted(2 * setup.test_repeats, "run")
        where = "holdout" if setup.dataset.holdout else "task"
        yield f"the end   {last} of the {where} to measure baseline and best again"
    yield "          the cost of your own commands is not known"
    if setup.dataset.test:
        runs = counted(setup.test_repeats, "run")
        judged = _judging(setup, Split.TEST, 2 * setup.test_repeats)
        yield f"reserved  the sealed test: {runs} each of the start and of the best{judged}"


def _judging(setup: Setup, split: Split, repeats: int) -> str:
    cases = setup.dataset.cases(split)
    spend = total(metric.estimate(case) for metric in setup.metrics for case in cases)
    return f", about {spending(spend.times(repeats))} for judges" if spend.calls else ""
