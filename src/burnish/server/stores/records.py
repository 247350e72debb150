"""RunStore, where the service keeps its runs: what it keeps of them, and what it raises.

BurnishError
├── RunExists      create: a run of that app has this id
├── RunNotRunning  cancel or update: the run is finished
├── RunSucceeded   resume: there is nothing left to do
├── LeaseLost      another process drives the run now
├── StoreTrouble   the database does not answer, is closed, or has another schema
└── RunNotFound
    └── RunMissing no such run of that app
"""

import json
import zlib
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, cast

from burnish.core.content import Json
from burnish.core.errors import BurnishError, NotJournalable, RunNotFound
from burnish.server.stores.accounts import AccountStore
from burnish.server.stores.queue import RunQueue
from burnish.system import is_network_file_system

_Row: TypeAlias = Mapping[Any, Any]


class RunStatus(StrEnum):
    """The status of a run."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def finished(self) -> bool:
        return self in FINISHED


FINISHED = frozenset({RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELED})
REFINEMENTS = "refinements"
"""The app of refinements in the store. The process that opens one drives it, and no other."""
CANCELED = "run canceled"
"""The error of a canceled run."""


@dataclass(frozen=True, kw_only=True)
class Where:
    """Where the journal of a run is, which decides who can drive it."""

    journal: Literal["files", "database"] = "files"
    host: str = ""
    """The machine that has the folder."""
    folder: str = ""

    def why_not_here(self) -> str:
        """Why this process cannot drive the run; '' if it can."""
        if self.journal == "database":
            return ""
        seen = self.folder and (Path(self.folder) / "run.json").is_file()
        place = f"its journal is in a folder on {self.host or 'another machine'}"
        if not seen:
            return f"{place}, which this machine cannot see"
        if is_network_file_system(Path(self.folder)):
            return f"{place}, which this machine sees only over a network"
        return ""


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """One run of one app, as a copy: changing its JSON does not change the store."""

    app_name: str
    run_id: str
    strategy: str = ""
    status: RunStatus = RunStatus.QUEUED
    request: Json = None
    """What was requested; None in lists."""
    result: Json = None
    """The result of a finished run; None in lists."""
    error: str = ""
    current_round: int = 0
    best_score: float | None = None
    created_at: datetime
    updated_at: datetime
    owner: str = ""
    """Who holds or last held the lease; '' once the run is finished or released."""
    lease_until: datetime | None = None
    where: Where = field(default_factory=Where)
    cancel_requested: bool = False
    events: int = 0
    """How many events there are."""

    @classmethod
    def of_row(cls, row: _Row, *, request: Json = None, result: Json = None) -> "StoredRun":
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
    """What to change in a record; None leaves a field unchanged."""

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
    """Events with the same key are stored once, however often they are appended."""


@dataclass(frozen=True, kw_only=True)
class RunEvent:
    """A stored event; numbers count from 1, without gaps."""

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
    """Increased by every claim: writes under an older one are refused."""
    until: datetime
    cancel_requested: bool = False
    """As of the claim or the last renewal."""

    @classmethod
    def of_row(cls, row: _Row) -> "Lease":
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
    """Which runs to list; an empty field matches all."""

    app_name: str = ""
    status: RunStatus | None = None
    strategy: str = ""
    undriven: bool = False
    """Only unfinished runs that nobody drives, which can be claimed."""


@dataclass(frozen=True, kw_only=True)
class RunPage:
    """Some runs, newest first."""

    runs: tuple[StoredRun, ...]
    cursor: str = ""
    """Pass it to get the next page; '' on the last."""


def moment(seconds: float) -> datetime:
    """Seconds since 1970 as a time in UTC."""
    return datetime.fromtimestamp(seconds, UTC)


UNCHANGED = RunChanges()
EVERY = RunFilter()


class RunStore(Protocol):
    """Runs of many apps, isolated by app, shared by many processes.

    With a `lease`, a write raises LeaseLost if another process has claimed the run since. A
    finished run does not change: RunNotRunning. RunMissing if there is no such run,
    StoreTrouble if the store does not work.
    """

    @property
    def accounts(self) -> AccountStore:
        """What clients have spent and stored."""
        ...

    @property
    def queue(self) -> RunQueue:
        """Which run is next, and who can drive it."""
        ...

    async def create(
        self,
        app_name: str,
        run_id: str,
        *,
        strategy: str = "",
        request: Json = None,
        where: Where | None = None,
        account: str = "",
    ) -> StoredRun:
        """Store a new run as queued, for an account; RunExists if the app has one with this id."""
        ...

    async def get(self, app_name: str, run_id: str, *, result: bool = True) -> StoredRun:
        """A run; leaving out `result` is cheap."""
        ...

    async def update(
        self, app_name: str, run_id: str, changes: RunChanges, *, lease: Lease | None = None
    ) -> StoredRun:
        """Change a run and return it without request and result.

        A run that ends after its cancellation was requested is canceled, and its lease ends.
        """
        ...

    async def delete(self, app_name: str, run_id: str) -> None:
        """Delete a run and its events; RunLocked while a process drives it."""
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
        """Store an event and change the run in one step; return the event's number.

        An event whose key exists already is not stored again and changes nothing.
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
        """Become the driver; None if there is one, or if the run is finished."""
        ...

    async def renew(self, lease: Lease, *, seconds: float, progress: Json = None) -> Lease:
        """Remain the driver; LeaseLost if someone else is now, or the run is finished.

        `progress` is what others may see of the current evaluation; it replaces the last one.
        """
        ...

    async def progress(self, app_name: str, run_id: str) -> Json:
        """What the driver of a run last reported; None if nobody drives it, or it said nothing."""
        ...

    async def release(self, lease: Lease) -> None:
        """Stop being the driver; does nothing if the lease was lost."""
        ...

    async def request_cancel(self, app_name: str, run_id: str) -> RunStatus:
        """Ask the driver to stop the run; without a driver it is canceled at once."""
        ...

    async def reopen(self, app_name: str, run_id: str, *, request: Json = None) -> StoredRun:
        """Queue a finished run again, without its error and cancel request.

        A `request` replaces what was requested. An unfinished run is unchanged. The returned run
        has no request and no result.
        """
        ...

    async def close(self) -> None:
        """Close the database. Can be called twice."""
        ...


class RunExists(BurnishError):
    """A run of that app has this id already."""

    def __init__(self, app_name: str, run_id: str) -> None:
        super().__init__(f'run "{run_id}" for app "{app_name}" already exists')


class RunMissing(RunNotFound):
    """No run of that app has this id."""

    def __init__(self, app_name: str, run_id: str) -> None:
        super().__init__(f'run "{run_id}" for app "{app_name}" not found: file does not exist')


class RunNotRunning(BurnishError):
    """The run is finished and does not change."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f'run "{run_id}" is not running: file does not exist')


class RunSucceeded(BurnishError):
    """The run has succeeded, so there is nothing to resume."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f'run "{run_id}" has succeeded', remedy="start a new run")


class LeaseLost(BurnishError):
    """The caller held the lease of this run, and another process has it now."""

    def __init__(self, app_name: str, run_id: str, owner: str) -> None:
        super().__init__(
            f'run "{run_id}" for app "{app_name}" is no longer driven by {owner}',
            remedy="its lease was not renewed in time; stop driving it, the new driver continues",
        )


class StoreTrouble(BurnishError):
    """The store cannot be used."""


# -- JSON documents, compressed, written and read in pieces ----------------------------------------


_LEVELS = 8
"""Down to one case of one evaluation of one round of a result."""
_CHUNK = 256 * 1024
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_DECODER = json.JSONDecoder()


def pack(value: Json) -> bytes:
    """The value as bytes, with keys in order."""
    zipper = zlib.compressobj(1)
    try:
        parts = [zipper.compress(chunk.encode()) for chunk in _chunks(value)]
    except (ValueError, TypeError, RecursionError) as error:
        raise NotJournalable(
            f"this value cannot be kept as JSON: {error}",
            remedy="give plain text, numbers, lists and mappings; "
            "NaN, Infinity and half a surrogate pair have no JSON form",
        ) from error
    return b"".join([*parts, zipper.flush()])


def unpack(content: bytes) -> Json:
    """The value that `pack` was given."""
    try:
        return _value(_text(content), 0, _LEVELS)[0]
    except (zlib.error, ValueError, IndexError) as error:
        raise StoreTrouble(
            f"a document in the store is damaged: {error}", remedy="restore it from a backup"
        ) from error


def _chunks(value: Json) -> Iterator[str]:
    held: list[str] = []
    size = 0
    for piece in json_pieces(value, _LEVELS, _ENCODER.encode):
        held.append(piece)
        size += len(piece)
        if size >= _CHUNK:
            yield "".join(held)
            held, size = [], 0
    yield "".join(held)


def json_pieces(value: Json, levels: int, encode: Callable[[Json], str]) -> Iterator[str]:
    """The value as JSON, in pieces: `encode` gets what is deeper than the first levels."""
    if levels and value and isinstance(value, dict):
        before = "{"
        for key, inner in value.items():
            if not isinstance(cast("object", key), str):
                raise TypeError(f"the key {key!r} is not a string")
            yield f"{before}{encode(key)}:"
            yield from json_pieces(inner, levels - 1, encode)
            before = ","
        yield "}"
    elif levels and value and isinstance(value, list):
        before = "["
        for inner in value:
            yield before
            yield from json_pieces(inner, levels - 1, encode)
            before = ","
        yield "]"
    else:
        yield encode(value)


def _text(content: bytes) -> str:
    unzip, decoder = zlib.decompressobj(), getincrementaldecoder("utf-8")()
    parts: list[str] = []
    while content and not unzip.eof:
        parts.append(decoder.decode(unzip.decompress(content, _CHUNK)))
        content = unzip.unconsumed_tail
    parts.append(decoder.decode(unzip.flush(), final=True))
    return "".join(parts)


def _value(text: str, at: int, levels: int) -> tuple[Json, int]:
    """The value that begins at an offset, and where it ends; there is no whitespace."""
    if levels and text[at] == "{" and text[at + 1] != "}":
        mapping: dict[str, Json] = {}
        while text[at] != "}":
            key, at = cast("tuple[str, int]", _DECODER.raw_decode(text, at + 1))
            mapping[key], at = _value(text, at + 1, levels - 1)
        return mapping, at + 1
    if levels and text[at] == "[" and text[at + 1] != "]":
        items: list[Json] = []
        while text[at] != "]":
            inner, at = _value(text, at + 1, levels - 1)
            items.append(inner)
        return items, at + 1
    return cast("tuple[Json, int]", _DECODER.raw_decode(text, at))
