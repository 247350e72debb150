"""The journal: every effect once, trials, events and checks; and a reader from outside."""

import json
import math
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from burnish.core.content import Json
from burnish.core.errors import BurnishError
from burnish.core.money import Spend
from burnish.core.protocols import Call
from burnish.journal import storage
from burnish.journal.sqlite_store import PositionFile, reading, store_at
from burnish.journal.storage import JournalStore, Statement

_KEEP_TIME_EVERY = 0.5
"""Seconds of active time that a killed process may forget."""


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A completed effect as the journal keeps it."""

    value: Json
    spends: dict[str, Spend] = field(default_factory=dict[str, Spend])
    """What it and everything nested in it cost, by key."""
    missing: bool = False


class Journal:
    """One run's journal, open for writing.

    `place` is the run's folder, or a store. Hold the run's lock while it is open: in a
    database the store holds one itself.
    """

    def __init__(self, place: Path | JournalStore) -> None:
        self._store = store_at(place)
        self._reader = self._store.take()
        try:
            self.path = self._store.path
            self._sql, self._packing = self._store.sql, self._store.packing
            self._read()
            self._opened = time.monotonic()
            self._time_kept = 0.0
            self._writer = self._store.writer(self._keep_time)
        except BaseException:
            self._store.close()
            raise
        self._results = len(self._known)
        """How many results were given to the writer so far."""
        self._position = PositionFile(place, self._results) if isinstance(place, Path) else None

    def _read(self) -> None:
        """Take over where the last session ended."""
        db, sql = self._reader, self._sql
        with reading(self.path):
            # Together: killed in between, the next session would bill the lost ones again.
            db.execute(sql.begin)
            for statement in sql.lose_all:
                db.execute(statement)
            self._session = self._begin_session()
            db.execute("COMMIT")
            self.active_before = storage.one(db, sql.active)
            self.trials_recorded = int(storage.one(db, sql.trials_recorded))
            rows = db.execute(sql.checks)
            self._continued = {str(label): int(number) for label, number in rows}
            self.sealed_read = self.mark("sealed_read") is not None
            self._billed = storage.billed(db, sql)
            # Most look-ups are of effects that are not there: 32 bytes each save asking the disk.
            self._known = {key for (key,) in db.execute(sql.keys)}

    # -- effects ---------------------------------------------------------------------------

    def find(self, key: str) -> Stored | None:
        """A completed effect, or None."""
        if bytes.fromhex(key) not in self._known:
            return None
        with reading(self.path):
            row = self._reader.execute(self._sql.find, (bytes.fromhex(key),)).fetchone()
            return None if row is None else self._stored(key, row)

    async def note(self, call: Call[Any], *, trial: int, request: bytes) -> None:
        """Say, on disk, that a paid effect starts."""
        self._billed += call.estimate
        row = (*_identity(call, trial, self._packing.pack(request)), *call.estimate.amounts)
        await self._writer.commit(self._sql.note, row)

    async def complete(
        self,
        call: Call[Any],
        *,
        trial: int,
        request: bytes,
        value: bytes,
        spend: Spend,
        nested: dict[str, Spend],
        missing: bool,
        imported: bool = False,
    ) -> None:
        """Keep what an effect gave; on disk when this returns.

        What was only computed is not waited for: it reaches the disk before any trial that
        rests on it, and until then it can be computed again.
        """
        self._billed += spend if imported or not call.paid else spend.minus(call.estimate)
        row = (
            *_identity(call, trial, self._packing.pack(request)),
            *spend.amounts,
            self._packing.pack(value),
            _nested_text(nested),
            int(missing),
            int(imported),
        )
        self._results += row[0] not in self._known
        if call.computed:
            self._writer.put((self._sql.complete, row))
        else:
            results = self._results
            await self._writer.commit(self._sql.complete, row)
            self._reach(results)
        self._known.add(row[0])

    def lose(self, call: Call[Any]) -> None:
        """A noted effect will not be completed: billed, not spent."""
        key = bytes.fromhex(call.key)
        self._writer.put(*((statement, (key,)) for statement in self._sql.lose_one))

    @property
    def billed(self) -> Spend:
        """Everything that was started: completed effects, and lost ones by their estimate."""
        return self._billed

    # -- trials, events, checks, marks -----------------------------------------------------

    def add_trial(self, number: int, body: bytes) -> None:
        """Keep a trial; on disk when this returns."""
        self._writer.write(self._sql.add_trial, (number, self._packing.pack(body)))
        self._writer.checkpoint_soon()
        self._reach(self._results)
        self.trials_recorded = max(self.trials_recorded, number + 1)

    def trial(self, number: int) -> bytes | None:
        """A recorded trial, or None."""
        with reading(self.path):
            row = self._reader.execute(self._sql.trial, (number,)).fetchone()
            return None if row is None else self._packing.unpack(row[0])

    def add_event(self, key: str, body: bytes) -> tuple[bool, bool]:
        """Keep an event under its stable key; whether it is new, and whether it was delivered."""
        with reading(self.path):
            row = self._reader.execute(self._sql.event, (key,)).fetchone()
        if row is not None:
            return False, bool(row[0])
        self._writer.write(self._sql.add_event, (key, body))
        return True, False

    def event_delivered(self, key: str) -> None:
        """Everyone was told. Until this is on disk, an event may be told again."""
        self._writer.put((self._sql.event_delivered, (key,)))

    def continued(self, label: str, number: int) -> bool:
        """Whether an impure stopper said "continue" at this check before."""
        return self._continued.get(label, 0) >= number

    def add_continue(self, label: str, number: int) -> None:
        """Keep a "continue"; it is on disk before any effect that follows from it."""
        self._continued[label] = number
        self._writer.put((self._sql.add_continue, (label, number)))

    def mark(self, name: str) -> str | None:
        """A mark that was set, or None."""
        with reading(self.path):
            row = self._reader.execute(self._sql.mark, (name,)).fetchone()
            return None if row is None else str(row[0])

    def set_mark(self, name: str, value: str) -> None:
        """Set a mark; on disk when this returns."""
        self._writer.write(self._sql.set_mark, (name, value))
        self.sealed_read = self.sealed_read or name == "sealed_read"

    # -- time and life ---------------------------------------------------------------------

    @property
    def session(self) -> int:
        """Which time this is that the run is driven, from 1."""
        return self._session

    @property
    def active_seconds(self) -> float:
        """The time this run was driven, all sessions together."""
        return self.active_before + time.monotonic() - self._opened

    def close(self) -> None:
        """Write what is queued and let go of the place."""
        self._time_kept = -math.inf
        with suppress(BurnishError):  # a writer that broke has said so to whoever wrote
            self._writer.put(("SELECT 1", ()))
        self._writer.close()
        if self._position is not None:
            self._position.close()
        self._store.close()

    def _reach(self, results: int) -> None:
        """So many results are on disk: what was given before a statement is kept no later."""
        if self._position is not None:
            self._position.reach(results)

    def _begin_session(self) -> int:
        number = int(storage.one(self._reader, self._sql.next_session))
        who = f"{socket.gethostname()}:{os.getpid()}"
        started = datetime.now(UTC).isoformat(timespec="seconds")
        self._reader.execute(self._sql.add_session, (number, started, 0.0, who))
        return number

    def _keep_time(self) -> Statement | None:
        active = time.monotonic() - self._opened
        if active < self._time_kept + _KEEP_TIME_EVERY:
            return None
        self._time_kept = active
        return self._sql.keep_time, (active, self._session)

    def _stored(self, key: str, row: tuple[Any, ...]) -> Stored:
        value, nested, missing, *amounts = row
        return Stored(
            value=json.loads(self._packing.unpack(value)),
            spends={key: Spend.of(amounts), **_nested_spends(nested)},
            missing=bool(missing),
        )


def _identity(call: Call[Any], trial: int, request: bytes) -> tuple[Any, ...]:
    return bytes.fromhex(call.key), call.kind, trial, call.draw, request, time.time()


def _nested_text(nested: dict[str, Spend]) -> str | None:
    if not nested:
        return None
    return json.dumps({key: nested[key].amounts for key in sorted(nested)})


def _nested_spends(text: str | None) -> dict[str, Spend]:
    if text is None:
        return {}
    return {key: Spend.of(amounts) for key, amounts in json.loads(text).items()}


# -- A journal looked at from outside -------------------------------------------------------------


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
