"""The registry of the six policy texts: versions, the active ones, pins, rollback.

Version 0 of each text is the shipped one. It is nowhere stored: a text without an active version
is at 0. What is trained here is what delegations read, since both come through `texts`.
"""

import difflib
import os
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from burnish.core.errors import ConfigError, Problem
from burnish.core.surfaces import placeholders_in
from burnish.system.files import state_folder
from burnish.targets.delegation.policy import NAMES, PolicyTexts
from burnish.targets.delegation.registry_schema import PINS, reading, writing

NAME = "policy.db"
VARIABLES = ("BURNISH_POLICY_DB", "AWP_OUTER_LOOP_DB")
MOST_CHARS = 20_000
"""No policy text may be longer."""


def registry_path(db: str | Path | None = None, environ: Mapping[str, str] = os.environ) -> Path:
    """Where the registry lies: what is named, a variable, or the user's state folder."""
    named = (str(db or ""), *(environ.get(name, "") for name in VARIABLES))
    told = next((each for each in named if each.strip()), "")
    return Path(told).absolute() if told else state_folder(environ) / NAME


@dataclass(frozen=True, kw_only=True)
class Version:
    """One version of one text."""

    name: str
    number: int
    content: str
    parent: int | None = None
    created_at: str = ""
    active: bool = False
    pinned: bool = False
    """Runs read this version, whichever is active."""


class PolicyRegistry:
    """One registry. Looking at it makes no file; changing it does."""

    def __init__(self, path: Path) -> None:
        self.path = path

    # -- looking ---------------------------------------------------------------------------

    def texts(self) -> PolicyTexts:
        """What runs read: the pinned version of each text, else the active one."""
        return self.at(self.in_force())

    def at(self, versions: Mapping[str, int]) -> PolicyTexts:
        """The texts at these versions; at those in force where nothing is said."""
        wanted = {**self.in_force(), **versions}
        texts = {name: self.content(name, number) for name, number in wanted.items()}
        return PolicyTexts(texts=texts, versions=wanted)

    def in_force(self) -> dict[str, int]:
        """By text, the version that runs read."""
        return {**self.active(), **self.pins()}

    def active(self) -> dict[str, int]:
        """By text, the active version."""
        with reading(self.path) as db:
            return active_in(db)

    def pins(self) -> dict[str, int]:
        """By text, the version that it is held at."""
        with reading(self.path) as db:
            return _pins(db)

    def content(self, name: str, number: int) -> str:
        """A version's text; raises where there is none."""
        with reading(self.path) as db:
            return _content(db, _known(name), number)

    def history(self, name: str) -> list[Version]:
        """Every version of a text, the shipped one first."""
        _known(name)
        with reading(self.path) as db:
            active, pinned = active_in(db)[name], _pins(db).get(name)
            query = (
                "SELECT version, content, parent_version, created_at FROM artifact_versions"
                " WHERE artifact_name = ? ORDER BY version"
            )
            rows = [] if db is None else db.execute(query, (name,)).fetchall()
        first = (0, PolicyTexts.shipped()[name], None, "")
        return [
            Version(
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

    # -- changing --------------------------------------------------------------------------

    def add(self, name: str, content: str, *, activate: bool = False) -> int:
        """A new version of a text, and its number; an equal one that is there is taken instead."""
        with writing(self.path) as db:
            number = add_version(db, name, content)
            if activate:
                set_active(db, {name: number})
            return number

    def activate(self, versions: Mapping[str, int]) -> None:
        """Make these versions active, all at once; a rollback is this with an earlier one."""
        with writing(self.path) as db:
            for name, number in versions.items():
                _content(db, _known(name), number)
            set_active(db, versions)

    def pin(self, name: str, number: int | None = None) -> int:
        """Hold a text at a version, or at the active one: runs read it, no training changes it."""
        with writing(self.path) as db:
            held = active_in(db)[_known(name)] if number is None else number
            _content(db, name, held)
            db.execute("INSERT OR REPLACE INTO burnish_pins VALUES (?, ?)", (name, held))
            return held

    def unpin(self, name: str) -> None:
        """Let go of a text; its active version is read again."""
        with writing(self.path) as db:
            db.execute("DELETE FROM burnish_pins WHERE artifact_name = ?", (_known(name),))


def add_version(
    db: sqlite3.Connection, name: str, content: str, *, epoch: int | None = None
) -> int:
    """The version with this content: one that is there, or a new one below the active one."""
    _check(_known(name), content)
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
    """Move the pointers; at 0 no stored version is active."""
    for name, number in versions.items():
        db.execute(
            "UPDATE artifact_versions SET is_active = (version = ?) WHERE artifact_name = ?",
            (number, name),
        )


def now() -> str:
    """The time, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def active_in(db: sqlite3.Connection | None) -> dict[str, int]:
    """By text, the active version; 0 where none is stored."""
    query = "SELECT artifact_name, version FROM artifact_versions WHERE is_active = 1"
    return {**dict.fromkeys(NAMES, 0), **_ours(db, query)}


def _pins(db: sqlite3.Connection | None) -> dict[str, int]:
    """A registry that another system made has none."""
    query = "SELECT 1 FROM sqlite_master WHERE name = ?"
    if db is None or db.execute(query, (PINS,)).fetchone() is None:
        return {}
    return _ours(db, "SELECT artifact_name, version FROM burnish_pins")


def _ours(db: sqlite3.Connection | None, query: str) -> dict[str, int]:
    """By name; a registry of another system may know more texts than there are here."""
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


def _known(name: str) -> str:
    if name not in NAMES:
        remedy = f"there are: {', '.join(NAMES)}"
        raise ConfigError([Problem(where=name, message="no such policy text", remedy=remedy)])
    return name


def _check(name: str, content: str) -> None:
    if not content.strip() or len(content) > MOST_CHARS:
        told = f"a policy text has from 1 to {MOST_CHARS:,} characters, this one {len(content):,}"
        raise ConfigError([Problem(where=name, message=told)])
    if gone := set(placeholders_in(PolicyTexts.shipped()[name])) - set(placeholders_in(content)):
        told = f"the placeholder {', '.join(sorted(gone))} is gone"
        raise ConfigError([Problem(where=name, message=told, remedy="keep it word for word")])
