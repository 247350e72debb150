"""The queue of a store: which run is next, and which processes there are to drive it.

The next run is one of the account that has the fewest runs going on; among equals, of the account
that has waited longest for a turn.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import (
    ColumnElement,
    Connection,
    case,
    delete,
    func,
    insert,
    select,
    update,
)

from burnish.journal.tables import Schema
from burnish.server.stores.accounts import InThread, StoreTables
from burnish.server.tokens import ServiceRole
from burnish.system.databases import Database

_AT_ONCE = 20
_LEFT_BEHIND = 3600.0
"""Seconds after which the row of a process that was killed is removed."""


@dataclass(frozen=True, kw_only=True)
class ServiceProcess:
    """A process of the service, as it last reported itself."""

    name: str
    """As in the leases of its runs."""
    role: ServiceRole
    host: str
    places: int
    """How many runs it can drive at once."""
    busy: int
    """How many it drives."""

    @property
    def free(self) -> int:
        return max(0, self.places - self.busy)


@dataclass(frozen=True, kw_only=True)
class QueueLength:
    """The unfinished runs."""

    waiting: int = 0
    running: int = 0
    oldest_seconds: float = 0.0
    """For how long the oldest has been waiting."""


class RunQueue(Protocol):
    """The order in which waiting runs are driven, and who can drive them."""

    async def next_runs(
        self, apps: Collection[str], *, skip: Collection[tuple[str, str]] = ()
    ) -> tuple[tuple[str, str], ...]:
        """Runs of these apps that can be claimed, the next one first; empty if there are none."""
        ...

    async def length(self) -> QueueLength:
        """How many runs wait and go on."""
        ...

    async def check_in(self, process: ServiceProcess) -> None:
        """Report a process, also that it is still there."""
        ...

    async def check_out(self, name: str) -> None:
        """Remove a process that ends."""
        ...

    async def processes(self, *, seconds: float) -> tuple[ServiceProcess, ...]:
        """Those that reported themselves within this time."""
        ...


class DatabaseQueue(StoreTables):
    """The queue next to the runs of a store."""

    def __init__(
        self,
        database: Database,
        schema: Schema,
        in_thread: InThread,
        unfinished: ColumnElement[bool],
    ) -> None:
        super().__init__(database, in_thread)
        self._unfinished = unfinished
        self._runs = schema.tables["runs"]
        self._queue = schema.tables["run_queue"]
        self._processes = schema.tables["processes"]
        self._queued = self._runs.join(self._queue, self._queue.c.run == self._runs.c.id)

    async def next_runs(
        self, apps: Collection[str], *, skip: Collection[tuple[str, str]] = ()
    ) -> tuple[tuple[str, str], ...]:
        return await self._do(self._next_runs, apps, frozenset(skip))

    async def length(self) -> QueueLength:
        return await self._do(self._length)

    async def check_in(self, process: ServiceProcess) -> None:
        await self._do(self._check_in, process)

    async def check_out(self, name: str) -> None:
        await self._do(self._check_out, name)

    async def processes(self, *, seconds: float) -> tuple[ServiceProcess, ...]:
        return await self._do(self._seen, seconds)

    def add(self, db: Connection, run: int, *, account: str) -> None:
        """Put a new run into the queue."""
        row = {"run": run, "account": account, "leased_at": 0.0}
        db.execute(insert(self._queue).values(**row))

    def take_turn(self, db: Connection, run: int) -> None:
        """Note that the account of a run had its turn."""
        own = update(self._queue).where(self._queue.c.run == run)
        db.execute(own.values(leased_at=self._now))

    def remove(self, db: Connection, run: int) -> None:
        """Remove a deleted run."""
        db.execute(delete(self._queue).where(self._queue.c.run == run))

    def _next_runs(
        self, apps: Collection[str], skip: frozenset[tuple[str, str]]
    ) -> tuple[tuple[str, str], ...]:
        found: list[tuple[str, str]] = []
        with self._database.transaction(read_only=True) as db:
            for account in self._turns(db, apps):
                for key in self._of_account(db, apps, account, most=_AT_ONCE + len(skip)):
                    if key not in skip:
                        found.append(key)
                    if len(found) == _AT_ONCE:
                        return tuple(found)
        return tuple(found)

    def _turns(self, db: Connection, apps: Collection[str]) -> Sequence[str]:
        """The accounts with waiting runs, the one whose turn it is first."""
        runs, account = self._runs, self._queue.c.account
        groups = select(account, func.min(runs.c.id)).select_from(self._queued)
        groups = groups.where(*self._waiting(apps)).group_by(account)
        waiting = {str(row[0]): int(row[1]) for row in db.execute(groups)}
        if len(waiting) < 2:
            return [*waiting]
        driven = select(account, func.count()).select_from(self._queued)
        driven = driven.where(self._unfinished, runs.c.lease_until > self._now)
        rows = db.execute(driven.group_by(account))
        busy = {str(row[0]): int(row[1]) for row in rows}

        def order(each: str) -> tuple[float, ...]:
            return busy.get(each, 0), self._last_turn(db, each), waiting[each]

        return sorted(waiting, key=order)

    def _last_turn(self, db: Connection, account: str) -> float:
        table = self._queue
        query = select(func.max(table.c.leased_at)).where(table.c.account == account)
        return float(db.execute(query).scalar() or 0.0)

    def _of_account(
        self, db: Connection, apps: Collection[str], account: str, *, most: int
    ) -> Sequence[tuple[str, str]]:
        runs = self._runs
        query = select(runs.c.app_name, runs.c.run_id).select_from(self._queued)
        query = query.where(*self._waiting(apps), self._queue.c.account == account)
        rows = db.execute(query.order_by(runs.c.id).limit(most))
        return [(app, run) for app, run in rows]

    def _waiting(self, apps: Collection[str]) -> tuple[ColumnElement[bool], ...]:
        runs = self._runs
        return runs.c.app_name.in_(apps), self._unfinished, runs.c.lease_until <= self._now

    def _length(self) -> QueueLength:
        runs = self._runs
        waits = runs.c.lease_until <= self._now
        # It waits since it was stored, queued again, or left by a process that died.
        since = case(
            (runs.c.lease_until > runs.c.updated_at, runs.c.lease_until), else_=runs.c.updated_at
        )
        query = select(
            func.sum(case((waits, 1), else_=0)),
            func.count(),
            self._now - func.min(case((waits, since))),
        )
        with self._database.transaction(read_only=True) as db:
            waiting, count, age = db.execute(query.where(self._unfinished)).one()
        return QueueLength(
            waiting=int(waiting or 0),
            running=int(count) - int(waiting or 0),
            oldest_seconds=max(0.0, float(age or 0.0)),
        )

    def _check_in(self, process: ServiceProcess) -> None:
        table = self._processes
        values = {**vars(process), "role": process.role.value, "seen_at": self._now}
        with self._database.transaction() as db:
            own = update(table).where(table.c.name == process.name)
            if not db.execute(own.values(**values)).rowcount:
                db.execute(insert(table).values(**values))
                db.execute(delete(table).where(table.c.seen_at < self._now - _LEFT_BEHIND))

    def _check_out(self, name: str) -> None:
        with self._database.transaction() as db:
            db.execute(delete(self._processes).where(self._processes.c.name == name))

    def _seen(self, seconds: float) -> tuple[ServiceProcess, ...]:
        table = self._processes
        query = select(table).where(table.c.seen_at >= self._now - seconds).order_by(table.c.name)
        with self._database.transaction(read_only=True) as db:
            rows = db.execute(query).mappings().all()
        return tuple(
            ServiceProcess(
                name=row["name"],
                role=ServiceRole(row["role"]),
                host=row["host"],
                places=row["places"],
                busy=row["busy"],
            )
            for row in rows
        )
