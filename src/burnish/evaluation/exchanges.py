"""Exchanges: one turn of a case beside what the agent made of it. What metrics look at."""

from dataclasses import dataclass
from functools import cached_property

from burnish.core.cases import Case, Turn
from burnish.core.content import Json
from burnish.core.outcomes import Outcome, Step, ToolCall


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
    asked = outcome.asked or tuple(turn.input for turn in case.turns)
    turns = [*case.turns, *(Turn(input=said) for said in asked[len(case.turns) :])]
    replies = [*outcome.replies, *[""] * len(asked)]
    last = len(asked) - 1
    return tuple(
        Exchange(
            case=case,
            turn=turns[index],
            index=index,
            asked=said,
            reply=replies[index],
            data=outcome.data if index == last else None,
            steps=tuple(step for step in outcome.trace.steps if step.turn == index),
            earlier_steps=tuple(step for step in outcome.trace.steps if step.turn < index),
            earlier=tuple(zip(asked[:index], replies[:index], strict=True)),
        )
        for index, said in enumerate(asked)
    )
