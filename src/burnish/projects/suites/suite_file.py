"""The suite file: tasks that are delegated, what the training starts from, and how it goes."""

from collections import Counter
from typing import Annotated, Literal

from pydantic import Field, JsonValue, model_validator

from burnish.models.model_block import ModelBlock
from burnish.projects.delegation.workflow_file import Text
from burnish.projects.settings import BudgetSettings
from burnish.strategies.coordinate.settings import CoordinateSettings, PhaseLimits
from burnish.strategies.epochs.settings import EpochSettings
from burnish.strategies.reflective.settings import (
    MINIBATCH,
    FieldSelection,
    FrontierType,
    ParentSelection,
    ReflectiveSettings,
)
from burnish.system.settings import (
    AboveZero,
    AtLeastOne,
    NoneOrMore,
    NotNegative,
    Places,
    Repeats,
    Settings,
    Share,
)
from burnish.targets.delegation.loss import WEIGHTS
from burnish.targets.delegation.policy import NAMES

_USUAL = EpochSettings()
_COORDINATE = CoordinateSettings()
Rate = Annotated[float, Field(gt=0, le=1)]


class ReflectiveBlock(Settings):
    """The settings of reflective search."""

    parent_selection: ParentSelection = "trail"
    field_selection: FieldSelection = "round_robin"
    frontier: FrontierType = "instance"
    minibatch: AtLeastOne = MINIBATCH
    history_top_k: Annotated[int, Field(ge=0, le=5)] = 2
    perfect_score: float = 1.0
    skip_perfect: bool = True
    merge: bool = False
    max_merges: NoneOrMore = 5
    merge_overlap: AtLeastOne = 5
    reuse: bool = True
    racing: bool = True
    proposals_per_round: AtLeastOne = 1

    def settings(self, *, repeats: int, fields: tuple[str, ...] = ()) -> ReflectiveSettings:
        """How the search goes about it."""
        return ReflectiveSettings(fields=fields, repeats=repeats, **self.model_dump())


class CoordinateBlock(Settings):
    """The settings of coordinate descent over texts."""

    accept_sigma: NotNegative = _COORDINATE.accept_sigma
    min_confidence: Share = _COORDINATE.min_confidence
    max_cycles: AtLeastOne = _COORDINATE.max_cycles
    max_trials: AtLeastOne = _COORDINATE.textual_phase.max_trials
    """Of each cycle."""
    patience: AtLeastOne = _COORDINATE.textual_phase.patience

    def settings(self, *, repeats: int, fields: tuple[str, ...]) -> CoordinateSettings:
        """How the search goes about it."""
        return CoordinateSettings(
            texts=fields,
            repeats=repeats,
            accept_sigma=self.accept_sigma,
            min_confidence=self.min_confidence,
            max_cycles=self.max_cycles,
            textual_phase=PhaseLimits(max_trials=self.max_trials, patience=self.patience),
        )


class EnvelopeBlock(Settings):
    """Limits of one delegation, stronger than those of its workflow."""

    max_loops: AtLeastOne | None = None
    max_total_workers: AtLeastOne | None = None
    max_total_tokens: AtLeastOne | None = None
    max_wall_time: AboveZero | None = None
    max_tool_calls: AtLeastOne | None = None
    max_depth: AtLeastOne | None = None


class TaskBlock(Settings):
    """One task."""

    name: Text
    task: Text
    workflow: Text | None = None
    """A workflow file, from the folder of the suite; that of the suite unless said."""
    model: Text | ModelBlock | None = None
    """The manager's: `provider:name`, or a block."""
    worker_model: Text | ModelBlock | None = None
    budget: EnvelopeBlock = Field(default_factory=EnvelopeBlock)
    weights: dict[str, NotNegative] = Field(default_factory=dict[str, float])
    """By part of the loss; the others weigh as always."""
    extra: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    """Kept in the manifests of its runs."""

    @model_validator(mode="after")
    def _sound(self) -> "TaskBlock":
        if unknown := sorted(set(self.weights) - set(WEIGHTS)):
            raise ValueError(f"weights: there is no {', '.join(unknown)}, but {', '.join(WEIGHTS)}")
        if sum({**WEIGHTS, **self.weights}.values()) > 1 + 1e-9:
            raise ValueError("weights: with those that are not named they add up to more than 1")
        return self


class SuiteOptimizerBlock(Settings):
    """How the texts are trained."""

    strategy: Literal["epochs", "reflective", "coordinate"] | None = None
    epochs: AtLeastOne | None = None
    """Passes over the suite; 1 unless said."""
    learning_rate: Rate | None = None
    """How large a step may be; 0.5 unless said."""
    with_textgrad: bool | None = None
    """Without it the suite is only measured."""
    rollback: bool = _USUAL.rollback
    repeats: Repeats | None = None
    """How often each task is run; more show the noise better."""
    accept_sigma: NotNegative | None = None
    proposer: ModelBlock | None = None
    """Who proposes texts; the manager of the first task unless named."""
    reflector: ModelBlock | None = None
    critic: ModelBlock | None = None
    applier: ModelBlock | None = None
    reflective: ReflectiveBlock = Field(default_factory=ReflectiveBlock)
    coordinate: CoordinateBlock = Field(default_factory=CoordinateBlock)


class SuiteFile(Settings):
    """A suite."""

    name: Text
    description: str = ""
    baseline_artifacts: dict[str, NoneOrMore] = Field(default_factory=dict[str, int])
    """By policy text, the version that the training starts from; else the one in force."""
    tasks: Annotated[list[TaskBlock], Field(min_length=1)]
    holdout: list[TaskBlock] = Field(default_factory=list[TaskBlock])
    """Tasks that decide, and that no proposer sees."""
    workflow: Text | None = None
    """For tasks that name none; workflow.yaml beside the suite where it is there."""
    optimizer: SuiteOptimizerBlock = Field(default_factory=SuiteOptimizerBlock)
    seed: int | None = None
    concurrency: Places | None = None
    """Delegations at once."""
    time_limit: AboveZero | None = None
    """Seconds that a delegation may take."""
    budget: BudgetSettings = Field(default_factory=BudgetSettings)

    @model_validator(mode="after")
    def _once(self) -> "SuiteFile":
        names = Counter(task.name for task in (*self.tasks, *self.holdout))
        if twice := sorted(name for name, count in names.items() if count > 1):
            raise ValueError(f"two tasks are called {', '.join(twice)}")
        if unknown := sorted(set(self.baseline_artifacts) - set(NAMES)):
            known = ", ".join(NAMES)
            raise ValueError(f"baseline_artifacts: no text {', '.join(unknown)}; there are {known}")
        return self
