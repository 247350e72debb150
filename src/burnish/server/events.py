"""Event streams of runs, read from the store once for all listeners."""

import asyncio
import json
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

from burnish.core.content import Json
from burnish.core.errors import BurnishError
from burnish.server.runs import TooManyListeners
from burnish.server.stores.records import RunEvent, RunMissing, RunStatus, RunStore

_LOOK_SECONDS = 1.0
"""How often the store is polled for events of other processes."""
_HEARTBEAT_SECONDS = 15.0
"""A comment is sent after this silence, or proxies would close the connection."""
_AT_ONCE = 200
_Frame = tuple[int, bytes]
"""The number of an event, and the event as it is sent."""


class _Tail:
    """The newest events of one run, while anyone is listening."""

    def __init__(self, store: RunStore, app_name: str, run_id: str, *, after: int) -> None:
        self._store = store
        self._run = (app_name, run_id)
        self._frames: deque[_Frame] = deque(maxlen=256)
        self._last = after
        self._news = asyncio.Event()
        self._changed = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        self._closed = False
        self.listeners = 0
        self.ended: RunStatus | None = None

    async def frames(self, after: int) -> AsyncGenerator[bytes, None]:
        """All events after a number, then new ones until the run ends."""
        self._reader = self._reader or asyncio.create_task(self._read())
        while not self._closed:
            signal = self._changed
            frames = await self._since(after)
            for number, content in frames:
                yield content
                after = number
            if frames:
                continue
            if self.ended is not None:
                # Without an id: a client that reconnects gets it again.
                yield f'event: end\ndata: {{"status":"{self.ended.value}"}}\n\n'.encode()
                return
            try:
                await asyncio.wait_for(signal.wait(), _HEARTBEAT_SECONDS)
            except TimeoutError:
                if not self._closed:
                    yield b": still here\n\n"

    def announce(self) -> None:
        self._news.set()

    def close(self) -> None:
        """End the streams without an `end` event."""
        self._closed = True
        self._wake()
        self._news.set()  # the reader ends by itself: cancelling would cut off a store's work

    async def _since(self, after: int) -> list[_Frame]:
        first = self._frames[0][0] if self._frames else self._last + 1
        if after + 1 >= first:
            return [frame for frame in self._frames if frame[0] > after]
        older = await self._store.events(*self._run, after=after, limit=_AT_ONCE)
        return [_frame(event) for event in older]

    async def _read(self) -> None:
        while self.ended is None and not self._closed:
            with suppress(BurnishError):  # a store in trouble is asked again
                await self._look()
            if self.ended is None and not self._closed:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._news.wait(), _LOOK_SECONDS)
                self._news.clear()

    async def _look(self) -> None:
        """Read new events; a run is over when it is finished and nothing is left to read."""
        try:
            status = (await self._store.get(*self._run, result=False)).status
        except RunMissing:
            status = RunStatus.CANCELED  # deleted meanwhile
        while events := await self._store.events(*self._run, after=self._last, limit=_AT_ONCE):
            self._frames.extend(_frame(event) for event in events)
            self._last = events[-1].number
            self._wake()
        if status.finished:
            self.ended = status
            self._wake()

    def _wake(self) -> None:
        signal, self._changed = self._changed, asyncio.Event()
        signal.set()


class Tails:
    """The runs that have listeners, and how many there may be."""

    def __init__(self, store: RunStore, *, most: int = 500, per_token: int = 100) -> None:
        self._store = store
        self._tails: dict[tuple[str, str], _Tail] = {}
        self._most, self._per_token = most, per_token
        self._listeners: Counter[str] = Counter()
        self._closed = False

    @property
    def listeners(self) -> int:
        return self._listeners.total()

    def admit(self, account: str) -> Callable[[], None]:
        """Take a place for a listener of an account, '' without a token; call the result once.

        TooManyListeners if there is no place.
        """
        if self.listeners >= self._most:
            raise TooManyListeners("listeners", self._most)
        if account and self._listeners[account] >= self._per_token:
            raise TooManyListeners("listeners_per_token", self._per_token)
        self._listeners[account] += 1

        def leave() -> None:
            self._listeners[account] -= 1
            self._listeners += Counter[str]()  # without those that have none

        return leave

    def announce(self, app_name: str, run_id: str) -> None:
        if (tail := self._tails.get((app_name, run_id))) is not None:
            tail.announce()

    async def listen(
        self, app_name: str, run_id: str, *, after: int, newest: int
    ) -> AsyncGenerator[bytes, None]:
        """The events of a run after a number; `newest` is the number of the last event now."""
        if self._closed:
            return  # admitted before the service began to close, and only now read
        key = (app_name, run_id)
        tail = self._tails.get(key)
        if tail is None:
            tail = self._tails[key] = _Tail(self._store, *key, after=newest)
        tail.listeners += 1
        try:
            async for frame in tail.frames(after):
                yield frame
        finally:
            tail.listeners -= 1
            if not tail.listeners:
                tail.close()
                if self._tails.get(key) is tail:
                    del self._tails[key]

    def close(self) -> None:
        """End every stream, also those that have a place and have not begun."""
        self._closed = True
        for tail in self._tails.values():
            tail.close()


def _frame(event: RunEvent) -> _Frame:
    data: dict[str, Json] = {
        "number": event.number,
        "kind": event.kind,
        "round": event.round,
        "at": event.at.isoformat().replace("+00:00", "Z"),
        "payload": event.payload,
    }
    kind = event.kind.replace("\r", " ").replace("\n", " ")
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    frame = f"id: {event.number}\nevent: {kind}\ndata: {text}\n\n"
    return event.number, frame.encode("utf-8", "replace")
