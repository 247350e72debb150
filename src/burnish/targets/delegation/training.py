"""What training leaves in a registry: suites, epochs with their runs, and accepted texts.

Each entry has an origin, the run and the trial that it comes from, and is made once: a run that
was killed and goes on tells everything again.
"""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burnish.core.content import Json
from burnish.targets.delegation.registry import (
    PolicyRegistry,
    active_in,
    add_version,
    now,
    set_active,
)
from burnish.targets.delegation.registry_schema import reading, writing


@dataclass(frozen=True, kw_only=True)
class Source:
    """The trial that something comes from."""

    run: str
    trial: int

    @property
    def origin(self) -> str:
        """Its name in the registry."""
        return f"{self.run}#{self.trial}"


@dataclass(frozen=True, kw_only=True)
class EpochRun:
    """One delegation of an epoch."""

    run_id: str
    task: str
    loss: float | None
    """None where it is missing."""
    scores: Mapping[str, Json] = field(default_factory=dict[str, Json])


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """One pass over a suite."""

    suite: int
    number: int
    started_at: str
    completed_at: str
    mean_loss: float | None
    parents: Mapping[str, int]
    """The versions that were in force when it began."""
    events: Sequence[Json] = ()
    """Updates and rollbacks."""
    runs: tuple[EpochRun, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Put:
    """What became of accepted texts."""

    versions: Mapping[str, int]
    """Those that were changed, by text."""
    active: bool = True
    """False where somebody else had changed the active versions meanwhile: theirs stay."""


class TrainingLog:
    """Writes what a run of training brings, each thing once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def registry(self) -> PolicyRegistry:
        """The same registry, to be looked at."""
        return PolicyRegistry(self.path)

    def suite(self, name: str, tasks: Json, baseline: Mapping[str, int]) -> int:
        """The id of a suite as it stands; an edited one is a new version of it."""
        wanted = (json.dumps(tasks, sort_keys=True), json.dumps(dict(baseline), sort_keys=True))
        with writing(self.path) as db:
            query = (
                "SELECT id, tasks_json, baseline_artifacts_json FROM task_suites WHERE name = ?"
                " ORDER BY id DESC LIMIT 1"
            )
            row = db.execute(query, (name,)).fetchone()
            if row is not None and (row[1], row[2]) == wanted:
                return int(row[0])
            added = db.execute(
                "INSERT INTO task_suites (name, tasks_json, baseline_artifacts_json, created_at)"
                " VALUES (?, ?, ?, ?)",
                (name, *wanted, now()),
            )
            return int(added.lastrowid or 0)

    def epoch(self, source: Source, epoch: Epoch) -> None:
        """Enter an epoch with its runs."""
        with writing(self.path) as db:
            origin = f"{source.origin}:epoch"
            if _change(db, origin) is not None:
                return
            number = _add_epoch(db, epoch)
            for each in epoch.runs:
                db.execute(
                    "INSERT INTO epoch_runs VALUES (?, ?, ?, ?, ?)",
                    (number, each.run_id, each.task, each.loss, json.dumps(dict(each.scores))),
                )
            _keep_change(db, origin, source, {}, number)

    def put(self, source: Source, texts: Mapping[str, str], *, expected: Mapping[str, int]) -> Put:
        """Add these texts as versions and make them active; once, however often it is told.

        `expected` are the versions that were active when the run began. Where they are others by
        now, and not by this run, somebody else decided meanwhile: then nothing becomes active.
        """
        with writing(self.path) as db:
            if (told := _change(db, source.origin)) is not None:
                return Put(versions=told["put"], active=told["put_active"])
            before = active_in(db)
            epoch = _epoch_of(db, source)
            found = {n: add_version(db, n, text, epoch=epoch) for n, text in texts.items()}
            changed = {name: number for name, number in found.items() if number != before[name]}
            left = _last(db, source.run) or dict(expected)
            undisturbed = before == left
            if undisturbed:
                set_active(db, changed)
            _tell_epoch(db, epoch, {**before, **changed} if undisturbed else before)
            # Once disturbed, it stays so: what the run knew is not what somebody else decided.
            known = {**before, **changed} if undisturbed else left
            told = {"active": known, "put": changed, "put_active": undisturbed}
            _keep_change(db, source.origin, source, told, None)
            return Put(versions=changed, active=undisturbed)

    def epochs(self, suite: str) -> list[dict[str, Json]]:
        """The epochs of all versions of a suite, in the order in which they were run."""
        query = (
            "SELECT e.id, e.suite_id, e.epoch_num, e.mean_loss, e.completed_at FROM epochs e"
            " JOIN task_suites s ON s.id = e.suite_id WHERE s.name = ? ORDER BY e.id"
        )
        with reading(self.path) as db:
            rows = [] if db is None else db.execute(query, (suite,)).fetchall()
        names = ("id", "suite_id", "epoch_num", "mean_loss", "completed_at")
        return [dict(zip(names, row, strict=True)) for row in rows]


def _add_epoch(db: sqlite3.Connection, epoch: Epoch) -> int:
    child: Json = {"artifacts": dict[str, Json](epoch.parents), "events": list(epoch.events)}
    added = db.execute(
        "INSERT INTO epochs (suite_id, epoch_num, started_at, completed_at, mean_loss,"
        " parent_artifacts_json, child_artifacts_json) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            epoch.suite,
            epoch.number,
            epoch.started_at,
            epoch.completed_at,
            epoch.mean_loss,
            json.dumps(dict(epoch.parents), sort_keys=True),
            json.dumps(child, sort_keys=True, ensure_ascii=False),
        ),
    )
    return int(added.lastrowid or 0)


def _epoch_of(db: sqlite3.Connection, source: Source) -> int | None:
    """The epoch of the same trial, where it has one."""
    query = "SELECT epoch_id FROM burnish_changes WHERE origin = ?"
    row = db.execute(query, (f"{source.origin}:epoch",)).fetchone()
    return None if row is None else int(row[0])


def _tell_epoch(db: sqlite3.Connection, epoch: int | None, versions: Mapping[str, int]) -> None:
    """Which versions an epoch left active."""
    query = "SELECT child_artifacts_json FROM epochs WHERE id = ?"
    row = None if epoch is None else db.execute(query, (epoch,)).fetchone()
    if row is not None:
        told = {**json.loads(row[0]), "artifacts": dict(versions)}
        text = json.dumps(told, sort_keys=True, ensure_ascii=False)
        db.execute("UPDATE epochs SET child_artifacts_json = ? WHERE id = ?", (text, epoch))


def _change(db: sqlite3.Connection, origin: str) -> dict[str, Any] | None:
    query = "SELECT told_json FROM burnish_changes WHERE origin = ?"
    row = db.execute(query, (origin,)).fetchone()
    return None if row is None else json.loads(row[0])


def _last(db: sqlite3.Connection, run: str) -> dict[str, int] | None:
    """The active versions after the last thing that a run put here."""
    query = (
        "SELECT told_json FROM burnish_changes WHERE run = ? AND epoch_id IS NULL"
        " ORDER BY number DESC LIMIT 1"
    )
    row = db.execute(query, (run,)).fetchone()
    return None if row is None else json.loads(row[0])["active"]


def _keep_change(
    db: sqlite3.Connection,
    origin: str,
    source: Source,
    told: Mapping[str, Any],
    epoch: int | None,
) -> None:
    db.execute(
        "INSERT INTO burnish_changes VALUES (?, ?, ?, ?, ?)",
        (origin, source.run, source.trial, json.dumps(dict(told), sort_keys=True), epoch),
    )
