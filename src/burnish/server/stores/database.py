"""A store in SQLite, PostgreSQL, MySQL or MariaDB."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from burnish.core.content import Json
from burnish.core.errors import RunLocked
from burnish.effects.database_schema import PREFIX
from burnish.effects.database_urls import DatabaseUrl
from burnish.server.stores import payloads, rows, schema
from burnish.server.stores.cursors import cursor_of, number_of
from burnish.server.stores.database_leases import Leases
from burnish.server.stores.engines import StoreEngine
from burnish.server.stores.errors import RunExists
from burnish.server.stores.names import check_names, check_score, keepable_text
from burnish.server.stores.records import (
    Lease,
    NewEvent,
    RunChanges,
    RunEvent,
    RunFilter,
    RunPage,
    RunRecord,
    Where,
    moment,
)
from burnish.server.stores.store import EVERY, UNCHANGED

_PART = 4 * 1024 * 1024
"""Servers refuse packets above a size; MariaDB's is 16 MB where nobody set it."""
_REQUEST, _RESULT = "request", "result"


class DatabaseRunStore(Leases):
    """Runs in a database that many processes share."""

    def __init__(self, url: DatabaseUrl, *, table_prefix: str = PREFIX) -> None:
        super().__init__(StoreEngine(url), table_prefix)
        self._prefix = table_prefix

    def __repr__(self) -> str:
        return f"DatabaseRunStore({str(self._engine.url)!r})"

    async def prepare(
        self, *, create_schema: bool = True, steps: Sequence[schema.Step] = schema.STEPS
    ) -> None:
        """Make the tables or bring them up to date; or only see that they are."""
        async with self._engine.writing() as db:
            act = schema.migrate if create_schema else schema.require
            await db.run_sync(act, self._prefix, steps)

    async def close(self) -> None:
        """Let go of the database. Doing so twice is fine."""
        await self._engine.close()

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
        named = {"app_name": app_name, "run_id": run_id, "strategy": strategy}
        times = {"created_at": self._now, "updated_at": self._now}
        row = rows.NEW | named | times | rows.place(where or Where())
        try:
            async with self._engine.writing() as db:
                made = await db.execute(insert(self._runs).values(**row))
                key = made.inserted_primary_key
                assert key is not None
                await self._put(db, int(key[0]), _REQUEST, content)
        except IntegrityError:
            raise RunExists(app_name, run_id) from None
        return await self.get(app_name, run_id)

    async def get(self, app_name: str, run_id: str, *, result: bool = True) -> RunRecord:
        """A run; without `result` that is left out, which is cheap."""
        names = (_REQUEST, _RESULT) if result else (_REQUEST,)
        async with self._engine.reading() as db:
            row = await self._row(db, app_name, run_id)
            found = {name: await self._payload(db, row["id"], name) for name in names}
        values: dict[str, Any] = {
            name: await payloads.unpacked(content) for name, content in found.items() if content
        }
        return rows.record_of(row, **values)

    async def update(
        self, app_name: str, run_id: str, changes: RunChanges, *, lease: Lease | None = None
    ) -> RunRecord:
        """Change a run; what is given back has no request and no result."""
        check_score(changes.best_score)
        content = None if changes.result is None else await payloads.packed(changes.result)
        async with self._engine.writing() as db:
            values = rows.changed(self._runs, changes)
            row = await self._change(db, app_name, run_id, values, lease=lease)
            if content is not None:
                await self._put(db, row["id"], _RESULT, content)
        return rows.record_of(row)

    async def delete(self, app_name: str, run_id: str) -> None:
        """Remove a run and its events; RunLocked while a process drives it."""
        async with self._engine.writing() as db:
            row = await self._row(db, app_name, run_id, for_update=True)
            if row["driven"]:
                told = f'run "{run_id}" for app "{app_name}" is driven by {row["owner"]}'
                raise RunLocked(told, remedy="cancel it first")
            for table in (self._tables.events, self._tables.payloads):
                await db.execute(delete(table).where(table.c.run == row["id"]))
            await db.execute(delete(self._runs).where(self._runs.c.id == row["id"]))

    async def list_runs(
        self, which: RunFilter = EVERY, *, limit: int = 50, cursor: str = ""
    ) -> RunPage:
        """Runs, newest first, without requests and results."""
        before = number_of(cursor)
        query = select(self._runs).where(*rows.wanted(self._runs, which, self._now))
        query = query if before is None else query.where(self._runs.c.id < before)
        query = query.order_by(self._runs.c.id.desc()).limit(limit + 1)
        async with self._engine.reading() as db:
            found = (await db.execute(query)).mappings().all()
        page = found[:limit]
        more = cursor_of(page[-1]["id"]) if page and len(found) > limit else ""
        return RunPage(runs=tuple(rows.record_of(row) for row in page), cursor=more)

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
        content = None if changes.result is None else await payloads.packed(changes.result)
        try:
            async with self._engine.writing() as db:
                known = await self._known_event(db, app_name, run_id, event.key)
                if known is not None:
                    return known
                counted = {"events": self._runs.c.events + 1}
                values = rows.changed(self._runs, changes) | counted
                row = await self._change(db, app_name, run_id, values, lease=lease)
                await self._add_event(db, row, event, body)
                if content is not None:
                    await self._put(db, row["id"], _RESULT, content)
        except IntegrityError:  # another process has just kept the event of this key
            return await self.append_event(app_name, run_id, event, changes, lease=lease)
        return int(row["events"])

    async def events(
        self, app_name: str, run_id: str, *, after: int = 0, limit: int = 1000
    ) -> tuple[RunEvent, ...]:
        """The events with a number above `after`, in order."""
        table = self._tables.events
        async with self._engine.reading() as db:
            run = (await self._row(db, app_name, run_id))["id"]
            query = select(table).where(table.c.run == run, table.c.number > after)
            found = (await db.execute(query.order_by(table.c.number).limit(limit))).mappings().all()
        return tuple(
            [
                RunEvent(
                    number=row["number"],
                    kind=row["kind"],
                    round=row["round"],
                    payload=await payloads.unpacked(row["body"]),
                    at=moment(row["at"]),
                )
                for row in found
            ]
        )

    async def _known_event(
        self, db: AsyncConnection, app_name: str, run_id: str, key: str
    ) -> int | None:
        if not key:
            return None
        events, runs = self._tables.events, self._runs
        query = select(events.c.number).join(runs, runs.c.id == events.c.run)
        query = query.where(*self._named(app_name, run_id), events.c.event_key == key)
        return (await db.execute(query)).scalar()

    async def _add_event(
        self, db: AsyncConnection, row: rows.Row, event: NewEvent, body: bytes
    ) -> None:
        """The run's row is locked, so nobody else has this number."""
        await db.execute(
            insert(self._tables.events).values(
                run=row["id"],
                number=row["events"],
                kind=keepable_text(event.kind),
                round=event.round,
                at=self._now,
                event_key=event.key or None,
                body=body,
            )
        )

    # -- large JSON ------------------------------------------------------------------------

    async def _put(self, db: AsyncConnection, run: int, name: str, content: bytes) -> None:
        table = self._tables.payloads
        await db.execute(delete(table).where(table.c.run == run, table.c.name == name))
        for part, at in enumerate(range(0, len(content), _PART)):
            row = {"run": run, "name": name, "part": part, "body": content[at : at + _PART]}
            await db.execute(insert(table).values(**row))

    async def _payload(self, db: AsyncConnection, run: int, name: str) -> bytes:
        table = self._tables.payloads
        query = select(table.c.body).where(table.c.run == run, table.c.name == name)
        parts = (await db.execute(query.order_by(table.c.part))).scalars()
        return b"".join(bytes(part) for part in parts)
