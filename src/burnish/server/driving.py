"""One run under way in this process: its thread, its lease, its events, its end."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

from burnish.core.errors import BurnishError, Interrupted, RunLocked
from burnish.server.places import Place
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
from burnish.server.threads import Job, JobCancelled
from burnish.server.work import Ended, Order, StopSwitch, Work, entered
from burnish.system import Redactor

log = logging.getLogger("burnish.server")
_AGAIN_SECONDS = 0.5
"""Between two tries of a store that does not answer."""
_BEAT_SECONDS = 2.0
"""So soon, at the latest, a run hears that another process wants it canceled."""
_GONE = (LeaseLost, RunNotRunning, RunMissing)

Told = tuple[NewEvent, RunChanges]


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
        self._queue: asyncio.Queue[Told | None] = asyncio.Queue()
        self._job: Job[Ended] | None = None
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

    async def through(self, work: Work, place: Place) -> None:
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
                await self._told_end(ended, work)
        finally:
            self._over.set()
            tasks[1].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # -- the work ----------------------------------------------------------------------------

    async def _worked(self, work: Work, order: Order) -> Ended:
        """How it ended; what it raised is told, not passed on."""
        with entered(work.thread, f"run-{self.run[1]}") as loop:
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
        told = NewEvent(kind="status", payload={"status": RunStatus.RUNNING.value})
        await self._kept((told, changes))

    async def _told_end(self, ended: Ended, work: Work) -> None:
        result = work.so_far() if ended.result is None else ended.result
        status = RunStatus.CANCELED if self._canceled else ended.status
        finished = status.finished
        changes = RunChanges(
            status=status,
            result=result if finished else None,
            error=CANCELED if status is RunStatus.CANCELED else ended.error,
            best_score=ended.best_score,
        )
        told = NewEvent(kind="status", payload={"status": status.value, "error": changes.error})
        with suppress(*_GONE):
            await self._kept((told, changes))
            if not finished:
                await self._store.release(self._lease)

    async def _pump(self) -> None:
        """Keep events in the order in which they are told."""
        while (told := await self._queue.get()) is not None:
            if not self._lost:
                try:
                    await self._kept(told)
                except _GONE as error:
                    self._lose(error)

    async def _kept(self, told: Told) -> None:
        """Keep an event; a store that does not answer is asked again while the lease holds."""
        event, changes = told
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
