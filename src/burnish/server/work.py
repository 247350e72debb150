"""Work: what the manager drives, each run in its own thread; projects as work."""

import asyncio
import concurrent.futures
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from burnish.core.content import Json, codec
from burnish.core.errors import BurnishError, Interrupted, RunLocked
from burnish.core.money import Spend
from burnish.core.surfaces import Candidate
from burnish.journal.limits import Budget
from burnish.projects.launch import launched
from burnish.projects.measurements import PreparedMeasurement, report_of
from burnish.reports.progress import LiveState
from burnish.runs.directory import events, look_into
from burnish.runs.driver import Ending
from burnish.runs.events import Claim, Event, SealedResult, Tick, TrialRecorded
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.server.runs import RunPlace
from burnish.server.security import public
from burnish.server.stores.accounts import Amounts
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
    """A coroutine in another thread's loop; unlike a future, it can be awaited until it ends."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[object, object, T]) -> None:
        self._loop = loop
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self._done: concurrent.futures.Future[T] = concurrent.futures.Future()
        loop.call_soon_threadsafe(self._begin)

    async def result(self) -> T:
        """Wait for the end. Cancelling this wait leaves the job alone."""
        return await asyncio.shield(asyncio.wrap_future(self._done))

    def cancel(self) -> None:
        """Cancel it; `result` returns once it has cleaned up."""
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
            self._done.set_exception(_JobCancelled())
        elif (error := task.exception()) is not None:
            self._done.set_exception(error)
        else:
            self._done.set_result(task.result())


class _JobCancelled(Exception):
    """A job was cancelled and has cleaned up; CancelledError would mean the waiting task."""


class LoopThread:
    """A thread that runs an event loop until it is closed."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        # Daemon: user code that never returns may not keep the service from ending.
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[object, object, T]) -> _Job[T]:
        """Start a coroutine in the loop."""
        return _Job(self._loop, work)

    def close(self) -> None:
        """End the loop and cancel what is left in it, without waiting: see `join`."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.stop)

    def join(self, seconds: float = 5.0) -> None:
        self._thread.join(seconds)

    def __enter__(self) -> "LoopThread":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _live(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()


class EventSink(Protocol):
    """Stores an event of a run and changes its record; callable from any thread, never blocks."""

    def __call__(self, event: NewEvent, changes: RunChanges = UNCHANGED, /) -> None: ...


class _StopSwitch:
    """Asks a run to stop after the trial in flight, from another thread than the run's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._why = ""
        self._stop: Callable[[str], None] | None = None

    @property
    def asked(self) -> bool:
        return bool(self._why)

    def ask(self, why: str) -> None:
        """Ask; a run that has not called `when_asked` yet hears it then."""
        with self._lock:
            self._why, stop = self._why or why, self._stop
        if stop is not None:
            stop(why)

    def when_asked(self, stop: Callable[[str], None]) -> None:
        """What the run does when it is asked; called from any thread."""
        with self._lock:
            self._stop, why = stop, self._why
        if why:
            stop(why)


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """What work needs to be driven."""

    place: RunPlace
    tell: EventSink
    stop: _StopSwitch
    live: LiveState = field(default_factory=LiveState)
    """Listens to the run, for those who look at its page."""


@dataclass(frozen=True, kw_only=True)
class RunOutcome:
    """How work ended; `queued` if it can continue later."""

    status: RunStatus
    result: Json = None
    error: str = ""
    best_score: float | None = None


class RunWork(Protocol):
    """A validated run that can be driven."""

    @property
    def strategy(self) -> str: ...

    @property
    def spec(self) -> Mapping[str, Json]:
        """The description that the run is built from; empty if a program built it."""
        ...

    @property
    def request(self) -> Json:
        """PromptIter's request with its limits cut; None if it is stored as it came."""
        ...

    @property
    def budget(self) -> Budget:
        """Its limits."""
        ...

    def check_new(self) -> None:
        """Refuse limits under which a new run could not even finish one round."""
        ...

    def limit(self, granted: Amounts) -> None:
        """Cut its limits to what it may spend; PriceUnknown if US dollars cannot be counted."""
        ...

    @property
    def thread(self) -> LoopThread | None:
        """The loop that it must run in; None for a new one."""
        ...

    async def drive(self, context: RunContext) -> RunOutcome:
        """Start or resume, to the end. BurnishError if it fails; cancelled, it can be resumed."""
        ...

    def so_far(self) -> Json:
        """The result of a run that was stopped."""
        ...

    async def drop(self) -> None:
        """Release what was opened for it if it is not driven after all."""
        ...


class App(Protocol):
    """Something that can run, under a name."""

    @property
    def name(self) -> str: ...

    @property
    def folder(self) -> Path | None:
        """Where its file is; None if a program created it."""
        ...

    def plan(self, request: Json, *, tighten: bool = False) -> RunWork:
        """The work for a request; ConfigError with all problems, and no paid calls.

        `tighten` cuts the limits of a client's new request to those of the app; a stored request
        was cut before. May block: it is called in a worker thread.
        """
        ...

    def about(self) -> dict[str, Json]: ...

    def structure(self, *, whole: bool = False) -> dict[str, Json]:
        """Its nodes and surfaces, in PromptIter's shape; ConfigError if it has none.

        `whole` adds what PromptIter has no type for.
        """
        ...

    async def close(self) -> None:
        """Release all resources."""
        ...


log = logging.getLogger("burnish.server")
_BEAT_SECONDS = 2.0
"""How soon, at the latest, a run notices that another process canceled it."""
_GONE = (LeaseLost, RunNotRunning, RunMissing)


class Drive:
    """Drives one run under its lease, which it renews from the beginning until it is closed.

    Cancelled or without its lease, the run can be resumed.
    """

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
        self._queue: asyncio.Queue[tuple[NewEvent, RunChanges] | None] = asyncio.Queue()
        self._job: _Job[RunOutcome] | None = None
        self._run = (lease.app_name, lease.run_id)
        self._stop = _StopSwitch()
        self.live = LiveState()
        self._reported = 0
        self._over = asyncio.Event()
        self._beating = asyncio.create_task(self._beat())
        self._lost = False
        self._ended = False
        """Whether the work has ended: its lease then ends too, and nothing is lost."""
        self._canceled = lease.cancel_requested

    @property
    def started(self) -> bool:
        """Whether the work was started; it then releases its resources itself."""
        return self._job is not None

    def cancel(self) -> None:
        """Stop the run for good."""
        self._canceled = True
        self.stop_now()

    def ask_to_stop(self, why: str) -> None:
        """Stop after the trial in flight, because the service is shutting down."""
        self._stop.ask(why)

    def stop_now(self) -> None:
        """Cancel the work; the run can go on later."""
        if self._job is not None:
            self._job.cancel()

    async def through(self, work: RunWork, place: RunPlace) -> None:
        """Drive the work to its end, and store how it ended."""
        pumping = asyncio.create_task(self._pump())
        loop = asyncio.get_running_loop()

        def tell(event: NewEvent, changes: RunChanges = UNCHANGED) -> None:
            with suppress(RuntimeError):  # the service is gone; the journal has it all
                loop.call_soon_threadsafe(self._queue.put_nowait, (event, changes))

        try:
            status = RunStatus.RUNNING
            event = NewEvent(kind="status", payload={"status": status.value})
            await self._store_event(event, RunChanges(status=status))
            context = RunContext(place=place, tell=tell, stop=self._stop, live=self.live)
            outcome = await self._work(work, context)
            self._queue.put_nowait(None)
            await pumping
            if not self._lost:
                self._ended = outcome.status.finished
                await self._store_end(outcome, work)
        finally:
            pumping.cancel()
            await asyncio.gather(pumping, return_exceptions=True)

    async def close(self) -> None:
        """Renew the lease no more."""
        self._over.set()
        await asyncio.gather(self._beating, return_exceptions=True)

    async def _work(self, work: RunWork, context: RunContext) -> RunOutcome:
        thread = work.thread
        loop_thread = LoopThread(f"run-{self._run[1]}") if thread is None else nullcontext(thread)
        with loop_thread as loop:
            self._job = loop.submit(work.drive(context))
            if self._canceled or self._lost:
                self._job.cancel()
            try:
                return await self._job.result()
            except _JobCancelled:
                status = RunStatus.CANCELED if self._canceled else RunStatus.QUEUED
                return RunOutcome(status=status, error=CANCELED if self._canceled else "")
            except (Interrupted, RunLocked) as error:
                log.warning("run %s/%s will continue later: %s", *self._run, error.message)
                return RunOutcome(status=RunStatus.QUEUED)
            except BurnishError as error:
                log.warning("run %s/%s failed: %s", *self._run, error.message)
                message = error.message
            except Exception as error:  # the user's own code may raise anything
                log.exception("run %s/%s failed", *self._run)
                message = f"{type(error).__name__}: {error}"
            error = public(Redactor.from_environment().text(message))
            return RunOutcome(status=RunStatus.FAILED, error=error)

    async def _store_end(self, outcome: RunOutcome, work: RunWork) -> None:
        result = work.so_far() if outcome.result is None else outcome.result
        status = RunStatus.CANCELED if self._canceled else outcome.status
        finished = status.finished
        changes = RunChanges(
            status=status,
            result=result if finished else None,
            error=CANCELED if status is RunStatus.CANCELED else outcome.error,
            best_score=outcome.best_score,
        )
        event = NewEvent(kind="status", payload={"status": status.value, "error": changes.error})
        with suppress(*_GONE):
            await self._store_event(event, changes)
            if not finished:
                await self._store.release(self._lease)

    async def _pump(self) -> None:
        """Store events in their order."""
        while (entry := await self._queue.get()) is not None:
            if not self._lost:
                try:
                    await self._store_event(*entry)
                except _GONE as error:
                    self._lose(error)

    async def _store_event(self, event: NewEvent, changes: RunChanges) -> None:
        """Store an event, retrying while the lease is held."""
        while True:
            try:
                await self._store.append_event(*self._run, event, changes, lease=self._lease)
            except StoreTrouble as error:
                if time.monotonic() >= self._held_until:
                    raise LeaseLost(*self._run, self._lease.owner) from error
                await asyncio.sleep(0.5)
            else:
                self._announce(*self._run)
                return

    async def _beat(self) -> None:
        """Renew the lease, and notice cancellations by other processes."""
        while not (self._lost or self._ended):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), min(self._seconds / 3, _BEAT_SECONDS))
            if self._over.is_set():
                return
            began = time.monotonic()
            try:
                renewed = await self._store.renew(
                    self._lease, seconds=self._seconds, progress=self._news()
                )
            except _GONE as error:
                self._lose(error)
            except StoreTrouble as error:
                log.warning("the lease of run %s/%s is not renewed: %s", *self._run, error.message)
                if time.monotonic() >= self._held_until:
                    self._lose(error)
            else:
                self._held_until = began + self._seconds
                if renewed.cancel_requested and not self._canceled:
                    self.cancel()

    def _news(self) -> Json:
        """How far the current evaluation is, for other processes; None if it is as it was."""
        if self.live.changes == self._reported:
            return None
        self._reported, tick = self.live.changes, self.live.tick_now
        return {"tick": None if tick is None else codec(Tick).encode(tick)}

    def _lose(self, error: BurnishError) -> None:
        """Someone else drives the run, or may: stop at once and store nothing more."""
        if self._ended:
            return
        log.warning("run %s/%s is no longer driven here: %s", *self._run, error.message)
        self._lost = True
        self.stop_now()


# -- Projects and measurements ---------------------------------------------------------------------


class EventForwarder:
    """A listener that forwards events to the service, which stores each of them once."""

    def __init__(self, tell: EventSink) -> None:
        self._tell = tell
        self.best_score: float | None = None

    def event(self, event: Event) -> None:
        number, changes = 0, RunChanges()
        if trial := event.read(TrialRecorded):
            number = trial.trial
            if trial.best_score is not None:
                self.best_score = trial.best_score
            changes = RunChanges(current_round=number, best_score=self.best_score)
        # The folder is the service's own business; clients ask for files by name.
        data = {name: value for name, value in event.data.items() if name != "folder"}
        payload = {"at": event.at, **data}
        forwarded = NewEvent(kind=event.kind, round=number, payload=payload, key=f"run:{event.id}")
        self._tell(forwarded, changes)

    def tick(self, tick: Tick) -> None: ...


@dataclass
class ProjectWork:
    """A loaded project, ready to be driven."""

    setup: Setup
    thread: LoopThread | None = field(default=None, init=False)

    @property
    def strategy(self) -> str:
        return self.setup.strategy.name

    @property
    def spec(self) -> Mapping[str, Json]:
        return self.setup.project.spec

    @property
    def request(self) -> Json:
        return None

    @property
    def budget(self) -> Budget:
        return self.setup.budget

    def check_new(self) -> None:
        self.setup.check(new=True)

    def limit(self, granted: Amounts) -> None:
        self.setup = replace(self.setup, budget=self.budget.within(**granted.limits()))
        self.setup.check()

    def so_far(self) -> Json:
        return None

    async def drive(self, context: RunContext) -> RunOutcome:
        place, loop = context.place, asyncio.get_running_loop()
        listener = EventForwarder(context.tell)
        if place.fetch():
            with look_into(place.folder) as reader:
                # An earlier process may have kept them in the journal only.
                for event in events(reader):
                    listener.event(event)
                    context.live.event(event)
        running: list[Run] = []

        def opened() -> Run:
            running.append(place.open(self.setup))
            return running[0]

        def ask_to_stop(why: str) -> None:
            for run in running:
                run.ask_to_stop(why)

        def stop(why: str) -> None:
            with suppress(RuntimeError):  # the loop is closed: the run has ended
                loop.call_soon_threadsafe(ask_to_stop, why)

        context.stop.when_asked(stop)
        try:
            ending = await launched(opened, [listener, context.live])
        finally:
            running.clear()
        if ending.interrupted:
            return RunOutcome(status=RunStatus.QUEUED)
        return RunOutcome(
            status=RunStatus.SUCCEEDED,
            result=self.result(ending),
            best_score=listener.best_score,
        )

    def result(self, ending: Ending) -> dict[str, Json]:
        sealed, claim = ending.sealed, ending.claim
        return {
            "ended": ending.reason.code,
            "reason": ending.reason.detail,
            "best": codec(Candidate).encode(ending.best),
            "spent": codec(Spend).encode(ending.spent),
            "billed": codec(Spend).encode(ending.billed),
            "sealed": None if sealed is None else codec(SealedResult).encode(sealed),
            "claim": None if claim is None else codec(Claim).encode(claim),
        }

    async def drop(self) -> None:
        for resource in self.setup.resources:
            await resource.close()


@dataclass
class MeasureWork(ProjectWork):
    """A measurement, ready to be driven."""

    measurement: PreparedMeasurement = field(kw_only=True)

    def result(self, ending: Ending) -> dict[str, Json]:
        report = report_of(self.measurement, ending)
        if report is not None:
            report = replace(report, about=replace(report.about, folder=""))
        evaluation = None if report is None else report.to_json()
        return {**super().result(ending), "evaluation": evaluation}
