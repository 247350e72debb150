"""How a task is searched: edits of files, or coordinate descent over numbers in them."""

from dataclasses import dataclass

from burnish.core.errors import Problem
from burnish.core.objectives import Objective
from burnish.core.protocols import Metric
from burnish.effects.budget import Budget
from burnish.models.calling import ModelClient
from burnish.projects.artifacts.checking import primary_of
from burnish.projects.artifacts.editors import Editors
from burnish.projects.artifacts.measured_scores import ScaledScore
from burnish.projects.artifacts.task_file import MAX_ITERATIONS, TaskFile
from burnish.projects.gathering import Gathering
from burnish.projects.loading import Given
from burnish.projects.overrides import flag_of
from burnish.runs.strategy import Strategy
from burnish.strategies.coordinate.settings import CoordinateSettings, PhaseLimits
from burnish.strategies.coordinate.strategy import Coordinate
from burnish.strategies.edits.settings import EditsSettings
from burnish.strategies.edits.strategy import Edits
from burnish.targets.artifacts.target import ArtifactsTarget

EDITS, COORDINATE = "edits", "coordinate"


@dataclass(frozen=True, kw_only=True)
class Searching:
    """A strategy, and what goes with it."""

    strategy: Strategy
    budget: Budget
    objective: Objective
    metrics: tuple[Metric, ...]
    repeats: int
    client: ModelClient | None = None
    """The model that edits."""


@dataclass(frozen=True)
class Search:
    """Makes the search of one task; what is wrong is kept."""

    given: Given
    file: TaskFile
    name: str
    editors: Editors
    wrong: Gathering

    @property
    def strategy(self) -> str:
        """As the flag, the file or the environment names it."""
        flags, weak = self.given.flags, self.given.environment
        return flags.choose("strategy", self.file.strategy, weak, EDITS)

    def over(self, target: ArtifactsTarget, metrics: tuple[Metric, ...]) -> Searching | None:
        """The search over a target; None where it cannot be."""
        if self.strategy in (EDITS, COORDINATE):
            edits = self.strategy == EDITS
            made = self._edits(target, metrics) if edits else self._coordinate(metrics)
            self._refuse_threshold(made)
            return made
        told = f"no strategy '{self.strategy}' for a task"
        self.wrong.add(("strategy",), told, f"there are: {EDITS}, {COORDINATE}")
        return None

    def _edits(self, target: ArtifactsTarget, metrics: tuple[Metric, ...]) -> Searching | None:
        self._refuse_phases()
        editing = self.editors.over(target)
        if editing is None:
            return None
        settings = self._settings()
        return Searching(
            strategy=Edits(editor=editing.role, settings=settings),
            budget=self._budget(MAX_ITERATIONS),
            objective=self._objective(metrics),
            metrics=metrics,
            repeats=settings.repeats,
            client=editing.client,
        )

    def _settings(self) -> EditsSettings:
        file = self.file
        return EditsSettings(
            task=file.description.strip() or self.name,
            primary=primary_of(file),
            direction=file.objective.direction,
            tolerance=file.objective.tolerance,
            accept_sigma=self._sigma,
            repeats=self._repeats,
            max_files=file.artifacts.max_files_per_iteration,
            max_changed_lines=file.mutation.max_changed_lines,
            candidates_per_iteration=file.candidates_per_iteration,
            max_failures=file.budget.max_failures,
            stop_on_failure=file.policy.on_failure == "stop",
        )

    def _coordinate(self, metrics: tuple[Metric, ...]) -> Searching | None:
        file, flags, block = self.file, self.given.flags, self.file.coordinate
        if not file.axes:
            remedy = "name some: axes: [{file: config.yaml, path: cache.size, low: 1, high: 64}]"
            self.wrong.add(("axes",), "coordinate has no numbers to tune", remedy)
            return None
        scored = (*metrics, *self._scaled(metrics))
        settings = CoordinateSettings(
            numbers=tuple(axis.id for axis in file.axes),
            repeats=self._repeats,
            accept_sigma=self._sigma,
            holdout_policy="on_train_improve" if file.holdout else "skip",
            max_cycles=flags.max_cycles or block.max_cycles,
            numeric_phase=PhaseLimits(
                max_trials=flags.numeric_max_trials or block.max_trials,
                patience=flags.numeric_patience or block.patience,
            ),
        )
        return Searching(
            strategy=Coordinate(settings=settings),
            budget=self._budget(None),
            objective=self._objective(scored),
            metrics=scored,
            repeats=self._repeats,
        )

    def _scaled(self, metrics: tuple[Metric, ...]) -> list[Metric]:
        """The primary number as a score, where it is none by itself."""
        goal, primary = self.file.objective, primary_of(self.file)
        high = goal.direction == "maximize"
        if primary in {metric.name for metric in metrics}:
            if not high or goal.worst is not None:
                told = f"'{primary}' is a score from 0 to 1, which coordinate makes high"
                self.wrong.add(("objective",), told, "leave out direction, worst and best")
            return []
        low, top = (0.0, 1.0) if high else (1.0, 0.0)
        worst, best = goal.worst, goal.best
        return [
            ScaledScore(
                measure=primary,
                worst=low if worst is None else worst,
                best=top if best is None else best,
                clamped=worst is not None,
            )
        ]

    def _objective(self, metrics: tuple[Metric, ...]) -> Objective:
        """The loss is that of the primary number, where that is a score that should be high."""
        file, primary = self.file, primary_of(self.file)
        weighted = [metric.name for metric in metrics if isinstance(metric, ScaledScore)]
        held = file.holdout.scorer if file.holdout else None
        everywhere = primary in file.scorer.names and (held is None or primary in held.names)
        if everywhere and file.objective.direction == "maximize":
            weighted = [primary]
        return Objective(
            weights=dict.fromkeys(weighted, 1.0),
            constraints=tuple(block.made() for block in file.constraints),
            tie_breakers=tuple(block.made() for block in file.policy.tie_breakers),
        )

    @property
    def _repeats(self) -> int:
        flags, weak = self.given.flags, self.given.environment
        return flags.choose("repeats", self.file.repeats, weak, EditsSettings().repeats)

    @property
    def _sigma(self) -> float:
        flags, weak = self.given.flags, self.given.environment
        return flags.choose("accept_sigma", self.file.accept_sigma, weak, 1.0)

    def _budget(self, usual: int | None) -> Budget:
        together = self.file.candidates_per_iteration
        usual = None if usual is None else usual * together
        flags, weak = self.given.flags, self.given.environment
        return self.file.budget.limits(flags, weak, together=together, usual=usual)

    def _refuse_threshold(self, made: Searching | None) -> None:
        if made is None or made.objective.weights or made.budget.score_threshold is None:
            return
        told = f"'{primary_of(self.file)}' is in its own unit, and this is a score from 0 to 1"
        remedy = "leave it out: it goes with a metric of burnish that should be high"
        self.wrong.add(("budget", "score_threshold"), told, remedy)

    def _refuse_phases(self) -> None:
        for name in ("max_cycles", "numeric_max_trials", "numeric_patience"):
            if getattr(self.given.flags, name) is not None:
                told = "only the strategy 'coordinate' can be told this"
                self.wrong.problems.append(Problem(where=flag_of(name), message=told))
