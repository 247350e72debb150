"""Sessions: what a refinement did, written after every step, and the folder they lie in."""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from burnish.core.codec import codec
from burnish.core.content import Json
from burnish.core.errors import BurnishError, FileTrouble, RunLocked, SeedRefused
from burnish.strategies.refine.run_files import read_json
from burnish.system import FileLock, write_atomic
from burnish.system.files import file_trouble

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


SESSIONS = "refinement_sessions"
LATEST = "session.json"
"""Where a pointer is wanted: the session that was written last."""
_LOCK = ".lock"


@dataclass(frozen=True, kw_only=True)
class SessionFiles:
    """Sessions in one folder: `<id>.json` each, its iterations in `<id>/`."""

    folder: Path
    prefix: str = "refine_"
    pointer: bool = False
    """Whether session.json is kept as a copy of the session that was written last."""

    def lock(self, run_id: str) -> FileLock:
        """Only one session goes on at a time; raises SeedRefused where that cannot be had."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            return FileLock.acquire(self.folder / _LOCK, holding=f"the refinement of {run_id}")
        except OSError as error:
            raise self._refused(file_trouble("make", self.folder, error)) from error
        except RunLocked as error:
            raise SeedRefused(error.message, remedy=error.remedy) from error
        except FileTrouble as error:
            raise self._refused(error) from error

    def _refused(self, error: FileTrouble) -> SeedRefused:
        remedy = "sessions are kept there: copy the run to a place that can be written to"
        return SeedRefused(error.message, remedy=remedy)

    def new(self, seed_run_id: str, settings: Mapping[str, Json]) -> Session:
        """A new session, which is not on disk yet; call it under the lock."""
        return Session(
            session_id=self._new_id(),
            seed_run_id=seed_run_id,
            started_at=now(),
            settings=settings,
        )

    def _new_id(self) -> str:
        """By the clock, and unlike every other in this folder."""
        base = f"{self.prefix}{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        name, again = base, 1
        while any((self.folder / each).exists() for each in (name, f"{name}.json")):
            again += 1
            name = f"{base}_{again}"
        return name

    def write(self, session: Session) -> None:
        """Write it, whole or not at all."""
        write_atomic(self.folder / f"{session.session_id}.json", session.text)
        if self.pointer:
            write_atomic(self.folder / LATEST, session.text)

    def place(self, session: Session) -> Path:
        """The folder of a session's run: its iterations, its journal and its page."""
        return self.folder / session.session_id

    def rows(self) -> list[dict[str, Json]]:
        """Every session that can be read, by name, as its file has it."""
        found: list[dict[str, Json]] = []
        for path in sorted(self.folder.glob("*.json")):
            if path.name == LATEST:
                continue
            with contextlib.suppress(BurnishError):
                data = read_json(path)
                found += [data] if isinstance(data, dict) else []
        return found

    def sessions(self) -> list[Session]:
        """The same as sessions."""
        found: list[Session] = []
        for row in self.rows():
            with contextlib.suppress(BurnishError, ValueError, TypeError, KeyError):
                found.append(Session.from_json(row))
        return found

    def find(self, name: str = "last", *, ended: bool = False) -> Session:
        """An unfinished session by its id, or the last; raises SeedRefused where there is none.

        With `ended`, one that had ended is found too.
        """
        open_ones = [each for each in self.sessions() if ended or each.unfinished]
        chosen = [each for each in open_ones if name in ("last", each.session_id)]
        if not chosen:
            known = ", ".join(each.session_id for each in open_ones) or "none"
            raise SeedRefused(
                f"there is no unfinished session '{name}' in {self.folder}",
                remedy=f"unfinished: {known}",
            )
        return chosen[-1]
