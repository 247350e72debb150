"""Outcomes of single runs of cases, with trace, cost and failure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from operator import not_
from typing import Annotated

from pydantic import Field

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
    """One use of a tool: its arguments and its result."""

    name: str
    arguments: Mapping[str, Json] = field(default_factory=dict[str, Json])
    result: Json = None
    error: str = ""
    id: str = ""
    """The model's id of this use, if there is one."""
    passages: tuple[str, ...] = ()
    """The passages that a retrieval tool returned."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step inside a run."""

    id: str
    node: str
    turn: int = 0
    predecessors: tuple[str, ...] = ()
    surfaces: tuple[str, ...] = ()
    """The surfaces whose values were used in this step."""
    input: Json = None
    output: Json = None
    tools: tuple[ToolCall, ...] = ()
    tools_known: Annotated[bool, Field(exclude_if=bool)] = True
    """False for a step that stands for an agent whose tool calls nobody sees."""
    error: str = ""
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Trace:
    """The steps of a run; predecessors come first."""

    steps: tuple[Step, ...] = ()


class FailureKind(StrEnum):
    """Who caused a failure: this decides between a score of 0 and no score at all."""

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
    """The name of the exception class."""
    attempts: int = 1


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of one run of one case."""

    replies: tuple[str, ...] = ()
    """The agent's replies, one per turn."""
    asked: tuple[str, ...] = ()
    """In a generated conversation, the inputs to the agent, one per turn."""
    data: Json = None
    """The structured answer, if the agent gives one."""
    measures: Mapping[str, float] = field(default_factory=dict[str, float])
    """Numbers that the run reported, in any unit."""
    trace: Trace = field(default_factory=Trace)
    usage: Usage = field(default_factory=Usage)
    nano_usd: int | None = 0
    """The agent's cost; None when the price is unknown."""
    seconds: float = 0.0
    failure: Failure | None = None
    withheld: Annotated[bool, Field(exclude_if=not_)] = False
    """Whether something that looks like a key was removed before it was stored: metrics saw the
    whole answer, and what is left must not be scored again."""

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
