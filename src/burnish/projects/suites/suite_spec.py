"""A suite as a target's description: tasks that are delegated, and what a training starts from."""

from collections import Counter
from typing import Annotated

from pydantic import Field, JsonValue, model_validator

from burnish.models.model_block import ModelBlock
from burnish.runs.spec import TargetSpec
from burnish.system.settings import AboveZero, AtLeastOne, Door, NotNegative, Settings, Text
from burnish.targets.delegation.loss import WEIGHTS
from burnish.targets.delegation.policy import NAMES

_PANEL = "Suites of tasks to delegate"


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


class PolicySpec(TargetSpec):
    """A suite: tasks that are delegated, and the policy texts that are trained on them."""

    kind: str = "policy"
    name: Text
    """What reports call the suite."""
    description: str = ""
    """What it is for."""
    baseline_artifacts: dict[str, Annotated[int, Field(ge=0)]] = Field(
        default_factory=dict[str, int]
    )
    """By policy text, the version that the training starts from; else the one in force."""
    tasks: Annotated[list[TaskBlock], Field(min_length=1)]
    """Tasks that are delegated, and learned from."""
    holdout: list[TaskBlock] = Field(default_factory=list[TaskBlock])
    """Tasks that decide, and that no proposer sees."""
    workflow: Text | None = None
    """For tasks that name none; workflow.yaml beside the suite where it is there."""
    db: Annotated[
        Text | None,
        Door(flag="*", panel=_PANEL, metavar="FILE", paths=True, environment=False),
    ] = None
    """The registry of policy texts; $BURNISH_POLICY_DB, or the user's own."""
    experiment: Annotated[
        Text | None,
        Door(flag="*", aliases=("--target",), panel=_PANEL, metavar="EXP", environment=False),
    ] = None
    """Train the registry of this experiment."""
    policy_versions: Annotated[dict[str, int] | None, Door(file=False)] = None
    """Where a run that goes on had started."""

    @model_validator(mode="after")
    def _sound(self) -> "PolicySpec":
        names = Counter(task.name for task in (*self.tasks, *self.holdout))
        if twice := sorted(name for name, count in names.items() if count > 1):
            raise ValueError(f"two tasks are called {', '.join(twice)}")
        if unknown := sorted(set(self.baseline_artifacts) - set(NAMES)):
            known = ", ".join(NAMES)
            raise ValueError(f"baseline_artifacts: no text {', '.join(unknown)}; there are {known}")
        return self
