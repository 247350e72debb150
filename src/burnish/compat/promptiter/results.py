"""What a PromptIter run gives: its state while it goes on, and its result in the end."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import Field

from burnish.compat.promptiter.gradients import AggregationResult, BackwardResult, CaseLoss
from burnish.compat.promptiter.structure import PatchSet, Profile, Snapshot
from burnish.compat.promptiter.traces import EvaluationResult
from burnish.compat.promptiter.wire import Wire
from burnish.core.content import Json


class RunStatus(StrEnum):
    """Where a run stands."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"


class AcceptanceDecision(Wire):
    """Whether a round was accepted."""

    accepted: bool = False
    score_delta: float = 0.0
    """By the score that was decided on, over the cases that both sides have."""
    reason: str = ""


class StopDecision(Wire):
    """Whether the run ends after a round."""

    should_stop: bool = False
    reason: str = ""


class RoundResult(Wire):
    """One round."""

    round: int = 0
    input_profile: Profile | None = None
    train: EvaluationResult | None = None
    losses: tuple[CaseLoss, ...] = ()
    backward: BackwardResult | None = None
    aggregation: AggregationResult | None = None
    patches: PatchSet | None = None
    output_profile: Profile | None = None
    validation: EvaluationResult | None = None
    """None where there was nothing to measure: no patch, or one that was turned away."""
    acceptance: AcceptanceDecision | None = None
    stop: StopDecision | None = None
    burnish: dict[str, Json] | None = Field(default=None, exclude_if=lambda value: value is None)
    """What burnish adds: changes case by case, failure classes, the decision with its numbers."""


@dataclass(frozen=True, kw_only=True)
class Slimming:
    """What to leave out of a result that would be too large."""

    omit_evaluation_cases: bool = False
    omit_backward: bool = False
    omit_aggregation: bool = False
    omit_patches: bool = False
    omit_profiles: bool = False
    omit_losses: bool = False


class RunResult(Wire):
    """The result of one run, or its state so far."""

    app_name: str = ""
    id: str = ""
    status: RunStatus = RunStatus.QUEUED
    current_round: int = 0
    structure: Snapshot | None = None
    baseline_validation: EvaluationResult | None = None
    accepted_profile: Profile | None = None
    rounds: tuple[RoundResult, ...] = ()
    error_message: str = ""
    burnish: dict[str, Json] | None = Field(default=None, exclude_if=lambda value: value is None)
    """What burnish adds: how the run ended, what it spent, where its folder is."""

    def to_json(self, slim: Slimming | None = None) -> dict[str, Json]:
        """The result as PromptIter writes it, without what `slim` leaves out."""
        if slim is not None:
            return self.slimmed(slim).to_json()
        return super().to_json()

    def slimmed(self, slim: Slimming) -> "RunResult":
        """The same result with less in it."""
        changed: dict[str, Any] = {"rounds": tuple(_slim(each, slim) for each in self.rounds)}
        changed["baseline_validation"] = _scores_only(self.baseline_validation, slim)
        if slim.omit_profiles:
            changed["accepted_profile"] = None
        return self.model_copy(update=changed)


def _slim(found: RoundResult, slim: Slimming) -> RoundResult:
    gone: Mapping[str, bool] = {
        "backward": slim.omit_backward,
        "aggregation": slim.omit_aggregation,
        "patches": slim.omit_patches,
        "input_profile": slim.omit_profiles,
        "output_profile": slim.omit_profiles,
    }
    changed: dict[str, Any] = {name: None for name, omitted in gone.items() if omitted}
    if slim.omit_losses:
        changed["losses"] = ()
    changed["train"] = _scores_only(found.train, slim)
    changed["validation"] = _scores_only(found.validation, slim)
    return found.model_copy(update=changed)


def _scores_only(found: EvaluationResult | None, slim: Slimming) -> EvaluationResult | None:
    if found is None or not slim.omit_evaluation_cases:
        return found
    sets = tuple(each.model_copy(update={"cases": ()}) for each in found.eval_sets)
    return found.model_copy(update={"eval_sets": sets})
