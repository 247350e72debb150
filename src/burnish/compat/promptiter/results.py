"""What a PromptIter run gives: results, traces, gradients, events."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from burnish.compat.promptiter.shapes import PatchSet, Profile, Snapshot, Wire
from burnish.core.content import Json
from burnish.core.structures import SurfaceType


class TerminalLoss(Wire):
    """A failed metric, at the step where its way back begins."""

    eval_set_id: str = ""
    eval_case_id: str = ""
    metric_name: str = ""
    severity: str = ""
    step_id: str = ""
    loss: str = ""


class CaseLoss(Wire):
    """The losses of one case."""

    eval_set_id: str = ""
    eval_case_id: str = ""
    terminal_losses: tuple[TerminalLoss, ...] = ()


class SurfaceGradient(Wire):
    """What should change about a surface, and where that comes from; empty where it is merged."""

    eval_set_id: str = ""
    eval_case_id: str = ""
    step_id: str = ""
    surface_id: str = ""
    severity: str = ""
    gradient: str = ""


class StepGradients(Wire):
    """What one step says."""

    step_id: str = ""
    node_id: str = ""
    gradients: tuple[SurfaceGradient, ...] = ()


class CaseGradients(Wire):
    """What one case says, step by step."""

    eval_set_id: str = ""
    eval_case_id: str = ""
    step_gradients: tuple[StepGradients, ...] = ()


class BackwardResult(Wire):
    """What the walk back brought."""

    cases: tuple[CaseGradients, ...] = ()


class AggregatedSurface(Wire):
    """What should change about a surface, all cases together."""

    surface_id: str = ""
    node_id: str = ""
    type: SurfaceType = SurfaceType.INSTRUCTION
    gradients: tuple[SurfaceGradient, ...] = ()


class AggregationResult(Wire):
    """What should change, surface by surface."""

    surfaces: tuple[AggregatedSurface, ...] = ()


# -- Evaluations and traces in PromptIter's terms -------------------------------------------------


_ZERO_TIME = "0001-01-01T00:00:00Z"
"""How Go writes a time that nobody noted."""

TraceStatus: TypeAlias = Literal["completed", "incomplete", "failed"]
MetricStatus: TypeAlias = Literal["passed", "failed", "not_evaluated", "unknown"]


class Text(Wire):
    """What went into a step, or came out of it."""

    text: str = ""


class TokenUsage(BaseModel):
    """Tokens; the keys are those of the OpenAI protocol."""

    model_config = ConfigDict(frozen=True)

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0


class ToolRecord(Wire):
    """One use of a tool."""

    id: str = ""
    name: str = ""
    arguments: Json = None
    result: Json = None
    error: str = ""


class SkillRecord(Wire):
    """One use of a skill."""

    name: str = ""


class Step(Wire):
    """One run of a node."""

    step_id: str = ""
    invocation_id: str = ""
    parent_invocation_id: str = ""
    agent_name: str = ""
    branch: str = ""
    node_id: str = ""
    node_type: str = ""
    started_at: str = _ZERO_TIME
    ended_at: str = _ZERO_TIME
    predecessor_step_ids: tuple[str, ...] = ()
    applied_surface_ids: tuple[str, ...] = ()
    input: Text | None = None
    output: Text | None = None
    usage: TokenUsage | None = None
    tools: tuple[ToolRecord, ...] = ()
    skills: tuple[SkillRecord, ...] = ()
    error: str = ""


class Trace(Wire):
    """What really happened in one run of a case."""

    root_agent_name: str = ""
    root_invocation_id: str = ""
    session_id: str = ""
    started_at: str = _ZERO_TIME
    ended_at: str = _ZERO_TIME
    status: TraceStatus = "completed"
    input: Text | None = None
    output: Text | None = None
    usage: TokenUsage | None = None
    steps: tuple[Step, ...] = ()


class MetricResult(Wire):
    """What one metric says of a case."""

    metric_name: str = ""
    score: float = 0.0
    """Of no meaning where the status is `not_evaluated`: then there is none."""
    status: MetricStatus = "unknown"
    reason: str = ""


class CaseResult(Wire):
    """One case of an evaluation."""

    eval_set_id: str = ""
    eval_case_id: str = ""
    session_id: str = ""
    trace: Trace | None = None
    metrics: tuple[MetricResult, ...] = ()


class EvalSetResult(Wire):
    """One set of an evaluation."""

    eval_set_id: str = ""
    overall_score: float | None = None
    """Over cases and metrics alike; None where nothing was scored, which is not 0."""
    cases: tuple[CaseResult, ...] = ()


class EvaluationResult(Wire):
    """An evaluation: the mean over its sets, each of which counts the same."""

    overall_score: float | None = None
    eval_sets: tuple[EvalSetResult, ...] = ()


# -- What an observer of a run is told ------------------------------------------------------------


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


# -- What a PromptIter run gives ------------------------------------------------------------------


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


def _slim(result: RoundResult, slim: Slimming) -> RoundResult:
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
    changed["train"] = _scores_only(result.train, slim)
    changed["validation"] = _scores_only(result.validation, slim)
    return result.model_copy(update=changed)


def _scores_only(result: EvaluationResult | None, slim: Slimming) -> EvaluationResult | None:
    if result is None or not slim.omit_evaluation_cases:
        return result
    sets = tuple(each.model_copy(update={"cases": ()}) for each in result.eval_sets)
    return result.model_copy(update={"eval_sets": sets})
