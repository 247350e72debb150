"""What a journal needs from its store, and how values are packed into rows."""

import asyncio
import errno
import hashlib
import re
import threading
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias

from burnish.core.errors import BurnishError, FileTrouble, JournalTrouble
from burnish.core.money import Spend
from burnish.system import place_inside, read_bytes, write_atomic

COMPRESS_ABOVE = 2 * 1024
FILE_ABOVE = 256 * 1024

_PLAIN, _ZIPPED, _ELSEWHERE = b"j", b"z", b"f"
_BLOB = re.compile(r"[0-9a-f]{64}")
"""The name of a large value: the hash of its content."""


class _Blobs(Protocol):
    """Stores values that are too large for a row."""

    def keep(self, name: str, content: bytes) -> None:
        """Store a value no later than any row that is written after it."""
        ...

    def fetch(self, name: str) -> bytes:
        """Read a value; OSError if it is gone."""
        ...


class _FolderBlobs:
    """One file per value, on disk when `keep` returns."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __str__(self) -> str:
        return str(self.folder)

    def keep(self, name: str, content: bytes) -> None:
        path = place_inside(self.folder.parent, f"{self.folder.name}/{name}")
        if not path.exists():
            write_atomic(path, content)

    def fetch(self, name: str) -> bytes:
        if not _BLOB.fullmatch(name):  # a damaged row would name any file, or a device
            raise FileNotFoundError(errno.ENOENT, "no value has such a name")
        return read_bytes(self.folder / name)


class Packing:
    """Packs bytes for a row and unpacks them; large values go to the blobs."""

    def __init__(self, blobs: Path | _Blobs) -> None:
        self._blobs = _FolderBlobs(blobs) if isinstance(blobs, Path) else blobs

    def pack(self, content: bytes) -> bytes:
        """The bytes for a row. A large value is stored no later than that row."""
        if len(content) <= COMPRESS_ABOVE:
            return _PLAIN + content
        zipped = zlib.compress(content, 1)
        if len(zipped) <= FILE_ABOVE:
            return _ZIPPED + zipped
        name = hashlib.sha256(content).hexdigest()
        self._blobs.keep(name, zipped)
        return _ELSEWHERE + name.encode()

    def unpack(self, packed: bytes) -> bytes:
        """The bytes that were packed."""
        tag, rest = packed[:1], packed[1:]
        try:
            if tag == _PLAIN:
                return rest
            if tag == _ZIPPED:
                return zlib.decompress(rest)
            return zlib.decompress(self._blobs.fetch(rest.decode()))
        except (OSError, FileTrouble, zlib.error, UnicodeDecodeError) as error:
            raise JournalTrouble(
                f"a value of the journal cannot be read: {error}",
                remedy=f"restore {self._blobs} from a backup, or start a new run",
            ) from error


Statement: TypeAlias = tuple[str, Sequence[Any]]
BeforeCommit: TypeAlias = Callable[[], Statement | None]
Waiter: TypeAlias = "asyncio.Future[None] | Future[None] | None"
Loops: TypeAlias = "dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]]"

AMOUNTS = "metric_calls, calls, tokens_in, tokens_out, nano_usd, unpriced"
_AMOUNTS = tuple(AMOUNTS.split(", "))
_SUMS = ", ".join(f"COALESCE(SUM({name}), 0)" for name in _AMOUNTS)
_NOTED = ("key", "kind", "trial", "draw", "request", "at", *_AMOUNTS)
_RESULT = ("value", "nested", "missing")


@dataclass(frozen=True, kw_only=True)
class Spelling:
    """The SQL of one kind of database, for one run."""

    prefix: str = ""
    """The prefix of table names."""
    run: int | None = None
    """The number of the run; None if there is only one."""
    placeholder: str = "?"
    mysql: bool = False

    def columns(self, names: Sequence[str]) -> str:
        """Names of columns, quoted where one is a keyword."""
        return ", ".join(self.column(name) for name in names)

    def column(self, name: str) -> str:
        """The name of a column, quoted if it is a keyword."""
        return "`key`" if self.mysql and name == "key" else name

    def insert(
        self,
        table: str,
        names: Sequence[str],
        *,
        unique: Sequence[str] = (),
        update: Sequence[str] = (),
    ) -> str:
        """Insert a row; if one with the same `unique` exists, update it or leave it."""
        values = ", ".join([self.placeholder] * len(names))
        head, number = ("", "") if self.run is None else ("run, ", f"{self.run}, ")
        text = f"INSERT INTO {self.prefix}{table} ({head}{self.columns(names)}) "
        return f"{text}VALUES ({number}{values}){self._on_conflict(unique, update)}"

    def _on_conflict(self, unique: Sequence[str], update: Sequence[str]) -> str:
        if not unique:
            return ""
        if self.mysql:
            same = self.column(unique[0])
            changes = [f"{name} = VALUES({name})" for name in update] or [f"{same} = {same}"]
            return f" ON DUPLICATE KEY UPDATE {', '.join(changes)}"
        columns = self.columns(unique if self.run is None else ("run", *unique))
        changes = [f"{name} = excluded.{name}" for name in update]
        action = f"UPDATE SET {', '.join(changes)}" if changes else "NOTHING"
        return f" ON CONFLICT ({columns}) DO {action}"

    def select(self, what: str, table: str, *conditions: str, order: str = "") -> str:
        """Read rows of this run."""
        text = f"SELECT {what} FROM {self.prefix}{table}{self.where(*conditions)}"
        return f"{text} ORDER BY {order}" if order else text

    def stream(self, what: str, table: str, *conditions: str, place: str = "id") -> str:
        """Read rows of this run in the order of their places, from after a place."""
        after = f"{place} > {self.placeholder}"
        return self.select(f"{place}, {what}", table, *conditions, after, order=place)

    def where(self, *conditions: str) -> str:
        """The condition for rows of this run, and more conditions."""
        mine = () if self.run is None else (f"run = {self.run}",)
        every = " AND ".join((*mine, *conditions))
        return f" WHERE {every}" if every else ""

    def equal(self, name: str) -> str:
        """The condition that a column equals a parameter."""
        return f"{self.column(name)} = {self.placeholder}"


class Statements:
    """Every SQL statement of a journal."""

    def __init__(self, s: Spelling) -> None:
        self.note = s.insert("effects", _NOTED)
        self.complete = s.insert(
            "effects",
            (*_NOTED, *_RESULT, "imported"),
            unique=("key",),
            update=("at", *_RESULT, *_AMOUNTS),
        )
        self.lose_all = _lose(s)
        self.lose_one = _lose(s, s.equal("key"))
        self.lose_result = _lose(s, s.equal("key"), state="value IS NOT NULL")
        self.add_trial = s.insert("trials", ("number", "body"))
        self.add_event = s.insert("events", ("key", "body"))
        delivered = f"UPDATE {s.prefix}events SET delivered = 1"
        self.event_delivered = delivered + s.where(s.equal("key"))
        checks = ("label", "number")
        self.add_continue = s.insert("checks", checks, unique=("label",), update=("number",))
        self.set_mark = s.insert("meta", ("name", "value"), unique=("name",), update=("value",))
        self.first_mark = s.insert("meta", ("name", "value"), unique=("name",))
        self.add_session = s.insert("sessions", ("id", "started", "active", "who"))
        active = f"UPDATE {s.prefix}sessions SET active = {s.placeholder}"
        self.keep_time = active + s.where(s.equal("id"))
        self.add_blob = s.insert("blobs", ("name", "part", "body"), unique=("name", "part"))

        done, key = "value IS NOT NULL", s.column("key")
        self.keys = s.select(key, "effects", done)
        self.find = s.select(f"value, nested, missing, {AMOUNTS}", "effects", s.equal("key"), done)
        row = f"{key}, kind, trial, draw, request, value IS NULL, missing, imported, {AMOUNTS}"
        self.effects = s.stream(row, "effects")
        value = f"{key}, kind, draw, request, value"
        self.values = s.stream(value, "effects", s.equal("trial"), done)
        costs, since = f"{key}, kind, trial, draw, nested, {AMOUNTS}", f"trial >= {s.placeholder}"
        self.costs = s.stream(costs, "effects", done, since)
        self.billed = (s.select(_SUMS, "effects"), s.select(_SUMS, "lost"))
        self.trial = s.select("body", "trials", s.equal("number"))
        self.trials = s.stream("body", "trials", place="number")
        self.trials_recorded = s.select("COUNT(*)", "trials")
        self.effects_noted = s.select("COUNT(*)", "effects")
        self.totals = s.select(f"COUNT(value), {_SUMS}", "effects")
        self.late = s.select(_SUMS, "effects", done, since)
        self.event = s.select("delivered", "events", s.equal("key"))
        self.events = s.stream("body", "events")
        self.checks = s.select("label, number", "checks")
        self.mark = s.select("value", "meta", s.equal("name"))
        self.marks = s.select("name, value", "meta")
        self.next_session = s.select("COALESCE(MAX(id), 0) + 1", "sessions")
        self.active = s.select("COALESCE(SUM(active), 0)", "sessions")
        self.blob = s.select("body", "blobs", s.equal("name"), order="part")


def _lose(s: Spelling, *which: str, state: str = "value IS NULL") -> tuple[str, str]:
    """Move effects that will not be completed from `effects` to `lost`."""
    head = "" if s.run is None else "run, "
    moved = f"{head}{s.columns(('key', 'kind', 'trial'))}, {AMOUNTS}"
    rows = s.where(state, *which)
    return (
        f"INSERT INTO {s.prefix}lost ({moved}) SELECT {moved} FROM {s.prefix}effects{rows}",
        f"DELETE FROM {s.prefix}effects{rows}",
    )


class JournalWriter(ABC):
    """Takes statements in order and commits them in groups, in its own thread."""

    _trouble: ClassVar[type[BurnishError]]
    """The error when nothing can be written."""

    def __init__(self, *, name: str, before_commit: BeforeCommit) -> None:
        self._name = name
        self._before_commit = before_commit
        self._waiting: list[tuple[Statement, Waiter]] = []
        self._closing = False
        self._broken: BurnishError | None = None
        # Entered itself, not through the condition, whose methods are written in Python.
        self._lock = threading.RLock()
        self._turn = threading.Condition(self._lock)
        self._thread = threading.Thread(target=self._commit_groups, name="burnish-journal")
        self._thread.daemon = True

    def put(self, *statements: Statement) -> None:
        """Queue statements that are committed together, no later than those that follow."""
        self._add(*((each, None) for each in statements))

    def write(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Queue a statement and wait until it is committed."""
        done: Future[None] = Future()
        self._add(((sql, parameters), done))
        done.result()

    async def commit(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Queue a statement and wait, without blocking the loop, until it is committed."""
        await self.queued(sql, parameters)

    def queued(self, sql: str, parameters: Sequence[Any] = ()) -> "asyncio.Future[None]":
        """Queue a statement; done when it is committed, together with others of its group."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._add(((sql, parameters), done))
        return done

    def checkpoint_soon(self) -> None:
        """Checkpoint the database with the next commit; servers do this themselves."""
        return

    def close(self) -> None:
        """Commit what is queued and end the thread."""
        with self._lock:
            self._closing = True
            self._turn.notify()
        self._thread.join()

    def _add(self, *entries: tuple[Statement, Waiter]) -> None:
        with self._lock:
            if self._broken is not None:
                raise self._broken
            if self._closing:
                raise self._trouble(f"the journal {self._name} is closed")
            self._waiting += entries
            self._take_up()

    @abstractmethod
    def _take_up(self) -> None:
        """Execute what is queued, or wake the thread that does; the lock is held."""

    @abstractmethod
    def _commit_groups(self) -> None:
        """Run in the thread until the writer is closed."""


def by_loop(group: Sequence[Waiter]) -> Loops:
    """The waiters in event loops that still run."""
    loops: Loops = {}
    for waiter in group:
        if isinstance(waiter, asyncio.Future) and not waiter.get_loop().is_closed():
            loops.setdefault(waiter.get_loop(), []).append(waiter)
    return loops


def release(
    group: Sequence[Waiter],
    loops: Loops,
    trouble: BurnishError | None,
    go_on: Callable[[], None],
) -> None:
    """Settle all waiters, those of one loop together, after the loop has called `go_on`."""
    for waiter in group:
        if isinstance(waiter, Future):
            _settle(waiter, trouble)
    for loop, waiters in loops.items():
        with suppress(RuntimeError):  # the loop was just closed: nobody waits there any more
            loop.call_soon_threadsafe(_settle_all, waiters, trouble, go_on)


def _settle_all(
    waiters: Sequence["asyncio.Future[None]"],
    trouble: BurnishError | None,
    go_on: Callable[[], None],
) -> None:
    go_on()
    for waiter in waiters:
        if not waiter.done():
            _settle(waiter, trouble)


def _settle(waiter: "asyncio.Future[None] | Future[None]", trouble: BurnishError | None) -> None:
    if trouble is None:
        waiter.set_result(None)
    else:
        waiter.set_exception(trouble)


class _Rows(Protocol):
    def fetchone(self) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection on which every statement is a transaction."""

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> _Rows:
        """Run one statement."""
        ...


class JournalStore(Protocol):
    """Where one run's journal is stored, in the tables of tables.py or sqlite_store.py."""

    @property
    def path(self) -> Path | str:
        """Its name in messages, without a password."""
        ...

    @property
    def sql(self) -> Statements:
        """The statements for this store; valid once it is open."""
        ...

    @property
    def packing(self) -> Packing:
        """Packs values into rows and blobs."""
        ...

    def take(self) -> Connection:
        """Open it for the one process that drives the run; creates the tables."""
        ...

    def look(self) -> Connection:
        """Open it for reading only; another process may drive the run."""
        ...

    def writer(self, before_commit: BeforeCommit) -> JournalWriter:
        """The one writer of a journal that was taken; `before_commit` may add a statement."""
        ...

    def stream(self, sql: str, parameters: Sequence[Any] = (), *, after: int = -1) -> Iterable[Any]:
        """Rows from after a place, each with its own place first.

        They are not all in memory at once, and other statements may run meanwhile.
        """
        ...

    def close(self) -> None:
        """Close the store, after its writer."""
        ...


def billed(db: Connection, sql: Statements) -> Spend:
    """The cost of completed effects, and the estimates of lost ones."""
    rows = (db.execute(each).fetchone() for each in sql.billed)
    return sum((Spend.of(row) for row in rows), Spend())


def one(db: Connection, sql: str) -> float:
    """The single number that a query returns."""
    return float(db.execute(sql).fetchone()[0])
