"""Who drives a run, and who asked to stop it: each a single statement that one process wins."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import case, literal, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from burnish.core.errors import BurnishError
from burnish.server.stores import rows
from burnish.server.stores.engines import StoreEngine
from burnish.server.stores.errors import LeaseLost, RunMissing, RunNotRunning
from burnish.server.stores.names import can_be_kept
from burnish.server.stores.records import CANCELED, Lease, RunRecord, RunStatus
from burnish.server.stores.tables import Tables


class Leases:
    """The part of a store in a database that decides between processes."""

    def __init__(self, engine: StoreEngine, table_prefix: str) -> None:
        self._engine = engine
        self._tables = Tables.named(table_prefix)
        self._runs = self._tables.runs
        self._now = rows.clock(engine.url.kind)

    async def claim(
        self, app_name: str, run_id: str, *, owner: str, seconds: float
    ) -> Lease | None:
        """Become the driver; None where someone is, or the run is finished."""
        runs = self._runs
        taken = (
            update(runs)
            .where(*self._named(app_name, run_id), rows.unfinished(runs))
            .where(runs.c.lease_until <= self._now)
            .values(
                owner=owner,
                lease_token=runs.c.lease_token + 1,
                lease_until=self._now + seconds,
            )
        )
        async with self._engine.writing() as db:
            won = (await db.execute(taken)).rowcount == 1
            row = await self._row(db, app_name, run_id)
            return rows.lease_of(row) if won else None

    async def renew(self, lease: Lease, *, seconds: float) -> Lease:
        """Stay the driver; LeaseLost where someone else is now, or the run is finished."""
        async with self._engine.writing() as db:
            longer = update(self._runs).where(*self._held(lease))
            found = await db.execute(longer.values(lease_until=self._now + seconds))
            if found.rowcount != 1:
                raise LeaseLost(lease.app_name, lease.run_id, lease.owner)
            return rows.lease_of(await self._row(db, lease.app_name, lease.run_id))

    async def release(self, lease: Lease) -> None:
        """Stop being the driver; a lease that was lost is nothing to release."""
        async with self._engine.writing() as db:
            given = update(self._runs).where(*self._held(lease))
            await db.execute(given.values(owner="", lease_until=0.0))

    async def request_cancel(self, app_name: str, run_id: str) -> RunStatus:
        """Ask whoever drives the run to stop it; where nobody does, it is canceled at once."""
        runs = self._runs
        nobody = runs.c.lease_until <= self._now
        values = {
            "cancel_requested": 1,
            "status": case((nobody, RunStatus.CANCELED.value), else_=runs.c.status),
            "error": case((nobody, CANCELED), else_=runs.c.error),
            "owner": case((nobody, ""), else_=runs.c.owner),
        }
        async with self._engine.writing() as db:
            row = await self._change(db, app_name, run_id, values)
            return RunStatus(row["status"])

    async def reopen(self, app_name: str, run_id: str) -> RunRecord:
        """Make a finished run queued again, its error and its cancel request forgotten."""
        again = update(self._runs).where(*self._named(app_name, run_id))
        fresh = {"status": RunStatus.QUEUED.value, "error": "", "cancel_requested": 0}
        async with self._engine.writing() as db:
            await db.execute(
                again.where(~rows.unfinished(self._runs)).values(
                    updated_at=self._now, owner="", lease_until=0.0, **fresh
                )
            )
            return rows.record_of(await self._row(db, app_name, run_id))

    async def cancel_requested(self, app_name: str, run_id: str) -> bool:
        """Whether someone asked for it."""
        async with self._engine.reading() as db:
            return bool((await self._row(db, app_name, run_id))["cancel_requested"])

    async def _change(
        self,
        db: AsyncConnection,
        app_name: str,
        run_id: str,
        values: Mapping[str, Any],
        *,
        lease: Lease | None = None,
    ) -> rows.Row:
        """Change a run that is not finished, under a lease if one is given; its row after that."""
        held = () if lease is None else self._held(lease)
        change = update(self._runs).where(*self._named(app_name, run_id), *held)
        change = change.where(rows.unfinished(self._runs))
        done = await db.execute(change.values(updated_at=self._now, **values))
        row = await self._row(db, app_name, run_id)
        if done.rowcount != 1:
            raise _refusal(row, lease)
        return row

    async def _row(
        self, db: AsyncConnection, app_name: str, run_id: str, *, for_update: bool = False
    ) -> rows.Row:
        """A run's row, and in `driven` whether its lease holds."""
        driven = (self._runs.c.lease_until > self._now).label("driven")
        query = select(self._runs, driven).where(*self._named(app_name, run_id))
        query = query.with_for_update() if for_update else query
        row = (await db.execute(query)).mappings().one_or_none()
        if row is None:
            raise RunMissing(app_name, run_id)
        return row

    def _named(self, app_name: str, run_id: str) -> tuple[Any, ...]:
        if not can_be_kept(app_name, run_id):
            return (literal(value=False),)
        return self._runs.c.app_name == app_name, self._runs.c.run_id == run_id

    def _held(self, lease: Lease) -> tuple[Any, ...]:
        owned = (self._runs.c.owner == lease.owner, self._runs.c.lease_token == lease.token)
        return *self._named(lease.app_name, lease.run_id), *owned


def _refusal(row: rows.Row, lease: Lease | None) -> BurnishError:
    """Why a run could not be changed."""
    if lease is None or RunStatus(row["status"]).finished:
        return RunNotRunning(row["run_id"])
    return LeaseLost(lease.app_name, lease.run_id, lease.owner)
