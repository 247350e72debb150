"""Running many units of work at once on asyncio, with results in a fixed order."""

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Sized,
)
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Unit = TypeVar("Unit")
Result = TypeVar("Result")

SPREAD = 0.0005
"""Seconds between the first units: what starts together ends together, and then queues for
everything at once."""
WINDOW = 8
"""Finished results may wait for a slow one before them: this many for each place."""


async def together(work: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """All of it at once, for a handful of calls: results, and the first error, in order."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        return [await task for task in tasks]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class AsyncioExecutor:
    """At most `concurrency` units at once, over all maps together."""

    def __init__(self, concurrency: int = 8) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, found {concurrency}")
        self.concurrency = concurrency
        self._places = asyncio.Semaphore(concurrency)

    async def map(
        self, units: Iterable[Unit], work: Callable[[Unit], Awaitable[Result]]
    ) -> AsyncGenerator[Result, None]:
        """The results in the units' order; an error is raised at its own place in that order.

        Close the iterator (`contextlib.aclosing`) to leave nothing running.
        """
        lane = _Lane(iter(units), work, self._places, room=WINDOW * self.concurrency)
        known = len(units) if isinstance(units, Sized) else self.concurrency
        count = max(1, min(self.concurrency, known))
        workers = [asyncio.create_task(lane.work(n * SPREAD)) for n in range(count)]
        try:
            async for result in lane.results():
                yield result
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)


@dataclass(frozen=True)
class _Raised:
    error: BaseException


class _Lane(Generic[Unit, Result]):
    """One map: workers take units in order, the reader takes results in order."""

    def __init__(
        self,
        units: Iterator[Unit],
        work: Callable[[Unit], Awaitable[Result]],
        places: asyncio.Semaphore,
        *,
        room: int,
    ) -> None:
        self._units = units
        self._work = work
        self._places = places
        self._room = room
        self._taken = 0
        self._given = 0
        self._ended = False
        self._done: dict[int, Result | _Raised] = {}
        self._news = asyncio.Event()
        self._space = asyncio.Event()

    async def work(self, delay: float) -> None:
        """Take units until there are none."""
        await asyncio.sleep(delay)
        while not self._ended:
            while self._taken - self._given >= self._room:
                self._space.clear()
                await self._space.wait()
            async with self._places:
                try:
                    unit = next(self._units)
                except StopIteration:
                    break
                index = self._taken
                self._taken += 1
                try:
                    self._done[index] = await self._work(unit)
                except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001
                    # Handed to the reader, in order, which would wait for ever otherwise.
                    self._done[index] = _Raised(error)
                    self._ended = True
            self._news.set()
        self._ended = True
        self._news.set()

    async def results(self) -> AsyncIterator[Result]:
        """The results in order."""
        while True:
            while self._given not in self._done:
                if self._ended and self._given >= self._taken:
                    return
                self._news.clear()
                await self._news.wait()
            result = self._done.pop(self._given)
            self._given += 1
            self._space.set()
            if isinstance(result, _Raised):
                raise result.error
            yield result
