"""The journal's tables in a file, and how to connect to them.

`effects` holds one row an effect. A paid effect is noted before it starts (its columns then
hold the estimate) and completed when it ends (they hold what it cost). Notes that nobody will
complete are moved to `lost`. So *billed* is the sum over both tables, at any instant.
"""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from burnish.core.errors import FileTrouble, JournalTrouble
from burnish.effects.statements import AMOUNTS

SCHEMA = 1
NAME = "journal.db"

TABLES = f"""
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS effects (
    id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, kind TEXT NOT NULL, trial INTEGER NOT NULL,
    draw INTEGER NOT NULL, request BLOB, value BLOB, nested TEXT, at REAL NOT NULL,
    missing INTEGER NOT NULL DEFAULT 0, imported INTEGER NOT NULL DEFAULT 0,
    {", ".join(f"{name} INTEGER NOT NULL" for name in AMOUNTS.split(", "))});
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


def connect(path: Path, *, wal: bool) -> sqlite3.Connection:
    """A connection whose commits are on disk when they return.

    WAL needs shared memory, which network file systems do not give: there the old
    rollback journal is used.
    """
    with reading(path):
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
        with closed_on_error(db):
            db.execute(f"PRAGMA journal_mode = {'WAL' if wal else 'DELETE'}")
            db.execute("PRAGMA synchronous = FULL")
    return db


@contextmanager
def closed_on_error(db: sqlite3.Connection) -> Generator[None, None, None]:
    """Do not leave a connection open that nobody will be given."""
    try:
        yield
    except BaseException:
        db.close()
        raise


def prepare(db: sqlite3.Connection, path: Path) -> None:
    """Make the tables where they are not there yet."""
    try:
        db.executescript(TABLES)
        db.execute("INSERT OR IGNORE INTO meta VALUES ('schema', ?)", (str(SCHEMA),))
        check_schema(db, path)
    except sqlite3.DatabaseError as error:
        raise unreadable(path, error) from error


def check_schema(db: sqlite3.Connection, path: Path) -> None:
    """Refuse a journal that a newer burnish wrote."""
    with reading(path):
        row = db.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
        found = 0 if row is None else int(row[0])
    if found > SCHEMA:
        raise JournalTrouble(
            f"{path} was written by a newer burnish "
            f"(journal schema {found}, this one knows {SCHEMA})",
            remedy="upgrade burnish",
        )


@contextmanager
def reading(path: Path | str) -> Generator[None, None, None]:
    """Whatever a damaged journal makes Python raise becomes one clear error."""
    try:
        yield
    except (sqlite3.Error, ValueError, TypeError, AttributeError) as error:
        raise unreadable(path, error) from error


def unreadable(path: Path | str, error: Exception) -> FileTrouble | JournalTrouble:
    """The error for a journal that cannot be opened or is none."""
    if isinstance(error, sqlite3.OperationalError):
        return FileTrouble(
            f"the journal {path} cannot be opened: {error}",
            remedy="check that the folder exists, is writable and has space left",
        )
    return JournalTrouble(
        f"{path} is damaged, or not a journal: {_first_line(error)}",
        remedy="restore it from a backup, or start a new run",
    )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
