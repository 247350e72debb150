"""What an observer of a run is told."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from burnish.compat.promptiter.gradients import AggregationResult, BackwardResult, CaseLoss
from burnish.compat.promptiter.structure import PatchSet, Profile, Snapshot
from burnish.compat.promptiter.traces import EvaluationResult
from burnish.compat.promptiter.wire import Wire


class EventKind(StrEnum):
    """The stages of a run, in their order."""

    STRUCTURE_SNAPSHOT = "structure_snapshot"
    BASELINE_VALIDATION = "baseline_validation"
    ROUND_STARTED = "round_started"
    ROUND_TRAIN_EVALUATION = "round_train_evaluation"
    ROUND_LOSSES = "round_losses"
    ROUND_BACKWARD = "round_backward"
    ROUND_AGGREGATION = "round_aggregation"
    ROUND_PATCH_SET = "round_patch_set"
    ROUND_OUTPUT_PROFILE = "round_output_profile"
    ROUND_VALIDATION = "round_validation"
    ROUND_COMPLETED = "round_completed"


class RoundCompleted(Wire):
    """How a round ended."""

    accepted: bool = False
    acceptance_reason: str = ""
    score_delta: float = 0.0
    should_stop: bool = False
    stop_reason: str = ""


Payload: TypeAlias = (
    Snapshot
    | EvaluationResult
    | tuple[CaseLoss, ...]
    | BackwardResult
    | AggregationResult
    | PatchSet
    | Profile
    | RoundCompleted
    | None
)


@dataclass(frozen=True, kw_only=True)
class Event:
    """One stage that is over; `payload` is what it found."""

    kind: EventKind
    round: int
    payload: Payload = None


Observer: TypeAlias = Callable[[Event], Awaitable[None] | None]
"""A function or a coroutine function. What it raises ends the run."""
