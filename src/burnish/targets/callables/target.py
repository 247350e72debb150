"""Conversations with a called agent, the base of all such targets, and targets without surfaces."""

import math
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from burnish.core.cases import Case, Failure, FailureKind, Message, Outcome, Step, Trace, Usage
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem, RoleFailed
from burnish.core.money import NOTHING, Spend, to_nano
from burnish.core.protocols import Description, Effects, Receipt, Role
from burnish.core.surfaces import Candidate, Origin, Surface
from burnish.journal.outages import Cause, Setback
from burnish.metrics.document_matching import parse_json, read_path
from burnish.metrics.text_matching import a_kind, counted
from burnish.metrics.turns import DEFAULT_TURNS, NextRemark, TalkSoFar, converse
from burnish.models.errors import unreached
from burnish.targets.user_code import agent_failure, of_value
from burnish.tracing.steps import leave, left_behind

# -- Targets without surfaces ----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _FixedTarget:
    """A target with nothing to edit."""

    leaf: bool = True

    @property
    def surfaces(self) -> Sequence[Surface]:
        return ()

    @property
    def baseline(self) -> Candidate:
        return Candidate(values={}, origin=Origin(kind="baseline"))

    def check(self, candidate: Candidate) -> Sequence[Problem]:
        del candidate
        return ()

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        del candidate, home
        return {}


@dataclass(frozen=True, kw_only=True)
class RecordedTarget(_FixedTarget):
    """Has nothing to run: its cases are scored as recorded."""

    @property
    def description(self) -> Description:
        return Description(kind="recorded")

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects
    ) -> Receipt[Outcome]:
        """Refuse the case, because it has no recording."""
        del candidate, draw, effects
        message = "this case was not recorded, and there is no agent to run it"
        remedy = "give the recorded conversation, or an agent"
        raise ConfigError([Problem(where=case.id, message=message, remedy=remedy)])

    def estimate(self, case: Case) -> Spend:
        del case
        return NOTHING


# -- Agents that are called ------------------------------------------------------------------------


class AgentUnreachable(ConnectionError):
    """No answer, or an answer to come back later: not the agent's fault."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        """`status` is that of an HTTP answer to come back later."""
        super().__init__(message)
        self._status = status

    @property
    def setback(self) -> Setback:
        """How another attempt may succeed."""
        answered: Cause = "rate limited" if self._status == 429 else "busy"
        return Setback(cause=unreached(self) if self._status is None else answered)


def of_text(text: str, path: str = "") -> Outcome:
    """The outcome of an endpoint or command: its whole output, or a path in its JSON."""
    reading = parse_json(text)
    if not path:
        data = reading.value if isinstance(reading.value, dict | list) else None
        return Outcome(replies=(text,), data=data, nano_usd=None)
    if not reading.problem:
        reading = read_path(reading.value, path)
    if reading.problem:
        return agent_failure(
            f"no reply could be read: {reading.problem}", "InvalidReply", mendable=True
        )
    if reading.value is None:
        return agent_failure(
            f"'{path}' is {a_kind(None)}: there is no reply", "InvalidReply", mendable=True
        )
    return of_value(reading.value)


@dataclass(frozen=True, kw_only=True)
class TurnInput:
    """The input of an agent in one turn."""

    input: str
    data: Json = None
    """The input as what it was before it was spelled as JSON; None for a text."""
    history: tuple[Message, ...] = ()
    """The earlier messages of both sides."""
    session: str = ""
    """The same in all turns of one conversation, and in no other."""

    def messages(self) -> list[Json]:
        """The history as `{role, content}` each."""
        return [{"role": each.role, "content": each.content} for each in self.history]


Reply: TypeAlias = Callable[[TurnInput], Awaitable[Outcome]]
"""An agent in one conversation."""


class _AgentStopped(Exception):
    """The agent failed, so the conversation ends; the failure is in its last turn."""


@dataclass(frozen=True, kw_only=True)
class _Exchange:
    """One finished turn."""

    question: str
    outcome: Outcome
    seconds: float


@dataclass(kw_only=True)
class _AgentTalk:
    """A running conversation."""

    reply: Reply
    session: str
    usd_per_call: int | None = None
    """What a call costs in nano-dollars, whatever the agent reports."""
    history: list[Message] = field(default_factory=list[Message])
    turns: list[_Exchange] = field(default_factory=list[_Exchange])

    async def say(self, message: str, data: Json = None) -> str:
        """Send a message and return the reply. Raises _AgentStopped without one."""
        earlier = tuple(self.history)
        turn = TurnInput(input=message, data=data, history=earlier, session=self.session)
        started = time.perf_counter()
        left: list[Trace] = []
        try:
            with left_behind() as left:
                outcome = await self.reply(turn)
        except BaseException:  # cancelled or failed, the exchange is kept
            broken = [
                _Exchange(question=message, outcome=Outcome(trace=trace), seconds=0.0)
                for trace in left[-1:]
            ]
            leave(Trace(steps=tuple(_steps([*self.turns, *broken]))))
            raise
        if self.usd_per_call is not None:
            outcome = replace(outcome, nano_usd=self.usd_per_call)
        seconds = time.perf_counter() - started
        self.turns.append(_Exchange(question=message, outcome=outcome, seconds=seconds))
        if outcome.failure is not None:
            raise _AgentStopped
        self.history.append(Message(role="user", content=message))
        self.history.append(Message(role="assistant", content=outcome.output))
        return outcome.output

    def _usage(self) -> Usage:
        return sum((turn.outcome.usage for turn in self.turns), Usage())

    def spend(self) -> Spend:
        """What the calls cost, as far as is known."""
        usage = self._usage()
        prices = [turn.outcome.nano_usd for turn in self.turns]
        return Spend(
            calls=len(self.turns),
            tokens_in=usage.input_tokens,
            tokens_out=usage.output_tokens,
            nano_usd=sum(price for price in prices if price is not None),
            unpriced=sum(price is None for price in prices),
        )

    def outcome(self) -> Outcome:
        outcomes = [turn.outcome for turn in self.turns]
        prices = [outcome.nano_usd for outcome in outcomes if outcome.nano_usd is not None]
        last = outcomes[-1] if outcomes else Outcome()
        return Outcome(
            replies=tuple(outcome.output for outcome in outcomes if outcome.failure is None),
            data=last.data,
            measures={
                name: value for outcome in outcomes for name, value in outcome.measures.items()
            },
            trace=Trace(steps=tuple(_steps(self.turns))),
            usage=self._usage(),
            nano_usd=sum(prices) if len(prices) == len(outcomes) else None,
            seconds=math.fsum(turn.seconds for turn in self.turns),
            failure=last.failure,
        )


def _steps(turns: Sequence[_Exchange]) -> list[Step]:
    """The agent's own steps if it recorded any, else one per turn; each turn follows the last."""
    steps: list[Step] = []
    for number, turn in enumerate(turns):
        followed = {name for step in steps for name in step.predecessors}
        before = tuple(step.id for step in steps if step.id not in followed)
        own = turn.outcome.trace.steps
        steps += _renamed(own, number, before) if own else [_step(turn, number, before)]
    return steps


def _step(turn: _Exchange, number: int, before: tuple[str, ...]) -> Step:
    outcome = turn.outcome
    return Step(
        id=f"turn {number + 1}",
        node="agent",
        turn=number,
        predecessors=before,
        input=turn.question,
        output=outcome.output if outcome.data is None else outcome.data,
        tools_known=False,
        error=outcome.failure.message if outcome.failure else "",
        usage=outcome.usage,
        seconds=turn.seconds,
    )


def _renamed(own: Sequence[Step], number: int, before: tuple[str, ...]) -> list[Step]:
    """The steps of one turn under unique names."""
    return [
        replace(
            step,
            id=f"turn {number + 1}: {step.id}",
            turn=number,
            predecessors=tuple(f"turn {number + 1}: {name}" for name in step.predecessors)
            or before,
        )
        for step in own
    ]


@dataclass(frozen=True, kw_only=True)
class CallingTarget(_FixedTarget, ABC):
    """An agent that is called turn by turn.

    A run of a case is one conversation, journaled as a whole: an agent with a memory cannot be
    resumed in the middle. The run decides what the agent's errors mean.
    """

    version: str = ""
    """Change it when the agent changed in a way that burnish cannot see."""
    usd_per_call: float | None = None
    """What a call costs; None if unknown, which is not 0."""
    user: Role[TalkSoFar, NextRemark] | None = None
    """Plays the user in scenarios."""

    def __post_init__(self) -> None:
        if problems := self.problems():
            raise ConfigError(problems)

    def problems(self) -> Sequence[Problem]:
        """What is wrong with the settings."""
        return ()

    @property
    @abstractmethod
    def description(self) -> Description:
        """What it is, as data."""

    @property
    @abstractmethod
    def remembers(self) -> bool:
        """Whether a later turn can know of an earlier one."""

    @abstractmethod
    def conversation(self) -> AbstractAsyncContextManager[Reply]:
        """Start a conversation with the agent."""

    def conversation_with(self, candidate: Candidate) -> AbstractAsyncContextManager[Reply]:
        """The same with the values of a candidate, for agents that have surfaces."""
        del candidate
        return self.conversation()

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects
    ) -> Receipt[Outcome]:
        async with self.conversation_with(candidate) as reply:
            talk = _AgentTalk(
                reply=reply,
                session=uuid.uuid4().hex,
                usd_per_call=self._nano_per_call,
                history=list(case.history),
            )
            outcome = await self._converse(talk, case, draw=draw, effects=effects)
        return Receipt(value=outcome, spend=talk.spend())

    async def _converse(
        self, talk: _AgentTalk, case: Case, *, draw: int, effects: Effects
    ) -> Outcome:
        try:
            if case.scenario is None:
                for turn in case.turns:
                    value = turn.input_value
                    await talk.say(turn.input, None if isinstance(value, str) else value)
            elif self.user is None:
                raise ConfigError([no_player(case)])
            else:
                await converse(case, talk.say, user=self.user, draw=draw, effects=effects)
        except _AgentStopped:
            pass
        except RoleFailed as error:
            failure = Failure(
                kind=FailureKind.INFRASTRUCTURE,
                message=f"the user could not be simulated: {error.message}",
                error=type(error).__name__,
            )
            return replace(talk.outcome(), failure=failure)
        outcome = talk.outcome()
        if case.scenario is None:
            return outcome
        return replace(outcome, asked=tuple(turn.question for turn in talk.turns))

    def estimate(self, case: Case) -> Spend:
        """One call per turn; a scenario may take its maximum of turns."""
        price = self._nano_per_call
        one = Spend(calls=1, nano_usd=price or 0, unpriced=int(price is None))
        if case.scenario is None:
            return one.times(len(case.turns))
        turns = case.scenario.max_turns or DEFAULT_TURNS
        if self.user is not None:
            request = TalkSoFar(plan=case.scenario.plan, conversation="")
            one += self.user.estimate(request)
        return one.times(turns)

    @property
    def _nano_per_call(self) -> int | None:
        return None if self.usd_per_call is None else to_nano(self.usd_per_call)

    def _described(self, kind: str, config: Mapping[str, Json]) -> Description:
        """The description, with what every called agent has."""
        common: dict[str, Json] = {"version": self.version} if self.version else {}
        if self.user is not None:
            common["user_simulator"] = self.user.fingerprint
        return Description(kind=kind, config={**config, **common})


def no_player(case: Case) -> Problem:
    """The error for a scenario without a simulated user."""
    return Problem(
        where=case.id,
        message="this case is a scenario, but there is no model to simulate its user",
        remedy="set a model to simulate it: user_simulator: openai:gpt-4o-mini",
    )


def notes_for(target: CallingTarget, cases: Sequence[Case]) -> tuple[str, ...]:
    """What the user should know before the start."""
    live = [case for case in cases if case.recorded is None]
    talks = sum(len(case.turns) > 1 or case.scenario is not None for case in live)
    earlier = sum(bool(case.history) for case in live)
    files = sum(any(turn.attachments for turn in case.turns) for case in live)
    tools = sum(any(turn.expected_tools is not None for turn in case.turns) for case in live)
    notes: list[str] = []
    if talks and not target.remembers:
        rest = f"{counted(talks, 'case')} of several turns: each turn is a separate question"
        notes.append(f"the agent has no memory, but there {'is' if talks == 1 else 'are'} {rest}")
    if earlier and not target.remembers:
        what = f"{counted(earlier, 'case')} {'starts' if earlier == 1 else 'start'}"
        notes.append(f"{what} in the middle of a conversation, which the agent does not see")
    if files:
        what = f"{counted(files, 'case')} {'has' if files == 1 else 'have'}"
        notes.append(f"{what} files, but the agent only gets the text")
    if tools:
        what = f"{counted(tools, 'case')} {'expects' if tools == 1 else 'expect'}"
        notes.append(f"{what} tools, but the tools that the agent uses are unknown and not scored")
    return tuple(notes)


def price_notes(target: CallingTarget, *, settable: bool = True) -> tuple[str, ...]:
    """What to say if the cost of a call is unknown; `settable` if the file can set it."""
    if target.usd_per_call is not None:
        return ()
    message = "the cost of a call is unknown, unless the agent reports it"
    how = " (set usd_per_call)" if settable else ""
    return (f"{message}: US dollars do not include it{how}",)
