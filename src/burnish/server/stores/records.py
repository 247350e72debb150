"""RunStore, where the service keeps its runs: what it keeps of them, and what it raises.

BurnishError
├── RunExists      create: a run of that app has this id
├── RunNotRunning  cancel or update: the run is finished
├── LeaseLost      another process drives the run now
├── StoreTrouble   the database does not answer, is closed, or has another schema
└── RunNotFound
    └── RunMissing no such run of that app
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from burnish.core.content import Json
from burnish.core.errors import BurnishError, ConfigError, NotJournalable, Problem, RunNotFound
from burnish.system import is_network_file_system

_Row: TypeAlias = Mapping[Any, Any]


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
class StoredRun:
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

    @classmethod
    def of_row(cls, row: _Row, *, request: Json = None, result: Json = None) -> "StoredRun":
        """The record of a database's row, with the request and the result if they were read."""
        until = float(row["lease_until"])
        return cls(
            app_name=row["app_name"],
            run_id=row["run_id"],
            strategy=row["strategy"],
            status=RunStatus(row["status"]),
            request=request,
            result=result,
            error=row["error"],
            current_round=row["current_round"],
            best_score=row["best_score"],
            created_at=moment(row["created_at"]),
            updated_at=moment(row["updated_at"]),
            owner=row["owner"],
            lease_until=moment(until) if until else None,
            where=Where(journal=row["journal"], host=row["host"], folder=row["folder"]),
            cancel_requested=bool(row["cancel_requested"]),
            events=row["events"],
        )


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

    @classmethod
    def of_row(cls, row: _Row) -> "Lease":
        """The lease of the run in a database's row."""
        return cls(
            app_name=row["app_name"],
            run_id=row["run_id"],
            owner=row["owner"],
            token=row["lease_token"],
            until=moment(row["lease_until"]),
            cancel_requested=bool(row["cancel_requested"]),
        )


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

    runs: tuple[StoredRun, ...]
    cursor: str = ""
    """Give it back for the next page; '' where this is the last."""


def moment(seconds: float) -> datetime:
    """Seconds since 1970 as a time in UTC."""
    return datetime.fromtimestamp(seconds, UTC)


# -- the store ---------------------------------------------------------------------------


UNCHANGED = RunChanges()
EVERY = RunFilter()


class RunStore(Protocol):
    """Runs of many apps, isolated by app, shared by many processes.

    Where a `lease` is given, the write is refused with LeaseLost if another process has claimed
    the run since. A finished run does not change: RunNotRunning. RunMissing where a run is not
    there, StoreTrouble where the store does not work.
    """

    async def create(
        self,
        app_name: str,
        run_id: str,
        *,
        strategy: str = "",
        request: Json = None,
        where: Where | None = None,
    ) -> StoredRun:
        """Keep a new run, queued; RunExists where the app has one with this id."""
        ...

    async def get(self, app_name: str, run_id: str, *, result: bool = True) -> StoredRun:
        """A run; without `result` that is left out, which is cheap."""
        ...

    async def update(
        self, app_name: str, run_id: str, changes: RunChanges, *, lease: Lease | None = None
    ) -> StoredRun:
        """Change a run; what is given back has no request and no result.

        A run that ends after its cancel was requested ends canceled. A run that ends has no
        lease any more.
        """
        ...

    async def delete(self, app_name: str, run_id: str) -> None:
        """Remove a run and its events; RunLocked while a process drives it."""
        ...

    async def list_runs(
        self, which: RunFilter = EVERY, *, limit: int = 50, cursor: str = ""
    ) -> RunPage:
        """Runs, newest first, without requests and results."""
        ...

    async def append_event(
        self,
        app_name: str,
        run_id: str,
        event: NewEvent,
        changes: RunChanges = UNCHANGED,
        *,
        lease: Lease | None = None,
    ) -> int:
        """Keep an event and change the run, together; the event's number.

        An event whose key is there already is not kept again, and changes nothing.
        """
        ...

    async def events(
        self, app_name: str, run_id: str, *, after: int = 0, limit: int = 1000
    ) -> tuple[RunEvent, ...]:
        """The events with a number above `after`, in order."""
        ...

    async def claim(
        self, app_name: str, run_id: str, *, owner: str, seconds: float
    ) -> Lease | None:
        """Become the driver; None where someone is, or the run is finished."""
        ...

    async def renew(self, lease: Lease, *, seconds: float) -> Lease:
        """Stay the driver; LeaseLost where someone else is now, or the run is finished."""
        ...

    async def release(self, lease: Lease) -> None:
        """Stop being the driver; a lease that was lost is nothing to release."""
        ...

    async def request_cancel(self, app_name: str, run_id: str) -> RunStatus:
        """Ask whoever drives the run to stop it; where nobody does, it is canceled at once."""
        ...

    async def reopen(self, app_name: str, run_id: str) -> StoredRun:
        """Make a finished run queued again, its error and its cancel request forgotten.

        One that is not finished stays as it is. What is given back has no request and no result.
        """
        ...

    async def cancel_requested(self, app_name: str, run_id: str) -> bool:
        """Whether someone asked for it."""
        ...

    async def close(self) -> None:
        """Let go of the database. Doing so twice is fine."""
        ...


# -- errors ------------------------------------------------------------------------------


class RunExists(BurnishError):
    """A run of that app has this id already."""

    def __init__(self, app_name: str, run_id: str) -> None:
        super().__init__(f'run "{run_id}" for app "{app_name}" already exists')


class RunMissing(RunNotFound):
    """No run of that app has this id."""

    def __init__(self, app_name: str, run_id: str) -> None:
        super().__init__(f'run "{run_id}" for app "{app_name}" not found: file does not exist')


class RunNotRunning(BurnishError):
    """The run is finished: what it ended with stays."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f'run "{run_id}" is not running: file does not exist')


class LeaseLost(BurnishError):
    """Whoever asks held the lease of this run, and another process has it now."""

    def __init__(self, app_name: str, run_id: str, owner: str) -> None:
        super().__init__(
            f'run "{run_id}" for app "{app_name}" is no longer driven by {owner}',
            remedy="its lease was not renewed in time; stop driving it, its new driver goes on",
        )


class StoreTrouble(BurnishError):
    """The store cannot be used."""


# -- names, scores and cursors -----------------------------------------------------------


_LONGEST = 255


def check_names(app_name: str, run_id: str) -> None:
    """Refuse a name that a database would change or mistake for another."""
    named = (("the name of the app", app_name), ("the id of the run", run_id))
    problems = [
        Problem(message=f"{what} {fault}") for what, name in named if (fault := _fault(name))
    ]
    if problems:
        raise ConfigError(problems)


def can_be_kept(app_name: str, run_id: str) -> bool:
    """Whether a run may have this name at all."""
    return not (_fault(app_name) or _fault(run_id))


def _fault(name: str) -> str:
    if not name:
        return "is empty"
    if name != name.strip():
        return "begins or ends with a space"
    if len(name) > _LONGEST:
        return f"is longer than {_LONGEST} characters"
    printable = name.isprintable()
    return "" if printable else "has characters that cannot be printed"


def keepable_text(text: str) -> str:
    """Text that every database takes: no NUL, no half of a surrogate pair."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def check_score(score: float | None) -> None:
    """Refuse what is no number."""
    if score is not None and not math.isfinite(score):
        raise NotJournalable(
            f"the best score is {score}", remedy="leave it out while there is none"
        )


def cursor_of(number: int) -> str:
    """The cursor behind the run with this number."""
    return f"before-{number}"


def number_of(cursor: str) -> int | None:
    """The number that a cursor stands for; None for the first page."""
    if not cursor:
        return None
    digits = cursor.removeprefix("before-")
    # A number that no database can hold was never given out.
    if digits == cursor or not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        remedy = "give back the cursor of the last page as it was, or none for the first page"
        raise ConfigError([Problem(message=f"{cursor!r} is no cursor", remedy=remedy)])
    return int(digits)
