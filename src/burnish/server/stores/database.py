"""A store in SQLite, PostgreSQL, MySQL or MariaDB, or in memory.

Many processes share a database: who drives a run, and who canceled it, is decided by a single
statement that one process wins.
"""

import asyncio
import functools
import math
import weakref
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import CoroutineType
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Double,
    RowMapping,
    Select,
    and_,
    bindparam,
    case,
    delete,
    insert,
    literal,
    literal_column,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from burnish.core.content import Json
from burnish.core.errors import BurnishError, ConfigError, NotJournalable, Problem, RunLocked
from burnish.journal.tables import Schema, store_schema
from burnish.server.stores.accounts import AccountStore, DatabaseAccounts
from burnish.server.stores.queue import DatabaseQueue
from burnish.server.stores.records import (
    CANCELED,
    EVERY,
    FINISHED,
    UNCHANGED,
    Lease,
    LeaseLost,
    NewEvent,
    RunChanges,
    RunEvent,
    RunExists,
    RunFilter,
    RunMissing,
    RunNotRunning,
    RunPage,
    RunStatus,
    StoredRun,
    StoreTrouble,
    Where,
    moment,
    pack,
    unpack,
)
from burnish.system.databases import PART, PREFIX, Database, DatabaseUrl, PreparedQuery

P = ParamSpec("P")
T = TypeVar("T")

_CURSOR = "before-"
_LONGEST = 255
_REQUEST, _RESULT = "request", "result"
_THREADS = "burnish-store"
_NEW = {
    "status": RunStatus.QUEUED.value,
    "error": "",
    "current_round": 0,
    "owner": "",
    "lease_token": 0,
    "lease_until": 0.0,
    "cancel_requested": 0,
    "events": 0,
}
"""The initial values of every run."""


def _threaded(
    method: Callable[Concatenate["DatabaseRunStore", P], T], *, reads: bool = False
) -> Callable[Concatenate["DatabaseRunStore", P], "CoroutineType[Any, Any, T]"]:
    """Run the method in one of the store's threads: databases and large JSON block."""

    @functools.wraps(method)
    async def call(self: "DatabaseRunStore", *args: P.args, **kwargs: P.kwargs) -> T:
        work = functools.partial(method, self, *args, **kwargs)
        return await self.in_thread(work, self.readers if reads else None)

    return call


_reading = functools.partial(_threaded, reads=True)


class DatabaseRunStore:
    """Runs in a database that many processes share."""

    def __init__(
        self,
        url: DatabaseUrl,
        *,
        table_prefix: str = PREFIX,
        threads: int = 8,
        patience: float = 60.0,
    ) -> None:
        self._database = Database(url, trouble=functools.partial(_trouble, url))
        self.threads = self.readers = ThreadPoolExecutor(threads, thread_name_prefix=_THREADS)
        if url.kind == "sqlite":
            # It reads in this process, and gives up the interpreter after every row: two threads
            # that read take longer than one.
            self.readers = ThreadPoolExecutor(1, thread_name_prefix=_THREADS)
        self.closed = False
        self.patience = patience
        """Seconds after which a call that the database does not answer has failed."""
        self.schema = store_schema(table_prefix, StoreTrouble)
        self._runs = self.schema.tables["runs"]
        self._events = self.schema.tables["run_events"]
        self._payloads = self.schema.tables["run_payloads"]
        self._progress = self.schema.tables["run_progress"]
        self.accounts: AccountStore = DatabaseAccounts(self._database, self.schema, self.in_thread)
        self.queue = DatabaseQueue(self._database, self.schema, self.in_thread, self._unfinished)
        self._now: ColumnElement[float] = literal_column(self._database.clock, Double())
        # Built once: building a query takes longer than a run's row takes to be read.
        self._by_name = self._run_by_name()
        self._by_name_locked = self._by_name.with_for_update()
        self._with_request = self._run_with(_REQUEST)
        self._with_documents = self._run_with(_REQUEST, _RESULT)
        self._with_events = self._events_after()
        self._lists: dict[tuple[str, ...], PreparedQuery] = {}
        """By the names of the values that they take."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._database.url)!r})"

    @_threaded
    def prepare(self, *, create_schema: bool = True, schema: Schema | None = None) -> None:
        """Create the tables, or only check them."""
        schema = schema or self.schema
        with self._database.transaction(may_create=True) as db:
            (schema.create if create_schema else schema.require)(db)

    async def in_thread(
        self, work: Callable[[], T], threads: ThreadPoolExecutor | None = None
    ) -> T:
        """Do work that blocks, in one of the store's threads; StoreTrouble if it takes too long."""
        if self.closed:
            raise StoreTrouble("the store is closed")
        answer = asyncio.get_running_loop().run_in_executor(threads or self.threads, work)
        try:
            async with asyncio.timeout(self.patience):
                return await answer
        except TimeoutError:
            raise StoreTrouble(f"the store did not answer within {self.patience:g} s") from None

    async def close(self) -> None:
        self.closed = True
        for threads in {self.threads, self.readers}:
            await asyncio.to_thread(threads.shutdown)
        self._database.close()

    @_threaded
    def create(
        self,
        app_name: str,
        run_id: str,
        *,
        strategy: str = "",
        request: Json = None,
        where: Where | None = None,
        account: str = "",
    ) -> StoredRun:
        named = (("the name of the app", app_name), ("the id of the run", run_id))
        if problems := [
            Problem(message=f"{what} {fault}") for what, name in named if (fault := _fault(name))
        ]:
            raise ConfigError(problems)
        content = pack(request)
        names = {"app_name": app_name, "run_id": run_id, "strategy": strategy}
        times = {"created_at": self._now, "updated_at": self._now}
        values = _NEW | names | times | _columns_of(where or Where())
        try:
            with self._database.transaction() as db:
                inserted = db.execute(insert(self._runs).values(**values))
                key = inserted.inserted_primary_key
                assert key is not None
                self._put(db, int(key[0]), _REQUEST, content)
                self.queue.add(db, int(key[0]), account=account)
                row = self._row(db, app_name, run_id)
        except IntegrityError:
            raise RunExists(app_name, run_id) from None
        return StoredRun.of_row(row, request=unpack(content))

    @_reading
    def get(self, app_name: str, run_id: str, *, result: bool = True) -> StoredRun:
        query = self._with_documents if result else self._with_request
        rows = self._found(query, app_name, run_id)
        contents: defaultdict[str, list[bytes]] = defaultdict(list[bytes])
        for *_, name, part in rows:
            if name is not None:
                contents[name].append(bytes(part))
        documents = {name: unpack(b"".join(content)) for name, content in contents.items()}
        return StoredRun.of_row(dict(zip(query.columns, rows[0], strict=True)), **documents)

    @_threaded
    def update(
        self, app_name: str, run_id: str, changes: RunChanges, *, lease: Lease | None = None
    ) -> StoredRun:
        _check_score(changes.best_score)
        result = None if changes.result is None else pack(changes.result)
        with self._database.transaction() as db:
            row = self._change(db, app_name, run_id, self._values(changes), lease=lease)
            if result is not None:
                self._put(db, row["id"], _RESULT, result)
        return StoredRun.of_row(row)

    @_threaded
    def delete(self, app_name: str, run_id: str) -> None:
        with self._database.transaction() as db:
            row = self._row(db, app_name, run_id, for_update=True)
            if row["driven"]:
                message = f'run "{run_id}" for app "{app_name}" is driven by {row["owner"]}'
                raise RunLocked(message, remedy="cancel it first")
            for table in (self._events, self._payloads, self._progress):
                db.execute(delete(table).where(table.c.run == row["id"]))
            self.queue.remove(db, row["id"])
            db.execute(delete(self._runs).where(self._runs.c.id == row["id"]))

    @_reading
    def list_runs(self, which: RunFilter = EVERY, *, limit: int = 50, cursor: str = "") -> RunPage:
        before = _number_of(cursor)
        asked = vars(which) | {"status": which.status and which.status.value}
        values = {name: value for name, value in asked.items() if value}
        values |= {} if before is None else {"before": before}
        query = self._lists.get(names := tuple(values)) or self._list_by(names)
        rows = query.rows(**values, most=limit + 1)
        page = rows[:limit]
        more = f"{_CURSOR}{page[-1][0]}" if len(rows) > limit else ""
        runs = tuple(_listed(query.columns, tuple(row)) for row in page)
        return RunPage(runs=runs, cursor=more)

    @_threaded
    def append_event(
        self,
        app_name: str,
        run_id: str,
        event: NewEvent,
        changes: RunChanges = UNCHANGED,
        *,
        lease: Lease | None = None,
    ) -> int:
        _check_score(changes.best_score)
        body = pack(event.payload)
        result = None if changes.result is None else pack(changes.result)

        def append() -> int:
            with self._database.transaction() as db:
                earlier = self._event_number(db, app_name, run_id, event.key)
                if earlier is not None:
                    return earlier
                values = self._values(changes) | {"events": self._runs.c.events + 1}
                row = self._change(db, app_name, run_id, values, lease=lease)
                # The run's row is locked, so nobody else has this number.
                db.execute(
                    insert(self._events).values(
                        run=row["id"],
                        number=row["events"],
                        kind=_storable(event.kind),
                        round=event.round,
                        at=self._now,
                        event_key=event.key or None,
                        body=body,
                    )
                )
                if result is not None:
                    self._put(db, row["id"], _RESULT, result)
                return int(row["events"])

        try:
            return append()
        except IntegrityError:  # another process has just kept the event of this key
            return append()

    @_reading
    def events(
        self, app_name: str, run_id: str, *, after: int = 0, limit: int = 1000
    ) -> tuple[RunEvent, ...]:
        rows = self._found(self._with_events, app_name, run_id, after=after, most=limit)
        return tuple(
            RunEvent(number=number, kind=kind, round=round_, payload=unpack(body), at=moment(at))
            for number, kind, round_, at, body in rows
            if number is not None
        )

    def _event_number(self, db: Connection, app_name: str, run_id: str, key: str) -> int | None:
        if not key:
            return None
        events, runs = self._events, self._runs
        query = select(events.c.number).join(runs, runs.c.id == events.c.run)
        query = query.where(*self._named(app_name, run_id), events.c.event_key == key)
        return db.execute(query).scalar()

    @_threaded
    def claim(self, app_name: str, run_id: str, *, owner: str, seconds: float) -> Lease | None:
        runs = self._runs
        claim = (
            update(runs)
            .where(*self._named(app_name, run_id), self._unfinished)
            .where(runs.c.lease_until <= self._now)
            .values(
                owner=owner,
                lease_token=runs.c.lease_token + 1,
                lease_until=self._now + seconds,
            )
        )
        with self._database.transaction() as db:
            won = db.execute(claim).rowcount == 1
            row = self._row(db, app_name, run_id)
            if won:
                self.queue.take_turn(db, row["id"])
            return Lease.of_row(row) if won else None

    @_threaded
    def renew(self, lease: Lease, *, seconds: float, progress: Json = None) -> Lease:
        with self._database.transaction() as db:
            longer = update(self._runs).where(*self._held(lease))
            renewed = db.execute(longer.values(lease_until=self._now + seconds))
            if renewed.rowcount != 1:
                raise LeaseLost(lease.app_name, lease.run_id, lease.owner)
            row = self._row(db, lease.app_name, lease.run_id)
            if progress is not None:
                self._report(db, row["id"], lease.token, pack(progress))
            return Lease.of_row(row)

    def _report(self, db: Connection, run: int, token: int, body: bytes) -> None:
        # The run's row is locked, so nobody else inserts one.
        own = update(self._progress).where(self._progress.c.run == run)
        if not db.execute(own.values(lease_token=token, body=body)).rowcount:
            db.execute(insert(self._progress).values(run=run, lease_token=token, body=body))

    @_threaded
    def progress(self, app_name: str, run_id: str) -> Json:
        table = self._progress
        with self._database.transaction(read_only=True) as db:
            row = self._row(db, app_name, run_id)
            query = select(table.c.body).where(table.c.run == row["id"])
            body = db.execute(query.where(table.c.lease_token == row["lease_token"])).scalar()
        return unpack(bytes(body)) if row["driven"] and body else None

    @_threaded
    def release(self, lease: Lease) -> None:
        with self._database.transaction() as db:
            held = update(self._runs).where(*self._held(lease))
            db.execute(held.values(owner="", lease_until=0.0))

    @_threaded
    def request_cancel(self, app_name: str, run_id: str) -> RunStatus:
        runs = self._runs
        nobody = runs.c.lease_until <= self._now
        values = {
            "cancel_requested": 1,
            "status": case((nobody, RunStatus.CANCELED.value), else_=runs.c.status),
            "error": case((nobody, CANCELED), else_=runs.c.error),
            "owner": case((nobody, ""), else_=runs.c.owner),
        }
        with self._database.transaction() as db:
            return RunStatus(self._change(db, app_name, run_id, values)["status"])

    @_threaded
    def reopen(self, app_name: str, run_id: str, *, request: Json = None) -> StoredRun:
        finished = update(self._runs).where(*self._named(app_name, run_id), ~self._unfinished)
        fresh = {"status": RunStatus.QUEUED.value, "error": "", "cancel_requested": 0}
        undriven = {"owner": "", "lease_until": 0.0}
        with self._database.transaction() as db:
            done = db.execute(finished.values(updated_at=self._now, **undriven, **fresh))
            row = self._row(db, app_name, run_id)
            if request is not None and done.rowcount:
                self._put(db, row["id"], _REQUEST, pack(request))
            return StoredRun.of_row(row)

    def _change(
        self,
        db: Connection,
        app_name: str,
        run_id: str,
        values: Mapping[str, Any],
        *,
        lease: Lease | None = None,
    ) -> RowMapping:
        """Change an unfinished run, under a lease if one is given, and return its new row."""
        held = () if lease is None else self._held(lease)
        change = update(self._runs).where(*self._named(app_name, run_id), *held, self._unfinished)
        changed = db.execute(change.values(updated_at=self._now, **values))
        row = self._row(db, app_name, run_id)
        if changed.rowcount == 1:
            return row
        if lease is None or RunStatus(row["status"]).finished:
            raise RunNotRunning(run_id)
        raise LeaseLost(lease.app_name, lease.run_id, lease.owner)

    def _row(
        self, db: Connection, app_name: str, run_id: str, *, for_update: bool = False
    ) -> RowMapping:
        """A run's row; `driven` tells whether its lease is held."""
        if _fault(app_name) or _fault(run_id):
            raise RunMissing(app_name, run_id)
        query = self._by_name_locked if for_update else self._by_name
        found = db.execute(query, {"of_app": app_name, "of_run": run_id})
        row = found.mappings().one_or_none()
        if row is None:
            raise RunMissing(app_name, run_id)
        return row

    def _run_by_name(self) -> Select[Any]:
        runs = self._runs
        driven = (runs.c.lease_until > self._now).label("driven")
        return self._select(driven).where(*self._names)

    def _run_with(self, *documents: str) -> PreparedQuery:
        """A run, once for each part of its documents."""
        runs, parts = self._runs, self._payloads
        own = and_(parts.c.run == runs.c.id, parts.c.name.in_(documents))
        query = self._select(parts.c.name, parts.c.body).select_from(runs.outerjoin(parts, own))
        return self._database.prepared(query.where(*self._names).order_by(parts.c.part))

    def _events_after(self) -> PreparedQuery:
        """A run's events; one row without an event if there are none."""
        runs, events = self._runs, self._events
        newer = and_(events.c.run == runs.c.id, events.c.number > _slot("after"))
        shown = (events.c.number, events.c.kind, events.c.round, events.c.at, events.c.body)
        query = select(*shown).select_from(runs.outerjoin(events, newer)).where(*self._names)
        query = cast("Select[Any]", query)
        return self._database.prepared(query.order_by(events.c.number).limit(_slot("most")))

    def _list_by(self, names: tuple[str, ...]) -> PreparedQuery:
        """The list of runs that takes these values; each is prepared once."""
        runs = self._runs
        conditions = {
            **{name: runs.c[name] == _slot(name) for name in ("app_name", "status", "strategy")},
            "undriven": and_(self._unfinished, runs.c.lease_until <= self._now),
            "before": runs.c.id < _slot("before"),
        }
        query = self._select().where(*(conditions[name] for name in names))
        query = query.order_by(runs.c.id.desc()).limit(_slot("most"))
        return self._lists.setdefault(names, self._database.prepared(query))

    def _found(
        self, query: PreparedQuery, app_name: str, run_id: str, **values: object
    ) -> list[tuple[Any, ...]]:
        """What a query says of a run; RunMissing if there is none."""
        known = not (_fault(app_name) or _fault(run_id))
        rows = query.rows(of_app=app_name, of_run=run_id, **values) if known else []
        if not rows:
            raise RunMissing(app_name, run_id)
        return rows

    def _select(self, *more: Any) -> Select[Any]:
        return select(self._runs, *more)

    @property
    def _names(self) -> tuple[ColumnElement[bool], ...]:
        runs = self._runs
        return runs.c.app_name == _slot("of_app"), runs.c.run_id == _slot("of_run")

    def _named(self, app_name: str, run_id: str) -> tuple[Any, ...]:
        if _fault(app_name) or _fault(run_id):
            return (literal(value=False),)
        return self._runs.c.app_name == app_name, self._runs.c.run_id == run_id

    def _held(self, lease: Lease) -> tuple[Any, ...]:
        owned = (self._runs.c.owner == lease.owner, self._runs.c.lease_token == lease.token)
        return *self._named(lease.app_name, lease.run_id), *owned

    @property
    def _unfinished(self) -> ColumnElement[bool]:
        return self._runs.c.status.not_in([status.value for status in FINISHED])

    def _values(self, changes: RunChanges) -> dict[str, Any]:
        """The columns to change; a run that ends after its cancel was requested ends canceled."""
        error = None if changes.error is None else _storable(changes.error)
        fields = {
            "current_round": changes.current_round,
            "best_score": changes.best_score,
            "status": changes.status and changes.status.value,
            "error": error,
        }
        values: dict[str, Any] = {
            name: value for name, value in fields.items() if value is not None
        }
        values |= {} if changes.where is None else _columns_of(changes.where)
        if changes.status is None or not changes.status.finished:
            return values
        canceled = self._runs.c.cancel_requested == 1
        reason = self._runs.c.error if error is None else error
        return values | {
            "status": case((canceled, RunStatus.CANCELED.value), else_=changes.status.value),
            "error": case((canceled, CANCELED), else_=reason),
            "owner": "",
            "lease_until": 0.0,
        }

    def _put(self, db: Connection, run: int, name: str, content: bytes) -> None:
        table = self._payloads
        db.execute(delete(table).where(table.c.run == run, table.c.name == name))
        for part, at in enumerate(range(0, len(content), PART)):
            row = {"run": run, "name": name, "part": part, "body": content[at : at + PART]}
            db.execute(insert(table).values(**row))


class MemoryRunStore(DatabaseRunStore):
    """Runs that are lost when the process ends: for one process, tests and experiments."""

    def __init__(self) -> None:
        # One thread: there is one connection, and nobody sees half of a change.
        super().__init__(DatabaseUrl.parse("memory://"), threads=1)
        weakref.finalize(self, self._database.close)
        with self._database.transaction() as db:
            self.schema.create(db)


@functools.lru_cache(maxsize=2_000)
def _listed(columns: tuple[str, ...], row: tuple[Any, ...]) -> StoredRun:
    """The run of a row of a list. Lists are polled, and most of their rows are as they were."""
    return StoredRun.of_row(dict(zip(columns, row, strict=True)))


def _slot(name: str) -> BindParameter[Any]:
    """The place of a value that a query gets when it is read."""
    return bindparam(name, required=False)


def _trouble(url: DatabaseUrl, cause: str) -> BurnishError:
    return StoreTrouble(
        f"the store {url} cannot be used: {cause}",
        remedy="check that the database exists, answers and is writable",
    )


def _fault(name: str) -> str:
    """Why a database would change a name or mistake it for another; '' where it would not."""
    if not name:
        return "is empty"
    if name != name.strip():
        return "begins or ends with a space"
    if len(name) > _LONGEST:
        return f"is longer than {_LONGEST} characters"
    return "" if name.isprintable() else "has characters that cannot be printed"


def _storable(text: str) -> str:
    """Text that every database takes: no NUL, no half of a surrogate pair."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _check_score(score: float | None) -> None:
    if score is not None and not math.isfinite(score):
        raise NotJournalable(f"the best score is {score}", remedy="leave it out until there is one")


def _number_of(cursor: str) -> int | None:
    if not cursor:
        return None
    digits = cursor.removeprefix(_CURSOR)
    # A number that no database can hold was never given out.
    if digits == cursor or not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        remedy = "pass the cursor of the last page unchanged, or none for the first page"
        raise ConfigError.of("", f"{cursor!r} is not a cursor", remedy)
    return int(digits)


def _columns_of(where: Where) -> dict[str, Any]:
    return {"journal": where.journal, "host": where.host, "folder": where.folder}
