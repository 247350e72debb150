"""What a journal needs of the place it lies in, and how its values are packed into rows."""

import asyncio
import hashlib
import threading
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias

from burnish.core.errors import BurnishError, JournalTrouble
from burnish.core.money import Spend
from burnish.system import write_atomic

COMPRESS_ABOVE = 2 * 1024
FILE_ABOVE = 256 * 1024

_PLAIN, _ZIPPED, _ELSEWHERE = b"j", b"z", b"f"


class _Blobs(Protocol):
    """Where values lie that are too large for a row."""

    def keep(self, name: str, content: bytes) -> None:
        """Keep it; it is there no later than any row that is written after this."""
        ...

    def fetch(self, name: str) -> bytes:
        """What was kept; OSError where it is gone."""
        ...


class FolderBlobs:
    """One file a value."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __str__(self) -> str:
        return str(self.folder)

    def keep(self, name: str, content: bytes) -> None:
        """Write the file unless it is there; on disk when this returns."""
        path = self.folder / name
        if not path.exists():
            self.folder.mkdir(exist_ok=True)
            write_atomic(path, content)

    def fetch(self, name: str) -> bytes:
        """Read the file."""
        return (self.folder / name).read_bytes()


class Packing:
    """Packs bytes into what a row holds, and back; large values go to the blobs."""

    def __init__(self, blobs: Path | _Blobs) -> None:
        self._blobs = FolderBlobs(blobs) if isinstance(blobs, Path) else blobs

    def pack(self, content: bytes) -> bytes:
        """What the row holds. A large value is kept no later than that row."""
        if len(content) <= COMPRESS_ABOVE:
            return _PLAIN + content
        zipped = zlib.compress(content, 1)
        if len(zipped) <= FILE_ABOVE:
            return _ZIPPED + zipped
        name = hashlib.sha256(content).hexdigest()
        self._blobs.keep(name, zipped)
        return _ELSEWHERE + name.encode()

    def unpack(self, packed: bytes) -> bytes:
        """What `pack` was given."""
        tag, rest = packed[:1], packed[1:]
        try:
            if tag == _PLAIN:
                return rest
            if tag == _ZIPPED:
                return zlib.decompress(rest)
            return zlib.decompress(self._blobs.fetch(rest.decode()))
        except (OSError, zlib.error, UnicodeDecodeError) as error:
            raise JournalTrouble(
                f"a value of the journal cannot be read: {error}",
                remedy=f"restore {self._blobs} from a backup, or start a new run",
            ) from error


# -- What a journal needs of the place it lies in, be it a file or a database ---------------------


Statement: TypeAlias = tuple[str, Sequence[Any]]
BeforeCommit: TypeAlias = Callable[[], Statement | None]
Waiter: TypeAlias = "asyncio.Future[None] | Future[None] | None"
Loops: TypeAlias = "dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]]"

# -- statements -----------------------------------------------------------------------------

AMOUNTS = "metric_calls, calls, tokens_in, tokens_out, nano_usd, unpriced"
_AMOUNTS = tuple(AMOUNTS.split(", "))
_SUMS = ", ".join(f"COALESCE(SUM({name}), 0)" for name in _AMOUNTS)
_NOTED = ("key", "kind", "trial", "draw", "request", "at", *_AMOUNTS)
_RESULT = ("value", "nested", "missing")


@dataclass(frozen=True, kw_only=True)
class Spelling:
    """How one kind of database writes things, and which run is meant."""

    prefix: str = ""
    """What the names of the tables begin with."""
    run: int | None = None
    """The number of the run; None where there is but one."""
    placeholder: str = "?"
    begin: str = "BEGIN"
    mysql: bool = False

    def columns(self, names: Sequence[str]) -> str:
        """Names of columns, quoted where one of them is a word of the language."""
        return ", ".join(self.column(name) for name in names)

    def column(self, name: str) -> str:
        """The name of a column."""
        return "`key`" if self.mysql and name == "key" else name

    def insert(
        self,
        table: str,
        names: Sequence[str],
        *,
        unique: Sequence[str] = (),
        update: Sequence[str] = (),
    ) -> str:
        """Put a row in; where one with the same `unique` is there, update it, or leave it."""
        values = ", ".join([self.placeholder] * len(names))
        head, number = ("", "") if self.run is None else ("run, ", f"{self.run}, ")
        text = f"INSERT INTO {self.prefix}{table} ({head}{self.columns(names)}) "
        return f"{text}VALUES ({number}{values}){self._otherwise(unique, update)}"

    def _otherwise(self, unique: Sequence[str], update: Sequence[str]) -> str:
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

    def where(self, *conditions: str) -> str:
        """The condition that a row is of this run, and more."""
        mine = () if self.run is None else (f"run = {self.run}",)
        every = " AND ".join((*mine, *conditions))
        return f" WHERE {every}" if every else ""

    def equal(self, name: str) -> str:
        """The condition that a column has a given value."""
        return f"{self.column(name)} = {self.placeholder}"


class Statements:
    """Every statement of a journal, spelled once."""

    def __init__(self, spelling: Spelling) -> None:
        self._write_with(spelling)
        self._read_with(spelling)
        self.begin = spelling.begin

    def _write_with(self, s: Spelling) -> None:
        self.note = s.insert("effects", _NOTED)
        self.complete = s.insert(
            "effects",
            (*_NOTED, *_RESULT, "imported"),
            unique=("key",),
            update=("at", *_RESULT, *_AMOUNTS),
        )
        self.lose_all = _lose(s)
        self.lose_one = _lose(s, s.equal("key"))
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

    def _read_with(self, s: Spelling) -> None:
        done, key = "value IS NOT NULL", s.column("key")
        self.keys = s.select(key, "effects", done)
        self.find = s.select(f"value, nested, missing, {AMOUNTS}", "effects", s.equal("key"), done)
        row = f"{key}, kind, trial, draw, request, value IS NULL, missing, imported, {AMOUNTS}"
        self.effects = s.select(row, "effects", order="id")
        costs, since = f"{key}, kind, trial, draw, nested, {AMOUNTS}", f"trial >= {s.placeholder}"
        self.costs = s.select(costs, "effects", done, since, order="id")
        self.billed = (s.select(_SUMS, "effects"), s.select(_SUMS, "lost"))
        self.trial = s.select("body", "trials", s.equal("number"))
        self.trials = s.select("body", "trials", order="number")
        self.trials_recorded = s.select("COUNT(*)", "trials")
        self.results = s.select("COUNT(*)", "effects", done)
        self.event = s.select("delivered", "events", s.equal("key"))
        self.events = s.select("body", "events", order="id")
        self.checks = s.select("label, number", "checks")
        self.mark = s.select("value", "meta", s.equal("name"))
        self.marks = s.select("name, value", "meta")
        self.next_session = s.select("COALESCE(MAX(id), 0) + 1", "sessions")
        self.active = s.select("COALESCE(SUM(active), 0)", "sessions")
        self.blob = s.select("body", "blobs", s.equal("name"), order="part")


def _lose(s: Spelling, *which: str) -> tuple[str, str]:
    """Move notes that nobody will complete from `effects` to `lost`."""
    head = "" if s.run is None else "run, "
    moved = f"{head}{s.columns(('key', 'kind', 'trial'))}, {AMOUNTS}"
    rows = s.where("value IS NULL", *which)
    return (
        f"INSERT INTO {s.prefix}lost ({moved}) SELECT {moved} FROM {s.prefix}effects{rows}",
        f"DELETE FROM {s.prefix}effects{rows}",
    )


# -- writers --------------------------------------------------------------------------------


class JournalWriter(ABC):
    """Takes statements in order; a wait ends when they are kept.

    A thread of its own commits them in groups.
    """

    _trouble: ClassVar[type[BurnishError]]
    """The error where nothing can be written."""

    def __init__(self, *, name: str, before_commit: BeforeCommit) -> None:
        self._name = name
        self._before_commit = before_commit
        self._waiting: list[tuple[Statement, Waiter]] = []
        self._closing = False
        self._broken: BurnishError | None = None
        self._turn = threading.Condition()
        self._thread = threading.Thread(target=self._commit_groups, name="burnish-journal")
        self._thread.daemon = True

    def put(self, *statements: Statement) -> None:
        """Give statements that are kept together; what is given later is kept no sooner."""
        self._add(*((each, None) for each in statements))

    def write(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Give a statement and wait until it is kept."""
        done: Future[None] = Future()
        self._add(((sql, parameters), done))
        done.result()

    async def commit(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Give a statement and wait, without blocking the loop, until it is kept."""
        done = asyncio.get_running_loop().create_future()
        self._add(((sql, parameters), done))
        await done

    def checkpoint_soon(self) -> None:
        """With the next commit, move what was kept to where it stays; a server does it itself."""
        return

    def close(self) -> None:
        """Keep what was given, then end the thread."""
        with self._turn:
            self._closing = True
            self._turn.notify()
        self._thread.join()

    def _add(self, *entries: tuple[Statement, Waiter]) -> None:
        """Take statements, each with who waits for it."""
        with self._turn:
            if self._broken is not None:
                raise self._broken
            if self._closing:
                raise self._trouble(f"the journal {self._name} is closed")
            self._waiting += entries
            self._take_up()

    @abstractmethod
    def _take_up(self) -> None:
        """See to what waits, or wake whoever does; the lock is held."""

    @abstractmethod
    def _commit_groups(self) -> None:
        """What the thread does until the writer is closed."""


def by_loop(group: Sequence[Waiter]) -> Loops:
    """Those who wait in an event loop that still runs."""
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
    """Tell everyone who waits, the waiters of one loop in one go; then let the loops go on."""
    for waiter in group:
        if isinstance(waiter, Future):
            _settle(waiter, trouble)
    for loop, waiters in loops.items():
        with suppress(RuntimeError):  # it was closed just now: nobody waits there any more
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


# -- places ---------------------------------------------------------------------------------


class _Rows(Protocol):
    """What a statement gave."""

    def fetchone(self) -> Any:
        """The next row, or None."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """The rows that are left."""
        ...


class _Connection(Protocol):
    """A connection on which every statement is a transaction of its own."""

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> _Rows:
        """Run one statement."""
        ...

    def close(self) -> None:
        """Let go."""
        ...


class JournalStore(Protocol):
    """One run's journal, wherever it lies. Its tables are those of schema.py."""

    @property
    def path(self) -> Path | str:
        """How messages name it; no password is in it."""
        ...

    @property
    def sql(self) -> Statements:
        """The statements as this place spells them; known once it was taken or looked at."""
        ...

    @property
    def packing(self) -> Packing:
        """How values lie in rows, and where large ones go."""
        ...

    def take(self) -> _Connection:
        """Open it for driving: tables made, one driver at a time. Close the store when done."""
        ...

    def look(self) -> _Connection:
        """Open it for reading: nothing is written, a driver may be at work."""
        ...

    def writer(self, before_commit: BeforeCommit) -> JournalWriter:
        """The one writer of a journal that was taken.

        `before_commit` may add a statement to a commit, now and then.
        """
        ...

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterable[Any]:
        """Many rows, not all in memory at once; other statements may run meanwhile."""
        ...

    def close(self) -> None:
        """Let go of the place; the writer was closed before."""
        ...


def billed(db: _Connection, sql: Statements) -> Spend:
    """Everything that was started: completed effects, and lost ones by their estimate."""
    rows = (db.execute(each).fetchone() for each in sql.billed)
    return sum((Spend.of(map(int, row)) for row in rows), Spend())


def one(db: _Connection, sql: str) -> float:
    """The one number a query gives."""
    return float(db.execute(sql).fetchone()[0])
