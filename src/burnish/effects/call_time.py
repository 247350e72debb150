"""The time that a run of the user's code may take, and how one that does not end is left behind.

The code runs in a task of its own in the run's event loop, so that clients which belong to that
loop keep working. Past its limit the task is cancelled; one that does not obey is left to itself.
Code that blocks the loop cannot be cancelled: the watch in `runs.watching` raises `CutShort`
inside it.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeVar

from burnish.system.shutdown import has_ended, leave_behind

T = TypeVar("T")

CLEANING_SECONDS = 5.0
"""What cancelled code gets to clean up before it is left behind."""
_LOOK_AGAIN = 1.0
"""Seconds between two looks at a clock; later than that by as much, the loop was blocked."""
_JOURNAL = {
    f"burnish.effects.{name}" for name in ("journal", "storage", "sqlite_store", "database_store")
}
"""Modules that are never interrupted: a statement would be lost between two others."""


class OutOfTime(Exception):
    """The code ran past its limit."""

    def __init__(self, limit: float, what: str) -> None:
        super().__init__(f"the agent ran past {what} of {limit:g} s")


class CancelledInside(Exception):
    """The code was cancelled, and nobody here had asked for that."""

    def __init__(self) -> None:
        super().__init__("CancelledError: the agent's call was cancelled from within")


class CutShort(BaseException):
    """Raised inside code that blocks the event loop. No Exception: agents catch those."""

    def __init__(self, *, ending: bool) -> None:
        super().__init__("the call was cut short")
        self.ending = ending
        """Whether the run is to end; else the call ran past its limit."""


@dataclass(kw_only=True)
class _Span:
    """The time of something that is under way."""

    ends: float
    """When it has to end."""
    latest: float
    """When it has to end whatever held it up."""
    alone: float
    """When it would have to end with nobody else there."""


class CallClock:
    """The limit of one run of a case: `whole` for all of it, or `each` for every timed call.

    Calls that block the loop hold up the others, whose time that is not: each may wait for as
    many as run `at_once`.
    """

    def __init__(
        self,
        *,
        whole: float | None,
        each: float | None,
        at_once: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.now = clock
        self._each = None if whole is not None else each
        self._whole = whole
        self._at_once = at_once
        self._spans: dict[object, _Span] = {}
        if whole is not None:
            self._spans[self] = self._span(whole)

    @contextmanager
    def call(self) -> Generator[None, None, None]:
        """While entered, a call is under way."""
        if self._each is None:
            yield
            return
        call = object()
        self._spans[call] = self._span(self._each)
        try:
            yield
        finally:
            del self._spans[call]

    def _span(self, limit: float) -> _Span:
        now = self.now()
        return _Span(ends=now + limit, alone=now + limit, latest=now + limit * self._at_once)

    @property
    def wait(self) -> float | None:
        """Seconds after which to look again."""
        left = [span.ends - self.now() for span in self._spans.values()]
        return None if self._whole is None and self._each is None else min([*left, _LOOK_AGAIN])

    def held_up(self, seconds: float) -> None:
        """So long the loop did not turn."""
        if seconds > _LOOK_AGAIN:
            for span in self._spans.values():
                span.ends = min(span.ends + seconds, span.latest)

    @property
    def expired(self) -> bool:
        """Whether something should have ended."""
        return any(span.ends <= self.now() for span in self._spans.values())

    @property
    def overdue(self) -> bool:
        """Whether something that was held up by nobody should have ended."""
        return any(span.alone <= self.now() for span in self._spans.values())

    def out_of_time(self) -> OutOfTime:
        """What to say of code that ran too long."""
        if self._whole is not None:
            return OutOfTime(self._whole, "the case's time limit")
        return OutOfTime(self._each or 0.0, "the time limit for one call")


_CLOCK: ContextVar[CallClock | None] = ContextVar("burnish_call_clock", default=None)


@contextmanager
def timed_call() -> Generator[None, None, None]:
    """Around each call of a user's function: the limit for one call holds inside."""
    clock = _CLOCK.get()
    if clock is None:
        yield
        return
    with clock.call():
        yield


async def within(clock: CallClock, work: Coroutine[Any, Any, T]) -> T:
    """What the work gives; OutOfTime, or CancelledInside where it was cancelled by itself."""
    context = copy_context()
    context.run(_CLOCK.set, clock)
    task = asyncio.create_task(work, context=context)
    try:
        while not task.done():
            if clock.expired:
                raise clock.out_of_time()
            began, wait = clock.now(), clock.wait
            await _ended(task, wait)
            if wait is not None:
                clock.held_up(clock.now() - began - wait)
    finally:
        if not task.done():
            await _leave(task)
    if task.cancelled():
        raise CancelledInside
    try:
        return task.result()
    except CutShort as cut:
        if cut.ending:
            raise
        raise clock.out_of_time() from None


async def _ended(task: "asyncio.Task[Any]", seconds: float | None) -> None:
    """Wait for the task, but not longer than this. What asyncio.wait does, at half its price."""
    loop = asyncio.get_running_loop()
    news: asyncio.Future[None] = loop.create_future()

    def wake(ended: "asyncio.Task[Any] | None" = None) -> None:
        if ended is not None and not ended.cancelled():
            ended.exception()  # looked at: whoever waits may have left
        if not news.done():
            news.set_result(None)

    task.add_done_callback(wake)
    timer = None if seconds is None else loop.call_later(seconds, wake)
    try:
        await news
    finally:
        if timer is not None:
            timer.cancel()


async def _leave(task: "asyncio.Task[Any]") -> None:
    """Cancel the task and let it clean up; one that does not end is left behind."""
    task.cancel()
    try:
        await _ended(task, CLEANING_SECONDS)
    finally:
        if not task.done():
            # Else whoever closes the loop, such as asyncio.run, would wait for it for ever.
            asyncio._unregister_task(task)  # pyright: ignore[reportPrivateUsage]
            leave_behind(task)
            task.add_done_callback(has_ended)


def cut_short(frame: FrameType | None, *, ending: bool) -> None:
    """For a signal handler: raise CutShort where the user's code runs and has had its time."""
    clock = _CLOCK.get()
    if clock is None or not (ending or clock.overdue):
        return
    while frame is not None:
        if frame.f_globals.get("__name__") in _JOURNAL:
            return
        frame = frame.f_back
    raise CutShort(ending=ending)


def asked_to_leave() -> bool:
    """Whether the task that runs here was cancelled, rather than something that it waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
