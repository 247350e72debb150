"""The tables of the policy registry, and how its file is opened."""

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from burnish.core.errors import FileTrouble
from burnish.system import is_network_file_system

BUSY_SECONDS = 5.0
"""How long a writer waits for another one."""
VERSIONS, PINS = "artifact_versions", "burnish_pins"
_TABLES = (
    """
    CREATE TABLE IF NOT EXISTS artifact_versions (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        artifact_name TEXT NOT NULL,
        version INTEGER NOT NULL,
        content TEXT NOT NULL,
        parent_version INTEGER,
        created_at TEXT NOT NULL,
        epoch_id INTEGER,
        is_active INTEGER NOT NULL DEFAULT 0,
        UNIQUE (artifact_name, version)
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS task_suites (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL,
        tasks_json TEXT NOT NULL,
        baseline_artifacts_json TEXT NOT NULL,
        created_at TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS epochs (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        suite_id INTEGER NOT NULL,
        epoch_num INTEGER NOT NULL,
        started_at TEXT NOT NULL,
        completed_at TEXT,
        mean_loss REAL,
        parent_artifacts_json TEXT NOT NULL,
        child_artifacts_json TEXT
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS epoch_runs (
        epoch_id INTEGER NOT NULL,
        run_id TEXT NOT NULL,
        task_name TEXT NOT NULL,
        loss REAL,
        scores_json TEXT NOT NULL,
        PRIMARY KEY (epoch_id, run_id)
    )
    """,
    # Beyond what other systems have: what is held at a version, and what each run did here.
    """
    CREATE TABLE IF NOT EXISTS burnish_pins (
        artifact_name TEXT PRIMARY KEY,
        version INTEGER NOT NULL
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS burnish_changes (
        origin TEXT PRIMARY KEY,
        run TEXT NOT NULL,
        number INTEGER NOT NULL,
        told_json TEXT NOT NULL,
        epoch_id INTEGER
    )
    """,
)


@contextmanager
def reading(path: Path) -> Generator[sqlite3.Connection | None, None, None]:
    """The registry to look at; None where there is none yet, and none is made."""
    if not path.exists():
        yield None
        return
    with _opened(path) as db:
        # One of another system lacks some tables, and looking may not change it.
        there = {str(row[0]) for row in db.execute("SELECT name FROM sqlite_master")}
        yield db if VERSIONS in there else None


@contextmanager
def writing(path: Path) -> Generator[sqlite3.Connection, None, None]:
    """The registry to change: all of it or nothing, and nobody else meanwhile."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _trouble(path, error.strerror or str(error)) from error
    with _opened(path) as db:
        if not is_network_file_system(path.parent):
            db.execute("PRAGMA journal_mode = WAL")
        db.execute("BEGIN IMMEDIATE")
        try:
            for table in _TABLES:
                db.execute(table)
            yield db
        except BaseException:
            db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")


@contextmanager
def _opened(path: Path) -> Generator[sqlite3.Connection, None, None]:
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)) as db:
            yield db
    except sqlite3.Error as error:
        raise _trouble(path, str(error)) from error


def _trouble(path: Path, why: str) -> FileTrouble:
    remedy = "name another file with --db or $BURNISH_POLICY_DB, or restore it from a backup"
    return FileTrouble(f"the policy registry {path} cannot be used: {why}", remedy=remedy)
