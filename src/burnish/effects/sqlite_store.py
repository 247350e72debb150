"""A journal in a file of its own: SQLite, beside the run's other files."""

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from burnish.effects import schema
from burnish.effects.packing import Packing
from burnish.effects.statements import Spelling, Statements
from burnish.effects.storage import BeforeCommit
from burnish.effects.writer import Writer
from burnish.system import is_network_file_system

_SQL = Statements(Spelling(begin="BEGIN IMMEDIATE"))


class SqliteStore:
    """The journal in a folder. Whoever drives it holds the folder's lock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._db: sqlite3.Connection | None = None
        self.path = folder / schema.NAME
        self.packing = Packing(folder / "blobs")
        self.sql = _SQL

    def take(self) -> sqlite3.Connection:
        """Open the file, and make its tables where they are not there yet."""
        self._db = db = self._connect()
        with schema.closed_on_error(db):
            schema.prepare(db, self.path)
        return db

    def look(self) -> sqlite3.Connection:
        """The file; an empty one where the run was killed before it had any tables."""
        with schema.reading(self.path):
            self._db = db = self._opened()
            with schema.closed_on_error(db):
                schema.check_schema(db, self.path)
        return db

    def _opened(self) -> sqlite3.Connection:
        if self.path.exists():
            db = sqlite3.connect(f"file:{_quoted(self.path)}?mode=ro", uri=True)
            with schema.closed_on_error(db):
                if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'sessions'").fetchone():
                    return db
            db.close()
        db = sqlite3.connect(":memory:")
        schema.prepare(db, self.path)
        return db

    def writer(self, before_commit: BeforeCommit) -> Writer:
        """A writer with a connection of its own."""
        return Writer(self._connect, name=str(self.path), before_commit=before_commit)

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterable[Any]:
        """SQLite gives one row after the other by itself."""
        assert self._db is not None
        return self._db.execute(sql, parameters)

    def close(self) -> None:
        """Let go of the file."""
        if self._db is not None:
            self._db.close()

    def _connect(self) -> sqlite3.Connection:
        return schema.connect(self.path, wal=not is_network_file_system(self._folder))


def _quoted(path: Path) -> str:
    return str(path.resolve()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
