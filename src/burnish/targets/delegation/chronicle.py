"""What happened, as lines: logs/<run_id>/events.jsonl and metrics.jsonl.

Both are written anew whenever the run is driven. Times come from the journal, so that a resumed
run tells the same story with the same times.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias

from burnish.core.codec import codec
from burnish.core.content import Json
from burnish.core.effects import Call, Effects, Receipt
from burnish.core.money import NOTHING
from burnish.system import Redactor, append_line, write_atomic
from burnish.targets.delegation.envelope import Stopwatch, Tally

Level: TypeAlias = Literal["INFO", "WARNING", "ERROR"]
Category: TypeAlias = Literal[
    "run", "iteration", "manager", "worker", "tool", "critique", "gate", "budget", "delegation",
    "repair", "eval", "completion",
]  # fmt: skip
Listener: TypeAlias = Callable[[dict[str, Json]], None]
"""Is told every event, on a replay too."""


@dataclass(frozen=True, kw_only=True)
class Moment:
    """A time that was journaled."""

    at: str
    seconds: float
    """The run's active time."""


@dataclass(kw_only=True)
class Chronicle:
    """Writes events and metric rows."""

    events: Path
    metrics: Path
    effects: Effects
    clock: Stopwatch
    tally: Tally
    redactor: Redactor
    listen: Listener | None = None
    now: str = field(default="", init=False)
    """When the present step began."""

    def begin(self) -> None:
        """Start both files anew."""
        for path in (self.events, self.metrics):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, "", durable=False)

    async def tick(self, label: str) -> None:
        """Look at the clock, once for each label."""

        async def perform(_: Effects) -> Receipt[Moment]:
            at = datetime.now(UTC).isoformat(timespec="milliseconds")
            return Receipt(value=Moment(at=at, seconds=self.clock.seconds))

        call = Call(kind="moment", request=label, codec=codec(Moment), estimate=NOTHING)
        moment = await self.effects.once(call, perform)
        self.now = moment.at
        self.clock.reach(moment.seconds)
        self.tally.seconds = max(self.tally.seconds, moment.seconds)

    def event(
        self, category: Category, message: str, *, level: Level = "INFO", **fields: Json
    ) -> None:
        """Something that happened."""
        row: dict[str, Json] = {
            "ts": self.now,
            "level": level,
            "category": category,
            "msg": message,
            "fields": dict(fields),
        }
        kept = self._write(self.events, row)
        if self.listen is not None:
            self.listen(kept)

    def metric(self, kind: str, iteration: int, **fields: Json) -> None:
        """A row of numbers."""
        row: dict[str, Json] = {
            "ts": self.now,
            "kind": f"metric.{kind}",
            "iteration": iteration,
            **fields,
        }
        self._write(self.metrics, row)

    def _write(self, path: Path, row: dict[str, Json]) -> dict[str, Json]:
        kept = self.redactor.json(row)
        assert isinstance(kept, dict)
        append_line(path, json.dumps(kept, ensure_ascii=False, allow_nan=False))
        return kept
