"""The run manager: accepts, resumes and cancels runs within limits; the launcher drives them.

What it counts, with requests and workers, is told to Prometheus.
"""

import asyncio
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TypeAlias, cast

from burnish.compat.promptiter import RunRequest
from burnish.core.content import Json
from burnish.core.errors import BurnishError, ConfigError, ResumeRefused
from burnish.journal.database_store import DatabaseJournals
from burnish.projects.resuming import require_same_file
from burnish.runs.setup import refuse_spent_test
from burnish.server.accounting import Accounting
from burnish.server.apps import EngineApp
from burnish.server.launcher import Launcher, ServiceLimits
from burnish.server.runs import (
    AppMissing,
    AppUnfit,
    ManagerClosed,
    RunPlace,
    RunPlaces,
    Tails,
    TooManyRuns,
)
from burnish.server.shapes import JobRequest
from burnish.server.stores.database import MemoryRunStore
from burnish.server.stores.queue import QueueLength, ServiceProcess
from burnish.server.stores.records import (
    EVERY,
    REFINEMENTS,
    RunEvent,
    RunExists,
    RunFilter,
    RunPage,
    RunStatus,
    RunStore,
    RunSucceeded,
    StoredRun,
)
from burnish.server.tokens import Client, ServiceRole
from burnish.server.work import App, RunWork
from burnish.version import VERSION

_Key = tuple[str, str]
"""App and run."""


class RunManager:
    """The runs of some apps, over a store that other processes may share.

    Entering or opening it picks up unfinished runs; closing it leaves every run resumable. In the
    role `api` it drives none.
    """

    def __init__(
        self,
        apps: Sequence[App],
        *,
        data: Path | str,
        store: RunStore | None = None,
        journals: DatabaseJournals | None = None,
        limits: ServiceLimits | None = None,
        role: ServiceRole = ServiceRole.BOTH,
    ) -> None:
        self.apps: Mapping[str, App] = {app.name: app for app in apps}
        if len(self.apps) < len(apps):
            raise ConfigError.of("app", "two apps have the same name")
        if REFINEMENTS in self.apps:
            raise ConfigError.of("app", f"'{REFINEMENTS}' names the refinements of all apps")
        self.store: RunStore = MemoryRunStore() if store is None else store
        self.places = RunPlaces(data=Path(data), journals=journals)
        self.limits = limits or ServiceLimits()
        self.tails = Tails(
            self.store, most=self.limits.listeners, per_token=self.limits.listeners_per_token
        )
        self.accounting = Accounting(self.store, self.places)
        self.launcher = Launcher(
            self.apps,
            self.store,
            self.places,
            self.limits,
            self.tails,
            self.accounting,
            role=role,
        )
        self._closed = self._closing = False

    async def open(self) -> None:
        """Pick up unfinished runs, now and periodically. Can be called twice."""
        await self.launcher.open()

    async def close(self) -> None:
        """Stop every run so that it can be resumed, then close the apps and the store."""
        if self._closed:
            return
        self._closed = True
        self.ask_to_stop()
        await self.launcher.close()
        for app in self.apps.values():
            await app.close()
        await self.store.close()

    def ask_to_stop(self) -> None:
        """Begin to close: accept nothing new, finish trials in flight, end event streams."""
        self._closing = True
        self.tails.close()
        self.launcher.ask_to_stop()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def start(
        self,
        app_name: str,
        request: Json | RunRequest = None,
        *,
        run_id: str = "",
        client: Client | None = None,
    ) -> StoredRun:
        """Check and store a request, which is driven as soon as a worker has a free place.

        The limits of a `client` bind the run; a program that has the manager has none.
        """
        planned = await self._plan(app_name, run_id, request, client)
        return await self._offered(planned, client)

    async def start_all(
        self,
        app_name: str,
        requests: Mapping[str, Json],
        *,
        client: Client | None = None,
    ) -> list[StoredRun]:
        """Start runs of one app by their ids, or none of them.

        All are checked before the first begins, which may write where the others are read from.
        """
        planned: list[_Planned] = []
        started: list[StoredRun] = []
        try:
            for run_id, request in requests.items():
                planned.append(await self._plan(app_name, run_id, request, client))
            while planned:
                started.append(await self._offered(planned.pop(0), client))
        except BaseException:  # whatever it was, nobody asked for some of them
            for each in planned:
                await each.work.drop()
            for record in started:
                with suppress(BurnishError):  # it has ended already
                    await self.cancel(record.app_name, record.run_id)
            raise
        return started

    async def _plan(
        self,
        app_name: str,
        run_id: str,
        request: Json | RunRequest,
        client: Client | None,
    ) -> "_Planned":
        """Check a request, and make its work."""
        self._check_open()
        app = self.app(app_name)
        await self._check_room()
        key = (app_name, run_id or str(uuid.uuid4()))
        self.places.of_new(*key)
        work, stored = await asyncio.to_thread(_work_of, app, request, tighten=client is not None)
        return _Planned(key=key, work=work, request=stored)

    async def _offered(self, planned: "_Planned", client: Client | None) -> StoredRun:
        """Store a run, and let a worker take it."""
        key, work = planned.key, planned.work
        try:
            with self.launcher.reserved(key):
                record = await self._stored(client, planned)
                await self.launcher.offer(key, work)
        except BaseException:  # cancelled or failed, what was prepared is dropped
            await work.drop()
            raise
        self.launcher.counts["started"] += 1
        return record

    async def drive_refinement(
        self, session: str, work: RunWork, place: RunPlace, *, request: Json, account: str
    ) -> None:
        """Store a refinement, or open it again if it is stored, and drive it here and now."""
        self._check_open()
        key = (REFINEMENTS, session)
        try:
            await self.store.create(
                *key,
                strategy=work.strategy,
                request=request,
                where=self.places.where(place),
                account=account,
            )
        except RunExists:
            await self.store.reopen(*key)
        await self.launcher.drive(key, work)
        self.launcher.counts["started"] += 1

    async def _check_room(self) -> None:
        """Refuse a run that could not even wait."""
        waiting = await self.waiting()
        if waiting < self.limits.waiting:
            return
        free = sum(each.free for each in await self.launcher.processes())
        if waiting >= self.limits.waiting + free:
            raise TooManyRuns(
                f"{waiting} runs are waiting",
                remedy="try again when some have ended, or cancel one",
            )

    async def waiting(self) -> int:
        """How many runs wait for a worker, of all that share the store."""
        return (await self.store.queue.length()).waiting

    async def _stored(self, client: Client | None, planned: "_Planned") -> StoredRun:
        """Reserve what a run may spend, and store it."""
        key, work = planned.key, planned.work
        granted = None
        if client is not None:
            granted = await self.accounting.reserve(client, key, work.budget)
        try:
            if granted is not None:
                await asyncio.to_thread(work.limit, granted)
            await asyncio.to_thread(work.check_new)
            return await self.store.create(
                *key,
                strategy=work.strategy,
                request=planned.request,
                account="" if client is None else client.account,
            )
        except BaseException:  # cancelled or failed, the reservation is given back
            if client is not None:
                await self.accounting.drop(key)
            raise

    async def get(self, app_name: str, run_id: str, *, result: bool = True) -> StoredRun:
        return await self.store.get(app_name, run_id, result=result)

    async def list_runs(
        self, which: RunFilter = EVERY, *, limit: int = 50, cursor: str = ""
    ) -> RunPage:
        return await self.store.list_runs(which, limit=limit, cursor=cursor)

    async def events(
        self, app_name: str, run_id: str, *, after: int = 0, limit: int = 1000
    ) -> tuple[RunEvent, ...]:
        return await self.store.events(app_name, run_id, after=after, limit=limit)

    async def cancel(
        self, app_name: str, run_id: str, *, client: Client | None = None
    ) -> RunStatus:
        """Stop a run for good, whichever process drives it. RunNotRunning if it is finished."""
        self._check_open()
        key = (app_name, run_id)
        if client is not None:
            await self.accounting.check_owner(client, key)
        status = await self.store.request_cancel(*key)
        await self.launcher.cancel(key)
        if status.finished:
            await self.accounting.settle_finished()
        self.tails.announce(app_name, run_id)
        return status

    async def resume(
        self,
        app_name: str,
        run_id: str,
        *,
        client: Client | None = None,
        limits: Mapping[str, float] | None = None,
    ) -> StoredRun:
        """Resume a run that failed, was canceled or was abandoned; no call is paid for twice.

        With new `limits`, a run that ended at its old ones goes on too. They are cut to those of
        the app's file.
        """
        self._check_open()
        key = (app_name, run_id)
        record = await self.store.get(*key, result=False)
        if client is not None:
            await self.accounting.check_owner(client, key)
        await self._check_resumable(record, limits)
        place = self.places.of(record)
        if key in self.launcher.tasks:
            return record

        app, request = self.app(app_name), record.request

        def plan() -> RunWork:
            if place.fetch():
                refuse_spent_test(place.folder)
                require_same_file(place.folder)
            return app.plan(request)

        if limits:
            request = await _with_limits(app, request, limits)
        work = await asyncio.to_thread(plan)
        try:
            await self._limit_again(client, key, work, finished=record.status.finished)
        except BaseException:  # cancelled or failed, what was prepared is dropped
            await work.drop()
            raise
        if record.status.finished:
            with self.launcher.reserved(key):
                record = await self.store.reopen(*key, request=request if limits else None)
                await self.launcher.offer(key, work)
        else:
            await self.launcher.offer(key, work)
        return record

    async def _check_resumable(self, record: StoredRun, limits: Mapping[str, float] | None) -> None:
        """Refuse what cannot go on, and wait until a run that is over has closed its files."""
        if record.status is RunStatus.SUCCEEDED and not limits:
            raise RunSucceeded(record.run_id)
        if limits and not record.status.finished:
            message = f'run "{record.run_id}" is not over, so its limits cannot change'
            raise ResumeRefused(message, remedy="stop it first")
        task = self.launcher.tasks.get((record.app_name, record.run_id))
        if record.status.finished and task is not None:
            await asyncio.wait([task])

    async def _limit_again(
        self, client: Client | None, key: _Key, work: RunWork, *, finished: bool
    ) -> None:
        """Apply the reservation of a run; a finished one needs a new one, from its own account."""
        charge = await self.store.accounts.charge(key)
        if client is not None and finished:
            granted = await self.accounting.reserve(client, key, work.budget, again=True)
            await asyncio.to_thread(work.limit, granted)
        elif charge is not None:
            await asyncio.to_thread(work.limit, charge.granted)

    async def delete(self, app_name: str, run_id: str, *, client: Client | None = None) -> None:
        """Delete a run with its folder and journal; RunLocked while a process drives it."""
        record = await self.store.get(app_name, run_id, result=False)
        if client is not None:
            await self.accounting.check_owner(client, (app_name, run_id))
        await self.accounting.settle_finished()
        await self.store.delete(app_name, run_id)
        await self.launcher.cancel((app_name, run_id))
        if not self.places.why_not_here(record):
            await asyncio.to_thread(self.places.of(record).remove)
        await self.accounting.forget((app_name, run_id))
        self.launcher.left.pop((app_name, run_id), None)

    async def wait(self, app_name: str, run_id: str) -> StoredRun:
        """Wait until a run has ended, or until this manager closes."""
        while True:
            if (task := self.launcher.tasks.get((app_name, run_id))) is not None:
                await asyncio.wait([task])
            record = await self.store.get(app_name, run_id, result=False)
            if record.status.finished or self._closing:
                return await self.store.get(app_name, run_id)
            await self.launcher.changed(0.5)  # another process may drive it

    def app(self, name: str) -> App:
        if name not in self.apps:
            raise AppMissing(name)
        return self.apps[name]

    async def structure(self, app_name: str, *, whole: bool = False) -> dict[str, Json]:
        """The nodes and surfaces of an app; AppUnfit if it has none."""
        app = self.app(app_name)
        try:
            return await asyncio.to_thread(app.structure, whole=whole)
        except BurnishError as error:
            raise AppUnfit(error.message, remedy=error.remedy) from error

    async def recover(self) -> int:
        """Take waiting runs now, and return how many."""
        return await self.launcher.recover()

    @property
    def left(self) -> Mapping[_Key, str]:
        """Runs that nobody drives, and why this process cannot."""
        return self.launcher.left

    def _check_open(self) -> None:
        if self._closing:
            raise ManagerClosed


@dataclass(frozen=True, kw_only=True)
class _Planned:
    """A run that was checked and may be stored."""

    key: _Key
    work: RunWork
    request: Json


def _work_of(
    app: App, request: Json | RunRequest, *, tighten: bool
) -> tuple[RunWork, dict[str, Json]]:
    """The work, and the request as it will be stored."""
    if isinstance(request, RunRequest):
        stored: dict[str, Json] = {"kind": "promptiter", "promptiter": request.to_json()}
        if isinstance(app, EngineApp):
            return app.planned(request), stored
        return app.plan(stored), stored
    stored = JobRequest.read(request).to_json()
    work = app.plan(stored, tighten=tighten)
    if work.request is not None:
        stored["promptiter"] = work.request
    return work, {**stored, "spec": dict(work.spec)} if work.spec else stored


async def _with_limits(app: App, request: Json, limits: Mapping[str, float]) -> dict[str, Json]:
    """A stored request with other limits, cut to those of the app's file."""
    job = JobRequest.read(request)
    if job.kind != "optimize" or job.spec is None:
        remedy = "resume it without new limits, or start a new run"
        raise AppUnfit("the limits of this run cannot change", remedy=remedy)
    asked: Json = {"settings": {**job.settings.values, **limits}}
    work, settings = await asyncio.to_thread(_work_of, app, asked, tighten=True)
    budget = work.budget
    await work.drop()
    new: dict[str, Json] = {name: getattr(budget, name) for name in limits}
    before = job.spec.get("budget")
    spec = {**job.spec, "budget": {**(before if isinstance(before, dict) else {}), **new}}
    return {**settings, "spec": cast("Json", spec)}


# -- Figures for Prometheus ------------------------------------------------------------------------


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_Family: TypeAlias = tuple[str, str, str, Mapping[str, float] | float]
"""Name, type, description, and a value, or values by their labels."""


@dataclass
class Requests:
    """Answered requests, by method and status."""

    counts: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    seconds: float = 0.0

    def count(self, method: str, status: int, seconds: float) -> None:
        """Count a request; an unknown method gets no label, or clients could create thousands."""
        self.counts[method if method in _METHODS else "OTHER", status] += 1
        self.seconds += seconds


async def exposition(manager: RunManager, requests: Requests) -> str:
    """Everything in Prometheus's text format; without a store, only what this process knows."""
    families = [*_own(manager, requests)]
    try:
        length = await manager.store.queue.length()
        processes = await manager.launcher.processes()
    except BurnishError:
        families.append(("store_up", "gauge", "Whether the store answers.", 0))
    else:
        families.append(("store_up", "gauge", "Whether the store answers.", 1))
        families += _cluster(length, processes)
    return "".join(f"{line}\n" for family in families for line in _lines(family))


def _own(manager: RunManager, requests: Requests) -> Iterator[_Family]:
    launcher = manager.launcher
    yield "build_info", "gauge", "The version.", {f'version="{VERSION}"': 1}
    yield "runs_running", "gauge", "Runs driven here now.", launcher.running
    yield "runs_left", "gauge", "Runs that wait and cannot continue here.", len(launcher.left)
    yield "event_listeners", "gauge", "Open event streams.", manager.tails.listeners
    outcomes = {f'outcome="{name}"': count for name, count in sorted(launcher.counts.items())}
    yield "runs_total", "counter", "Runs of this process by outcome.", outcomes
    answered = {
        f'method="{method}",status="{status}"': count
        for (method, status), count in sorted(requests.counts.items())
    }
    yield "http_requests_total", "counter", "Requests answered.", answered
    seconds = requests.seconds
    yield "http_request_seconds_total", "counter", "Time to the first byte.", seconds


def _cluster(length: QueueLength, processes: tuple[ServiceProcess, ...]) -> Iterator[_Family]:
    """What every process of the service tells alike, since it is in the store."""

    workers = [each for each in processes if each.role.drives]
    busy = sum(each.busy > 0 for each in workers)
    used, free = sum(each.busy for each in workers), sum(each.free for each in workers)
    yield "queue_runs", "gauge", "Runs that wait for a worker.", length.waiting
    yield (
        "queue_oldest_seconds",
        "gauge",
        "How long the oldest of them has waited.",
        length.oldest_seconds,
    )
    yield "queue_running", "gauge", "Runs that a worker drives.", length.running
    states = {'state="busy"': busy, 'state="idle"': len(workers) - busy}
    yield "workers", "gauge", "Processes that drive runs, with and without one.", states
    places = {'state="busy"': used, 'state="idle"': free}
    yield "worker_places", "gauge", "Runs that they drive, and could drive besides.", places


def _lines(family: _Family) -> Iterator[str]:
    name, kind, description, values = family
    full = f"burnish_{name}"
    yield f"# HELP {full} {description}"
    yield f"# TYPE {full} {kind}"
    if isinstance(values, Mapping):
        for labels, value in values.items():
            yield f"{full}{{{labels}}} {value}"
    else:
        yield f"{full} {values}"
