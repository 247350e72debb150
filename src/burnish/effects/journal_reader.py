"""A journal looked at from outside: nothing is written, a driver may be at work."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from burnish.core.content import Json
from burnish.core.money import Spend
from burnish.effects import storage
from burnish.effects.places import store_at
from burnish.effects.sqlite_store import reading
from burnish.effects.storage import JournalStore


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

    def __init__(self, place: Path | JournalStore) -> None:
        self._store = store_at(place)
        self._db = self._store.look()
        self.path, self._packing = self._store.path, self._store.packing
        self._sql = self._store.sql

    def __enter__(self) -> "JournalReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the place."""
        self._store.close()

    def find(self, key: str) -> tuple[bytes, bool] | None:
        """A completed effect's value and whether it is missing, or None."""
        with reading(self.path):
            row = self._db.execute(self._sql.find, (bytes.fromhex(key),)).fetchone()
            return None if row is None else (self._packing.unpack(row[0]), bool(row[2]))

    def nested_in(self, key: str) -> set[str]:
        """The keys of what was paid for inside a completed effect."""
        with reading(self.path):
            row = self._db.execute(self._sql.find, (bytes.fromhex(key),)).fetchone()
            return set(json.loads(row[1])) if row and row[1] else set()

    def effects(self) -> Iterator[EffectRow]:
        """Every effect, in the order in which they were started."""
        with reading(self.path):
            for row in self._store.stream(self._sql.effects):
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
        with reading(self.path):
            rows = self._store.stream(self._sql.costs, (since,))
            for key, kind, trial, draw, nested, *amounts in rows:
                inner = cast("dict[str, list[int]]", json.loads(nested) if nested else {})
                own = {cast("bytes", key).hex(): Spend.of(amounts)}
                spends = own | {name: Spend.of(each) for name, each in inner.items()}
                yield CostRow(kind=kind, trial=trial, draw=draw, spends=spends)

    def trial(self, number: int) -> bytes | None:
        """A recorded trial, or None."""
        with reading(self.path):
            row = self._db.execute(self._sql.trial, (number,)).fetchone()
            return None if row is None else self._packing.unpack(row[0])

    def trials(self) -> Iterator[bytes]:
        """Every trial, in order."""
        with reading(self.path):
            for (body,) in self._store.stream(self._sql.trials):
                yield self._packing.unpack(body)

    @property
    def trials_recorded(self) -> int:
        """How many trials there are."""
        with reading(self.path):
            return int(storage.one(self._db, self._sql.trials_recorded))

    @property
    def results(self) -> int:
        """How many effects were completed."""
        with reading(self.path):
            return int(storage.one(self._db, self._sql.results))

    def has_event(self, key: str) -> bool:
        """Whether an event was kept under this key."""
        with reading(self.path):
            return self._db.execute(self._sql.event, (key,)).fetchone() is not None

    def events(self) -> Iterator[bytes]:
        """Every event, in order."""
        with reading(self.path):
            for (body,) in self._store.stream(self._sql.events):
                yield cast("bytes", body)

    def marks(self) -> dict[str, str]:
        """Every mark."""
        with reading(self.path):
            return {str(k): str(v) for k, v in self._db.execute(self._sql.marks)}

    @property
    def billed(self) -> Spend:
        """Everything that was started."""
        with reading(self.path):
            return storage.billed(self._db, self._sql)

    @property
    def active_seconds(self) -> float:
        """The time the run was driven."""
        with reading(self.path):
            return storage.one(self._db, self._sql.active)
