"""One conversation with an agent: what was said, what came back, and what it adds up to."""

import math
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from burnish.core.content import Json
from burnish.core.messages import Message
from burnish.core.money import Spend
from burnish.core.outcomes import Outcome, Step, Trace, Usage
from burnish.targets.tracing.leaving import leave, left_behind

NODE = "agent"


@dataclass(frozen=True, kw_only=True)
class Said:
    """What an agent is given in one turn."""

    input: str
    history: tuple[Message, ...] = ()
    """What was said before, on both sides."""
    session: str = ""
    """The same in all turns of one conversation, and in no other."""

    def messages(self) -> list[Json]:
        """The history as agents are given it: `{role, content}` each."""
        return [{"role": each.role, "content": each.content} for each in self.history]


Reply: TypeAlias = Callable[[Said], Awaitable[Outcome]]
"""An agent in one conversation."""


class AgentStopped(Exception):
    """The agent failed, so the conversation ends here; what it gave is in the talk."""


@dataclass(frozen=True, kw_only=True)
class Exchanged:
    """One turn that was had."""

    asked: str
    outcome: Outcome
    seconds: float


@dataclass(kw_only=True)
class AgentTalk:
    """A conversation under way."""

    reply: Reply
    session: str
    usd_per_call: int | None = None
    """What a call costs in nano-dollars, whatever the agent says of it."""
    history: list[Message] = field(default_factory=list[Message])
    turns: list[Exchanged] = field(default_factory=list[Exchanged])

    async def say(self, message: str) -> str:
        """Say something and get the reply. Raises AgentStopped when there is none."""
        said = Said(input=message, history=tuple(self.history), session=self.session)
        started = time.perf_counter()
        left: list[Trace] = []
        try:
            with left_behind() as left:
                given = await self.reply(said)
        except BaseException:
            leave(Trace(steps=tuple(_steps([*self.turns, *_broken_off(message, left)]))))
            raise
        if self.usd_per_call is not None:
            given = replace(given, nano_usd=self.usd_per_call)
        seconds = time.perf_counter() - started
        self.turns.append(Exchanged(asked=message, outcome=given, seconds=seconds))
        if given.failure is not None:
            raise AgentStopped
        self.history.append(Message(role="user", content=message))
        self.history.append(Message(role="assistant", content=given.output))
        return given.output

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
        prices = [given.nano_usd for given in outcomes if given.nano_usd is not None]
        last = outcomes[-1] if outcomes else Outcome()
        return Outcome(
            replies=tuple(given.output for given in outcomes if given.failure is None),
            data=last.data,
            measures={name: value for given in outcomes for name, value in given.measures.items()},
            trace=Trace(steps=tuple(_steps(self.turns))),
            usage=_usage(outcomes),
            nano_usd=sum(prices) if len(prices) == len(outcomes) else None,
            seconds=math.fsum(turn.seconds for turn in self.turns),
            failure=last.failure,
        )


def _usage(outcomes: Iterable[Outcome]) -> Usage:
    return sum((given.usage for given in outcomes), Usage())


def _steps(turns: Sequence[Exchanged]) -> list[Step]:
    """The agent's own steps where it told them, else one a turn; each turn follows the last."""
    steps: list[Step] = []
    for number, turn in enumerate(turns):
        before = _ends(steps)
        own = turn.outcome.trace.steps
        steps += _renamed(own, number, before) if own else [_step(turn, number, before)]
    return steps


def _broken_off(asked: str, left: Sequence[Trace]) -> list[Exchanged]:
    """A turn that raised, as far as its steps are known."""
    return [Exchanged(asked=asked, outcome=Outcome(trace=left[-1]), seconds=0.0)] if left else []


def _ends(steps: Sequence[Step]) -> tuple[str, ...]:
    """The steps that nothing follows yet."""
    followed = {name for step in steps for name in step.predecessors}
    return tuple(step.id for step in steps if step.id not in followed)


def _step(turn: Exchanged, number: int, before: tuple[str, ...]) -> Step:
    given = turn.outcome
    return Step(
        id=f"turn {number + 1}",
        node=NODE,
        turn=number,
        predecessors=before,
        input=turn.asked,
        output=given.output if given.data is None else given.data,
        error=given.failure.message if given.failure else "",
        usage=given.usage,
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
