"""What a code grader is given, and what it may give back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from burnish.core.content import Json, canonical
from burnish.core.outcomes import ToolCall
from burnish.evaluation.exchanges import Exchange


@dataclass(frozen=True, kw_only=True)
class ToolInvocation:
    """One use of a tool, as graders see it."""

    name: str
    args: Mapping[str, Any] = field(default_factory=dict[str, Any])
    result: Any = None
    bytes: int = 0
    """How large the result is, as UTF-8 text."""
    duration_ms: int | None = None
    error: str | None = None

    @classmethod
    def of(cls, call: ToolCall) -> "ToolInvocation":
        """A tool call of a trace."""
        return cls(
            name=call.name,
            args=dict(call.arguments),
            result=call.result,
            bytes=_size(call.result),
            error=call.error or None,
        )


@dataclass(frozen=True, kw_only=True)
class GraderContext:
    """One turn of a case, with the same fields whether it is one of many or the only one."""

    turn_input: str
    agent_response: str
    ground_truth: str | None = None
    tool_invocations: tuple[ToolInvocation, ...] = ()
    retrieval_context: list[str] | None = None
    turn_index: int = 0
    test_case_name: str | None = None
    turn_config: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def of(cls, exchange: Exchange) -> "GraderContext":
        """What a grader may know of an exchange."""
        return cls(
            turn_input=exchange.asked,
            agent_response=exchange.reply,
            ground_truth=exchange.expected,
            tool_invocations=tuple(map(ToolInvocation.of, exchange.tools)),
            retrieval_context=list(exchange.passages) or None,
            turn_index=exchange.index,
            test_case_name=exchange.case.id,
            turn_config=dict(exchange.turn.settings),
        )


@dataclass(frozen=True)
class GraderResult:
    """What a grader found; a bool or a number alone will do as well."""

    score: float
    passed: bool | None = None
    reason: str | None = None
    details: Mapping[str, Any] | None = None


def _size(result: Json) -> int:
    text = result.encode() if isinstance(result, str) else canonical(result)
    return 0 if result is None else len(text)
