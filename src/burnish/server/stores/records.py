"""What a store keeps of a run."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Literal

from burnish.core.content import Json
from burnish.system import is_network_file_system


class RunStatus(StrEnum):
    """How a run stands."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def finished(self) -> bool:
        """Whether it stays so."""
        return self in FINISHED


FINISHED = frozenset({RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELED})
CANCELED = "run canceled"
"""The error of a canceled run."""


@dataclass(frozen=True, kw_only=True)
class Where:
    """Where the journal of a run lies, which decides who can drive it."""

    journal: Literal["files", "database"] = "files"
    host: str = ""
    """The machine that has the folder."""
    folder: str = ""

    def why_not_here(self) -> str:
        """Why this process cannot drive the run; '' where it can."""
        if self.journal == "database":
            return ""
        seen = self.folder and (Path(self.folder) / "run.json").is_file()
        place = f"its journal is in the folder {self.folder} on {self.host or 'another machine'}"
        if not seen:
            return f"{place}, which this machine does not see"
        if is_network_file_system(Path(self.folder)):
            return f"{place}, which this machine sees only over a network"
        return ""


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """One run of one app. What a store gives is a copy: changing its JSON changes nothing."""

    app_name: str
    run_id: str
    strategy: str = ""
    status: RunStatus = RunStatus.QUEUED
    request: Json = None
    """What the run was asked to do; None in lists."""
    result: Json = None
    """What it gave, once it is finished; None in lists."""
    error: str = ""
    current_round: int = 0
    best_score: float | None = None
    created_at: datetime
    updated_at: datetime
    owner: str = ""
    """Who holds the lease, or held it last; '' once the run is finished or was let go."""
    lease_until: datetime | None = None
    where: Where = field(default_factory=Where)
    cancel_requested: bool = False
    events: int = 0
    """How many events there are."""


@dataclass(frozen=True, kw_only=True)
class RunChanges:
    """What to change in a record; None leaves a field as it is."""

    status: RunStatus | None = None
    current_round: int | None = None
    best_score: float | None = None
    result: Json = None
    error: str | None = None
    where: Where | None = None


@dataclass(frozen=True, kw_only=True)
class NewEvent:
    """Something that happened in a run."""

    kind: str
    round: int = 0
    payload: Json = None
    key: str = ""
    """Where it is given, the same event is kept once, however often it is appended."""


@dataclass(frozen=True, kw_only=True)
class RunEvent:
    """An event as it is kept; numbers count from 1, without gaps."""

    number: int
    kind: str
    round: int
    payload: Json
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Lease:
    """The right to drive a run until a time."""

    app_name: str
    run_id: str
    owner: str
    token: int
    """Raised by every claim: writes under an older one are refused."""
    until: datetime
    cancel_requested: bool = False
    """As of the claim or the last renewal."""


@dataclass(frozen=True, kw_only=True)
class RunFilter:
    """Which runs to list; an empty field takes all."""

    app_name: str = ""
    status: RunStatus | None = None
    strategy: str = ""
    undriven: bool = False
    """Only those that are not finished and that nobody drives: they can be claimed."""


@dataclass(frozen=True, kw_only=True)
class RunPage:
    """Some runs, newest first."""

    runs: tuple[RunRecord, ...]
    cursor: str = ""
    """Give it back for the next page; '' where this is the last."""


def moment(seconds: float) -> datetime:
    """Seconds since 1970 as a time in UTC."""
    return datetime.fromtimestamp(seconds, UTC)
