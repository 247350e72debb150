"""Whose turn it is: many runs of one candidate at once, one candidate at a time."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(kw_only=True, eq=False)
class _Group:
    """Runs of one candidate that wait together."""

    candidate: str
    waiters: list[asyncio.Future[None]] = field(default_factory=list[asyncio.Future[None]])


class Turns:
    """First come, first served; whoever comes for the candidate whose turn it is joins it.

    Unless somebody waits for another one: then a new group forms behind, so that nobody waits
    for ever.
    """

    def __init__(self) -> None:
        self._candidate = ""
        self._inside = 0
        self._preparing = asyncio.Lock()
        self._queue: deque[_Group] = deque()

    @asynccontextmanager
    async def turn(self, candidate: str) -> AsyncGenerator[asyncio.Lock, None]:
        """While entered, no other candidate has its turn; the lock is for what its runs share."""
        await self._enter(candidate)
        try:
            yield self._preparing
        finally:
            self._leave()

    async def _enter(self, candidate: str) -> None:
        if not self._queue and (not self._inside or self._candidate == candidate):
            self._begin(candidate, self._inside + 1)
            return
        group = self._group(candidate)
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        group.waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():  # it was called just before it was cancelled
                self._leave()
                raise
            group.waiters.remove(waiter)
            if not group.waiters and group in self._queue:
                self._queue.remove(group)
            raise

    def _group(self, candidate: str) -> _Group:
        for group in self._queue:
            if group.candidate == candidate:
                return group
        self._queue.append(_Group(candidate=candidate))
        return self._queue[-1]

    def _leave(self) -> None:
        self._inside -= 1
        while not self._inside and self._queue:
            group = self._queue.popleft()
            # Those that were cancelled a moment ago are still in the list.
            called = [waiter for waiter in group.waiters if not waiter.done()]
            self._begin(group.candidate, len(called))
            for waiter in called:
                waiter.set_result(None)

    def _begin(self, candidate: str, inside: int) -> None:
        if not self._inside:
            # A lock belongs to the event loop in which it was first waited for.
            self._preparing = asyncio.Lock()
        self._candidate, self._inside = candidate, inside
