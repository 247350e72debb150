"""Limits of endpoints: so many calls at once, so many a minute.

They are apart from the limit on cases: a case holds its own place while it waits for an
endpoint, and one shared limit would deadlock.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class EndpointLimit:
    """What one endpoint stands."""

    concurrency: int = 16
    per_minute: int | None = None


class Limits:
    """Gives out places at endpoints."""

    def __init__(
        self,
        limits: dict[str, EndpointLimit] | None = None,
        *,
        default: EndpointLimit | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._limits = limits or {}
        self._default = default or EndpointLimit()
        self._clock = clock
        self._sleep = sleep
        self._places: dict[str, asyncio.Semaphore] = {}
        self._next: dict[str, float] = {}

    @asynccontextmanager
    async def place(self, endpoint: str) -> AsyncGenerator[None, None]:
        """Hold a place at an endpoint for one call."""
        limit = self._limits.get(endpoint, self._default)
        places = self._places.setdefault(endpoint, asyncio.Semaphore(limit.concurrency))
        async with places:
            if limit.per_minute is not None:
                await self._pace(endpoint, 60.0 / limit.per_minute)
            yield

    async def _pace(self, endpoint: str, interval: float) -> None:
        now = self._clock()
        turn = max(now, self._next.get(endpoint, now))
        self._next[endpoint] = turn + interval
        if turn > now:
            await self._sleep(turn - now)
