"""The stages of a search, for whoever watches."""

from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, TypeAlias

from burnish.core.evaluations import Evaluation
from burnish.runs.events import EventData
from burnish.strategies.backprop.rounds import Attempt, Round

Stage: TypeAlias = Literal[
    "structure_snapshot",
    "baseline_validation",
    "round_started",
    "round_train_evaluation",
    "round_losses",
    "round_backward",
    "round_aggregation",
    "round_patch_set",
    "round_output_profile",
    "round_validation",
    "round_completed",
]


@dataclass(frozen=True, kw_only=True)
class StageBegun(EventData):
    """A stage is over, and about to be shown."""

    kinds: ClassVar[tuple[str, ...]] = ("stage",)

    stage: str = ""
    round: int = 0


class Watcher(Protocol):
    """Someone who is shown each stage as it is over, on a replay too."""

    def __call__(self, stage: Stage, found: Round | Attempt | Evaluation | None, /) -> None:
        """Look at what a stage found."""
        ...
