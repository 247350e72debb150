"""The journal: every effect once, trials, events and checks, in one SQLite file."""

import json
import math
import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from burnish.core.content import Json
from burnish.core.effects import Call
from burnish.core.errors import FileTrouble
from burnish.core.money import Spend
from burnish.effects import schema
from burnish.effects.packing import Packing
from burnish.effects.schema import AMOUNTS
from burnish.effects.writer import Writer
from burnish.system import is_network_file_system

KEEP_TIME_EVERY = 0.5
"""Seconds of active time that a killed process may forget."""

_NOTE = (
    f"INSERT INTO effects (key, kind, trial, draw, request, at, {AMOUNTS}) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_COMPLETE = (
    f"INSERT INTO effects (key, kind, trial, draw, request, at, {AMOUNTS}, "
    "value, nested, missing, imported) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (key) DO UPDATE SET at = excluded.at, value = excluded.value, "
    "nested = excluded.nested, missing = excluded.missing, "
    + ", ".join(f"{name} = excluded.{name}" for name in AMOUNTS.split(", "))
)
_MARK = "INSERT INTO meta VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"
_LOSE = (
    f"INSERT INTO lost SELECT key, kind, trial, {AMOUNTS} FROM effects WHERE value IS NULL",
    "DELETE FROM effects WHERE value IS NULL",
)


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A completed effect as the journal keeps it."""

    value: Json
    spends: dict[str, Spend] = field(default_factory=dict[str, Spend])
    """What it and everything nested in it cost, by key."""
    missing: bool = False


class Journal:
    """One run's journal, open for writing. Hold the run's lock while it is open."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / schema.NAME
        self._packing = Packing(folder / "blobs")
        self._wal = not is_network_file_system(folder)
        self._reader = self._connect()
        with schema.closed_on_error(self._reader):
            self._read()
        self._opened = time.monotonic()
        self._time_kept = 0.0
        self._writer = Writer(self._connect, name=str(self.path))
        self._writer.before_commit = self._keep_time

    def _read(self) -> None:
        """Take over where the last session ended."""
        schema.prepare(self._reader, self.path)
        with schema.reading(self.path):
            for statement in _LOSE:
                self._reader.execute(statement)
            self._session = self._begin_session()
            self.active_before = schema.one(
                self._reader, "SELECT COALESCE(SUM(active), 0) FROM sessions"
            )
            self.trials_recorded = int(schema.one(self._reader, "SELECT COUNT(*) FROM trials"))
            rows = self._reader.execute("SELECT label, number FROM checks")
            self._continued = {str(label): int(number) for label, number in rows}
            self.sealed_read = self.mark("sealed_read") is not None
            self._billed = schema.billed(self._reader)
            # Most look-ups are of effects that are not there: 32 bytes each save asking the disk.
            keys = self._reader.execute("SELECT key FROM effects WHERE value IS NOT NULL")
            self._known = {key for (key,) in keys}

    # -- effects ---------------------------------------------------------------------------

    def find(self, key: str) -> Stored | None:
        """A completed effect, or None."""
        if bytes.fromhex(key) not in self._known:
            return None
        with schema.reading(self.path):
            row = self._reader.execute(
                f"SELECT value, nested, missing, {AMOUNTS} FROM effects "
                "WHERE key = ? AND value IS NOT NULL",
                (bytes.fromhex(key),),
            ).fetchone()
            return None if row is None else self._stored(key, row)

    async def note(self, call: Call[Any], *, trial: int, request: bytes) -> None:
        """Say, on disk, that a paid effect starts."""
        self._billed += call.estimate
        row = (*_identity(call, trial, self._packing.pack(request)), *call.estimate.amounts)
        await self._writer.commit(_NOTE, row)

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
        if call.computed:
            self._writer.put(_COMPLETE, row)
        else:
            await self._writer.commit(_COMPLETE, row)
        self._known.add(row[0])

    def lose(self, call: Call[Any]) -> None:
        """A noted effect will not be completed: billed, not spent."""
        key = bytes.fromhex(call.key)
        for statement in _LOSE:
            self._writer.put(f"{statement} AND key = ?", (key,))

    @property
    def billed(self) -> Spend:
        """Everything that was started: completed effects, and lost ones by their estimate."""
        return self._billed

    # -- trials, events, checks, marks -----------------------------------------------------

    def add_trial(self, number: int, body: bytes) -> None:
        """Keep a trial; on disk when this returns."""
        self._writer.write("INSERT INTO trials VALUES (?, ?)", (number, self._packing.pack(body)))
        self.trials_recorded = max(self.trials_recorded, number + 1)

    def trial(self, number: int) -> bytes | None:
        """A recorded trial, or None."""
        sql = "SELECT body FROM trials WHERE number = ?"
        with schema.reading(self.path):
            row = self._reader.execute(sql, (number,)).fetchone()
            return None if row is None else self._packing.unpack(row[0])

    def add_event(self, key: str, body: bytes) -> tuple[bool, bool]:
        """Keep an event under its stable key; whether it is new, and whether it was delivered."""
        sql = "SELECT delivered FROM events WHERE key = ?"
        with schema.reading(self.path):
            row = self._reader.execute(sql, (key,)).fetchone()
        if row is not None:
            return False, bool(row[0])
        self._writer.write("INSERT INTO events (key, body) VALUES (?, ?)", (key, body))
        return True, False

    def event_delivered(self, key: str) -> None:
        """Everyone was told. Until this is on disk, an event may be told again."""
        self._writer.put("UPDATE events SET delivered = 1 WHERE key = ?", (key,))

    def continued(self, label: str, number: int) -> bool:
        """Whether an impure stopper said "continue" at this check before."""
        return self._continued.get(label, 0) >= number

    def add_continue(self, label: str, number: int) -> None:
        """Keep a "continue"; it is on disk before any effect that follows from it."""
        self._continued[label] = number
        self._writer.put(
            "INSERT INTO checks VALUES (?, ?) ON CONFLICT DO UPDATE SET number = excluded.number",
            (label, number),
        )

    def mark(self, name: str) -> str | None:
        """A mark that was set, or None."""
        with schema.reading(self.path):
            row = self._reader.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
            return None if row is None else str(row[0])

    def set_mark(self, name: str, value: str) -> None:
        """Set a mark; on disk when this returns."""
        self._writer.write(_MARK, (name, value))
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
        """Write what is queued and let go of the file."""
        self._time_kept = -math.inf
        with suppress(FileTrouble):
            self._writer.put("SELECT 1")
        self._writer.close()
        self._reader.close()

    def _begin_session(self) -> int:
        who = f"{socket.gethostname()}:{os.getpid()}"
        cursor = self._reader.execute(
            "INSERT INTO sessions (started, active, who) VALUES (?, 0, ?)",
            (datetime.now(UTC).isoformat(timespec="seconds"), who),
        )
        return int(cursor.lastrowid or 0)

    def _keep_time(self) -> tuple[str, tuple[float, int]] | None:
        active = time.monotonic() - self._opened
        if active < self._time_kept + KEEP_TIME_EVERY:
            return None
        self._time_kept = active
        return "UPDATE sessions SET active = ? WHERE id = ?", (active, self._session)

    def _connect(self) -> Connection:
        return schema.connect(self.path, wal=self._wal)

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
