"""Effects that are looked up and never performed: to see what a run would do, for nothing."""

from collections.abc import Awaitable, Callable, Collection
from typing import Any, TypeVar

from burnish.core.content import Json
from burnish.core.effects import Call, Receipt, Scope
from burnish.core.errors import BurnishError

T = TypeVar("T")


class NotRehearsed(BurnishError):
    """A rehearsal came to something that it may not do; nobody but who rehearses sees this."""


class Rehearsal:
    """Answers from the journal; at the first effect that it may not use it ends.

    Nothing is performed, spent or kept. `within` are the keys that may be used; without it,
    everything that the journal holds.
    """

    def __init__(
        self, find: Callable[[str], Json], *, within: Collection[str] | None = None
    ) -> None:
        self._find = find
        self._within = within
        self.used: set[str] = set()
        self.ended = False
        """Whether there was something that it may not use. Stays, whoever catches the error."""

    async def once(self, call: Call[T], perform: Callable[[Scope], Awaitable[Receipt[T]]]) -> T:
        """The result as the journal has it."""
        del perform
        return call.codec.decode(self._known(call))

    def _known(self, call: Call[Any]) -> Json:
        allowed = not self.ended and (self._within is None or call.key in self._within)
        found = self._find(call.key) if allowed else None
        if found is None:
            self.ended = True
            raise NotRehearsed(f"the {call.kind} call {call.key[:12]} may not be used")
        self.used.add(call.key)
        return found
