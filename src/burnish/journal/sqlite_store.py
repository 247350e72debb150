"""A journal in a SQLite file, where it is stored, and how far it has come."""

import json
import os
import sqlite3
import stat
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from burnish.core.errors import FileTrouble, JournalTrouble, MissingExtra
from burnish.journal.storage import (
    AMOUNTS,
    BeforeCommit,
    JournalStore,
    JournalWriter,
    Loops,
    Packing,
    Spelling,
    Statements,
    Waiter,
    by_loop,
    release,
)
from burnish.system import is_network_file_system, place_inside, read_bytes, write_inside
from burnish.system.extras import install_command

if TYPE_CHECKING:
    from burnish.journal.database_store import DatabaseStore


NAME = "journal.count"
_DIGITS = 20
"""A fixed width, so that one small write replaces the number and a kill cannot tear it."""


class PositionFile:
    """Counts results in a file beside the journal, which works without it: errors are ignored."""

    def __init__(self, folder: Path, count: int) -> None:
        self._handle: int | None = None
        self._count = -1
        with suppress(OSError, FileTrouble):
            place = place_inside(folder, NAME)
            self._handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self.reach(count)

    def reach(self, count: int) -> None:
        """Record how many results are on disk."""
        if count > self._count:
            self._set(count)

    def fall_back(self) -> None:
        """Record that one of these results is about to be deleted."""
        self._set(self._count - 1)

    def _set(self, count: int) -> None:
        self._count = count
        if self._handle is not None:
            with suppress(OSError):
                os.pwrite(self._handle, b"%0*d\n" % (_DIGITS, count), 0)

    def close(self) -> None:
        """Close the file."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def reached(folder: Path) -> int:
    """How many results were on disk; 0 if that is not recorded."""
    try:
        return max(0, int(read_bytes(folder / NAME)))
    except (FileTrouble, ValueError):
        return 0


def how_to_mend(path: Path | str) -> str:
    """What probably happened to a journal, and what to restore."""
    if isinstance(path, Path):
        wal = f"{path.name}-wal"
        return f"{wal} was probably deleted, damaged, or left out of a copy: restore it"
    return "the database was probably reset to an earlier state: restore the newer one"


_SCHEMA = 1
JOURNAL_FILE, BLOBS = "journal.db", "blobs"

_TABLES = f"""
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS effects (
    id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, kind TEXT NOT NULL, trial INTEGER NOT NULL,
    draw INTEGER NOT NULL, request BLOB, value BLOB, nested TEXT, at REAL NOT NULL,
    missing INTEGER NOT NULL DEFAULT 0, imported INTEGER NOT NULL DEFAULT 0,
    {", ".join(f"{name} INTEGER NOT NULL" for name in AMOUNTS.split(", "))});
CREATE INDEX IF NOT EXISTS effects_by_trial ON effects (trial);
CREATE TABLE IF NOT EXISTS lost (
    key BLOB NOT NULL, kind TEXT NOT NULL, trial INTEGER NOT NULL,
    {", ".join(f"{name} INTEGER NOT NULL" for name in AMOUNTS.split(", "))});
CREATE TABLE IF NOT EXISTS trials (number INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, body BLOB NOT NULL,
    delivered INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS checks (label TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sessions (
    id INTEGER PRIMARY KEY, started TEXT NOT NULL, active REAL NOT NULL, who TEXT NOT NULL);
"""


_DAMAGE = (
    sqlite3.Error, ValueError, TypeError, AttributeError, LookupError, RecursionError,
    OverflowError,
)  # fmt: skip
_COMPUTED = """
SELECT name FROM sqlite_master WHERE type NOT IN ('table', 'index') OR NOT rootpage UNION ALL
SELECT m.name FROM sqlite_master AS m, pragma_table_xinfo(m.name) AS c
WHERE m.type = 'table' AND c.hidden LIMIT 1
"""
"""A view, a trigger, a virtual table, or a table with a computed column: what these compute may
never end, or fill the memory."""


def connect(path: Path, *, wal: bool) -> sqlite3.Connection:
    """A connection whose commits are on disk when they return.

    WAL needs shared memory, which network file systems lack: there, use the rollback journal.
    """
    with reading(path):
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
        with _closed_on_error(db):
            db.execute(f"PRAGMA journal_mode = {'WAL' if wal else 'DELETE'}")
            db.execute("PRAGMA synchronous = FULL")
    return db


@contextmanager
def _closed_on_error(db: sqlite3.Connection) -> Generator[None, None, None]:
    try:
        yield
    except BaseException:  # whatever it was, the connection is closed
        db.close()
        raise


def _require_own(folder: Path, *, writing: bool) -> None:
    """Refuse a journal that is elsewhere: SQLite would write there, even when it only reads."""
    for name in (JOURNAL_FILE, *(f"{JOURNAL_FILE}-{end}" for end in ("wal", "shm", "journal"))):
        path = folder / name
        if not os.path.lexists(path):
            continue
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            kind = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "not a regular file"
            raise _elsewhere(path, kind)
        # A finished journal is only read, so a backup may share it.
        if found.st_nlink > 1 and (writing or name != JOURNAL_FILE):
            raise _elsewhere(path, "a hard link, which other folders share")
    if (folder / BLOBS).is_symlink():
        raise _elsewhere(folder / BLOBS, "a symbolic link")


def _elsewhere(path: Path, kind: str) -> JournalTrouble:
    return JournalTrouble(
        f"{path} is {kind}",
        remedy="put a copy of what it stands for in its place, if you trust this run",
    )


def prepare(db: sqlite3.Connection, path: Path) -> None:
    """Create the tables unless they exist."""
    _require_plain(db, path)
    try:
        db.executescript(_TABLES)
        db.execute("INSERT OR IGNORE INTO meta VALUES ('schema', ?)", (str(_SCHEMA),))
        _check_schema(db, path)
    except sqlite3.DatabaseError as error:
        raise _unreadable(path, error) from error


def _require_plain(db: sqlite3.Connection, path: Path) -> None:
    """Refuse a journal that computes anything when it is read: none that burnish wrote does."""
    with reading(path):
        computed = db.execute(_COMPUTED).fetchone()
    if computed is not None:
        raise _unreadable(path, ValueError(f"'{computed[0]}' is not a table of a journal"))


def _check_schema(db: sqlite3.Connection, path: Path) -> None:
    with reading(path):
        row = db.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
        schema = 0 if row is None else int(row[0])
    if schema not in (0, _SCHEMA):
        raise JournalTrouble(
            f"{path} was written by another version of burnish "
            f"(journal schema {schema}, this one has {_SCHEMA})",
            remedy="read it with that version, or start a new run",
        )


class reading:  # noqa: N801 - a context manager, which is called like a function
    """Turn whatever a damaged journal makes Python raise into one clear error."""

    # A class, since every case enters it several times: a generator takes three times as long.
    __slots__ = ("_path",)

    def __init__(self, path: Path | str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        del kind, traceback
        if isinstance(error, _DAMAGE):
            raise _unreadable(self._path, error) from error


def _unreadable(path: Path | str, error: Exception) -> FileTrouble | JournalTrouble:
    if isinstance(error, sqlite3.OperationalError):
        return FileTrouble(
            f"the journal {path} cannot be opened: {error}",
            remedy="check that the folder exists, is writable and has space left",
        )
    first_line = (str(error).splitlines() or [type(error).__name__])[0]
    return JournalTrouble(
        f"{path} is damaged, or not a journal: {first_line}",
        remedy="restore it from a backup, or start a new run",
    )


class _Writer(JournalWriter):
    """Executes statements in order, in the caller's thread; only the commit has its own thread.

    Statements that arrive during a commit wait for the next one, so many of them share the cost
    of one disk sync. They do not run in the commit thread, because a busy event loop rarely
    releases the interpreter lock and each statement would have to wait for it.
    """

    _trouble = FileTrouble

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        *,
        name: str,
        before_commit: BeforeCommit = lambda: None,
    ) -> None:
        super().__init__(name=name, before_commit=before_commit)
        self._db = connect()
        self._executed: list[Waiter] = []  # in the open transaction
        self._committing = self._left_to_loop = self._checkpoint_due = False
        self._thread.start()

    def checkpoint_soon(self) -> None:
        # With the WAL moved into the file, a lost WAL costs less.
        self._checkpoint_due = True

    def close(self) -> None:
        super().close()
        self._db.close()

    def _take_up(self) -> None:
        if not self._committing:
            self._execute_waiting()

    def _execute_waiting(self) -> None:
        entries, self._waiting = self._waiting, []
        self._left_to_loop = False
        if not entries:
            return
        self._executed += [waiter for _, waiter in entries]
        try:
            if not self._db.in_transaction:
                self._db.execute("BEGIN IMMEDIATE")
            for statement, _ in entries:
                self._db.execute(*statement)
        except sqlite3.Error as error:
            self._break(error)
        self._turn.notify()

    def _commit_groups(self) -> None:
        while True:
            with self._lock:
                while not (
                    self._executed or (self._waiting and not self._left_to_loop) or self._closing
                ):
                    self._turn.wait()
                self._execute_waiting()
                group, self._executed = self._executed, []
                if not group:
                    return
                self._committing = True
            loops = by_loop(group)
            self._commit()
            self._finish(loops)
            release(group, loops, self._broken, self._go_on)

    def _commit(self) -> None:
        if self._broken is not None:
            return
        try:
            if (more := self._before_commit()) is not None:
                self._db.execute(*more)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._break(error)
            return
        if self._checkpoint_due:
            self._checkpoint_due = False
            with suppress(sqlite3.Error):  # the next trial tries again
                self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _finish(self, loops: "Loops") -> None:
        """End a commit. A loop executes what waits, unless there is none or it is blocked."""
        with self._lock:
            self._committing = False
            blocked = any(isinstance(waiter, Future) for _, waiter in self._waiting)
            self._left_to_loop = bool(loops) and not blocked
            if not self._left_to_loop:
                self._execute_waiting()

    def _go_on(self) -> None:
        with self._lock:
            self._take_up()

    def _break(self, error: sqlite3.Error) -> None:
        """Accept nothing more: a later write would leave a gap."""
        with suppress(sqlite3.Error):  # without disk space, even this may fail
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        self._broken = FileTrouble(
            f"the journal {self._name} cannot be written: {error}",
            remedy="free some space or make the folder writable, then resume the run",
        )


class SqliteStore:
    """A journal in a folder. The process that drives it holds the folder's lock."""

    sql = Statements(Spelling())

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._db: sqlite3.Connection | None = None
        self.path = folder / JOURNAL_FILE
        self.packing = Packing(folder / BLOBS)

    def take(self) -> sqlite3.Connection:
        """Open the file and create the tables unless they exist."""
        _require_own(self._folder, writing=True)
        self._db = db = self._connect()
        with _closed_on_error(db):
            prepare(db, self.path)
        return db

    def look(self) -> sqlite3.Connection:
        """Open the file; an empty journal if the run was killed before there were tables."""
        _require_own(self._folder, writing=False)
        with reading(self.path):
            self._db = db = self._opened()
            with _closed_on_error(db):
                _check_schema(db, self.path)
        return db

    def _opened(self) -> sqlite3.Connection:
        if self.path.exists():
            path = str(self.path.resolve())
            quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
            db = sqlite3.connect(f"file:{quoted}?mode=ro", uri=True)
            with _closed_on_error(db):
                _require_plain(db, self.path)
                if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'sessions'").fetchone():
                    return db
            db.close()
        db = sqlite3.connect(":memory:")
        prepare(db, self.path)
        return db

    def writer(self, before_commit: BeforeCommit) -> JournalWriter:
        """A writer with its own connection."""
        return _Writer(self._connect, name=str(self.path), before_commit=before_commit)

    def stream(self, sql: str, parameters: Sequence[Any] = (), *, after: int = -1) -> Iterable[Any]:
        """Rows of a query."""
        assert self._db is not None
        return self._db.execute(sql, (*parameters, after))

    def close(self) -> None:
        """Close the file."""
        if self._db is not None:
            self._db.close()

    def _connect(self) -> sqlite3.Connection:
        return connect(self.path, wal=not is_network_file_system(self._folder))


POINTER = "journal.json"


class _Pointer(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    database: str
    name: str
    prefix: str
    create_schema: bool
    lease_seconds: float


def store_at(place: Path | JournalStore) -> JournalStore:
    """The store of a folder's journal; a store is returned as it is."""
    if not isinstance(place, Path):
        return place
    return _store_in_database(place) if (place / POINTER).exists() else SqliteStore(place)


def point_to(store: "DatabaseStore", folder: Path) -> None:
    """Write into a folder that its journal is in a database."""
    journals = store.journals
    pointer = _Pointer(
        database=journals.url.storable,
        name=store.name,
        prefix=journals.prefix,
        create_schema=journals.create_schema,
        lease_seconds=journals.lease_seconds,
    )
    text = json.dumps(pointer.model_dump(), indent=2) + "\n"
    write_inside(folder, POINTER, text)


def _store_in_database(folder: Path) -> "DatabaseStore":
    path = folder / POINTER
    try:
        pointer = _Pointer.model_validate_json(read_bytes(path))
    except ValidationError as error:
        raise JournalTrouble(
            f"{path} does not say where the journal is",
            remedy="restore it from a backup, or start a new run",
        ) from error
    try:  # imported late: most runs have their journal in a file
        from burnish.journal.database_store import DatabaseJournals
        from burnish.system.databases import DatabaseUrl
    except ImportError as error:
        raise MissingExtra(
            f"the journal of {folder} is in a database, which needs the package sqlalchemy",
            remedy=f"for PostgreSQL: {install_command('postgres')}; "
            f"for MySQL: {install_command('mysql')}",
        ) from error

    journals = DatabaseJournals(
        url=DatabaseUrl.parse(pointer.database),
        prefix=pointer.prefix,
        create_schema=pointer.create_schema,
        lease_seconds=pointer.lease_seconds,
    )
    return journals.journal(pointer.name)
