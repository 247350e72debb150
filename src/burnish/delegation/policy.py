"""The six policy texts, and the registry of their versions."""

import difflib
import errno
import os
import sqlite3
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Self, cast

from burnish.core.content import Json
from burnish.core.errors import ConfigError, FileTrouble, Problem
from burnish.core.surfaces import placeholders_in
from burnish.system import is_network_file_system, read_tree
from burnish.system.files import file_trouble, state_folder

NAMES = (
    "worker_pitfalls",
    "manager_planning_preamble",
    "experiment_context_hint_template",
    "pattern_library",
    "tool_description_templates",
    "critique_rubric",
)


@dataclass(frozen=True, kw_only=True)
class PolicyTexts:
    """The six texts of one run, which stores a copy so that a resume reads the same."""

    texts: Mapping[str, str]
    versions: Mapping[str, int] = field(default_factory=dict[str, int])
    """The version of each text; 0, the shipped one, by default."""

    def __post_init__(self) -> None:
        unknown, absent = set(self.texts) - set(NAMES), set(NAMES) - set(self.texts)
        if unknown or absent:
            remedy = f"there are: {', '.join(NAMES)}"
            problems = [Problem(where=n, message="no such policy text") for n in sorted(unknown)]
            problems += [Problem(where=n, message="this text is missing") for n in sorted(absent)]
            raise ConfigError(problems, remedy=remedy)

    def __getitem__(self, name: str) -> str:
        return self.texts[name]

    @classmethod
    def shipped(cls) -> Self:
        """Version 0 of all six."""
        return cls(texts=_shipped())

    def replaced(self, texts: Mapping[str, str], versions: Mapping[str, int] | None = None) -> Self:
        """A copy with some of the texts replaced."""
        merged = {**self.versions, **(versions or {})}
        return type(self)(texts={**self.texts, **texts}, versions=merged)

    def to_json(self) -> Json:
        versions: dict[str, Json] = {name: self.versions.get(name, 0) for name in NAMES}
        return {"texts": dict[str, Json](self.texts), "versions": versions}


@cache
def _shipped() -> dict[str, str]:
    path = Path(__file__).with_name("policy_texts.yaml")
    return cast("dict[str, str]", read_tree(path).data)


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


_PATIENCE = 5.0
"""How many seconds to wait for another process that writes."""


@contextmanager
def reading(path: Path) -> Generator[sqlite3.Connection | None, None, None]:
    """Open the registry for reading; None if it does not exist yet."""
    if not path.exists():
        yield None
        return
    with _opened(path) as db:
        # One of another system lacks some tables, and looking may not change it.
        there = {str(row[0]) for row in db.execute("SELECT name FROM sqlite_master")}
        yield db if "artifact_versions" in there else None


@contextmanager
def writing(path: Path) -> Generator[sqlite3.Connection, None, None]:
    """Open the registry for writing, in one exclusive transaction."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _trouble(path, error.strerror or str(error)) from error
    with _opened(path) as db:
        if not is_network_file_system(path.parent):
            _use_wal(db)
        db.execute("BEGIN IMMEDIATE")
        try:
            for table in _TABLES:
                db.execute(table)
            yield db
        except BaseException:  # whatever it was, half a change is no change
            if db.in_transaction:  # SQLite ends one itself when the disk is full.
                db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")


def _use_wal(db: sqlite3.Connection) -> None:
    """Change a registry to WAL, unless another writer is at it: the next one will.

    SQLite waits for a lock to begin a transaction, but never for one to change the mode.
    """
    try:
        db.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError as error:
        if not _is_busy(error):
            raise


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


@contextmanager
def _opened(path: Path) -> Generator[sqlite3.Connection, None, None]:
    try:
        with closing(sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)) as db:
            yield db
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            raise file_trouble("write", path, OSError(errno.ENOSPC, str(error))) from error
        if _is_busy(error):
            told = f"the policy registry {path} is locked: another process is writing it"
            raise FileTrouble(told, remedy="try again when it is done") from error
        raise _trouble(path, str(error)) from error


def _trouble(path: Path, why: str) -> FileTrouble:
    remedy = "name another file with --db or $BURNISH_POLICY_DB, or restore it from a backup"
    return FileTrouble(f"the policy registry {path} cannot be used: {why}", remedy=remedy)


NAME = "policy.db"
MOST_CHARS = 20_000
"""The maximum length of a policy text."""


def registry_path(db: str | Path | None = None, environ: Mapping[str, str] = os.environ) -> Path:
    """The path of the registry: `db`, a variable, or the user's state folder."""
    variables = (environ.get(name, "") for name in ("BURNISH_POLICY_DB", "AWP_OUTER_LOOP_DB"))
    path = next((each for each in (str(db or ""), *variables) if each.strip()), "")
    return Path(path).absolute() if path else state_folder(environ) / NAME


@dataclass(frozen=True, kw_only=True)
class _Version:
    name: str
    number: int
    content: str
    parent: int | None = None
    created_at: str = ""
    active: bool = False
    pinned: bool = False
    """Runs read this version, whichever is active."""


class PolicyRegistry:
    """One registry. Reading creates no file; writing does."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def texts(self) -> PolicyTexts:
        """What runs read: the pinned version of each text, else the active one."""
        return self.at(self.in_force())

    def at(self, versions: Mapping[str, int]) -> PolicyTexts:
        """The texts at these versions, the others at those in force."""
        numbers = {**self.in_force(), **versions}
        texts = {name: self.content(name, number) for name, number in numbers.items()}
        return PolicyTexts(texts=texts, versions=numbers)

    def in_force(self) -> dict[str, int]:
        """The version of each text that runs read."""
        return {**self.active(), **self.pins()}

    def active(self) -> dict[str, int]:
        """The active version of each text."""
        with reading(self.path) as db:
            return active_in(db)

    def pins(self) -> dict[str, int]:
        """The pinned version of each text that has one."""
        with reading(self.path) as db:
            return _pins(db)

    def content(self, name: str, number: int) -> str:
        """The content of a version; raises ConfigError if there is none."""
        with reading(self.path) as db:
            return _content(db, _checked_name(name), number)

    def history(self, name: str) -> list[_Version]:
        """Every version of a text, the shipped one first."""
        _checked_name(name)
        with reading(self.path) as db:
            active, pinned = active_in(db)[name], _pins(db).get(name)
            query = (
                "SELECT version, content, parent_version, created_at FROM artifact_versions"
                " WHERE artifact_name = ? ORDER BY version"
            )
            rows = [] if db is None else db.execute(query, (name,)).fetchall()
        first = (0, PolicyTexts.shipped()[name], None, "")
        return [
            _Version(
                name=name,
                number=number,
                content=content,
                parent=parent,
                created_at=at,
                active=number == active,
                pinned=number == pinned,
            )
            for number, content, parent, at in (first, *rows)
        ]

    def diff(self, name: str, before: int, after: int) -> list[str]:
        """How one version differs from another, as a unified diff."""
        old, new = (self.content(name, number).splitlines() for number in (before, after))
        titles = (f"{name} v{before}", f"{name} v{after}")
        return list(difflib.unified_diff(old, new, *titles, lineterm=""))

    def add(self, name: str, content: str, *, activate: bool = False) -> int:
        """Add a version of a text and return its number; an equal one is reused."""
        with writing(self.path) as db:
            number = add_version(db, name, content)
            if activate:
                set_active(db, {name: number})
            return number

    def activate(self, versions: Mapping[str, int]) -> None:
        """Make these versions active at once; with earlier ones this is a rollback."""
        with writing(self.path) as db:
            for name, number in versions.items():
                _content(db, _checked_name(name), number)
            set_active(db, versions)

    def pin(self, name: str, number: int | None = None) -> int:
        """Pin a text to a version, or to the active one: runs read it, training keeps it."""
        with writing(self.path) as db:
            held = active_in(db)[_checked_name(name)] if number is None else number
            _content(db, name, held)
            db.execute("INSERT OR REPLACE INTO burnish_pins VALUES (?, ?)", (name, held))
            return held

    def unpin(self, name: str) -> None:
        """Remove a pin; runs read the active version again."""
        with writing(self.path) as db:
            db.execute("DELETE FROM burnish_pins WHERE artifact_name = ?", (_checked_name(name),))


def add_version(
    db: sqlite3.Connection, name: str, content: str, *, epoch: int | None = None
) -> int:
    """The version with this content: an existing one, or a new child of the active one."""
    _check(_checked_name(name), content)
    if content == PolicyTexts.shipped()[name]:
        return 0
    query = "SELECT version FROM artifact_versions WHERE artifact_name = ? AND content = ?"
    there = db.execute(query, (name, content)).fetchone()
    if there is not None:
        return int(there[0])
    last = "SELECT COALESCE(MAX(version), 0) FROM artifact_versions WHERE artifact_name = ?"
    number = int(db.execute(last, (name,)).fetchone()[0]) + 1
    db.execute(
        "INSERT INTO artifact_versions (artifact_name, version, content, parent_version,"
        " created_at, epoch_id, is_active) VALUES (?, ?, ?, ?, ?, ?, 0)",
        (name, number, content, active_in(db)[name], now(), epoch),
    )
    return number


def set_active(db: sqlite3.Connection, versions: Mapping[str, int]) -> None:
    """Make versions active; with 0 no stored version is active."""
    for name, number in versions.items():
        db.execute(
            "UPDATE artifact_versions SET is_active = (version = ?) WHERE artifact_name = ?",
            (number, name),
        )


def now() -> str:
    """The time, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def active_in(db: sqlite3.Connection | None) -> dict[str, int]:
    """The active version of each text; 0 if none is stored."""
    query = "SELECT artifact_name, version FROM artifact_versions WHERE is_active = 1"
    return {**dict.fromkeys(NAMES, 0), **_ours(db, query)}


def _pins(db: sqlite3.Connection | None) -> dict[str, int]:
    """Pinned versions; a registry of another system has no such table."""
    query = "SELECT 1 FROM sqlite_master WHERE name = 'burnish_pins'"
    if db is None or db.execute(query).fetchone() is None:
        return {}
    return _ours(db, "SELECT artifact_name, version FROM burnish_pins")


def _ours(db: sqlite3.Connection | None, query: str) -> dict[str, int]:
    """Versions by name; a registry of another system may have other texts too."""
    rows: list[tuple[Any, Any]] = [] if db is None else db.execute(query).fetchall()
    return {str(name): int(number) for name, number in rows if name in NAMES}


def _content(db: sqlite3.Connection | None, name: str, number: int) -> str:
    if number == 0:
        return PolicyTexts.shipped()[name]
    query = "SELECT content FROM artifact_versions WHERE artifact_name = ? AND version = ?"
    row = None if db is None else db.execute(query, (name, number)).fetchone()
    if row is None:
        remedy = f"`burnish policy show {name} --history` lists its versions"
        raise ConfigError([Problem(where=name, message=f"no version {number}", remedy=remedy)])
    return str(row[0])


def _checked_name(name: str) -> str:
    if name not in NAMES:
        remedy = f"there are: {', '.join(NAMES)}"
        raise ConfigError([Problem(where=name, message="no such policy text", remedy=remedy)])
    return name


def _check(name: str, content: str) -> None:
    if not content.strip() or len(content) > MOST_CHARS:
        message = (
            f"a policy text needs 1 to {MOST_CHARS:,} characters; this one has {len(content):,}"
        )
        raise ConfigError([Problem(where=name, message=message)])
    if gone := set(placeholders_in(PolicyTexts.shipped()[name])) - set(placeholders_in(content)):
        message = f"the placeholder {', '.join(sorted(gone))} is gone"
        raise ConfigError([Problem(where=name, message=message, remedy="keep it word for word")])
