"""The run manager: starts, resumes and cancels runs, within limits, and counts."""

import asyncio
import contextlib
import logging
import os
import secrets
import shutil
import socket
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from burnish.compat.promptiter import RunRequest
from burnish.core.content import Json
from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.journal.database_store import DatabaseJournals
from burnish.runs.directory import forget_run
from burnish.runs.setup import refuse_spent_test
from burnish.server.apps.engines import EngineApp
from burnish.server.apps.projects import JobRequest
from burnish.server.events import Tails
from burnish.server.runs import (
    AppMissing,
    AppUnfit,
    ManagerClosed,
    RunPlace,
    RunPlaces,
    TooManyRuns,
)
from burnish.server.stores.database import MemoryRunStore
from burnish.server.stores.records import (
    EVERY,
    Lease,
    RunChanges,
    RunEvent,
    RunFilter,
    RunMissing,
    RunPage,
    RunStatus,
    RunStore,
    StoredRun,
)
from burnish.server.work import App, Drive, RunWork
from burnish.version import VERSION


@dataclass(frozen=True, kw_only=True)
class ServiceLimits:
    """Limits that hold for everyone who asks."""

    running: int = 4
    """Runs that this process drives at once."""
    waiting: int = 100
    """Runs that wait for a place; one more is refused."""
    body_bytes: int = 10 * 1024 * 1024
    listeners: int = 500
    """Open event streams."""
    lease_seconds: float = 30.0
    """How long a process that died keeps its runs from others."""
    grace_seconds: float = 10.0
    """What a shutdown gives the trials in flight."""
    sync_seconds: float | None = None
    """How long a blocking run may take; None for as long as it needs."""


# -- Launching runs -------------------------------------------------------------------------------


# -- The run manager ------------------------------------------------------------------------------


_log = logging.getLogger("burnish.server")
_CLEANING_SECONDS = 5.0
"""What a run that was cancelled gets to close its journal."""
_Key = tuple[str, str]
"""App and run."""


class Launcher:
    """The runs that this process drives, and those that wait here for room."""

    def __init__(
        self, store: RunStore, places: RunPlaces, limits: ServiceLimits, tails: Tails
    ) -> None:
        self._store = store
        self._places = places
        self._limits = limits
        self._tails = tails
        self._room = asyncio.Semaphore(limits.running)
        self._drives: dict[_Key, Drive] = {}
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self.tasks: dict[_Key, asyncio.Task[None]] = {}
        self.counts: Counter[str] = Counter(started=0, recovered=0)
        """How many runs were started here, picked up here, and how those ended."""

    @property
    def running(self) -> int:
        """How many runs are driven now."""
        return len(self._drives)

    @property
    def waiting(self) -> int:
        """How many wait for room."""
        return len(self.tasks) - len(self._drives)

    @property
    def busy(self) -> bool:
        """Whether there is no room for another run now."""
        return self._room.locked()

    def launch(self, key: _Key, work: RunWork) -> None:
        """Drive a run as soon as there is room."""
        task = asyncio.create_task(self._driven(key, work), name=f"run {key[0]}/{key[1]}")
        self.tasks[key] = task
        task.add_done_callback(lambda _: self.tasks.pop(key, None))

    def cancel(self, key: _Key, *, finished: bool) -> None:
        """Stop a run that was canceled; one that waits has ended by that."""
        if (drive := self._drives.get(key)) is not None:
            drive.cancel()
        elif finished and key in self.tasks:
            self.tasks[key].cancel()

    def ask_to_stop(self) -> None:
        """Let the trials in flight end; what waits need not wait any more."""
        for drive in self._drives.values():
            drive.ask_to_stop("the service goes down")
        for key, task in self.tasks.items():
            if key not in self._drives:
                task.cancel()

    async def close(self) -> None:
        """Wait for the trials in flight, then for nobody."""
        await self._ended(self._limits.grace_seconds)
        for drive in self._drives.values():
            drive.insist()
        await self._ended(_CLEANING_SECONDS)
        for task in self.tasks.values():
            task.cancel()  # its code does not end; its lease will
        await self._ended(1.0)

    async def _ended(self, seconds: float) -> None:
        if self.tasks:
            await asyncio.wait([*self.tasks.values()], timeout=seconds)

    async def _driven(self, key: _Key, work: RunWork) -> None:
        """Wait for room, take the lease, drive."""
        drive: Drive | None = None
        try:
            async with self._room:
                seconds = self._limits.lease_seconds
                lease = await self._store.claim(*key, owner=self.owner, seconds=seconds)
                if lease is None:
                    return  # another process has it, or it was canceled while it waited
                drive = Drive(self._store, lease, seconds=seconds, announce=self._tails.announce)
                self._drives[key] = drive
                await drive.through(work, await self._placed(key, lease))
                self.counts[(await self._store.get(*key, result=False)).status.value] += 1
        except RunMissing:
            pass  # deleted
        except BurnishError as error:
            _log.warning("run %s/%s stands still: %s", *key, error.message)
        finally:
            self._drives.pop(key, None)
            if drive is None or not drive.worked:
                await work.drop()

    async def _placed(self, key: _Key, lease: Lease) -> RunPlace:
        """Where the run lies, said in the store before it begins."""
        record = await self._store.get(*key, result=False)
        place = self._places.of(record)
        changes = RunChanges(where=self._places.where(place))
        if record.where != changes.where:
            await self._store.update(*key, changes, lease=lease)
        return place


_PAGE = 200
_LOOK_SECONDS = 0.5


class RunManager:
    """Drives the runs of some apps, over a store that it may share with other processes.

    Enter it, or `open` it, to pick up what was left; `close` leaves every run resumable.
    """

    def __init__(
        self,
        apps: Sequence[App],
        *,
        data: Path | str,
        store: RunStore | None = None,
        journals: DatabaseJournals | None = None,
        limits: ServiceLimits | None = None,
    ) -> None:
        self.apps: Mapping[str, App] = {app.name: app for app in apps}
        if len(self.apps) < len(apps):
            raise ConfigError([Problem(where="app", message="two apps have the same name")])
        self.store: RunStore = MemoryRunStore() if store is None else store
        self.places = RunPlaces(data=Path(data), journals=journals)
        self.limits = limits or ServiceLimits()
        self.tails = Tails(self.store)
        self.launcher = Launcher(self.store, self.places, self.limits, self.tails)
        self.left: dict[_Key, str] = {}
        """Runs that are not driven, and why this process cannot."""
        self._starting: set[_Key] = set()
        self._sweeping: asyncio.Task[None] | None = None
        self._closed = self._closing = False

    # -- life --------------------------------------------------------------------------------

    async def open(self) -> None:
        """Pick up what was left, now and again later. Doing so twice is fine."""
        if self._sweeping is None and not self._closing:
            await self.recover()
            self._sweeping = asyncio.create_task(self._sweep())

    async def close(self) -> None:
        """Stop every run so that it can go on, then let go of apps and store."""
        if self._closed:
            return
        self._closed = True
        self.ask_to_stop()
        await self.launcher.close()
        for app in self.apps.values():
            await app.close()
        await self.store.close()

    def ask_to_stop(self) -> None:
        """Begin to close: take nothing new, finish the trials in flight, end event streams."""
        self._closing = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        self.tails.close()
        self.launcher.ask_to_stop()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        await self.close()

    # -- what is asked for -------------------------------------------------------------------

    async def start(
        self, app_name: str, request: Json | RunRequest = None, *, run_id: str = ""
    ) -> StoredRun:
        """Check a request, keep it, and drive it as soon as there is room."""
        self._check_open()
        app = self.app(app_name)
        if len(self.launcher.tasks) >= self.limits.running + self.limits.waiting:
            raise TooManyRuns(
                f"{len(self.launcher.tasks)} runs are under way or waiting here",
                remedy="try again when some have ended, or cancel one",
            )
        key = (app_name, run_id or str(uuid.uuid4()))
        self.places.of_new(*key)
        work, stored = await asyncio.to_thread(_planned, app, request)
        self._starting.add(key)
        try:
            record = await self.store.create(*key, strategy=work.strategy, request=stored)
            self.launcher.launch(key, work)
        except BaseException:
            await work.drop()
            raise
        finally:
            self._starting.discard(key)
        self.launcher.counts["started"] += 1
        return record

    async def get(self, app_name: str, run_id: str, *, result: bool = True) -> StoredRun:
        """A run."""
        return await self.store.get(app_name, run_id, result=result)

    async def list_runs(
        self, which: RunFilter = EVERY, *, limit: int = 50, cursor: str = ""
    ) -> RunPage:
        """Runs, newest first."""
        return await self.store.list_runs(which, limit=limit, cursor=cursor)

    async def events(
        self, app_name: str, run_id: str, *, after: int = 0, limit: int = 1000
    ) -> tuple[RunEvent, ...]:
        """Events of a run, in order."""
        return await self.store.events(app_name, run_id, after=after, limit=limit)

    async def cancel(self, app_name: str, run_id: str) -> RunStatus:
        """Stop a run for good, whichever process drives it. RunNotRunning where it is finished."""
        self._check_open()
        status = await self.store.request_cancel(app_name, run_id)
        self.launcher.cancel((app_name, run_id), finished=status.finished)
        self.tails.announce(app_name, run_id)
        return status

    async def resume(self, app_name: str, run_id: str) -> StoredRun:
        """Go on with a run that failed, was canceled, or was left; what was paid stays paid."""
        self._check_open()
        record = await self.store.get(app_name, run_id, result=False)
        place = self.places.of(record)
        if (app_name, run_id) in self.launcher.tasks:
            return record
        work = await asyncio.to_thread(self._checked_again, record, place)
        if record.status.finished:
            record = await self.store.reopen(app_name, run_id)
        self.launcher.launch((app_name, run_id), work)
        return record

    async def delete(self, app_name: str, run_id: str) -> None:
        """Remove a run with its folder and its journal; RunLocked while a process drives it."""
        record = await self.store.get(app_name, run_id, result=False)
        await self.store.delete(app_name, run_id)
        if (task := self.launcher.tasks.get((app_name, run_id))) is not None:
            task.cancel()
        if not self.places.why_not_here(record):
            await asyncio.to_thread(_remove, self.places.of(record))
        self.left.pop((app_name, run_id), None)

    async def wait(self, app_name: str, run_id: str) -> StoredRun:
        """Wait until a run has ended, or until this manager goes down."""
        while True:
            if (task := self.launcher.tasks.get((app_name, run_id))) is not None:
                await asyncio.wait([task])
            record = await self.store.get(app_name, run_id, result=False)
            if record.status.finished or self._closing:
                return await self.store.get(app_name, run_id)
            await asyncio.sleep(_LOOK_SECONDS)  # another process drives it

    def app(self, name: str) -> App:
        """An app by its name."""
        if name not in self.apps:
            raise AppMissing(name)
        return self.apps[name]

    async def structure(self, app_name: str) -> dict[str, Json]:
        """The nodes and surfaces of an app; AppUnfit where nobody can tell."""
        app = self.app(app_name)
        try:
            return await asyncio.to_thread(app.structure)
        except BurnishError as error:
            raise AppUnfit(error.message, remedy=error.remedy) from error

    # -- recovery ----------------------------------------------------------------------------

    async def recover(self) -> int:
        """Pick up runs that nobody drives; how many. The others are in `left`, with the reason."""
        left: dict[_Key, str] = {}
        recovered, cursor = 0, ""
        while True:
            which = RunFilter(undriven=True)
            page = await self.store.list_runs(which, limit=_PAGE, cursor=cursor)
            for record in page.runs:
                key = (record.app_name, record.run_id)
                if key in self.launcher.tasks or key in self._starting or self.launcher.busy:
                    continue
                if why := await self._taken(record):
                    left[key] = why
                else:
                    recovered += 1
            cursor = page.cursor
            if not cursor:
                self.left = left
                return recovered

    async def _taken(self, record: StoredRun) -> str:
        """Go on with a run; why not, where that cannot be."""
        app = self.apps.get(record.app_name)
        if app is None:
            return f'no app "{record.app_name}" is served here'
        if why := self.places.why_not_here(record):
            return why
        try:
            stored = await self.store.get(record.app_name, record.run_id, result=False)
            work = await asyncio.to_thread(app.plan, stored.request)
        except BurnishError as error:
            return f"it cannot be set up again: {error.message}"
        self.launcher.counts["recovered"] += 1
        self.launcher.launch((record.app_name, record.run_id), work)
        return ""

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(self.limits.lease_seconds)
            try:
                await self.recover()
            except BurnishError as error:
                _log.warning("runs that were left are looked for again later: %s", error.message)

    # -- inside ------------------------------------------------------------------------------

    def _checked_again(self, record: StoredRun, place: RunPlace) -> RunWork:
        if place.fetch():
            refuse_spent_test(place.folder)
        return self.app(record.app_name).plan(record.request)

    def _check_open(self) -> None:
        if self._closing:
            raise ManagerClosed


def _planned(app: App, request: Json | RunRequest) -> tuple[RunWork, dict[str, Json]]:
    """The work, and the request as it is kept."""
    if isinstance(request, RunRequest):
        stored: dict[str, Json] = {"kind": "promptiter", "promptiter": request.to_json()}
        if isinstance(app, EngineApp):
            return app.planned(request), stored
        return app.plan(stored), stored
    stored = JobRequest.read(request).to_json()
    work = app.plan(stored)
    return work, {**stored, "spec": dict(work.spec)} if work.spec else stored


def _remove(place: RunPlace) -> None:
    if place.journals is not None:
        place.journals.delete(place.name)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(place.folder)
    forget_run(place.folder)


# -- What the service counts, in Prometheus's text format -----------------------------------------


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


@dataclass
class Requests:
    """Requests that were answered, by method and status."""

    counts: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    seconds: float = 0.0

    def count(self, method: str, status: int, seconds: float) -> None:
        """One more. A method that nobody knows is no label: anyone could make up thousands."""
        self.counts[method if method in _METHODS else "OTHER", status] += 1
        self.seconds += seconds


def exposition(manager: RunManager, requests: Requests) -> str:
    """Everything as text."""
    answered = {
        f'method="{method}",status="{status}"': count
        for (method, status), count in sorted(requests.counts.items())
    }
    lines = [
        *_family("build_info", "gauge", "The version.", {f'version="{VERSION}"': 1}),
        *_family("runs_running", "gauge", "Runs driven here now.", {"": manager.launcher.running}),
        *_family(
            "runs_waiting", "gauge", "Runs that wait for room.", {"": manager.launcher.waiting}
        ),
        *_family(
            "runs_left",
            "gauge",
            "Runs nobody drives that cannot go on here.",
            {"": len(manager.left)},
        ),
        *_family("event_listeners", "gauge", "Open event streams.", {"": manager.tails.listeners}),
        *_family(
            "runs_total",
            "counter",
            "Runs by what became of them here.",
            _outcomes(manager.launcher.counts),
        ),
        *_family("http_requests_total", "counter", "Requests answered.", answered),
        *_family(
            "http_request_seconds_total",
            "counter",
            "Time to the first byte.",
            {"": requests.seconds},
        ),
    ]
    return "\n".join([*lines, ""])


def _outcomes(counts: Mapping[str, int]) -> dict[str, float]:
    return {f'outcome="{name}"': count for name, count in sorted(counts.items())}


def _family(name: str, kind: str, description: str, values: Mapping[str, float]) -> Iterable[str]:
    full = f"burnish_{name}"
    yield f"# HELP {full} {description}"
    yield f"# TYPE {full} {kind}"
    for labels, value in values.items():
        yield f"{full}{{{labels}}} {value}" if labels else f"{full} {value}"
