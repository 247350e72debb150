"""Sessions: what a refinement did, written after every step, under an id that nobody else has."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from burnish.core.codec import codec
from burnish.core.content import Json
from burnish.system import write_atomic

SESSIONS = "refinement_sessions"
RUNNING = "running"
"""The stop reason of a session that is under way, or was killed."""


@dataclass(frozen=True, kw_only=True)
class Iteration:
    """One run of the task again."""

    k: int
    run_id: str = ""
    loss: float | None = None
    """None where it produced nothing that could win."""
    status: str = ""
    tier: str | None = None
    model_manager: str | None = None
    model_worker: str | None = None
    run_dir: str = ""
    note: str = ""
    """Why it cannot win, where it cannot."""


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
    settings: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What it was started with, so that it can go on."""

    def to_json(self) -> dict[str, Json]:
        """As its file keeps it."""
        data = codec(Session).encode(self)
        assert isinstance(data, dict)
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> "Session":
        """A session as a file keeps it; keys of other versions are left aside."""
        rows = data.get("iterations")
        steps = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
        known = {**_known(cls, data), "iterations": [_known(Iteration, row) for row in steps]}
        return codec(cls).decode(cast("Json", known))

    def write(self, folder: Path) -> None:
        """Write it, whole or not at all."""
        text = json.dumps(self.to_json(), indent=2, ensure_ascii=False)
        write_atomic(folder / f"{self.session_id}.json", text + "\n")


def new_session_id(folder: Path) -> str:
    """An id by the clock that no other session in this folder has."""
    folder.mkdir(parents=True, exist_ok=True)
    base = f"refine_{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    for number in range(1, 1000):
        name = base if number == 1 else f"{base}_{number}"
        try:
            (folder / name).mkdir()
        except FileExistsError:
            continue
        return name
    raise AssertionError("a thousand sessions in one second")


def now() -> str:
    """The time, UTC."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _known(kind: type[Session] | type[Iteration], data: Mapping[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in data.items() if key in kind.__dataclass_fields__}
