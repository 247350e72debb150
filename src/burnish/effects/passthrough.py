"""Effects that are simply performed: no journal, for trying a target or a metric by hand."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from burnish.core.effects import Call, Receipt, Scope
from burnish.core.money import Spend, total

T = TypeVar("T")


class DirectEffects:
    """Performs every effect every time, and remembers what was used."""

    def __init__(self) -> None:
        self.used: dict[str, Spend] = {}

    @property
    def spent(self) -> Spend:
        """What it all cost."""
        return total(self.used.values())

    async def once(self, call: Call[T], perform: Callable[[Scope], Awaitable[Receipt[T]]]) -> T:
        """The result, straight from `perform`."""
        receipt = await perform(self)
        self.used[call.key] = self.used.get(call.key, Spend()) + receipt.spend
        return receipt.value
