"""Telling an observer what happens, in order; what it raises ends the run.

Delivery is at least once. What was heard is marked in the run's journal, so that a run that is
gone on with does not tell it again.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress

from burnish.compat.promptiter.events import Event, Observer
from burnish.core.errors import BurnishError
from burnish.runs.run import Run


class ObserverFailed(BurnishError):
    """An observer raised: the run ends, and can be gone on with."""

    def __init__(self, event: Event, error: Exception) -> None:
        super().__init__(f'append run event "{event.kind.value}": {error}')


class Delivery:
    """Delivers events one after the other; an async observer hears the next when it is done."""

    def __init__(self, observer: Observer | None) -> None:
        self._observer = observer
        self._last: asyncio.Task[None] | None = None
        self._told: dict[str, int] = {}
        self.run: Run | None = None
        self.failed: ObserverFailed | None = None
        self.abort: Callable[[], object] = lambda: None
        """What ends the run when an async observer has failed."""

    def tell(self, event: Event, *, fresh: bool) -> None:
        """Tell now, or as soon as the events before were heard; not what was heard before.

        `fresh` says that the run has never been at this stage.
        """
        run, key = self.run, self._key(event)
        if self._observer is None or run is None or self.failed is not None:
            return
        if (run.replaying and not fresh) or run.directory.journal.mark(key) is not None:
            return
        try:
            heard = self._observer(event)
        except Exception as error:
            self.failed = ObserverFailed(event, error)
            raise self.failed from error
        if inspect.isawaitable(heard):
            self._last = asyncio.ensure_future(self._heard(self._last, event, heard, run, key))
        else:
            run.directory.journal.set_mark(key, "heard")

    async def settled(self) -> None:
        """Wait until all was heard. Raises what an observer raised."""
        if self._last is not None:
            await self._last
        if self.failed is not None:
            raise self.failed

    async def dropped(self) -> None:
        """Leave nothing running."""
        if self._last is not None:
            self._last.cancel()
            with suppress(asyncio.CancelledError):
                await self._last

    def _key(self, event: Event) -> str:
        """A name for the event; a round of several candidates has some stages several times."""
        name = f"observer:{event.round}:{event.kind.value}"
        self._told[name] = place = self._told.get(name, 0) + 1
        return f"{name}:{place}"

    async def _heard(
        self,
        before: "asyncio.Task[None] | None",
        event: Event,
        heard: Awaitable[None],
        run: Run,
        key: str,
    ) -> None:
        if before is not None:
            await before
        if self.failed is not None:
            _drop(heard)
            return
        try:
            await heard
        except Exception as error:  # noqa: BLE001 - the user's own, told by the run
            self.failed = ObserverFailed(event, error)
            self.abort()
        else:
            run.directory.journal.set_mark(key, "heard")


def _drop(heard: Awaitable[None]) -> None:
    """A coroutine that nobody will wait for is closed, or Python complains."""
    if inspect.iscoroutine(heard):
        heard.close()
