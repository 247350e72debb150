"""The run manager: starts, resumes and cancels runs, and picks up those a dead process left."""

import asyncio
import contextlib
import logging
import shutil
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from burnish.compat.promptiter import RunRequest
from burnish.core.content import Json
from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.effects.database_store import DatabaseJournals
from burnish.runs.index import forget_run
from burnish.runs.opening import refuse_spent_test
from burnish.server.apps.asking import Asked
from burnish.server.apps.engine_app import EngineApp
from burnish.server.errors import AppMissing, AppUnfit, ManagerClosed, TooManyRuns
from burnish.server.launching import Key, Launcher
from burnish.server.limits import ServiceLimits
from burnish.server.places import Place, Places
from burnish.server.stores.database import MemoryRunStore
from burnish.server.stores.records import (
    EVERY,
    RunEvent,
    RunFilter,
    RunPage,
    RunRecord,
    RunStatus,
    RunStore,
)
from burnish.server.tails import Tails
from burnish.server.work import App, Work

log = logging.getLogger("burnish.server")
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
        self.places = Places(data=Path(data), journals=journals)
        self.limits = limits or ServiceLimits()
        self.tails = Tails(self.store)
        self.launcher = Launcher(self.store, self.places, self.limits, self.tails)
        self.left: dict[Key, str] = {}
        """Runs that are not driven, and why this process cannot."""
        self._starting: set[Key] = set()
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
    ) -> RunRecord:
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
        work, kept = await asyncio.to_thread(_planned, app, request)
        self._starting.add(key)
        try:
            record = await self.store.create(*key, strategy=work.strategy, request=kept)
            self.launcher.launch(key, work)
        except BaseException:
            await work.drop()
            raise
        finally:
            self._starting.discard(key)
        self.launcher.counts["started"] += 1
        return record

    async def get(self, app_name: str, run_id: str, *, result: bool = True) -> RunRecord:
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

    async def resume(self, app_name: str, run_id: str) -> RunRecord:
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

    async def wait(self, app_name: str, run_id: str) -> RunRecord:
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
        left: dict[Key, str] = {}
        found, cursor = 0, ""
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
                    found += 1
            cursor = page.cursor
            if not cursor:
                self.left = left
                return found

    async def _taken(self, record: RunRecord) -> str:
        """Go on with a run; why not, where that cannot be."""
        app = self.apps.get(record.app_name)
        if app is None:
            return f'no app "{record.app_name}" is served here'
        if why := self.places.why_not_here(record):
            return why
        try:
            kept = await self.store.get(record.app_name, record.run_id, result=False)
            work = await asyncio.to_thread(app.plan, kept.request)
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
                log.warning("runs that were left are looked for again later: %s", error.message)

    # -- inside ------------------------------------------------------------------------------

    def _checked_again(self, record: RunRecord, place: Place) -> Work:
        if place.fetch():
            refuse_spent_test(place.folder)
        return self.app(record.app_name).plan(record.request)

    def _check_open(self) -> None:
        if self._closing:
            raise ManagerClosed


def _planned(app: App, request: Json | RunRequest) -> tuple[Work, dict[str, Json]]:
    """The work, and the request as it is kept."""
    if isinstance(request, RunRequest):
        kept: dict[str, Json] = {"kind": "promptiter", "promptiter": request.to_json()}
        if isinstance(app, EngineApp):
            return app.planned(request), kept
        return app.plan(kept), kept
    kept = Asked.read(request).to_json()
    work = app.plan(kept)
    return work, {**kept, "spec": dict(work.spec)} if work.spec else kept


def _remove(place: Place) -> None:
    if place.journals is not None:
        place.journals.delete(place.name)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(place.folder)
    forget_run(place.folder)
