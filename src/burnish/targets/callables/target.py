"""One conversation with an agent: what was said, what came back, and what it adds up to."""

import math
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from pydantic_core import PydanticSerializationError, to_jsonable_python

from burnish.core.cases import Case, Message
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem, RoleFailed
from burnish.core.money import Spend, to_nano
from burnish.core.outcomes import Failure, FailureKind, Outcome, Step, Trace, Usage
from burnish.core.protocols import Description, Effects, Receipt, Role
from burnish.core.surfaces import Candidate, Origin, Surface
from burnish.metrics.json_matching import parse_json, read_path
from burnish.metrics.text_matching import a_kind, counted, spelled
from burnish.metrics.turns import DEFAULT_TURNS, NextRemark, TalkSoFar, converse
from burnish.tracing.steps import leave, left_behind


class AgentUnreachable(ConnectionError):
    """Nobody answered, or somebody said to come back later: not the agent's fault."""


def failed(message: str, error: str) -> Outcome:
    """The agent's own failure."""
    return Outcome(
        failure=Failure(kind=FailureKind.AGENT, message=message, error=error), nano_usd=None
    )


def of_value(value: object) -> Outcome:
    """What a Python function returned: text, something structured, or an outcome of its own."""
    if isinstance(value, Outcome):
        return value
    if isinstance(value, str):
        return Outcome(replies=(value,), nano_usd=None)
    if value is None:
        return failed("the agent returned None: it should return what it says", "InvalidReply")
    try:
        structured: Json = to_jsonable_python(value)
    except (PydanticSerializationError, ValueError) as error:
        cause = f"the agent returned {type(value).__name__}, which is neither text nor JSON"
        return failed(f"{cause}: {error}", "InvalidReply")
    return _structured(structured)


def of_text(text: str, path: str = "") -> Outcome:
    """What an endpoint or a command wrote: all of it, or what stands at a path in its JSON."""
    if not path:
        whole = parse_json(text).value
        return Outcome(
            replies=(text,),
            data=whole if isinstance(whole, dict | list) else None,
            nano_usd=None,
        )
    reading = parse_json(text)
    if not reading.problem:
        reading = read_path(reading.value, path)
    if not reading.problem and reading.value is None:
        return failed(f"'{path}' is {a_kind(None)}: there is no reply", "InvalidReply")
    if reading.problem:
        return failed(f"no reply could be read: {reading.problem}", "InvalidReply")
    value = reading.value
    return (
        Outcome(replies=(value,), nano_usd=None) if isinstance(value, str) else _structured(value)
    )


def _structured(value: Json) -> Outcome:
    return Outcome(replies=(spelled(value),), data=value, nano_usd=None)


# -- One conversation with an agent ---------------------------------------------------------------


_NODE = "agent"


@dataclass(frozen=True, kw_only=True)
class TurnInput:
    """What an agent is given in one turn."""

    input: str
    history: tuple[Message, ...] = ()
    """What was said before, on both sides."""
    session: str = ""
    """The same in all turns of one conversation, and in no other."""

    def messages(self) -> list[Json]:
        """The history as agents are given it: `{role, content}` each."""
        return [{"role": each.role, "content": each.content} for each in self.history]


Reply: TypeAlias = Callable[[TurnInput], Awaitable[Outcome]]
"""An agent in one conversation."""


class AgentStopped(Exception):
    """The agent failed, so the conversation ends here; what it gave is in the talk."""


@dataclass(frozen=True, kw_only=True)
class _Exchanged:
    """One turn that was had."""

    question: str
    outcome: Outcome
    seconds: float


@dataclass(kw_only=True)
class _AgentTalk:
    """A conversation under way."""

    reply: Reply
    session: str
    usd_per_call: int | None = None
    """What a call costs in nano-dollars, whatever the agent says of it."""
    history: list[Message] = field(default_factory=list[Message])
    turns: list[_Exchanged] = field(default_factory=list[_Exchanged])

    async def say(self, message: str) -> str:
        """Say something and get the reply. Raises AgentStopped when there is none."""
        turn = TurnInput(input=message, history=tuple(self.history), session=self.session)
        started = time.perf_counter()
        left: list[Trace] = []
        try:
            with left_behind() as left:
                outcome = await self.reply(turn)
        except BaseException:
            leave(Trace(steps=tuple(_steps([*self.turns, *_broken_off(message, left)]))))
            raise
        if self.usd_per_call is not None:
            outcome = replace(outcome, nano_usd=self.usd_per_call)
        seconds = time.perf_counter() - started
        self.turns.append(_Exchanged(question=message, outcome=outcome, seconds=seconds))
        if outcome.failure is not None:
            raise AgentStopped
        self.history.append(Message(role="user", content=message))
        self.history.append(Message(role="assistant", content=outcome.output))
        return outcome.output

    def spend(self) -> Spend:
        """What the calls cost, as far as anybody said."""
        usage = _usage(turn.outcome for turn in self.turns)
        prices = [turn.outcome.nano_usd for turn in self.turns]
        return Spend(
            calls=len(self.turns),
            tokens_in=usage.input_tokens,
            tokens_out=usage.output_tokens,
            nano_usd=sum(price for price in prices if price is not None),
            unpriced=sum(price is None for price in prices),
        )

    def outcome(self) -> Outcome:
        """What the conversation gave."""
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
            usage=_usage(outcomes),
            nano_usd=sum(prices) if len(prices) == len(outcomes) else None,
            seconds=math.fsum(turn.seconds for turn in self.turns),
            failure=last.failure,
        )


def _usage(outcomes: Iterable[Outcome]) -> Usage:
    return sum((outcome.usage for outcome in outcomes), Usage())


def _steps(turns: Sequence[_Exchanged]) -> list[Step]:
    """The agent's own steps where it told them, else one a turn; each turn follows the last."""
    steps: list[Step] = []
    for number, turn in enumerate(turns):
        before = _ends(steps)
        own = turn.outcome.trace.steps
        steps += _renamed(own, number, before) if own else [_step(turn, number, before)]
    return steps


def _broken_off(question: str, left: Sequence[Trace]) -> list[_Exchanged]:
    """A turn that raised, as far as its steps are known."""
    return (
        [_Exchanged(question=question, outcome=Outcome(trace=left[-1]), seconds=0.0)]
        if left
        else []
    )


def _ends(steps: Sequence[Step]) -> tuple[str, ...]:
    """The steps that nothing follows yet."""
    followed = {name for step in steps for name in step.predecessors}
    return tuple(step.id for step in steps if step.id not in followed)


def _step(turn: _Exchanged, number: int, before: tuple[str, ...]) -> Step:
    outcome = turn.outcome
    return Step(
        id=f"turn {number + 1}",
        node=_NODE,
        turn=number,
        predecessors=before,
        input=turn.question,
        output=outcome.output if outcome.data is None else outcome.data,
        error=outcome.failure.message if outcome.failure else "",
        usage=outcome.usage,
        seconds=turn.seconds,
    )


def _renamed(own: Sequence[Step], number: int, before: tuple[str, ...]) -> list[Step]:
    """Steps of one turn, under names that no other turn has."""
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


# -- What all agents that are called have in common -----------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CallingTarget(ABC):
    """An agent that is called turn by turn.

    A run of a case is one conversation, journaled as a whole: an agent with a memory cannot be
    taken up in the middle. Whatever the agent raises is for the run to judge.
    """

    version: str = ""
    """Change it when the agent changed in a way that burnish cannot see."""
    usd_per_call: float | None = None
    """What a call costs; None where that is not known, which is not 0."""
    user: Role[TalkSoFar, NextRemark] | None = None
    """Who plays the user in scenarios."""
    leaf: bool = True

    def __post_init__(self) -> None:
        if problems := self.problems():
            raise ConfigError(problems)

    def problems(self) -> Sequence[Problem]:
        """What is wrong with the settings, each with the setting it is about."""
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
        """The agent at the beginning of a conversation."""

    @property
    def surfaces(self) -> Sequence[Surface]:
        """Nothing: what is inside such an agent is not known."""
        return ()

    @property
    def baseline(self) -> Candidate:
        """The agent as it is."""
        return Candidate(values={}, origin=Origin(kind="baseline"))

    def check(self, candidate: Candidate) -> Sequence[Problem]:
        """There is nothing to be wrong with."""
        del candidate
        return ()

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        """There is nothing to adopt."""
        del candidate, home
        return {}

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects
    ) -> Receipt[Outcome]:
        """Have the conversation of a case."""
        del candidate
        async with self.conversation() as reply:
            talk = _AgentTalk(
                reply=reply,
                session=uuid.uuid4().hex,
                usd_per_call=self._nano_per_call,
                history=list(case.history),
            )
            outcome = await self._had(talk, case, draw=draw, effects=effects)
        return Receipt(value=outcome, spend=talk.spend())

    async def _had(self, talk: _AgentTalk, case: Case, *, draw: int, effects: Effects) -> Outcome:
        try:
            if case.scenario is None:
                for turn in case.turns:
                    await talk.say(turn.input)
                return talk.outcome()
            await converse(case, talk.say, user=self._player(case), draw=draw, effects=effects)
        except AgentStopped:
            if case.scenario is None:
                return talk.outcome()
        except RoleFailed as error:
            return replace(talk.outcome(), failure=_nobody_played(error))
        return replace(talk.outcome(), asked=tuple(turn.question for turn in talk.turns))

    def _player(self, case: Case) -> Role[TalkSoFar, NextRemark]:
        if self.user is None:
            raise ConfigError([no_player(case)])
        return self.user

    def estimate(self, case: Case) -> Spend:
        """A call a turn; a scenario may take as many turns as it is allowed."""
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
        """The description, with what every such agent has."""
        common: dict[str, Json] = {"version": self.version} if self.version else {}
        if self.user is not None:
            common["user_simulator"] = self.user.fingerprint
        return Description(kind=kind, config={**config, **common})


def no_player(case: Case) -> Problem:
    """What to say of a scenario that nobody can play."""
    return Problem(
        where=case.id,
        message="this case is a scenario, and there is nobody to play its user",
        remedy="name a model that plays it: user_simulator: openai:gpt-4o-mini",
    )


def _nobody_played(error: RoleFailed) -> Failure:
    return Failure(
        kind=FailureKind.INFRASTRUCTURE,
        message=f"the user could not be played: {error.message}",
        error=type(error).__name__,
    )


# -- Notes ----------------------------------------------------------------------------------------


def notes_for(target: CallingTarget, cases: Sequence[Case]) -> tuple[str, ...]:
    """What the user should know before the start."""
    live = [case for case in cases if case.recorded is None]
    return tuple(_notes(target, live))


def _notes(target: CallingTarget, cases: Sequence[Case]) -> Iterator[str]:
    talks = sum(len(case.turns) > 1 or case.scenario is not None for case in cases)
    earlier = sum(bool(case.history) for case in cases)
    files = sum(any(turn.attachments for turn in case.turns) for case in cases)
    tools = sum(any(turn.expected_tools is not None for turn in case.turns) for case in cases)
    if talks and not target.remembers:
        rest = f"{counted(talks, 'case')} of several turns: each turn is asked on its own"
        yield f"the agent keeps no memory, and there {_is(talks)} {rest}"
    if earlier and not target.remembers:
        rest = "begin in the middle of a conversation, which the agent is not told"
        yield f"{counted(earlier, 'case')} {rest}"
    if files:
        yield f"{counted(files, 'case')} come with files: the agent is given the text only"
    if tools:
        rest = "expect tools: which tools the agent used is not known, so that is not scored"
        yield f"{counted(tools, 'case')} {rest}"


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def price_notes(target: CallingTarget, *, settable: bool = True) -> tuple[str, ...]:
    """What to say where nobody knows what a call costs; `settable` where the file could tell."""
    if target.usd_per_call is not None:
        return ()
    message = "what a call of the agent costs is not known, unless it says so itself"
    how = " (usd_per_call says it)" if settable else ""
    return (f"{message}: US dollars leave it out{how}",)
