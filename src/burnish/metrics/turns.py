"""What metrics look at: turns, layers, simulated users, classes of failures."""

import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_validator

from burnish.core.cases import Case, Turn
from burnish.core.content import Json, codec, short_id
from burnish.core.evaluations import CaseResult, Score
from burnish.core.money import NOTHING, Spend, total
from burnish.core.outcomes import Outcome, Step, ToolCall
from burnish.core.protocols import Effects, Role
from burnish.metrics.tool_matching import compare_arguments
from burnish.models.chat import ModelClient
from burnish.models.roles import ModelRole, RolePrompt


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """What was said to the agent in one turn, what is expected, and what it did."""

    case: Case
    turn: Turn
    index: int = 0
    asked: str
    reply: str
    data: Json = None
    """The structured answer, where the agent gives one."""
    steps: tuple[Step, ...] = ()
    """What happened in this turn."""
    earlier: tuple[tuple[str, str], ...] = ()
    """What was said before, and what the agent replied."""
    earlier_steps: tuple[Step, ...] = ()
    """What happened in the turns before."""

    @property
    def expected(self) -> str | None:
        """The reference answer, if there is one."""
        return self.turn.expected

    @cached_property
    def tools(self) -> tuple[ToolCall, ...]:
        """The uses of tools in this turn, in order."""
        return tuple(tool for step in self.steps for tool in step.tools)

    @cached_property
    def tools_so_far(self) -> tuple[ToolCall, ...]:
        """The uses of tools in this turn and the turns before, in order."""
        return tuple(tool for step in self.earlier_steps for tool in step.tools) + self.tools

    @cached_property
    def passages(self) -> tuple[str, ...]:
        """What the answer should rest on: as the case says, else what tools retrieved."""
        return self.turn.context or tuple(p for tool in self.tools for p in tool.passages)


def exchanges(case: Case, outcome: Outcome) -> tuple[Exchange, ...]:
    """The turns of a case with their replies, in order.

    Where a model played the user, there are as many as were said, and only the first has a
    turn of the case behind it. A turn that the agent never replied to has an empty reply.
    """
    messages = outcome.asked or tuple(turn.input for turn in case.turns)
    turns = [*case.turns, *(Turn(input=message) for message in messages[len(case.turns) :])]
    replies = [*outcome.replies, *[""] * len(messages)]
    last = len(messages) - 1
    return tuple(
        Exchange(
            case=case,
            turn=turns[index],
            index=index,
            asked=message,
            reply=replies[index],
            data=outcome.data if index == last else None,
            steps=tuple(step for step in outcome.trace.steps if step.turn == index),
            earlier_steps=tuple(step for step in outcome.trace.steps if step.turn < index),
            earlier=tuple(zip(messages[:index], replies[:index], strict=True)),
        )
        for index, message in enumerate(messages)
    )


# -- Failure classes ------------------------------------------------------------------------------


class FailureClass(StrEnum):
    """Where a failure is to be looked for."""

    WRONG_TOOL = "wrong tool"
    WRONG_ARGUMENTS = "wrong arguments"
    ROUTING = "routing"
    FORMAT = "format"
    KNOWLEDGE = "knowledge"
    FINAL_ANSWER = "final answer"


ROUTE = "route"
"""The extra of a case that lists the nodes its run should come by, in order."""
_FORMAT = re.compile(r"format|json|xml|schema|regex|length|valid", re.IGNORECASE)
_KNOWLEDGE = re.compile(r"knowledge|faithful|ground|hallucin|context|recall", re.IGNORECASE)
_INVALID = re.compile(r"invalid|schema|json|parse|output validation", re.IGNORECASE)


def failure_class(case: Case, result: CaseResult, failed: Sequence[Score]) -> FailureClass:
    """The kind of failure: the earliest cause that can be seen wins over what follows from it."""
    if _left_the_route(case, result):
        return FailureClass.ROUTING
    if (tools := _tools(case, result)) is not None:
        return tools
    if result.outcome.failure is not None:
        broken = _INVALID.search(result.outcome.failure.message)
        return FailureClass.FORMAT if broken else FailureClass.FINAL_ANSWER
    names = [score.metric for score in failed]
    if names and all(_FORMAT.search(name) for name in names):
        return FailureClass.FORMAT
    if any(_KNOWLEDGE.search(name) for name in names):
        return FailureClass.KNOWLEDGE
    return FailureClass.FINAL_ANSWER


def _left_the_route(case: Case, result: CaseResult) -> bool:
    """Whether the run came by other nodes than the case says."""
    route = case.extras.get(ROUTE)
    if not isinstance(route, list) or not result.outcome.trace.steps:
        return False
    nodes = [step.node for step in result.outcome.trace.steps]
    return not _in_order([str(name) for name in route], nodes)


def _in_order(names: Iterable[str], nodes: Sequence[str]) -> bool:
    """Whether the names come by in this order; a name may be the end of a node's path."""
    left = iter(nodes)
    return all(any(node == name or node.endswith(f"/{name}") for node in left) for name in names)


def _tools(case: Case, result: CaseResult) -> FailureClass | None:
    """What was wrong about the use of tools; a run that left no steps does not tell."""
    if not result.outcome.trace.steps:
        return None
    for number, turn in enumerate(case.turns):
        steps = [step for step in result.outcome.trace.steps if step.turn == number]
        used = [call for step in steps for call in step.tools]
        if (failure := _of_turn(turn, used)) is not None:
            return failure
    return None


def _of_turn(turn: Turn, used: Sequence[ToolCall]) -> FailureClass | None:
    """A tool that should have been used and was not, or was asked for something else; or any tool
    where none should have been."""
    if turn.expects_no_tool and used:
        return FailureClass.WRONG_TOOL
    tools = (*(turn.expected_tools or ()), *(turn.expected_calls or ()))
    expected = [(tool.name, tool.arguments) for tool in tools]
    wrong: FailureClass | None = None
    for name, arguments in expected:
        named = [call for call in used if name in call.name]
        if not named:
            return FailureClass.WRONG_TOOL
        if all(compare_arguments(arguments, call.arguments) for call in named):
            wrong = FailureClass.WRONG_ARGUMENTS
    return wrong


# -- Conversation scenarios -----------------------------------------------------------------------


ROLE = "user_simulator"
DEFAULT_TURNS = 20
"""Where a scenario sets no limit, or none at all: two models can be polite for ever."""

_Reply = Callable[[str], Awaitable[str]]


class TalkSoFar(BaseModel):
    """What the player of the user is told."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    plan: str
    conversation: str


class NextRemark(BaseModel):
    """What the user says next, or that the talk is over."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    thought: str
    done: bool
    remark: str = ""

    @model_validator(mode="after")
    def _says_something(self) -> "NextRemark":
        if not self.done and not self.remark.strip():
            raise ValueError("say the next remark, or that the talk is done")
        return self


@dataclass(frozen=True, kw_only=True)
class Talk:
    """A conversation that was had."""

    asked: tuple[str, ...]
    replies: tuple[str, ...]


def user_simulator(client: ModelClient, prompt: RolePrompt) -> ModelRole[TalkSoFar, NextRemark]:
    """The role that plays the user."""
    return ModelRole(
        name=ROLE,
        request_type=TalkSoFar,
        answer_type=NextRemark,
        prompt=prompt,
        client=client,
    )


async def converse(
    case: Case,
    reply: _Reply,
    *,
    user: Role[TalkSoFar, NextRemark],
    draw: int,
    effects: Effects,
) -> Talk:
    """Have the conversation of a scenario; every remark is an effect of its own.

    Raises RoleFailed when the user cannot be played: that is nobody's answer, so missing.
    """
    assert case.scenario is not None, "only a scenario has a user to play"
    limit = case.scenario.max_turns or DEFAULT_TURNS
    remarks: list[str] = []
    replies: list[str] = []
    remark: str | None = case.input.strip() or None
    while len(remarks) < limit:
        if remark is None:
            remark = await _next(case, remarks, replies, user=user, draw=draw, effects=effects)
        if remark is None:
            break
        remarks.append(remark)
        replies.append(await reply(remark))
        remark = None
    return Talk(asked=tuple(remarks), replies=tuple(replies))


async def _next(
    case: Case,
    remarks: Sequence[str],
    replies: Sequence[str],
    *,
    user: Role[TalkSoFar, NextRemark],
    draw: int,
    effects: Effects,
) -> str | None:
    assert case.scenario is not None
    lines = [f"user: {a}\nagent: {r}" for a, r in zip(remarks, replies, strict=True)]
    request = TalkSoFar(
        plan=case.scenario.plan, conversation="\n".join(lines) or "(nothing was said yet)"
    )
    answer = (await user.answer(request, draw=draw, effects=effects)).value
    signal = case.scenario.stop_signal
    over = answer.done or bool(signal and signal in answer.remark)
    return None if over else answer.remark


# -- The base of metrics that look at a case turn by turn -----------------------------------------


EPSILON = 1e-9
"""A score this close to its threshold reaches it."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a metric says of one turn."""

    value: float | None
    """In [0, 1]; None when it could not be had, which is not 0."""
    reason: str = ""
    """On failure: what to change, in words a prompt engineer can act on."""
    passed: bool | None = None
    """The metric's own opinion, where there is one beside the number."""
    details: Mapping[str, Json] = field(default_factory=dict[str, Json])

    @classmethod
    def of(cls, *, held: bool, reason: str = "", **details: Json) -> "Verdict":
        """1 or 0; the reason is kept only where it did not hold."""
        return cls(value=float(held), reason="" if held else reason, details=details)

    @classmethod
    def missing(cls, reason: str) -> "Verdict":
        """No score, and why."""
        return cls(value=None, reason=reason)


@dataclass(frozen=True, kw_only=True)
class TurnMetric(ABC):
    """Scores a case turn by turn: one score, or one a turn where there are several."""

    name: str
    threshold: float | None = None
    """From here on a score passes; without one the metric's own opinion counts, else above 0."""
    explicit: bool = False
    """Look only at turns that ask for this metric by name."""

    version: ClassVar[int] = 1
    """Raised when the same settings come to mean something else."""

    @property
    def fingerprint(self) -> str:
        """A hash of what it is and how it is set."""
        kind: type[Any] = type(self)
        return short_id([kind.__name__, self.version, codec(kind).encode(self)])

    def estimate(self, case: Case) -> Spend:
        """What scoring this case will cost; nothing for a metric that computes."""
        del case
        return NOTHING

    @abstractmethod
    async def verdict(self, exchange: Exchange, *, effects: Effects) -> Verdict | None:
        """What to say of one turn; None where the metric does not apply to it."""

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """A score for every turn that this metric has something to say about."""
        return await self.score_turns(exchanges(case, outcome), effects=effects)

    async def score_turns(
        self, turns: Sequence[Exchange], *, effects: Effects, several: bool | None = None
    ) -> list[Score]:
        """The same for some turns of a case; `several` says whether it has more than one."""
        seen = [exchange for exchange in turns if self.looks_at(exchange)]
        verdicts = await self.verdicts(seen, effects=effects)
        named = len(turns) > 1 if several is None else several
        return [
            self._score(verdict, exchange.index if named else None)
            for exchange, verdict in zip(seen, verdicts, strict=True)
            if verdict is not None
        ]

    async def verdicts(
        self, seen: Sequence[Exchange], *, effects: Effects
    ) -> Sequence[Verdict | None]:
        """What to say of each turn."""
        return [await self.verdict(exchange, effects=effects) for exchange in seen]

    def looks_at(self, exchange: Exchange) -> bool:
        """Whether the turn asks for this metric, or for none in particular."""
        named = exchange.turn.metrics
        return self.name in named or not (named or self.explicit)

    def passes(self, verdict: Verdict) -> bool | None:
        """The threshold decides, else the metric's own opinion, else any score above 0."""
        if verdict.value is None:
            return None
        if self.threshold is not None:
            return verdict.value >= self.threshold - EPSILON
        return verdict.value > 0 if verdict.passed is None else verdict.passed

    def _score(self, verdict: Verdict, turn: int | None) -> Score:
        return Score(
            metric=self.name,
            value=verdict.value,
            passed=self.passes(verdict),
            reason=verdict.reason,
            turn=turn,
            details=verdict.details,
        )


@dataclass(frozen=True, kw_only=True)
class ComputedMetric(TurnMetric):
    """A metric that asks nobody: its verdict is a function of the exchange."""

    @abstractmethod
    def compute(self, exchange: Exchange) -> Verdict | None:
        """What to say of one turn; None where the metric does not apply to it."""

    async def verdict(self, exchange: Exchange, *, effects: Effects) -> Verdict | None:
        """Compute it."""
        del effects
        return self.compute(exchange)


# -- Metrics that a case or a turn sets differently -----------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Layered:
    """One metric's name, and how it is set here and there.

    A turn's own list of metrics replaces its case's, and a case's replaces the agent's: where
    the list that counts does not name this metric, it says nothing.
    """

    name: str
    default: TurnMetric | None
    places: Mapping[str, tuple[TurnMetric | None, ...]] = field(
        default_factory=dict[str, tuple[TurnMetric | None, ...]]
    )
    """By case, one for each of its turns; cases that are not here take the default."""

    @property
    def fingerprint(self) -> str:
        """A hash of every setting."""
        places: dict[str, Json] = {
            case: [metric.fingerprint if metric else None for metric in metrics]
            for case, metrics in self.places.items()
        }
        return short_id([self.default.fingerprint if self.default else None, places])

    def estimate(self, case: Case) -> Spend:
        """What scoring this case will cost: at most what its dearest setting would."""
        metrics = {metric.fingerprint: metric for metric in self._metrics(case) if metric}
        return total(metric.estimate(case) for metric in metrics.values()) if metrics else NOTHING

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """Every turn's score by the metric that counts there."""
        seen = exchanges(case, outcome)
        metrics = self._metrics(case)
        by_metric: dict[str, tuple[TurnMetric, list[Exchange]]] = {}
        for exchange in seen:
            metric = metrics[min(exchange.index, len(metrics) - 1)]
            if metric is not None:
                by_metric.setdefault(metric.fingerprint, (metric, []))[1].append(exchange)
        several = len(seen) > 1
        scores: list[Score] = []
        for metric, turns in by_metric.values():
            scores += await metric.score_turns(turns, effects=effects, several=several)
        return sorted(scores, key=lambda score: score.turn or 0)

    def _metrics(self, case: Case) -> tuple[TurnMetric | None, ...]:
        return self.places.get(case.id, (self.default,) * len(case.turns))
