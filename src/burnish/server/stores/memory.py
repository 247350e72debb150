"""A store in memory: for one process, tests and trying things out."""

import itertools
import time
from dataclasses import replace

from burnish.core.content import Json
from burnish.core.errors import RunLocked
from burnish.server.stores import payloads
from burnish.server.stores.cursors import cursor_of, number_of
from burnish.server.stores.errors import (
    LeaseLost,
    RunExists,
    RunMissing,
    RunNotRunning,
    StoreTrouble,
)
from burnish.server.stores.kept import Kept, freed, holds, leased, matches
from burnish.server.stores.names import check_names, check_score, keepable_text
from burnish.server.stores.records import (
    CANCELED,
    Lease,
    NewEvent,
    RunChanges,
    RunEvent,
    RunFilter,
    RunPage,
    RunRecord,
    RunStatus,
    Where,
    moment,
)
from burnish.server.stores.store import EVERY, UNCHANGED


class MemoryRunStore:
    """Runs that are gone when the process ends."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, str], Kept] = {}
        self._numbers = itertools.count(1)
        self._closed = False

    # -- records ---------------------------------------------------------------------------

    async def create(
        self,
        app_name: str,
        run_id: str,
        *,
        strategy: str = "",
        request: Json = None,
        where: Where | None = None,
    ) -> RunRecord:
        """Keep a new run, queued; RunExists where the app has one with this id."""
        check_names(app_name, run_id)
        content = await payloads.packed(request)
        self._check_open()
        if (app_name, run_id) in self._runs:
            raise RunExists(app_name, run_id)
        now = moment(time.time())
        record = RunRecord(
            app_name=app_name,
            run_id=run_id,
            strategy=strategy,
            created_at=now,
            updated_at=now,
            where=where or Where(),
        )
        self._runs[app_name, run_id] = kept = Kept(
            number=next(self._numbers), record=record, request=content
        )
        return replace(kept.record, request=await payloads.unpacked(content))

    async def get(self, app_name: str, run_id: str, *, result: bool = True) -> RunRecord:
        """A run; without `result` that is left out, which is cheap."""
        kept = self._kept(app_name, run_id)
        record, request, given = kept.record, kept.request, kept.result if result else None
        return replace(
            record,
            request=await payloads.unpacked(request),
            result=None if given is None else await payloads.unpacked(given),
        )

    async def update(
        self, app_name: str, run_id: str, changes: RunChanges, *, lease: Lease | None = None
    ) -> RunRecord:
        """Change a run; what is given back has no request and no result."""
        check_score(changes.best_score)
        result = None if changes.result is None else await payloads.packed(changes.result)
        kept = self._writable(app_name, run_id, lease)
        self._change(kept, changes, result)
        return kept.record

    async def delete(self, app_name: str, run_id: str) -> None:
        """Remove a run and its events; RunLocked while a process drives it."""
        kept = self._kept(app_name, run_id)
        if kept.driven:
            raise RunLocked(
                f'run "{run_id}" for app "{app_name}" is driven by {kept.record.owner}',
                remedy="cancel it first",
            )
        del self._runs[app_name, run_id]

    async def list_runs(
        self, which: RunFilter = EVERY, *, limit: int = 50, cursor: str = ""
    ) -> RunPage:
        """Runs, newest first, without requests and results."""
        self._check_open()
        before = number_of(cursor)
        found = [kept for kept in reversed(self._runs.values()) if matches(kept, which)]
        found = [kept for kept in found if before is None or kept.number < before]
        page = found[:limit]
        more = cursor_of(page[-1].number) if page and len(found) > limit else ""
        return RunPage(runs=tuple(kept.record for kept in page), cursor=more)

    # -- events ----------------------------------------------------------------------------

    async def append_event(
        self,
        app_name: str,
        run_id: str,
        event: NewEvent,
        changes: RunChanges = UNCHANGED,
        *,
        lease: Lease | None = None,
    ) -> int:
        """Keep an event and change the run, together; the event's number."""
        check_score(changes.best_score)
        body = await payloads.packed(event.payload)
        result = None if changes.result is None else await payloads.packed(changes.result)
        known = self._kept(app_name, run_id).keys.get(event.key)
        if known is not None:
            return known
        kept = self._writable(app_name, run_id, lease)
        number = len(kept.events) + 1
        now = moment(time.time())
        told = RunEvent(number=number, kind=event.kind, round=event.round, payload=None, at=now)
        kept.events.append((told, body))
        if event.key:
            kept.keys[event.key] = number
        kept.record = replace(kept.record, events=number)
        self._change(kept, changes, result)
        return number

    async def events(
        self, app_name: str, run_id: str, *, after: int = 0, limit: int = 1000
    ) -> tuple[RunEvent, ...]:
        """The events with a number above `after`, in order."""
        found = self._kept(app_name, run_id).events[after : after + limit]
        return tuple([replace(told, payload=await payloads.unpacked(b)) for told, b in found])

    # -- leases and canceling --------------------------------------------------------------

    async def claim(
        self, app_name: str, run_id: str, *, owner: str, seconds: float
    ) -> Lease | None:
        """Become the driver; None where someone is, or the run is finished."""
        kept = self._kept(app_name, run_id)
        if kept.driven or kept.record.status.finished:
            return None
        kept.token += 1
        return leased(kept, owner, seconds)

    async def renew(self, lease: Lease, *, seconds: float) -> Lease:
        """Stay the driver; LeaseLost where someone else is now, or the run is finished."""
        kept = self._runs.get((lease.app_name, lease.run_id))
        self._check_open()
        if kept is None or not holds(kept, lease):
            raise LeaseLost(lease.app_name, lease.run_id, lease.owner)
        return leased(kept, lease.owner, seconds)

    async def release(self, lease: Lease) -> None:
        """Stop being the driver; a lease that was lost is nothing to release."""
        self._check_open()
        kept = self._runs.get((lease.app_name, lease.run_id))
        if kept is not None and holds(kept, lease):
            freed(kept)

    async def request_cancel(self, app_name: str, run_id: str) -> RunStatus:
        """Ask whoever drives the run to stop it; where nobody does, it is canceled at once."""
        kept = self._writable(app_name, run_id, None)
        kept.record = replace(kept.record, cancel_requested=True)
        ends = RunChanges() if kept.driven else RunChanges(status=RunStatus.CANCELED)
        self._change(kept, ends, None)
        return kept.record.status

    async def reopen(self, app_name: str, run_id: str) -> RunRecord:
        """Make a finished run queued again, its error and its cancel request forgotten."""
        kept = self._kept(app_name, run_id)
        if kept.record.status.finished:
            fresh = {"status": RunStatus.QUEUED, "error": "", "cancel_requested": False}
            kept.record = replace(kept.record, updated_at=moment(time.time()), **fresh)
        return kept.record

    async def cancel_requested(self, app_name: str, run_id: str) -> bool:
        """Whether someone asked for it."""
        return self._kept(app_name, run_id).record.cancel_requested

    async def close(self) -> None:
        """Forget everything."""
        self._closed = True
        self._runs.clear()

    # -- inside ----------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise StoreTrouble("the store is closed")

    def _kept(self, app_name: str, run_id: str) -> Kept:
        self._check_open()
        if (app_name, run_id) not in self._runs:
            raise RunMissing(app_name, run_id)
        return self._runs[app_name, run_id]

    def _writable(self, app_name: str, run_id: str, lease: Lease | None) -> Kept:
        kept = self._kept(app_name, run_id)
        if kept.record.status.finished:
            raise RunNotRunning(run_id)
        if lease is not None and not holds(kept, lease):
            raise LeaseLost(app_name, run_id, lease.owner)
        return kept

    def _change(self, kept: Kept, changes: RunChanges, result: bytes | None) -> None:
        """Nothing waits in here, so nobody sees half of a change."""
        before = kept.record
        status, error = changes.status or before.status, changes.error
        if status.finished and before.cancel_requested:
            status, error = RunStatus.CANCELED, CANCELED
        score = before.best_score if changes.best_score is None else changes.best_score
        turn = before.current_round if changes.current_round is None else changes.current_round
        kept.record = replace(
            before,
            status=status,
            error=before.error if error is None else keepable_text(error),
            current_round=turn,
            best_score=score,
            where=changes.where or before.where,
            updated_at=moment(time.time()),
        )
        kept.result = kept.result if result is None else result
        if status.finished:
            freed(kept)
