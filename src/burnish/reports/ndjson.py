"""Progress as NDJSON: one JSON object a line, for programs."""

import time
from collections.abc import Callable

from burnish.core.codec import codec
from burnish.core.content import Json, canonical
from burnish.core.money import Spend
from burnish.runs.events import Event, Tick
from burnish.runs.ledger import event_line

SECONDS_BETWEEN_TICKS = 0.25


class NdjsonView:
    """Writes events, and ticks now and then, as lines of JSON."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._last = 0.0

    def event(self, event: Event) -> None:
        """Write an event as it is kept in events.jsonl."""
        self._write(event_line(event))

    def tick(self, tick: Tick) -> None:
        """Write how far the evaluation is, but not for every case."""
        now = time.monotonic()
        if tick.done < tick.total and now - self._last < SECONDS_BETWEEN_TICKS:
            return
        self._last = now
        data: dict[str, Json] = {
            "candidate": tick.candidate,
            "split": tick.split.value,
            "done": tick.done,
            "total": tick.total,
            "failed": tick.failed,
            "missing": tick.missing,
            "spent": codec(Spend).encode(tick.spent),
            "billed": codec(Spend).encode(tick.billed),
            "active_seconds": round(tick.active_seconds, 3),
        }
        self._write(canonical({"schema": 1, "kind": "tick", "data": data}).decode())
