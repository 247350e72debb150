"""Runs many units of work at once within time limits, and classifies their failures."""

import asyncio
import ctypes
import threading
import time
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Sized,
)
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from types import FrameType
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from burnish.core.cases import Failure, FailureKind
from burnish.system.shutdown import has_ended, leave_behind

T = TypeVar("T")

_CLEANING_SECONDS = 5.0
"""How long cancelled code may clean up before it is abandoned."""
_CLEANING_AT_THE_END = 0.5
"""The same for a user's function in a run that is ending: whoever stopped it is waiting."""
_LOOK_AGAIN = 1.0
"""Seconds between two checks of a clock; a check that is later by as much was blocked."""
_JOURNAL = {
    f"burnish.journal.{name}" for name in ("journal", "storage", "sqlite_store", "database_store")
}
"""Modules that are never interrupted: a statement would be lost between two others."""


class OutOfTime(Exception):
    """The code exceeded its time limit."""

    def __init__(self, limit: float, what: str) -> None:
        super().__init__(f"the agent ran past {what} of {limit:g} s")


class CancelledInside(Exception):
    """The code was cancelled, but not from here."""

    def __init__(self) -> None:
        super().__init__("CancelledError: the agent's call was cancelled from within")


class CutShort(BaseException):
    """Raised inside code that blocks the event loop. Agents catch any Exception, but not this."""

    def __init__(self, *, ending: bool = False) -> None:
        super().__init__("the call was cut short")
        self.ending = ending
        """Whether the run is ending; otherwise the call exceeded its limit."""


@dataclass(kw_only=True)
class _Span:
    """The deadlines of one call."""

    ends: float
    latest: float
    """The deadline no matter how long others blocked the loop."""
    alone: float
    """The deadline if nothing else were running."""

    def postpone(self, seconds: float) -> None:
        """Move every deadline."""
        self.ends += seconds
        self.latest += seconds
        self.alone += seconds


class CallClock:
    """The limit of one run of a case: `whole` for all of it, or `each` for every timed call.

    Time in which other calls block the loop does not count, for up to `at_once` calls.
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
        self._calls = self._stops = 0
        self._stopped_at = 0.0
        if whole is not None:
            self._spans[self] = self._span(whole)

    @contextmanager
    def call(self) -> Generator[None, None, None]:
        """A context in which a call is running."""
        call = object()
        if self._each is not None:
            self._spans[call] = self._span(self._each)
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            self._spans.pop(call, None)

    @contextmanager
    def stopped(self) -> Generator[None, None, None]:
        """A context whose time does not count."""
        if not self._stops:
            self._stopped_at = self.now()
        self._stops += 1
        try:
            yield
        finally:
            self._stops -= 1
            if not self._stops:
                for span in self._spans.values():
                    span.postpone(self.now() - self._stopped_at)

    @property
    def calling(self) -> bool:
        """Whether a user's function is running."""
        return self._calls > 0

    def _span(self, limit: float) -> _Span:
        now = self.now()
        return _Span(ends=now + limit, alone=now + limit, latest=now + limit * self._at_once)

    @property
    def wait(self) -> float | None:
        """Seconds until the next check."""
        if self._whole is None and self._each is None:
            return None
        running = () if self._stops else self._spans.values()
        return min([*(span.ends - self.now() for span in running), _LOOK_AGAIN])

    def held_up(self, seconds: float) -> None:
        """Extend the deadlines by the time for which the loop was blocked."""
        if seconds > _LOOK_AGAIN:
            for span in self._spans.values():
                span.ends = min(span.ends + seconds, span.latest)

    @property
    def expired(self) -> bool:
        """Whether a deadline has passed."""
        return not self._stops and any(span.ends <= self.now() for span in self._spans.values())

    @property
    def overdue(self) -> bool:
        """Whether a deadline would have passed if nothing else were running."""
        return not self._stops and any(span.alone <= self.now() for span in self._spans.values())

    @property
    def limit(self) -> float | None:
        """Seconds for which a call may block the event loop."""
        return self._each if self._whole is None else self._whole

    def out_of_time(self) -> OutOfTime:
        """The error for code that ran too long."""
        if self._whole is not None:
            return OutOfTime(self._whole, "the case's time limit")
        return OutOfTime(self._each or 0.0, "the time limit for one call")


_CLOCK: ContextVar[CallClock | None] = ContextVar("burnish_call_clock", default=None)


@contextmanager
def timed_call() -> Generator[None, None, None]:
    """A context for each call of a user's function, in which the limit for one call applies."""
    clock = _CLOCK.get()
    if clock is None:
        yield
        return
    with clock.call():
        yield


@contextmanager
def not_timed() -> Generator[None, None, None]:
    """A context for waiting that is not the agent's: no limit of its case applies meanwhile."""
    clock = _CLOCK.get()
    if clock is None:
        yield
        return
    with clock.stopped():
        yield


class DetachedTask(Generic[T]):
    """Work in a task of its own, which goes on if those who wait for it are cancelled.

    At its end it wakes them itself: asyncio.wait and shield, which leave that to callbacks of the
    task, take two more turns of the loop.
    """

    __slots__ = ("_waiting", "_work", "task")

    def __init__(self, work: Callable[[], Awaitable[T]], *, context: Context | None = None) -> None:
        self._work = work
        self._waiting: list[asyncio.Future[None]] = []
        self.task = asyncio.create_task(self._run(), context=context)

    async def _run(self) -> T:
        try:
            return await self._work()
        finally:
            self._wake()

    async def ended(self, seconds: float | None = None) -> None:
        """Wait until it has ended, but not longer than this."""
        if self.task.done():
            return
        loop = asyncio.get_running_loop()
        news: asyncio.Future[None] = loop.create_future()
        self._waiting.append(news)
        timer = None if seconds is None else loop.call_later(seconds, self._stop_waiting, news)
        try:
            await news
        except asyncio.CancelledError:
            self.task.add_done_callback(_retrieve_error)
            raise
        finally:
            if timer is not None:
                timer.cancel()

    async def result(self) -> T:
        """Wait for its result."""
        await self.ended()
        return self.task.result()

    def cancel(self) -> None:
        """Cancel it, whether it has begun or not."""
        self.task.add_done_callback(self._wake)
        self.task.cancel()

    def _wake(self, task: "asyncio.Task[T] | None" = None) -> None:
        if task is not None:
            _retrieve_error(task)
        waiting, self._waiting = self._waiting, []
        for news in waiting:
            if not news.done():
                news.set_result(None)

    def _stop_waiting(self, news: asyncio.Future[None]) -> None:
        if not news.done():
            self._waiting.remove(news)
            news.set_result(None)


def _retrieve_error(task: "asyncio.Task[Any]") -> None:
    """For a task that nobody may look at any more: asyncio reports errors nobody retrieved."""
    if not task.cancelled():
        task.exception()


async def within(clock: CallClock, work: Callable[[], Awaitable[T]]) -> T:
    """The result of the work; raises OutOfTime, or CancelledInside if it cancelled itself."""
    context = copy_context()
    context.run(_CLOCK.set, clock)
    detached = DetachedTask(work, context=context)
    try:
        while not detached.task.done():
            if clock.expired:
                raise clock.out_of_time()
            wait = clock.wait
            if wait is None:
                await detached.ended()
                continue
            began = clock.now()
            await detached.ended(wait)
            clock.held_up(clock.now() - began - wait)
    finally:
        if not detached.task.done():
            at_the_end = task_cancelled() and clock.calling
            await _leave(detached, _CLEANING_AT_THE_END if at_the_end else _CLEANING_SECONDS)
    if detached.task.cancelled():
        raise CancelledInside
    try:
        return detached.task.result()
    except CutShort as cut:
        if cut.ending:
            raise
        raise clock.out_of_time() from None


async def _leave(detached: DetachedTask[Any], seconds: float) -> None:
    """Cancel the work and let it clean up; work that does not end is abandoned."""
    detached.cancel()
    try:
        await detached.ended(seconds)
    finally:
        task = detached.task
        if not task.done():
            # Otherwise whoever closes the loop, such as asyncio.run, would wait for it forever.
            asyncio._unregister_task(task)  # pyright: ignore[reportPrivateUsage]
            leave_behind(task)
            task.add_done_callback(has_ended)


def cut_short(frame: FrameType | None, *, ending: bool) -> None:
    """For a signal handler: raise CutShort inside user code whose time is over."""
    clock = _CLOCK.get()
    if clock is None or not (ending or clock.overdue):
        return
    while frame is not None:
        if frame.f_globals.get("__name__") in _JOURNAL:
            return
        frame = frame.f_back
    raise CutShort(ending=ending)


TICK = 0.25
"""Seconds between two looks. Waiting is counted in looks, so that a process that was suspended, or
a busy machine, does not look like one that hangs."""
_BLOCKED_LOOKS = 4
"""After so many looks at a blocked loop, something is done about it."""


class LoopWatch:
    """Counts for how many looks one call has blocked an event loop; looks from another thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.blocked = 0
        self.turned = True
        """Whether the loop has turned since the last look."""
        self.blocking: asyncio.Task[Any] | None = None
        """The task that had the loop at the last look."""

    def look(self) -> None:
        """Look once; every `TICK` seconds."""
        task = asyncio.current_task(self._loop)
        # Several blocking calls may run in one turn of the loop: each is counted separately.
        alike = not self.turned and task is self.blocking
        self.blocked, self.blocking = self.blocked + 1 if alike else 0, task
        if self.turned:
            self.turned = False
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._turn)

    def _turn(self) -> None:
        self.turned = True

    @property
    def long(self) -> bool:
        """Whether the loop is blocked, rather than busy for a moment."""
        return self.blocked >= _BLOCKED_LOOKS

    @property
    def due(self) -> bool:
        """Whether it is time to do something about it, now or again."""
        return self.blocked > 0 and self.blocked % _BLOCKED_LOOKS == 0

    def exceeds(self, limit: float | None) -> bool:
        """Whether one call has blocked the loop for this long."""
        return limit is not None and self.blocked * TICK >= limit


class CallCutter:
    """Cuts calls short that block the loop of a thread, in which no signal is ever handled.

    What blocks inside one long call of a C function, such as a sleep, is cut when that returns.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.ending = False
        """Whether a call is cut within its limit too."""
        self._watch = LoopWatch(loop)
        self._clocks: WeakKeyDictionary[asyncio.Task[Any], CallClock] = WeakKeyDictionary()
        self._over = threading.Event()
        loop.set_task_factory(self._task)

    def start(self) -> None:
        """Watch the loop of this thread, which is about to run."""
        watched = threading.get_ident()
        threading.Thread(
            target=self._look, args=(watched,), name="burnish watch", daemon=True
        ).start()

    def close(self) -> None:
        """Watch no longer."""
        self._over.set()

    def _task(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Any,
        *,
        context: Context | None = None,
        **more: Any,
    ) -> "asyncio.Task[Any]":
        """A task whose clock other threads can find."""
        task = asyncio.Task(work, loop=loop, context=context, **more)
        clock = _CLOCK.get() if context is None else context.get(_CLOCK)
        if clock is not None:
            self._clocks[task] = clock
        return task

    def _look(self, watched: int) -> None:
        while not self._over.wait(TICK):
            self._watch.look()
            task = self._watch.blocking
            clock = None if task is None else self._clocks.get(task)
            if clock is None or not self._watch.due:
                continue
            if self.ending or (clock.overdue and self._watch.exceeds(clock.limit)):
                kind = ctypes.py_object(CutShort)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(watched), kind)


def task_cancelled() -> bool:
    """Whether the current task was cancelled, rather than something that it waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


Unit = TypeVar("Unit")
Result = TypeVar("Result")

_SPREAD = 0.0005
"""Seconds between the first units: units that start together compete for everything at once."""
_WINDOW = 8
"""How many finished results per place may wait for a slow one before them."""


async def together(work: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Run a few coroutines at once; results, and the first error, in order."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        return [await task for task in tasks]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class FairSemaphore:
    """As many places as may be taken at once; those who wait get one in their order.

    asyncio.Semaphore in Python 3.11 looks at everybody who waits whenever a place is taken or given
    back.
    """

    def __init__(self, number: int) -> None:
        self._free = number
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self) -> None:
        """Take a place as soon as there is one."""
        if self._free > 0:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was just given a place
                self.release()
            raise

    def release(self) -> None:
        """Give a place to whoever has waited longest."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class Turnstile:
    """Lets a few of those who wait go on in each turn of the loop.

    For work that may come later, when much ends at once: what starts meanwhile need not wait for
    all of it.
    """

    _AT_ONCE = 8
    """Of those who wait, one in so many goes on: a turn of the loop has a price, too."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """Wait for one's turn."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            loop.call_soon(self._next, loop)
        try:
            await turn
        except asyncio.CancelledError:
            if turn in self._waiting:
                self._waiting.remove(turn)
            raise

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        for _ in range(min(len(self._waiting), 1 + len(self._waiting) // self._AT_ONCE)):
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
        if self._waiting:
            loop.call_soon(self._next, loop)


class AsyncioExecutor:
    """At most `concurrency` units at once, over all maps together."""

    def __init__(self, concurrency: int = 8) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, found {concurrency}")
        self.concurrency = concurrency
        self._places = FairSemaphore(concurrency)

    async def map(
        self, units: Iterable[Unit], work: Callable[[Unit], Awaitable[Result]]
    ) -> AsyncGenerator[Result, None]:
        """The results in the units' order; an error is raised at its place in that order.

        Close the iterator (`contextlib.aclosing`) to leave nothing running.
        """
        lane = _Lane(iter(units), work, self._places, room=_WINDOW * self.concurrency)
        size = len(units) if isinstance(units, Sized) else self.concurrency
        count = max(1, min(self.concurrency, size))
        workers = [asyncio.create_task(lane.work(n * _SPREAD)) for n in range(count)]
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
        places: FairSemaphore,
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
        await asyncio.sleep(delay)
        while not self._ended:
            while self._taken - self._given >= self._room:
                self._space.clear()
                await self._space.wait()
            await self._places.acquire()
            try:
                unit = next(self._units)
                index = self._taken
                self._taken += 1
                self._done[index] = await self._result(unit)
            except StopIteration:
                break
            finally:
                self._places.release()
            self._news.set()
        self._ended = True
        self._news.set()

    async def _result(self, unit: Unit) -> "Result | _Raised":
        try:
            return await self._work(unit)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001
            # The reader raises it in order; otherwise it would wait forever.
            self._ended = True
            return _Raised(error)

    async def results(self) -> AsyncIterator[Result]:
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


_NOT_THE_AGENTS_FAULT = {
    "APIConnectionError",
    "APITimeoutError",
    "ClientConnectionError",
    "ConnectionError",
    "TransportError",
}
"""Errors of burnish and the usual HTTP libraries that mean that nobody answered."""


_UNUSABLE_ANSWERS = {
    "AdapterParseError",
    "JSONDecodeError",
    "ModelBehaviorError",
    "OutputParserException",
    "UnexpectedModelBehavior",
    "ValidationError",
}
"""Errors of the usual libraries that mean that a model's answer cannot be read."""


def is_infrastructure(error: BaseException, listed: Collection[str] = ()) -> bool:
    """Whether the infrastructure failed: connection errors, 429, 503, or a listed type."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & (_NOT_THE_AGENTS_FAULT | set(listed)) or status_of(error) in {429, 503}:
        return True
    inside = getattr(error, "reason", None)  # where urllib keeps the error of the connection
    return isinstance(inside, OSError) and inside is not error and is_infrastructure(inside, listed)


def status_of(error: BaseException) -> int | None:
    """The HTTP status an error carries, wherever its library keeps it."""
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "status", "code"):
            status = getattr(holder, name, None)
            if isinstance(status, int):
                return status
    return None


def failure_of(error: BaseException, *, listed: Collection[str] = (), attempts: int = 1) -> Failure:
    """The failure that an exception stands for."""
    names = {kind.__name__ for kind in type(error).__mro__}
    infrastructure = is_infrastructure(error, listed)
    return Failure(
        kind=FailureKind.INFRASTRUCTURE if infrastructure else FailureKind.AGENT,
        message=f"{type(error).__name__}: {error}",
        error=type(error).__name__,
        attempts=attempts,
        mendable=not infrastructure and bool(names & _UNUSABLE_ANSWERS),
    )
