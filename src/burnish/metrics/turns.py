"""The turns that metrics score, simulated users, and classes of failures."""

import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_validator

from burnish.core.cases import Attachment, Case, Outcome, Step, ToolCall, Turn
from burnish.core.content import Json, codec, short_id
from burnish.core.evaluations import CaseResult, Score
from burnish.core.money import NOTHING, Spend, total
from burnish.core.protocols import Effects, Role
from burnish.metrics.tool_matching import compare_arguments
from burnish.models.chat import ModelClient
from burnish.models.roles import ModelRole, RolePrompt


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One turn: what the user said, what is expected, and what the agent did."""

    case: Case
    turn: Turn
    index: int = 0
    asked: str
    reply: str
    data: Json = None
    """The structured answer, if any."""
    steps: tuple[Step, ...] = ()
    earlier: tuple[tuple[str, str], ...] = ()
    """Earlier messages with their replies."""
    earlier_steps: tuple[Step, ...] = ()

    @property
    def expected(self) -> str | None:
        return self.turn.expected

    @cached_property
    def tools(self) -> tuple[ToolCall, ...]:
        return tuple(tool for step in self.steps for tool in step.tools)

    @property
    def tools_known(self) -> bool:
        """Whether the run says which tools were called in this turn; none called is known too."""
        return any(step.tools_known for step in self.steps)

    @cached_property
    def tools_so_far(self) -> tuple[ToolCall, ...]:
        """The tool calls up to and including this turn."""
        return tuple(tool for step in self.earlier_steps for tool in step.tools) + self.tools

    @cached_property
    def passages(self) -> tuple[str, ...]:
        """The context of the case, or what tools retrieved."""
        return self.turn.context or tuple(p for tool in self.tools for p in tool.passages)


def exchanges(case: Case, outcome: Outcome) -> tuple[Exchange, ...]:
    """The turns of a case with their replies, in order.

    If a model played the user, only the first turn comes from the case. A turn without a reply has
    an empty one.
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


class FailureClass(StrEnum):
    """The kind of a failure."""

    WRONG_TOOL = "wrong tool"
    WRONG_ARGUMENTS = "wrong arguments"
    ROUTING = "routing"
    FORMAT = "format"
    KNOWLEDGE = "knowledge"
    FINAL_ANSWER = "final answer"


ROUTE = "route"
"""The extra of a case with the nodes that its run should visit, in order."""
_FORMAT = re.compile(r"format|json|xml|schema|regex|length|valid", re.IGNORECASE)
_KNOWLEDGE = re.compile(r"knowledge|faithful|ground|hallucin|context|recall", re.IGNORECASE)
_INVALID = re.compile(r"invalid|schema|json|parse|output validation", re.IGNORECASE)


def failure_class(case: Case, result: CaseResult, failed: Sequence[Score]) -> FailureClass:
    """The kind of failure: the earliest visible cause wins."""
    steps = result.outcome.trace.steps
    if _left_the_route(case, steps):
        return FailureClass.ROUTING
    for number, turn in enumerate(case.turns if steps else ()):
        used = [call for step in steps if step.turn == number for call in step.tools]
        if (failure := _of_turn(turn, used)) is not None:
            return failure
    if result.outcome.failure is not None:
        broken = _INVALID.search(result.outcome.failure.message)
        return FailureClass.FORMAT if broken else FailureClass.FINAL_ANSWER
    names = [score.metric for score in failed]
    if names and all(_FORMAT.search(name) for name in names):
        return FailureClass.FORMAT
    if any(_KNOWLEDGE.search(name) for name in names):
        return FailureClass.KNOWLEDGE
    return FailureClass.FINAL_ANSWER


def _left_the_route(case: Case, steps: Sequence[Step]) -> bool:
    """Whether the run missed a node of the route; a name may be the end of a path."""
    route = case.extras.get(ROUTE)
    if not isinstance(route, list) or not steps:
        return False
    nodes = iter(f"/{step.node}" for step in steps)
    return not all(any(node.endswith(f"/{name}") for node in nodes) for name in route)


def _of_turn(turn: Turn, used: Sequence[ToolCall]) -> FailureClass | None:
    if turn.expects_no_tool and used:
        return FailureClass.WRONG_TOOL
    wrong: FailureClass | None = None
    for tool in (*(turn.expected_tools or ()), *(turn.expected_calls or ())):
        named = [call for call in used if tool.name in call.name]
        if not named:
            return FailureClass.WRONG_TOOL
        if all(compare_arguments(tool.arguments, call.arguments) for call in named):
            wrong = FailureClass.WRONG_ARGUMENTS
    return wrong


ROLE = "user_simulator"
DEFAULT_TURNS = 20
"""The limit for scenarios without one: two models can talk for ever."""


class TalkSoFar(BaseModel):
    """What the simulated user sees."""

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
    """A finished conversation."""

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
    reply: Callable[[str], Awaitable[str]],
    *,
    user: Role[TalkSoFar, NextRemark],
    draw: int,
    effects: Effects,
) -> Talk:
    """Run the conversation of a scenario; every remark is its own effect.

    Raises RoleFailed if the user cannot be simulated, and then the result is missing.
    """
    assert case.scenario is not None, "only a scenario has a user to play"
    plan, signal = case.scenario.plan, case.scenario.stop_signal
    talk: list[tuple[str, str]] = []
    remark = case.input.strip()
    while len(talk) < (case.scenario.max_turns or DEFAULT_TURNS):
        if not remark:
            lines = [f"user: {message}\nagent: {answer}" for message, answer in talk]
            conversation = "\n".join(lines) or "(nothing was said yet)"
            request = TalkSoFar(plan=plan, conversation=conversation)
            following = (await user.answer(request, draw=draw, effects=effects)).value
            remark = following.remark
            if following.done or (signal and signal in remark):
                break
        talk.append((remark, await reply(remark)))
        remark = ""
    return Talk(
        asked=tuple(message for message, _ in talk), replies=tuple(answer for _, answer in talk)
    )


async def play(
    case: Case,
    say: Callable[[str, Sequence[Attachment]], Awaitable[str]],
    *,
    user: Role[TalkSoFar, NextRemark] | None,
    draw: int,
    effects: Effects,
) -> tuple[str, ...]:
    """Run the turns of a case; return the simulated user's remarks if it is a scenario."""
    if case.scenario is None:
        for turn in case.turns:
            await say(turn.input, turn.attachments)
        return ()
    assert user is not None, "a scenario was let through without a user to play it"
    files = list(case.turns[0].attachments)

    async def reply(remark: str) -> str:
        opening, files[:] = list(files), []
        return await say(remark, opening)

    return (await converse(case, reply, user=user, draw=draw, effects=effects)).asked


EPSILON = 1e-9
"""Scores this close to a threshold reach it."""
NEEDS_REFERENCE = "an expected answer"
NEEDS_PASSAGES = "retrieved passages, or a context in the case"
TOOLS_UNKNOWN = "the tools that the agent called in this turn are not known: its run recorded none"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result of a metric for one turn."""

    value: float | None
    """In [0, 1]; None if it is missing, which is not 0."""
    reason: str = ""
    """On failure: what to change, in words a prompt engineer can act on."""
    passed: bool | None = None
    """The metric's own pass or fail, if it has one besides the number."""
    details: Mapping[str, Json] = field(default_factory=dict[str, Json])
    unreachable: bool = False
    """Whether it is missing because nobody answered, rather than something of no use."""

    @classmethod
    def of(cls, *, held: bool, reason: str = "", **details: Json) -> "Verdict":
        """1 and a pass, or 0 and a fail; the reason is kept only on failure."""
        kept = "" if held else reason
        return cls(value=float(held), passed=held, reason=kept, details=details)

    @classmethod
    def missing(cls, reason: str, *, unreachable: bool = False) -> "Verdict":
        """No score, and the reason."""
        return cls(value=None, reason=reason, unreachable=unreachable)


@dataclass(frozen=True, kw_only=True)
class TurnMetric(ABC):
    """Scores a case turn by turn."""

    name: str
    threshold: float | None = None
    """Scores from here on pass; if None, only a verdict of yes or no passes or fails."""
    explicit: bool = False
    """Score only turns that name this metric."""

    version: ClassVar[int] = 1
    """Increased when the same settings change their meaning."""

    needs: ClassVar[str] = ""
    """What a turn must have to be scored, in words; empty if every turn is."""

    @property
    def graded(self) -> bool:
        """Whether scores lie between 0 and 1, so that only a threshold makes a pass of them."""
        return False

    @property
    def judges(self) -> bool:
        """Whether its scores pass or fail."""
        return self.threshold is not None or not self.graded

    @property
    def fingerprint(self) -> str:
        kind: type[Any] = type(self)
        return short_id([kind.__name__, self.version, codec(kind).encode(self)])

    def estimate(self, case: Case) -> Spend:
        """The expected cost of scoring this case."""
        del case
        return NOTHING

    @abstractmethod
    async def verdict(self, exchange: Exchange, *, effects: Effects) -> Verdict | None:
        """The verdict on a turn; None to skip it."""

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """The scores of all turns that are not skipped."""
        return await self.score_turns(exchanges(case, outcome), effects=effects)

    async def score_turns(
        self, turns: Sequence[Exchange], *, effects: Effects, several: bool | None = None
    ) -> list[Score]:
        """The scores of some turns; `several` says whether the case has more than one."""
        seen = [exchange for exchange in turns if self.looks_at(exchange)]
        verdicts = await self.verdicts(seen, effects=effects)
        named = len(turns) > 1 if several is None else several
        return [
            Score(
                metric=self.name,
                value=verdict.value,
                passed=self.passes(verdict),
                reason=verdict.reason,
                turn=exchange.index if named else None,
                details=verdict.details,
                unreachable=verdict.unreachable,
            )
            for exchange, verdict in zip(seen, verdicts, strict=True)
            if verdict is not None
        ]

    async def verdicts(
        self, seen: Sequence[Exchange], *, effects: Effects
    ) -> Sequence[Verdict | None]:
        """The verdicts on these turns."""
        return [await self.verdict(exchange, effects=effects) for exchange in seen]

    def looks_at(self, exchange: Exchange) -> bool:
        """Whether the turn names this metric, or none."""
        named = exchange.turn.metrics
        return self.name in named or not (named or self.explicit)

    def passes(self, verdict: Verdict) -> bool | None:
        """The threshold decides, else the verdict's own yes or no; None if there is neither."""
        if verdict.value is None:
            return None
        if self.threshold is not None:
            return verdict.value >= self.threshold - EPSILON
        return None if self.graded else verdict.passed


@dataclass(frozen=True, kw_only=True)
class ComputedMetric(TurnMetric):
    """A metric without model calls."""

    @abstractmethod
    def compute(self, exchange: Exchange) -> Verdict | None:
        """The verdict on a turn; None to skip it."""

    async def verdict(self, exchange: Exchange, *, effects: Effects) -> Verdict | None:
        del effects
        return self.compute(exchange)


@dataclass(frozen=True, kw_only=True)
class Layered:
    """A metric with other settings for some cases or turns.

    The list of metrics of a turn replaces that of its case, which replaces that of the agent; a
    metric that is not in the list is skipped.
    """

    name: str
    default: TurnMetric | None
    places: Mapping[str, tuple[TurnMetric | None, ...]] = field(
        default_factory=dict[str, tuple[TurnMetric | None, ...]]
    )
    """By case, a metric for each turn; other cases use the default."""

    @property
    def needs(self) -> str:
        """What its metrics need, where it is the same for all cases."""
        return self.default.needs if self.default else ""

    @property
    def judges(self) -> bool:
        """Whether the scores of any case pass or fail."""
        metrics = [self.default, *(each for turns in self.places.values() for each in turns)]
        return any(metric.judges for metric in metrics if metric)

    @property
    def fingerprint(self) -> str:
        places: dict[str, Json] = {
            case: [metric.fingerprint if metric else None for metric in metrics]
            for case, metrics in self.places.items()
        }
        return short_id([self.default.fingerprint if self.default else None, places])

    def estimate(self, case: Case) -> Spend:
        """The expected cost of scoring this case with all its settings."""
        metrics = {metric.fingerprint: metric for metric in self._metrics(case) if metric}
        return total(metric.estimate(case) for metric in metrics.values()) if metrics else NOTHING

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """The scores of all turns, each by its own metric."""
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
