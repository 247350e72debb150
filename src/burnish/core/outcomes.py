"""Outcomes: what one run of one case gave, with its trace, cost, or failure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from burnish.core.content import Json


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens and requests of one or more model calls."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """One use of a tool: what was asked and what came back."""

    name: str
    arguments: Mapping[str, Json] = field(default_factory=dict[str, Json])
    result: Json = None
    error: str = ""
    id: str = ""
    """What the model called this use, where it did."""
    passages: tuple[str, ...] = ()
    """What a tool that retrieves brought back, passage by passage."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One thing that happened inside a run."""

    id: str
    node: str
    turn: int = 0
    """The turn of the case in which it happened."""
    predecessors: tuple[str, ...] = ()
    surfaces: tuple[str, ...] = ()
    """The surfaces whose values were in force here."""
    input: Json = None
    output: Json = None
    tools: tuple[ToolCall, ...] = ()
    error: str = ""
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Trace:
    """What really happened, in an order in which predecessors come first."""

    steps: tuple[Step, ...] = ()


class FailureKind(StrEnum):
    """Whose fault it was: that decides between a score of 0 and no score at all."""

    AGENT = "agent"
    """Exception, invalid output, out of time: scores 0, and the proposer sees the error."""
    INFRASTRUCTURE = "infrastructure"
    """Rate limit, connection, judge down: retried, then missing. Never 0."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a run of a case gave no output."""

    kind: FailureKind
    message: str
    error: str = ""
    """The name of the error's type."""
    attempts: int = 1


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one run of one case gave."""

    replies: tuple[str, ...] = ()
    """What the agent said, one reply a turn."""
    asked: tuple[str, ...] = ()
    """What was said to the agent, one a turn, where somebody made it up as the talk went on."""
    data: Json = None
    """The structured answer, where the agent gives one."""
    measures: Mapping[str, float] = field(default_factory=dict[str, float])
    """Numbers the run reported about itself, in their own units."""
    trace: Trace = field(default_factory=Trace)
    usage: Usage = field(default_factory=Usage)
    nano_usd: int | None = 0
    """The agent's own cost; None when the price is unknown."""
    seconds: float = 0.0
    failure: Failure | None = None

    @property
    def output(self) -> str:
        """The last reply."""
        return self.replies[-1] if self.replies else ""

    @property
    def failed(self) -> bool:
        """The agent failed: this scores 0."""
        return self.failure is not None and self.failure.kind is FailureKind.AGENT

    @property
    def missing(self) -> bool:
        """The infrastructure failed: there is nothing to score."""
        return self.failure is not None and self.failure.kind is FailureKind.INFRASTRUCTURE
