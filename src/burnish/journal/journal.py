"""The journal of effects, trials, events and checks, for the process that drives and readers."""

import asyncio
import json
import math
import os
import socket
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from burnish.core.content import DigestSet, Json, record
from burnish.core.errors import BurnishError
from burnish.core.money import Spend
from burnish.core.protocols import Call
from burnish.journal import storage
from burnish.journal.sqlite_store import PositionFile, reading, store_at
from burnish.journal.storage import JournalStore, Statement

_MISSING, _WITHHELD = 1, 2
"""Bits of the column `missing`."""
_TOTALS = "totals"
"""The mark with the totals at the end of a session."""


@record
class Stored:
    """A completed effect."""

    spelled: bytes
    """The value as canonical JSON."""
    spends: dict[str, Spend] = field(default_factory=dict[str, Spend])
    """By key, what it and its nested effects cost."""
    missing: bool = False
    withheld: bool = False
    """Whether something that looks like a secret was removed from the value."""


class _OpenJournal:
    """Reads single rows of a journal."""

    def __init__(self, store: JournalStore, db: storage.Connection) -> None:
        self._store, self._db = store, db
        self.path, self._sql, self._packing = store.path, store.sql, store.packing

    def trial(self, number: int) -> bytes | None:
        """A recorded trial, or None."""
        row = self._row(self._sql.trial, number)
        with reading(self.path):
            return None if row is None else self._packing.unpack(row[0])

    def mark(self, name: str) -> str | None:
        """A mark that was set, or None."""
        row = self._row(self._sql.mark, name)
        return None if row is None else str(row[0])

    def _position_now(self) -> list[int]:
        """How far the journal has come, without reading its rows: sessions, trials and effects."""
        with reading(self.path):
            queries = (self._sql.next_session, self._sql.trials_recorded, self._sql.effects_noted)
            return [int(storage.one(self._db, each)) for each in queries]

    def _sum_up(self) -> "EffectTotals":
        """The totals of all effects; every row is read for them."""
        with reading(self.path):
            trials = int(storage.one(self._db, self._sql.trials_recorded))
            count, *every = self._row(self._sql.totals)
            lost, late = self._row(self._sql.billed[1]), self._row(self._sql.late, trials)
            spends = [*map(Spend.of, (every, lost, late))]
        billed, unrecorded = spends[0] + spends[1], spends[2]
        return EffectTotals(trials=trials, results=count, billed=billed, unrecorded=unrecorded)

    def _row(self, sql: str, *parameters: Any) -> Any:
        with reading(self.path):
            return self._db.execute(sql, parameters).fetchone()


class Journal(_OpenJournal):
    """One run's journal, open for writing.

    `place` is the run's folder or a store. Hold the run's lock while it is open; a store in a
    database holds its own.
    """

    def __init__(self, place: Path | JournalStore) -> None:
        store = store_at(place)
        super().__init__(store, store.take())
        with ExitStack() as opened:
            opened.callback(store.close)
            self._opened = time.monotonic()
            self._time_kept = 0.0
            with reading(self.path):
                self.active_before = storage.one(self._db, self._sql.active)
                self._session = int(storage.one(self._db, self._sql.next_session))
            self._writer = store.writer(self._keep_time)
            opened.callback(self._writer.close)
            self._begin()
            opened.pop_all()
        self._results = len(self._known)  # given to the writer so far
        self._position = PositionFile(place, self._results) if isinstance(place, Path) else None
        self._counted: deque[tuple[asyncio.Future[None], int]] = deque()
        """Results that are being committed, and how many there are with them."""

    def _begin(self) -> None:
        """Begin a session where the last one ended."""
        db, sql = self._db, self._sql
        # Together: killed in between, the next session would bill them again.
        self._writer.put(*((statement, ()) for statement in sql.lose_all))
        who = f"{socket.gethostname()}:{os.getpid()}"
        started = datetime.now(UTC).isoformat(timespec="seconds")
        self._writer.write(sql.add_session, (self._session, started, 0.0, who))
        with reading(self.path):
            self.trials_recorded = int(storage.one(db, sql.trials_recorded))
            rows = db.execute(sql.checks)
            self._continued = {str(label): int(number) for label, number in rows}
            self.sealed_read = self.mark("sealed_read") is not None
            self._billed = storage.billed(db, sql)
            # Most lookups miss: a few bytes per effect save a query.
            self._known = DigestSet(key for (key,) in db.execute(sql.keys))

    def find(self, key: str) -> Stored | None:
        """A completed effect, or None."""
        compact = bytes.fromhex(key)
        if compact not in self._known:
            return None
        with reading(self.path):
            row = self._db.execute(self._sql.find, (compact,)).fetchone()
            if row is None:
                return None
            value, nested, missing, *amounts = row
            return Stored(
                spelled=self._packing.unpack(value),
                spends={key: Spend.of(amounts), **_nested_spends(nested)},
                missing=bool(missing & _MISSING),
                withheld=bool(missing & _WITHHELD),
            )

    def forget(self, key: str) -> None:
        """Perform an effect again whose value is of no use any more; it stays billed."""
        row = bytes.fromhex(key)
        if row not in self._known:
            return
        self._known.discard(row)
        # Before it is deleted: a journal with fewer results than were counted has lost some.
        self._results -= 1
        self._counted = deque((done, count - 1) for done, count in self._counted)
        if self._position is not None:
            self._position.fall_back()
        self._writer.put(*((statement, (row,)) for statement in self._sql.lose_result))

    async def note(self, call: Call[Any], *, trial: int, request: bytes) -> None:
        """Record, on disk, that a paid effect starts."""
        self._billed += call.estimate
        key = bytes.fromhex(call.key)
        row = (*_identity(key, call, trial, self._packing.pack(request)), *call.estimate.amounts)
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
        withheld: bool = False,
        imported: bool = False,
    ) -> None:
        """Store the result of an effect; on disk when this returns.

        Computed results are not waited for: they reach the disk before any trial that needs
        them, and until then they can be computed again.
        """
        if imported or not call.paid:
            self._billed += spend
        elif spend != call.estimate:  # which was billed when it began
            self._billed += spend.minus(call.estimate)
        key = bytes.fromhex(call.key)
        row = (
            *_identity(key, call, trial, self._packing.pack(request)),
            *spend.amounts,
            self._packing.pack(value),
            json.dumps({name: nested[name].amounts for name in sorted(nested)}) if nested else None,
            _MISSING * missing + _WITHHELD * withheld,
            int(imported),
        )
        self._results += self._known.add(key)
        if call.computed:
            self._writer.put((self._sql.complete, row))
        else:
            done = self._writer.queued(self._sql.complete, row)
            self._counted.append((done, self._results))
            await done
            self._reach_committed()

    def lose(self, call: Call[Any]) -> None:
        """Record that a started effect will not be completed: it is billed, but not spent."""
        key = bytes.fromhex(call.key)
        self._writer.put(*((statement, (key,)) for statement in self._sql.lose_one))

    def withdraw(self, call: Call[Any]) -> None:
        """Record that a noted effect never started: it is not billed."""
        self._billed = self._billed.minus(call.estimate)
        *_, delete = self._sql.lose_one
        self._writer.put((delete, (bytes.fromhex(call.key),)))

    @property
    def billed(self) -> Spend:
        """The cost of completed effects, and the estimates of lost ones."""
        return self._billed

    def add_trial(self, number: int, body: bytes) -> None:
        """Store a trial; on disk when this returns."""
        self._writer.write(self._sql.add_trial, (number, self._packing.pack(body)))
        self._writer.checkpoint_soon()
        self._reach(self._results)
        self.trials_recorded = max(self.trials_recorded, number + 1)

    def add_event(self, key: str, body: bytes) -> tuple[bool, bool]:
        """Store an event under its stable key; whether it is new and whether it was delivered."""
        row = self._row(self._sql.event, key)
        if row is not None:
            return False, bool(row[0])
        self._writer.write(self._sql.add_event, (key, body))
        return True, False

    def event_delivered(self, key: str) -> None:
        """Mark an event as delivered; until this is on disk, it may be delivered again."""
        self._writer.put((self._sql.event_delivered, (key,)))

    def continued(self, label: str, number: int) -> bool:
        """Whether an impure stopper already said "continue" at this check."""
        return self._continued.get(label, 0) >= number

    def add_continue(self, label: str, number: int) -> None:
        """Store a "continue"; it is on disk before any effect that follows from it."""
        self._continued[label] = number
        self._writer.put((self._sql.add_continue, (label, number)))

    def set_mark(self, name: str, value: str) -> None:
        """Set a mark; on disk when this returns."""
        self._writer.write(self._sql.set_mark, (name, value))
        self.sealed_read = self.sealed_read or name == "sealed_read"

    @property
    def session(self) -> int:
        """The number of times the run was started or resumed."""
        return self._session

    @property
    def active_seconds(self) -> float:
        """How long this run was active in all sessions."""
        return self.active_before + time.monotonic() - self._opened

    def close(self) -> None:
        """Write what is queued, then the totals for whoever looks at the run, and close."""
        self._time_kept = -math.inf
        with suppress(BurnishError):  # a broken writer has already raised this
            self._writer.write("SELECT 1")
            self.set_mark(_TOTALS, self._sum_up().to_mark(self._position_now()))
        self._writer.close()
        if self._position is not None:
            self._position.close()
        self._store.close()

    def _reach_committed(self) -> None:
        """Record all results of a group that was committed, with one write."""
        results = 0
        while self._counted and self._counted[0][0].done():
            done, count = self._counted.popleft()
            committed = not done.cancelled() and done.exception() is None
            results = count if committed else results
        self._reach(results)

    def _reach(self, results: int) -> None:
        if self._position is not None:
            self._position.reach(results)

    def _keep_time(self) -> Statement | None:
        active = time.monotonic() - self._opened
        # A killed process forgets no more active time than this.
        if active < self._time_kept + 0.5:
            return None
        self._time_kept = active
        return self._sql.keep_time, (active, self._session)


def _identity(key: bytes, call: Call[Any], trial: int, request: bytes) -> tuple[Any, ...]:
    return key, call.kind, trial, call.draw, request, time.time()


def _nested_spends(text: str | None) -> dict[str, Spend]:
    if text is None:
        return {}
    return {key: Spend.of(amounts) for key, amounts in json.loads(text).items()}


def _word(value: object) -> str:
    """A text of a row: in a damaged journal a column may hold a value of any type."""
    if not isinstance(value, str):
        raise TypeError(f"a text is {type(value).__name__}")
    return value


@dataclass(frozen=True, kw_only=True)
class EffectRow:
    """An effect as `burnish runs show RUN --calls` lists it."""

    key: str
    kind: str
    trial: int
    draw: int
    request: Json
    spend: Spend
    state: str
    """`done`, `missing`, `imported`, or `in flight` (lost unless a process drives the run)."""


@dataclass(frozen=True, kw_only=True)
class CostRow:
    """What a completed effect and its nested effects cost."""

    kind: str
    trial: int
    draw: int
    spends: Mapping[str, Spend]
    """By key, its own first."""


@dataclass(frozen=True, kw_only=True)
class ResultRow:
    """A completed effect with what it gave."""

    key: str
    kind: str
    draw: int
    request: Json
    value: Json


@dataclass(frozen=True, kw_only=True)
class EffectTotals:
    """What all effects of a run come to."""

    trials: int
    """The recorded trials at that time."""
    results: int
    """Completed effects."""
    billed: Spend
    """The cost of completed effects, and the estimates of lost ones."""
    unrecorded: Spend
    """The cost of what was completed since the last recorded trial."""

    def to_mark(self, position: list[int]) -> str:
        """As it is stored at the end of a session."""
        spends = [self.billed.amounts, self.unrecorded.amounts]
        return json.dumps([position, self.trials, self.results, *spends])

    @classmethod
    def of_mark(cls, text: str | None, position: list[int]) -> "EffectTotals | None":
        """What was stored; None if the journal has gone on, or back, since."""
        stored: list[Any] = [None] if text is None else json.loads(text)
        if stored[0] != position:
            return None
        _, trials, results, *spends = stored
        billed, unrecorded = map(Spend.of, spends)
        return cls(trials=int(trials), results=int(results), billed=billed, unrecorded=unrecorded)


class JournalReader(_OpenJournal):
    """A journal open for reading only; another process may drive the run."""

    def __init__(self, place: Path | JournalStore) -> None:
        store = store_at(place)
        super().__init__(store, store.look())

    def __enter__(self) -> "JournalReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def find(self, key: str) -> tuple[bytes, bool] | None:
        """A completed effect's value and whether it is missing, or None.

        A value from which something was removed is of no use to another run.
        """
        row = self._row(self._sql.find, bytes.fromhex(key))
        with reading(self.path):
            if row is None or row[2] & _WITHHELD:
                return None
            return self._packing.unpack(row[0]), bool(row[2] & _MISSING)

    def nested_in(self, key: str) -> set[str]:
        """The keys of the paid effects inside a completed effect."""
        row = self._row(self._sql.find, bytes.fromhex(key))
        with reading(self.path):
            return set(json.loads(row[1])) if row and row[1] else set()

    def effects(self) -> Iterator[EffectRow]:
        """Every effect, in the order in which they started."""
        with reading(self.path):
            for row in self._store.stream(self._sql.effects):
                _, key, kind, trial, draw, request, unfinished, missing, imported, *amounts = row
                states = (
                    ("in flight", unfinished),
                    ("missing", (missing or 0) & _MISSING),
                    ("imported", imported),
                )
                yield EffectRow(
                    key=cast("bytes", key).hex(),
                    kind=_word(kind),
                    trial=int(trial),
                    draw=int(draw),
                    request=json.loads(self._packing.unpack(request)) if request else None,
                    spend=Spend.of(amounts),
                    state=next((name for name, holds in states if holds), "done"),
                )

    def values(self, trials: Iterable[int], *, kinds: Collection[str]) -> Iterator[ResultRow]:
        """What the completed effects of some trials gave, trial by trial."""
        with reading(self.path):
            for trial in sorted(trials):
                rows = self._store.stream(self._sql.values, (trial,))
                for _, key, kind, draw, request, value in rows:
                    if kind not in kinds:
                        continue
                    yield ResultRow(
                        key=cast("bytes", key).hex(),
                        kind=_word(kind),
                        draw=int(draw),
                        request=json.loads(self._packing.unpack(request)) if request else None,
                        value=json.loads(self._packing.unpack(value)),
                    )

    def costs(self, *, since: int = 0) -> Iterator[CostRow]:
        """What the effects completed since a trial cost, in the order in which they started."""
        with reading(self.path):
            rows = self._store.stream(self._sql.costs, (since,))
            for _, key, kind, trial, draw, nested, *amounts in rows:
                own = {cast("bytes", key).hex(): Spend.of(amounts)}
                spends = own | _nested_spends(nested)
                yield CostRow(kind=_word(kind), trial=int(trial), draw=int(draw), spends=spends)

    def trials(self, *, since: int = 0) -> Iterator[bytes]:
        """Every trial from a number on, in order."""
        with reading(self.path):
            for _, body in self._store.stream(self._sql.trials, after=since - 1):
                yield self._packing.unpack(body)

    @property
    def trials_recorded(self) -> int:
        with reading(self.path):
            return int(storage.one(self._db, self._sql.trials_recorded))

    @property
    def effects_noted(self) -> int:
        """How many effects there are, which is quick to ask."""
        return self._position_now()[-1]

    @cached_property
    def totals(self) -> "EffectTotals":
        """The totals of the effects when they are first asked for."""
        with reading(self.path):
            stored = EffectTotals.of_mark(self.mark(_TOTALS), self._position_now())
        return self._sum_up() if stored is None else stored

    def has_event(self, key: str) -> bool:
        """Whether an event with this key was stored."""
        return self._row(self._sql.event, key) is not None

    def events(self) -> Iterator[bytes]:
        """Every event, in order."""
        with reading(self.path):
            for _, body in self._store.stream(self._sql.events):
                yield cast("bytes", body)

    def marks(self) -> dict[str, str]:
        """Every mark."""
        with reading(self.path):
            return {str(k): str(v) for k, v in self._db.execute(self._sql.marks)}

    @property
    def billed(self) -> Spend:
        """The cost of completed effects, and the estimates of lost ones."""
        with reading(self.path):
            return storage.billed(self._db, self._sql)

    @property
    def active_seconds(self) -> float:
        with reading(self.path):
            return storage.one(self._db, self._sql.active)
