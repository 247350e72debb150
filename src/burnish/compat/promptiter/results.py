"""The results of a PromptIter run: evaluations, traces, gradients, events."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field

from burnish.compat.promptiter.shapes import Id, PatchSet, Profile, Snapshot, TypeName, Wire
from burnish.core.content import Json
from burnish.core.surfaces import SurfaceType


class _OfCase(Wire):
    eval_set_id: Id = ""
    eval_case_id: Id = ""


class TerminalLoss(_OfCase):
    """A failed metric, at the step where the backward pass starts."""

    metric_name: str = ""
    severity: str = ""
    step_id: str = ""
    loss: str = ""


class CaseLoss(_OfCase):
    """The losses of one case."""

    terminal_losses: tuple[TerminalLoss, ...] = ()


class SurfaceGradient(_OfCase):
    """What should change about a surface, and its origin, which is empty in merged gradients."""

    step_id: Id = ""
    surface_id: Id = ""
    severity: Id = ""
    gradient: str = ""


class StepGradients(Wire):
    """The gradients of one step."""

    step_id: str = ""
    node_id: str = ""
    gradients: tuple[SurfaceGradient, ...] = ()


class CaseGradients(_OfCase):
    """The gradients of one case, by step."""

    step_gradients: tuple[StepGradients, ...] = ()


class BackwardResult(Wire):
    """The result of the backward stage."""

    cases: tuple[CaseGradients, ...] = ()


class AggregatedSurface(Wire):
    """What should change about a surface, over all cases."""

    surface_id: Id = ""
    node_id: str = ""
    type: TypeName = SurfaceType.INSTRUCTION
    gradients: tuple[SurfaceGradient, ...] = ()


class AggregationResult(Wire):
    """The result of the aggregation stage."""

    surfaces: tuple[AggregatedSurface, ...] = ()


_ZERO_TIME = "0001-01-01T00:00:00Z"
"""Go's zero time."""

TraceStatus: TypeAlias = Literal["completed", "incomplete", "failed"]
MetricStatus: TypeAlias = Literal["passed", "failed", "not_evaluated", "unknown"]


class Text(Wire):
    """The input or output of a step."""

    text: str = ""


class PromptTokensDetails(BaseModel):
    """Tokens of a prompt that came from a cache; 0 if unknown, as in Go."""

    model_config = ConfigDict(frozen=True)

    cached_tokens: int = 0


class TokenUsage(BaseModel):
    """Tokens; the keys are those of the OpenAI protocol."""

    model_config = ConfigDict(frozen=True)

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    prompt_tokens_details: PromptTokensDetails = Field(default_factory=PromptTokensDetails)


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
    """What happened in one run of a case."""

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
    """The result of one metric on a case."""

    metric_name: str = ""
    score: float = 0.0
    """Meaningless if the status is `not_evaluated`."""
    status: MetricStatus = "unknown"
    reason: str = ""


class CaseResult(_OfCase):
    """One case of an evaluation."""

    session_id: str = ""
    trace: Trace | None = None
    metrics: tuple[MetricResult, ...] = ()


class EvalSetResult(Wire):
    """One set of an evaluation."""

    eval_set_id: str = ""
    overall_score: float | None = None
    """The mean over cases and metrics; None if nothing was scored."""
    cases: tuple[CaseResult, ...] = ()


class EvaluationResult(Wire):
    """An evaluation: the mean over its sets, which all count the same."""

    overall_score: float | None = None
    eval_sets: tuple[EvalSetResult, ...] = ()


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
    """A finished stage; `payload` is its result."""

    kind: EventKind
    round: int
    payload: Payload = None


Observer: TypeAlias = Callable[[Event], Awaitable[None] | None]
"""A function or coroutine function. An exception ends the run."""


class RunStatus(StrEnum):
    """The status of a run."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"


class AcceptanceDecision(Wire):
    """Whether a round was accepted."""

    accepted: bool = False
    score_delta: float = 0.0
    """The gain of the deciding score, over the cases that both sides have."""
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
    """None if there was nothing to measure: no patch, or a rejected one."""
    acceptance: AcceptanceDecision | None = None
    stop: StopDecision | None = None
    burnish: dict[str, Json] | None = Field(default=None, exclude_if=lambda value: value is None)
    """burnish's additions: changes by case, failure classes, the decision with its numbers."""


@dataclass(frozen=True, kw_only=True)
class Slimming:
    """What to leave out of a large result: PromptIter's RunResultSlimming."""

    omit_evaluation_cases: bool = False
    """The cases of every evaluation; the scores of the sets remain."""
    omit_backward: bool = False
    omit_aggregation: bool = False
    omit_patches: bool = False
    omit_profiles: bool = False
    """Those of the rounds, and the accepted one."""
    omit_losses: bool = False

    def slimmed(self, result: Json) -> Json:
        """The JSON of a RunResult with null for what is left out; the rest is not copied."""
        if self == Slimming() or not isinstance(result, dict):
            return result
        profile = {"AcceptedProfile": None} if self.omit_profiles else {}
        slim = result | {name: value for name, value in profile.items() if name in result}
        if isinstance(rounds := slim.get("Rounds"), list):
            slim["Rounds"] = [self._slim_round(each) for each in rounds]
        return self._without_cases(slim, "BaselineValidation")

    def _slim_round(self, value: Json) -> Json:
        if not isinstance(value, dict):
            return value
        omitted = [
            name for field, names in _OMITTED.items() if getattr(self, field) for name in names
        ]
        slim = value | {name: None for name in omitted if name in value}
        return self._without_cases(slim, "Train", "Validation")

    def _without_cases(self, value: dict[str, Json], *names: str) -> dict[str, Json]:
        if not self.omit_evaluation_cases:
            return value
        return value | {name: _scores(value[name]) for name in names if name in value}


_OMITTED = {
    "omit_backward": ("Backward",),
    "omit_aggregation": ("Aggregation",),
    "omit_patches": ("Patches",),
    "omit_profiles": ("InputProfile", "OutputProfile"),
    "omit_losses": ("Losses",),
}
"""The parts of a round that are left out."""


def _scores(evaluation: Json) -> Json:
    return _changed(
        evaluation,
        "EvalSets",
        lambda sets: [_changed(each, "Cases", lambda _: None) for each in sets],
    )


def _changed(value: Json, name: str, change: Callable[[list[Json]], Json]) -> Json:
    if not isinstance(value, dict) or not isinstance(items := value.get(name), list):
        return value
    return {**value, name: change(items)}


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
    """burnish's additions: how the run ended, what it spent, where its folder is."""

    def to_json(self, slim: Slimming | None = None) -> dict[str, Json]:
        """The result as PromptIter writes it, without what `slim` leaves out."""
        whole = super().to_json()
        return whole if slim is None else cast("dict[str, Json]", slim.slimmed(whole))
