"""Effects that are simply performed: no journal, for trying a target or a metric by hand."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from burnish.core.effects import Call, Effects, Receipt
from burnish.core.money import NOTHING, Spend

T = TypeVar("T")


class DirectEffects:
    """Performs every effect every time, and adds up what was spent."""

    def __init__(self) -> None:
        self.spent: Spend = NOTHING

    async def once(self, call: Call[T], perform: Callable[[Effects], Awaitable[Receipt[T]]]) -> T:
        """The result, straight from `perform`."""
        del call
        receipt = await perform(self)
        self.spent += receipt.spend
        return receipt.value
