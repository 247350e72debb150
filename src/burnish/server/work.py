"""Work: what the manager drives, in threads of its own."""

import asyncio
import concurrent.futures
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Generic, Protocol, TypeVar

from burnish.core.content import Json
from burnish.core.errors import BurnishError, Interrupted, RunLocked
from burnish.server.runs import RunPlace
from burnish.server.stores.records import (
    CANCELED,
    UNCHANGED,
    Lease,
    LeaseLost,
    NewEvent,
    RunChanges,
    RunMissing,
    RunNotRunning,
    RunStatus,
    RunStore,
    StoreTrouble,
)
from burnish.system import Redactor

T = TypeVar("T")


class _Job(Generic[T]):
    """A coroutine in another thread's loop; unlike a future's, its end is waited for."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[object, object, T]) -> None:
        self._loop = loop
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self.done: concurrent.futures.Future[T] = concurrent.futures.Future()
        loop.call_soon_threadsafe(self._begin)

    async def ended(self) -> T:
        """Wait for it. Cancelling this wait leaves the job alone."""
        return await asyncio.shield(asyncio.wrap_future(self.done))

    def cancel(self) -> None:
        """Cancel it; `done` is done once it has cleaned up."""
        with suppress(RuntimeError):  # the loop is closed: it has ended
            self._loop.call_soon_threadsafe(self._cancel)

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._work)
        self._task.add_done_callback(self._finish)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _finish(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.done.set_exception(JobCancelled())
        elif (error := task.exception()) is not None:
            self.done.set_exception(error)
        else:
            self.done.set_result(task.result())


class JobCancelled(Exception):
    """A job was cancelled, and has cleaned up. Not to be mistaken for one's own cancelling."""


class LoopThread:
    """A thread that runs an event loop while it is entered, or until it is closed."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        # Daemon: user code that never returns may not keep the service from ending.
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[object, object, T]) -> _Job[T]:
        """Begin a coroutine there."""
        return _Job(self._loop, work)

    def close(self) -> None:
        """End the loop; what is left in it is cancelled. Does not wait for that: see `join`."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.stop)

    def join(self, seconds: float = 5.0) -> None:
        """Wait until the thread has ended."""
        self._thread.join(seconds)

    def __enter__(self) -> "LoopThread":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def _live(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._wind_up()

    def _wind_up(self) -> None:
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


# -- What the manager drives ----------------------------------------------------------------------


class Tell(Protocol):
    """Keeps an event of a run; may be called from any thread, and does not wait."""

    def __call__(self, event: NewEvent, changes: RunChanges = UNCHANGED, /) -> None:
        """Keep the event, and change the run with it."""
        ...


class StopSwitch:
    """Asks a run to stop after the trial in flight, from another thread than the run's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._why = ""
        self._obey: Callable[[str], None] | None = None

    @property
    def asked(self) -> bool:
        """Whether anybody has asked."""
        return bool(self._why)

    def ask(self, why: str) -> None:
        """Ask; a run that cannot hear it yet is told as soon as it can."""
        with self._lock:
            self._why, obey = self._why or why, self._obey
        if obey is not None:
            obey(why)

    def when_asked(self, obey: Callable[[str], None]) -> None:
        """What the run does when it is asked; called from any thread."""
        with self._lock:
            self._obey, why = obey, self._why
        if why:
            obey(why)


@dataclass(frozen=True, kw_only=True)
class Order:
    """What work is given when it is driven."""

    run_id: str
    place: RunPlace
    tell: Tell
    stop: StopSwitch = field(default_factory=StopSwitch)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How work ended; `queued` where it can go on later."""

    status: RunStatus
    result: Json = None
    error: str = ""
    best_score: float | None = None


class RunWork(Protocol):
    """A run that was found good and can be driven."""

    @property
    def strategy(self) -> str:
        """How it searches."""
        ...

    @property
    def spec(self) -> Mapping[str, Json]:
        """The description that the run is built from; empty where a program has built it."""
        ...

    @property
    def thread(self) -> LoopThread | None:
        """The loop that it must run in; None for one of its own."""
        ...

    async def drive(self, order: Order) -> Ended:
        """Begin or go on, to the end. BurnishError where it fails; cancelled, it can go on."""
        ...

    def so_far(self) -> Json:
        """The result of a run that was stopped."""
        ...

    async def drop(self) -> None:
        """Let go of what was opened for it, where it is not driven after all."""
        ...


class App(Protocol):
    """Something that can run, under a name."""

    @property
    def name(self) -> str:
        """What requests call it."""
        ...

    @property
    def folder(self) -> Path | None:
        """Where its file lies; None where a program made it."""
        ...

    def plan(self, request: Json) -> RunWork:
        """The work that a request asks for; ConfigError with all that is wrong. Pays nothing.

        May block: it is called in a worker thread.
        """
        ...

    def about(self) -> dict[str, Json]:
        """What it is, for lists."""
        ...

    def structure(self) -> dict[str, Json]:
        """Its nodes and surfaces, in PromptIter's shape; ConfigError where it has none."""
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...


def _entered(thread: LoopThread | None, name: str) -> AbstractContextManager[LoopThread]:
    """The thread to run in: one that stays, or one that ends with the run."""
    return LoopThread(name) if thread is None else nullcontext(thread)


# -- One run under way in this process ------------------------------------------------------------


log = logging.getLogger("burnish.server")
_AGAIN_SECONDS = 0.5
"""Between two tries of a store that does not answer."""
_BEAT_SECONDS = 2.0
"""So soon, at the latest, a run hears that another process wants it canceled."""
_GONE = (LeaseLost, RunNotRunning, RunMissing)

_QueuedEvent = tuple[NewEvent, RunChanges]


class Drive:
    """Drives one run under its lease. Cancelled, or without its lease, the run can go on later."""

    def __init__(
        self,
        store: RunStore,
        lease: Lease,
        *,
        seconds: float,
        announce: Callable[[str, str], None],
    ) -> None:
        self._store = store
        self._lease = lease
        self._seconds = seconds
        self._held_until = time.monotonic() + seconds
        self._announce = announce
        self._queue: asyncio.Queue[_QueuedEvent | None] = asyncio.Queue()
        self._job: _Job[Ended] | None = None
        self._stop = StopSwitch()
        self._over = asyncio.Event()
        self._lost = False
        self._canceled = lease.cancel_requested
        self.worked = False
        """Whether the work was begun; it lets go of what it holds by itself then."""

    @property
    def run(self) -> tuple[str, str]:
        """App and id."""
        return self._lease.app_name, self._lease.run_id

    def cancel(self) -> None:
        """Somebody wants no more of it."""
        self._canceled = True
        self._end_job()

    def ask_to_stop(self, why: str) -> None:
        """The service goes down: finish the trial in flight."""
        self._stop.ask(why)

    def insist(self) -> None:
        """The service goes down now."""
        self._end_job()

    async def through(self, work: RunWork, place: RunPlace) -> None:
        """Drive the work to its end, and say in the store how it ended."""
        tasks = [asyncio.create_task(self._beat()), asyncio.create_task(self._pump())]
        loop = asyncio.get_running_loop()

        def tell(event: NewEvent, changes: RunChanges = UNCHANGED) -> None:
            with suppress(RuntimeError):  # the service is gone; the journal has it all
                loop.call_soon_threadsafe(self._queue.put_nowait, (event, changes))

        try:
            await self._begun()
            order = Order(run_id=self.run[1], place=place, tell=tell, stop=self._stop)
            ended = await self._worked(work, order)
            self._queue.put_nowait(None)
            await tasks[1]
            if not self._lost:
                await self._store_end(ended, work)
        finally:
            self._over.set()
            tasks[1].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # -- the work ----------------------------------------------------------------------------

    async def _worked(self, work: RunWork, order: Order) -> Ended:
        """How it ended; what it raised is told, not passed on."""
        with _entered(work.thread, f"run-{self.run[1]}") as loop:
            self._job, self.worked = loop.submit(work.drive(order)), True
            if self._canceled or self._lost:
                self._job.cancel()
            try:
                return await self._job.ended()
            except JobCancelled:
                status = RunStatus.CANCELED if self._canceled else RunStatus.QUEUED
                return Ended(status=status, error=CANCELED if self._canceled else "")
            except (Interrupted, RunLocked) as error:
                log.warning("run %s/%s goes on later: %s", *self.run, error.message)
                return Ended(status=RunStatus.QUEUED)
            except BurnishError as error:
                return Ended(status=RunStatus.FAILED, error=_clean(error.message))
            except Exception as error:  # the user's own code may raise anything
                log.exception("run %s/%s failed", *self.run)
                return Ended(
                    status=RunStatus.FAILED, error=_clean(f"{type(error).__name__}: {error}")
                )

    def _end_job(self) -> None:
        if self._job is not None:
            self._job.cancel()

    # -- the store ---------------------------------------------------------------------------

    async def _begun(self) -> None:
        changes = RunChanges(status=RunStatus.RUNNING)
        event = NewEvent(kind="status", payload={"status": RunStatus.RUNNING.value})
        await self._store_event((event, changes))

    async def _store_end(self, ended: Ended, work: RunWork) -> None:
        result = work.so_far() if ended.result is None else ended.result
        status = RunStatus.CANCELED if self._canceled else ended.status
        finished = status.finished
        changes = RunChanges(
            status=status,
            result=result if finished else None,
            error=CANCELED if status is RunStatus.CANCELED else ended.error,
            best_score=ended.best_score,
        )
        event = NewEvent(kind="status", payload={"status": status.value, "error": changes.error})
        with suppress(*_GONE):
            await self._store_event((event, changes))
            if not finished:
                await self._store.release(self._lease)

    async def _pump(self) -> None:
        """Keep events in the order in which they are told."""
        while (entry := await self._queue.get()) is not None:
            if not self._lost:
                try:
                    await self._store_event(entry)
                except _GONE as error:
                    self._lose(error)

    async def _store_event(self, entry: _QueuedEvent) -> None:
        """Keep an event; a store that does not answer is asked again while the lease holds."""
        event, changes = entry
        while True:
            try:
                await self._store.append_event(*self.run, event, changes, lease=self._lease)
            except StoreTrouble as error:
                if time.monotonic() >= self._held_until:
                    raise LeaseLost(*self.run, self._lease.owner) from error
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                self._announce(*self.run)
                return

    async def _beat(self) -> None:
        """Renew the lease; hear what other processes ask for."""
        while not self._lost:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), min(self._seconds / 3, _BEAT_SECONDS))
            if self._over.is_set():
                return
            began = time.monotonic()
            try:
                renewed = await self._store.renew(self._lease, seconds=self._seconds)
            except _GONE as error:
                self._lose(error)
            except StoreTrouble as error:
                log.warning("the lease of run %s/%s is not renewed: %s", *self.run, error.message)
                if time.monotonic() >= self._held_until:
                    self._lose(error)
            else:
                self._held_until = began + self._seconds
                if renewed.cancel_requested and not self._canceled:
                    self.cancel()

    def _lose(self, error: BurnishError) -> None:
        """Someone else drives it, or may: stop at once, and say nothing more."""
        log.warning("run %s/%s is given up here: %s", *self.run, error.message)
        self._lost = True
        self._end_job()


def _clean(text: str) -> str:
    return Redactor.from_environment().text(text)
