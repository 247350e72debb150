"""Events of runs for those who listen: read once for all, at once here, by looking elsewhere."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from contextlib import suppress
from dataclasses import dataclass

from burnish.core.content import Json
from burnish.core.errors import BurnishError
from burnish.server.stores.records import RunEvent, RunMissing, RunStatus, RunStore

_LOOK_SECONDS = 1.0
"""How often the store is asked for what other processes did."""
_HEARTBEAT_SECONDS = 15.0
"""After so long a silence a comment is sent, or proxies would give the connection up."""
_MAX_FRAMES = 256
_AT_ONCE = 200
_HEARTBEAT = b": still here\n\n"


@dataclass(frozen=True, kw_only=True)
class _Frame:
    """An event as it is sent."""

    number: int
    content: bytes

    @classmethod
    def of(cls, event: RunEvent) -> "_Frame":
        """The event with its number as id."""
        data: dict[str, Json] = {
            "number": event.number,
            "kind": event.kind,
            "round": event.round,
            "at": event.at.isoformat().replace("+00:00", "Z"),
            "payload": event.payload,
        }
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        head = f"id: {event.number}\nevent: {_one_line(event.kind)}\n"
        return cls(number=event.number, content=f"{head}data: {text}\n\n".encode())


class Tail:
    """The newest events of one run, while anybody listens."""

    def __init__(self, store: RunStore, app_name: str, run_id: str, *, after: int) -> None:
        self._store = store
        self._run = (app_name, run_id)
        self._frames: deque[_Frame] = deque(maxlen=_MAX_FRAMES)
        self._last = after
        self._news = asyncio.Event()
        self._changed = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        self._closed = False
        self.listeners = 0
        self.ended: RunStatus | None = None

    def announce(self) -> None:
        """There is something new in the store."""
        self._news.set()

    async def frames(self, after: int) -> AsyncGenerator[bytes, None]:
        """Everything after a number, then what happens, until the run ends."""
        self._reader = self._reader or asyncio.create_task(self._read())
        while not self._closed:
            signal = self._changed
            frames = await self._since(after)
            for frame in frames:
                yield frame.content
                after = frame.number
            if not frames and self.ended is not None:
                yield _end(self.ended)
                return
            if not frames and not await _happens(signal) and not self._closed:
                yield _HEARTBEAT

    def close(self) -> None:
        """Nobody listens any more, or the service goes down: streams end without an end."""
        self._closed = True
        self._wake()
        self._news.set()  # the reader ends by itself: a store does not like to be cut short

    async def _since(self, after: int) -> list[_Frame]:
        first = self._frames[0].number if self._frames else self._last + 1
        if after + 1 >= first:
            return [frame for frame in self._frames if frame.number > after]
        older = await self._store.events(*self._run, after=after, limit=_AT_ONCE)
        return _framed(older)

    async def _read(self) -> None:
        while self.ended is None and not self._closed:
            with suppress(BurnishError):  # a store in trouble is asked again
                await self._look()
            if self.ended is None and not self._closed:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._news.wait(), _LOOK_SECONDS)
                self._news.clear()

    async def _look(self) -> None:
        """Read what is new; a run is over when it is finished and nothing is left to read."""
        status = await self._status()
        while events := await self._store.events(*self._run, after=self._last, limit=_AT_ONCE):
            self._frames.extend(_framed(events))
            self._last = events[-1].number
            self._wake()
        if status.finished:
            self.ended = status
            self._wake()

    async def _status(self) -> RunStatus:
        try:
            return (await self._store.get(*self._run, result=False)).status
        except RunMissing:
            return RunStatus.CANCELED  # it was deleted meanwhile

    def _wake(self) -> None:
        """Wake everyone who waits; whoever waits next, waits for the next time."""
        signal, self._changed = self._changed, asyncio.Event()
        signal.set()


class Tails:
    """The tails that are listened to."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._tails: dict[tuple[str, str], Tail] = {}

    @property
    def listeners(self) -> int:
        """How many listen."""
        return sum(tail.listeners for tail in self._tails.values())

    def announce(self, app_name: str, run_id: str) -> None:
        """A run of this process has something new."""
        if (tail := self._tails.get((app_name, run_id))) is not None:
            tail.announce()

    async def listen(
        self, app_name: str, run_id: str, *, after: int, newest: int
    ) -> AsyncGenerator[bytes, None]:
        """The events of a run after a number; `newest` is the number of the last one now."""
        key = (app_name, run_id)
        tail = self._tails.get(key)
        if tail is None:
            tail = self._tails[key] = Tail(self._store, *key, after=newest)
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
        """Stop reading."""
        for tail in self._tails.values():
            tail.close()


def _framed(events: Iterable[RunEvent]) -> list[_Frame]:
    return [_Frame.of(event) for event in events]


async def _happens(signal: asyncio.Event) -> bool:
    try:
        await asyncio.wait_for(signal.wait(), _HEARTBEAT_SECONDS)
    except TimeoutError:
        return False
    return True


def _end(status: RunStatus) -> bytes:
    """The last thing that is sent. It has no id: whoever comes back gets it again."""
    return f'event: end\ndata: {{"status":"{status.value}"}}\n\n'.encode()


def _one_line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ")
