"""The files of a task from their description: the target, its one or two cases, its numbers."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from burnish.core.objectives import Objective
from burnish.core.protocols import Metric
from burnish.core.surfaces import FileSurface
from burnish.evaluation.configs.making import MetricMaking
from burnish.evaluation.judges.judged import judged_parts
from burnish.projects.artifacts.checking import check_task, checked_axes
from burnish.projects.artifacts.homes import task_record
from burnish.projects.artifacts.results import TaskLog
from burnish.projects.artifacts.scoring import (
    ScaledScore,
    task_dataset,
    task_metrics,
    with_reads,
)
from burnish.projects.artifacts.spec import (
    ArtifactsSpec,
    NumericSurface,
    ScorerBlock,
    plain,
)
from burnish.runs.opening import RESULTS
from burnish.runs.parts import Building, TargetParts
from burnish.runs.plugins import StrategyPlugin
from burnish.runs.spec import ObjectiveSpec
from burnish.system.workspaces.paths import covers
from burnish.targets.artifacts.target import ArtifactsTarget
from burnish.targets.artifacts.task import HOLDOUT, TASK, Task

TRAINING = (
    "there is no holdout: what is kept is decided by the numbers that the editor sees, so the "
    "result is a training score"
)


def build(building: Building, strategy: StrategyPlugin) -> TargetParts | None:
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
        dataset=task_dataset(purpose, holdout=task.spec.holdout is not None),
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
            return task_metrics(self.spec.scorer, held, makings)

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
            "target.scorer", lambda: with_reads(target.task, files), target.task
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
            yield TRAINING
        judged = [part for metric in metrics for part in judged_parts(metric)]
        alone = [metric.name for metric in judged if len(metric.panel.judges) == 1]
        if alone:
            about = f"one judge decides on {', '.join(dict.fromkeys(alone))}"
            yield f"{about}: files may come to please it; name several, or give the task a holdout"
