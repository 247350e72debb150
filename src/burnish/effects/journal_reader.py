"""A journal looked at from outside: nothing is written, a driver may be at work."""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from burnish.core.content import Json
from burnish.core.money import Spend
from burnish.effects import schema
from burnish.effects.packing import Packing
from burnish.effects.schema import AMOUNTS


@dataclass(frozen=True, kw_only=True)
class EffectRow:
    """An effect for people: `burnish runs show RUN --calls`."""

    key: str
    kind: str
    trial: int
    draw: int
    request: Json
    spend: Spend
    state: str
    """`done`, `missing`, `imported`, or `in flight` (lost, unless a process drives the run)."""


@dataclass(frozen=True, kw_only=True)
class CostRow:
    """What a completed effect cost, and what everything nested in it did."""

    kind: str
    trial: int
    draw: int
    spends: Mapping[str, Spend]
    """By key, its own first."""


class JournalReader:
    """A journal looked at from outside: nothing is written, a driver may be at work."""

    def __init__(self, folder: Path) -> None:
        self._packing = Packing(folder / "blobs")
        self.path = folder / schema.NAME
        with schema.reading(self.path):
            self._db = self._open()
            with schema.closed_on_error(self._db):
                schema.check_schema(self._db, self.path)

    def _open(self) -> sqlite3.Connection:
        """The journal; an empty one where the run was killed before it had any tables."""
        if self.path.exists():
            db = sqlite3.connect(f"file:{_quoted(self.path)}?mode=ro", uri=True)
            with schema.closed_on_error(db):
                if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'sessions'").fetchone():
                    return db
            db.close()
        db = sqlite3.connect(":memory:")
        schema.prepare(db, self.path)
        return db

    def __enter__(self) -> "JournalReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def find(self, key: str) -> tuple[bytes, bool] | None:
        """A completed effect's value and whether it is missing, or None."""
        sql = "SELECT value, missing FROM effects WHERE key = ? AND value IS NOT NULL"
        with schema.reading(self.path):
            row = self._db.execute(sql, (bytes.fromhex(key),)).fetchone()
            return None if row is None else (self._packing.unpack(row[0]), bool(row[1]))

    def effects(self) -> Iterator[EffectRow]:
        """Every effect, in the order in which they were started."""
        sql = (
            "SELECT key, kind, trial, draw, request, value IS NULL, missing, imported, "
            f"{AMOUNTS} FROM effects ORDER BY id"
        )
        with schema.reading(self.path):
            for row in self._db.execute(sql):
                yield self._effect(*row)

    def _effect(self, *row: Any) -> EffectRow:
        key, kind, trial, draw, request, unfinished, missing, imported, *amounts = row
        states = (("in flight", unfinished), ("missing", missing), ("imported", imported))
        return EffectRow(
            key=cast("bytes", key).hex(),
            kind=kind,
            trial=trial,
            draw=draw,
            request=json.loads(self._packing.unpack(request)) if request else None,
            spend=Spend.of(amounts),
            state=next((name for name, holds in states if holds), "done"),
        )

    def costs(self, *, since: int = 0) -> Iterator[CostRow]:
        """What was completed since a trial cost, in the order in which it was started."""
        sql = (
            f"SELECT key, kind, trial, draw, nested, {AMOUNTS} FROM effects "
            "WHERE value IS NOT NULL AND trial >= ? ORDER BY id"
        )
        with schema.reading(self.path):
            for key, kind, trial, draw, nested, *amounts in self._db.execute(sql, (since,)):
                inner = cast("dict[str, list[int]]", json.loads(nested) if nested else {})
                own = {cast("bytes", key).hex(): Spend.of(amounts)}
                spends = own | {name: Spend.of(each) for name, each in inner.items()}
                yield CostRow(kind=kind, trial=trial, draw=draw, spends=spends)

    def trial(self, number: int) -> bytes | None:
        """A recorded trial, or None."""
        with schema.reading(self.path):
            sql = "SELECT body FROM trials WHERE number = ?"
            row = self._db.execute(sql, (number,)).fetchone()
            return None if row is None else self._packing.unpack(row[0])

    def trials(self) -> Iterator[bytes]:
        """Every trial, in order."""
        with schema.reading(self.path):
            for (body,) in self._db.execute("SELECT body FROM trials ORDER BY number"):
                yield self._packing.unpack(body)

    def events(self) -> Iterator[bytes]:
        """Every event, in order."""
        with schema.reading(self.path):
            for (body,) in self._db.execute("SELECT body FROM events ORDER BY id"):
                yield cast("bytes", body)

    def marks(self) -> dict[str, str]:
        """Every mark."""
        with schema.reading(self.path):
            return {str(k): str(v) for k, v in self._db.execute("SELECT name, value FROM meta")}

    @property
    def billed(self) -> Spend:
        """Everything that was started."""
        with schema.reading(self.path):
            return schema.billed(self._db)

    @property
    def active_seconds(self) -> float:
        """The time the run was driven."""
        with schema.reading(self.path):
            return schema.one(self._db, "SELECT COALESCE(SUM(active), 0) FROM sessions")


def _quoted(path: Path) -> str:
    return str(path.resolve()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
