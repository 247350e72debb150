"""Evaluations and traces in PromptIter's terms."""

from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from burnish.compat.promptiter.wire import Wire
from burnish.core.content import Json

ZERO_TIME = "0001-01-01T00:00:00Z"
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
    started_at: str = ZERO_TIME
    ended_at: str = ZERO_TIME
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
    started_at: str = ZERO_TIME
    ended_at: str = ZERO_TIME
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
