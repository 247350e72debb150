"""Sessions: what a refinement did, written after every step, under an id that nobody else has."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import cast

from burnish.core.codec import codec
from burnish.core.content import Json

RUNNING, INTERRUPTED = "running", "interrupted"
"""The stop reasons of a session that is under way or was killed, and of one that was stopped."""


@dataclass(frozen=True, kw_only=True)
class Iteration:
    """One run of the task again."""

    k: int
    run_id: str = ""
    loss: float | None = None
    status: str = ""
    tier: str | None = None
    model_manager: str | None = None
    model_worker: str | None = None
    run_dir: str = ""
    """From the folder of the sessions."""
    calls: int = 0
    tokens: int = 0
    usd: float | None = None
    """None where a price is not known."""
    note: str = ""
    """Why it is not the best, where its loss does not say it."""


@dataclass(frozen=True, kw_only=True)
class Session:
    """A refinement of one run."""

    session_id: str
    seed_run_id: str
    started_at: str
    completed_at: str | None = None
    stop_reason: str = RUNNING
    best_iter: int = 0
    """0 while the seed is the best."""
    iterations: tuple[Iteration, ...] = ()
    tier_plan_used: bool | None = None
    seed_loss: float | None = None
    best_loss: float | None = None
    best_written: bool = False
    """Whether BEST holds what this session found."""
    error: str = ""
    """What went wrong, where it ended by that."""
    notes: tuple[str, ...] = ()
    """What a reader of the losses should know."""
    settings: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What it was started with, so that it can go on."""

    @property
    def unfinished(self) -> bool:
        """Whether it can go on."""
        return self.stop_reason in (RUNNING, INTERRUPTED)

    def to_json(self) -> dict[str, Json]:
        """As its file keeps it."""
        data = codec(Session).encode(self)
        assert isinstance(data, dict)
        return data

    @property
    def text(self) -> str:
        """The file."""
        return json.dumps(self.to_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> "Session":
        """A session as a file keeps it; keys of other versions are left aside."""
        rows = data.get("iterations")
        steps = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
        known = {**_known(cls, data), "iterations": [_known(Iteration, row) for row in steps]}
        return codec(cls).decode(cast("Json", known))


def now() -> str:
    """The time, UTC."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _known(kind: type[Session] | type[Iteration], data: Mapping[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in data.items() if key in kind.__dataclass_fields__}
