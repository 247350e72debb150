"""The launcher: takes waiting runs from the queue of the store, and drives them."""

import asyncio
import logging
import os
import secrets
import socket
import time
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from burnish.core.errors import BurnishError
from burnish.reports.progress import LiveState
from burnish.server.accounting import Accounting
from burnish.server.runs import RunPlace, RunPlaces, Tails
from burnish.server.stores.queue import ServiceProcess
from burnish.server.stores.records import (
    REFINEMENTS,
    Lease,
    RunChanges,
    RunFilter,
    RunMissing,
    RunNotRunning,
    RunStatus,
    RunStore,
    StoredRun,
    StoreTrouble,
)
from burnish.server.tokens import ServiceRole
from burnish.server.work import App, Drive, RunWork


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """How much time and space a connection gets."""

    connections: int = 4096
    head_bytes: int = 16 * 1024
    """The request line and the headers."""
    head_seconds: float = 10.0
    """From the first byte, or from connecting, to the last header."""
    body_seconds: float = 60.0
    """From the last header to the end of the body."""
    write_seconds: float = 30.0
    """How long a client may leave its answer unread."""
    idle_seconds: float = 5.0
    """How long a connection waits for the next request."""
    linger_seconds: float = 5.0
    """How long the rest of a refused body is read, so that the client sees the refusal."""


@dataclass(frozen=True, kw_only=True)
class ServiceLimits:
    """Limits that apply to all clients."""

    running: int = 4
    """Runs that this process drives at the same time."""
    waiting: int = 100
    """Runs that may wait; one more is refused."""
    body_bytes: int = 10 * 1024 * 1024
    listeners: int = 500
    """Open event streams."""
    listeners_per_token: int = 100
    """Open event streams of clients with the same token."""
    connection: ConnectionLimits = field(default_factory=ConnectionLimits)
    lease_seconds: float = 30.0
    """How long the runs of a dead process are locked for others."""
    grace_seconds: float = 10.0
    """How long a shutdown waits for trials in flight."""
    sync_seconds: float | None = None
    """How long a blocking run may take; None for no limit."""


_log = logging.getLogger("burnish.server")
_CLEANING_SECONDS = 5.0
"""How long a cancelled run may take to close its journal."""
_LOOK_SECONDS = 1.0
"""How often the queue is looked at for runs that other processes stored."""
_REPORT_SECONDS = 5.0
"""How often, at least, a process reports that it is there."""
_Key = tuple[str, str]
"""App and run."""


class Launcher:
    """The runs that this process drives. It takes the next one when it has a free place."""

    def __init__(
        self,
        apps: Mapping[str, App],
        store: RunStore,
        places: RunPlaces,
        limits: ServiceLimits,
        tails: Tails,
        accounting: Accounting,
        *,
        role: ServiceRole,
    ) -> None:
        self._apps = apps
        self._accounting = accounting
        self._store = store
        self._places = places
        self._limits = limits
        self._tails = tails
        self.role = role
        self._drives: dict[_Key, Drive] = {}
        self._prepared: dict[_Key, RunWork] = {}
        """Work that was planned for requests to this process and is still waiting."""
        self._reserved: set[_Key] = set()
        self._taking = asyncio.Lock()
        self._wanted = asyncio.Event()
        self._changed = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._closing = False
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self.tasks: dict[_Key, asyncio.Task[None]] = {}
        self.left: dict[_Key, str] = {}
        """Waiting runs that this process cannot drive, and why."""
        self.counts: Counter[str] = Counter(started=0, recovered=0)
        """How many runs were started here, taken over or resumed here, and how those ended."""

    @property
    def running(self) -> int:
        return len(self.tasks)

    @property
    def free(self) -> int:
        """How many more runs could be driven here."""
        return self._limits.running - len(self.tasks) if self.role.drives else 0

    async def open(self) -> None:
        """Report this process, and begin to take runs. Can be called twice."""
        if self._looking is None and not self._closing:
            with suppress(StoreTrouble):  # it is reported again soon
                await self._report()
            await self.recover()
            self._looking = asyncio.create_task(self._look())

    @contextmanager
    def reserved(self, key: _Key) -> Generator[None, None, None]:
        """Do not take this run meanwhile: its work is about to be offered."""
        self._reserved.add(key)
        try:
            yield
        finally:
            self._reserved.discard(key)

    async def offer(self, key: _Key, work: RunWork) -> None:
        """Work for a waiting run, which this process drives if it is the one that takes the run."""
        self.left.pop(key, None)
        if not self.role.drives:
            await work.drop()
            return
        before, self._prepared[key] = self._prepared.get(key), work
        if before is not None:
            await before.drop()
        self._wanted.set()

    def live(self, key: _Key) -> LiveState | None:
        """What a run does now, if this process drives it."""
        drive = self._drives.get(key)
        return None if drive is None else drive.live

    async def cancel(self, key: _Key) -> None:
        """Stop a run that was canceled or deleted, whether it is driven here or waiting."""
        if (drive := self._drives.get(key)) is not None:
            drive.cancel()
        await self._forget(key)
        self._announce()

    def ask_to_stop(self) -> None:
        """Take no more runs, and let the trials in flight finish."""
        self._closing = True
        if self._looking is not None:
            self._looking.cancel()
        for drive in self._drives.values():
            drive.ask_to_stop("the service is shutting down")
        self._announce()

    async def close(self) -> None:
        """Wait for the trials in flight, then cancel what is left."""
        await self._ended(self._limits.grace_seconds)
        for drive in self._drives.values():
            drive.stop_now()
        await self._ended(_CLEANING_SECONDS)
        for task in self.tasks.values():
            task.cancel()  # its code does not end; its lease will
        await self._ended(1.0)
        for key in list(self._prepared):
            await self._forget(key)
        with suppress(BurnishError):  # it is forgotten after a while
            await self._store.queue.check_out(self.owner)

    async def changed(self, seconds: float) -> None:
        """Wait until a run begins or ends here, but not longer than this."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)

    async def processes(self) -> tuple[ServiceProcess, ...]:
        """The processes of the service that are there, with this one as it is now."""
        seen = await self._store.queue.processes(seconds=self._limits.lease_seconds)
        return (*(each for each in seen if each.name != self.owner), self._process())

    async def recover(self) -> int:
        """Take waiting runs and return how many; `left` has those that stay, and why."""
        await self._accounting.settle_finished()
        for key in list(self._prepared):
            if not await self._waits(key):
                await self._forget(key)
        self.left = await self._unfit()
        return await self._take()

    async def _look(self) -> None:
        """Take runs as they come, and report this process, until it closes."""
        recovered = reported = time.monotonic()
        troubled = False
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), _LOOK_SECONDS)
            self._wanted.clear()
            now = time.monotonic()
            try:
                if now - recovered >= self._limits.lease_seconds:
                    recovered = now
                    await self.recover()
                else:
                    await self._take()
                if now - reported >= min(_REPORT_SECONDS, self._limits.lease_seconds / 3):
                    reported = now
                    await self._report()
                troubled = False
            except BurnishError as error:
                if not troubled:
                    _log.warning("waiting runs are looked for again later: %s", error.message)
                troubled = True

    async def _take(self) -> int:
        """Take runs while there are free places, and return how many."""
        taken = 0
        async with self._taking:
            while self.free > 0 and await self._take_next():
                taken += 1
        return taken

    async def _take_next(self) -> bool:
        skip: set[_Key] = set()
        while keys := await self._store.queue.next_runs([*self._apps], skip={*self.left, *skip}):
            for key in keys:
                if self._closing:
                    return False
                if await self._taken(key):
                    return True
                skip.add(key)
        return False

    async def _taken(self, key: _Key) -> bool:
        """Take one run and begin to drive it; False if that is not possible here, or not now."""
        try:
            record = await self._store.get(*key, result=False)
            if key in self.tasks or key in self._reserved:
                return False  # its task is about to end, or its work is about to be offered
            if why := self._places.why_not_here(record):
                self.left[key] = why
                return False
            seconds = self._limits.lease_seconds
            lease = await self._store.claim(*key, owner=self.owner, seconds=seconds)
        except RunMissing:
            return False
        work = self._prepared.pop(key, None)
        if lease is None:
            if work is not None:
                await work.drop()
            return False
        self.counts["recovered"] += lease.token > 1
        drive = Drive(self._store, lease, seconds=seconds, announce=self._tails.announce)
        try:
            work = work or await self._planned(key)
        except BaseException as error:  # cancelled or failed, the drive is closed
            await drive.close()
            if not isinstance(error, BurnishError) or isinstance(error, StoreTrouble):
                raise
            self.left[key] = f"it cannot be rebuilt: {error.message}"
            await self._store.release(lease)
            return False
        self._begin(key, lease, drive, work)
        return True

    async def drive(self, key: _Key, work: RunWork) -> None:
        """Drive a stored run of this process now, whether there is a free place or not."""
        seconds = self._limits.lease_seconds
        lease = await self._store.claim(*key, owner=self.owner, seconds=seconds)
        if lease is None:
            raise RunNotRunning(key[1])
        drive = Drive(self._store, lease, seconds=seconds, announce=self._tails.announce)
        self._begin(key, lease, drive, work)

    def _begin(self, key: _Key, lease: Lease, drive: Drive, work: RunWork) -> None:
        driven = self._driven(key, lease, drive, work)
        task = asyncio.create_task(driven, name=f"run {key[0]}/{key[1]}")
        self.tasks[key] = task
        task.add_done_callback(lambda _: self._gone(key))
        self._announce()

    async def _planned(self, key: _Key) -> RunWork:
        """The work of a stored run, with the limits that were granted to it."""
        app = self._apps[key[0]]
        request = (await self._store.get(*key, result=False)).request
        work = await asyncio.to_thread(app.plan, request)
        try:
            granted = await self._accounting.granted(key)
            if granted is not None:
                await asyncio.to_thread(work.limit, granted)
        except BaseException:  # cancelled or failed, what was prepared is dropped
            await work.drop()
            raise
        return work

    async def _driven(self, key: _Key, lease: Lease, drive: Drive, work: RunWork) -> None:
        self._drives[key] = drive
        if self._closing:
            drive.ask_to_stop("the service is shutting down")
        try:
            place = await self._placed(key, lease)
            await drive.through(work, place)
            status = (await self._store.get(*key, result=False)).status
            self.counts[status.value] += 1
            if status.finished:
                await self._accounting.settle(key, place)
        except RunMissing:
            pass  # deleted
        except BurnishError as error:
            _log.warning("run %s/%s stopped: %s", *key, error.message)
        finally:
            self._drives.pop(key, None)
            await drive.close()
            if not drive.started:
                await work.drop()

    async def _placed(self, key: _Key, lease: Lease) -> RunPlace:
        """The place of the run, recorded in the store before it begins."""
        record = await self._store.get(*key, result=False)
        place = self._places.of(record)
        changes = RunChanges(where=self._places.where(place))
        if record.where != changes.where:
            await self._store.update(*key, changes, lease=lease)
        return place

    async def _unfit(self) -> dict[_Key, str]:
        """The waiting runs that this process cannot drive, as far as their records tell."""
        unfit: dict[_Key, str] = {}
        which, cursor = RunFilter(undriven=True), ""
        while True:
            page = await self._store.list_runs(which, limit=200, cursor=cursor)
            for record in page.runs:
                if record.app_name == REFINEMENTS:
                    await self._give_up(record)
                    continue
                served = record.app_name in self._apps
                why = self._places.why_not_here(record) if served else ""
                if not served:
                    why = f'no app "{record.app_name}" is served here'
                if why:
                    unfit[record.app_name, record.run_id] = why
            cursor = page.cursor
            if not cursor:
                return unfit

    async def _give_up(self, record: StoredRun) -> None:
        """End the record of a refinement whose process is gone; the session can be resumed."""
        if datetime.now(UTC) - record.created_at < timedelta(seconds=self._limits.lease_seconds):
            return  # it is about to begin
        error = "the service ended while it ran; `burnish refine --resume` continues it"
        with suppress(RunNotRunning, RunMissing):
            changes = RunChanges(status=RunStatus.FAILED, error=error)
            await self._store.update(record.app_name, record.run_id, changes)

    async def _waits(self, key: _Key) -> bool:
        """Whether nobody has taken a run."""
        try:
            record = await self._store.get(*key, result=False)
        except RunMissing:
            return False
        return not record.status.finished and record.owner in ("", self.owner)

    async def _forget(self, key: _Key) -> None:
        if (work := self._prepared.pop(key, None)) is not None:
            await work.drop()

    def _process(self) -> ServiceProcess:
        return ServiceProcess(
            name=self.owner,
            role=self.role,
            host=socket.gethostname(),
            places=self._limits.running if self.role.drives else 0,
            busy=len(self.tasks),
        )

    async def _report(self) -> None:
        await self._store.queue.check_in(self._process())

    def _gone(self, key: _Key) -> None:
        self.tasks.pop(key, None)
        self._wanted.set()
        self._announce()

    def _announce(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _ended(self, seconds: float) -> None:
        if self.tasks:
            await asyncio.wait([*self.tasks.values()], timeout=seconds)
