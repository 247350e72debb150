"""Where the service has its runs and datasets, how they are read, and their event streams."""

import asyncio
import csv
import json
import re
import shutil
import socket
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from io import StringIO
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias, TypeVar

from burnish.core.cases import Case
from burnish.core.content import Json, codec
from burnish.core.errors import BurnishError, ConfigError
from burnish.core.surfaces import Candidate
from burnish.datasets.agent_cases import CaseFile
from burnish.datasets.client_cases import read_client_cases
from burnish.datasets.formats import jsonl_of
from burnish.datasets.rows import row_written
from burnish.journal.database_store import DatabaseJournals
from burnish.journal.journal import JournalReader
from burnish.journal.sqlite_store import JOURNAL_FILE as JOURNAL
from burnish.journal.sqlite_store import NAME as COUNT
from burnish.journal.sqlite_store import POINTER, point_to
from burnish.projects.clients import DATASET_NAME
from burnish.runs.directory import (
    LOCK,
    PROCESSES,
    Header,
    RunRecord,
    forget_run,
    remember_run,
)
from burnish.runs.directory import NAME as HEADER
from burnish.runs.events import BASELINE
from burnish.runs.ledger import trial_lines
from burnish.runs.run import Run
from burnish.runs.setup import Setup, resume, start
from burnish.runs.spec import TAGS, tags_of
from burnish.server.security import is_plain
from burnish.server.stores.records import (
    RunEvent,
    RunMissing,
    RunStatus,
    RunStore,
    StoredRun,
    Where,
)
from burnish.system import make_folder, read_text, write_atomic


class AppMissing(BurnishError):
    """There is no app with that name."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f'no app "{name}" is served here', remedy="GET /api/v1/apps lists those that are"
        )


class AppUnfit(BurnishError):
    """The app is broken, or does not support the request."""


class DatasetMissing(BurnishError):
    """There is no dataset with that name."""


class FileMissing(BurnishError):
    """The run has no such file."""


class TooManyRuns(BurnishError):
    """The limit of waiting runs is reached."""


class TooManyListeners(BurnishError):
    """A limit of event streams is reached."""

    def __init__(self, limit: str, most: int) -> None:
        super().__init__(
            f"{most} event streams are open, which is the limit '{limit}'",
            remedy="close one, or ask for pages of events instead",
        )


class NotHere(BurnishError):
    """The run is on another machine."""


class ManagerClosed(BurnishError):
    """The manager accepts no more runs."""

    def __init__(self) -> None:
        super().__init__("the run manager is closed", remedy="start the service again")


_NAME = re.compile(DATASET_NAME)
T = TypeVar("T")


def is_dataset_name(name: str) -> bool:
    """Whether a dataset can have this name, which is never a path."""
    return _NAME.fullmatch(name) is not None and not name.endswith("\n")


@dataclass(frozen=True, kw_only=True)
class Datasets:
    """Case files in one folder. A name is not a path: nothing outside can be reached.

    Clients write here, so every file is treated as data: one with fields that clients may not use
    is rejected both when it is uploaded and when it is used.
    """

    folder: Path

    def names(self) -> list[str]:
        if not self.folder.is_dir():
            return []
        return sorted(each.name for each in self.folder.iterdir() if is_dataset_name(each.name))

    def path(self, name: str) -> Path:
        """The file of a dataset that may be used; DatasetMissing if there is none."""
        path = self._file(name)
        _about(name, lambda: read_client_cases(path))
        return path

    def read(self, name: str) -> CaseFile:
        """The cases; ConfigError with all problems."""
        path = self._file(name)
        return _about(name, lambda: read_client_cases(path))

    def write(self, name: str, content: bytes) -> CaseFile:
        """Store a dataset if it can be read, replacing one with the same name."""
        cases, content = self.check(name, content)
        self.store(name, content)
        return cases

    def check(
        self,
        name: str,
        content: bytes,
        *,
        input: str = "",  # noqa: A002
        expected: str = "",
    ) -> tuple[CaseFile, bytes]:
        """The cases of a dataset that may be stored, and what to store; ConfigError with all
        problems.

        `input` and `expected` name columns as for any reader. Columns that have names of their own
        are stored under burnish's, so that every run reads the same cases.
        """
        self._at(name)
        try:
            content.decode()
        except UnicodeDecodeError as error:
            message = f"it is not UTF-8 text (at byte {error.start})"
            raise ConfigError.of(name, message, "send it as UTF-8") from None
        # Elsewhere: nobody can name a file before it is validated, and two may send one at once.
        with TemporaryDirectory() as elsewhere:
            trial = Path(elsewhere) / name
            trial.write_bytes(content)
            file = read_client_cases(trial, input=input, expected=expected)
            if file.columns is not None and not file.columns.usual:
                content = _with_usual_columns(name, file.cases)
            return file, content

    def store(self, name: str, content: bytes) -> None:
        """Store a dataset that was checked."""
        path = self._at(name)
        self.folder.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            path.unlink()
        write_atomic(path, content)

    def delete(self, name: str) -> None:
        """Delete a dataset, whatever it contains."""
        self._file(name).unlink()

    def _file(self, name: str) -> Path:
        path = self._at(name)
        if not path.is_file() or path.is_symlink():
            raise DatasetMissing(
                f"there is no dataset '{name}'", remedy="GET /api/v1/datasets lists them"
            )
        return path.resolve()

    def _at(self, name: str) -> Path:
        if not is_dataset_name(name):
            remedy = "use a name such as holdout.jsonl: letters, digits, '-', '_' and a suffix"
            raise ConfigError.of("name", f"'{name}' cannot name a dataset", remedy)
        return self.folder / name


def _with_usual_columns(name: str, cases: Sequence[Case]) -> bytes:
    """The cases of a table under burnish's names, in the format of its name."""
    if name.endswith(".jsonl"):
        return jsonl_of(cases).encode()
    rows = [row_written(case) for case in cases]
    if name.endswith(".json"):
        return json.dumps(rows, ensure_ascii=False).encode()
    text = StringIO(newline="")
    table = csv.DictWriter(text, dict.fromkeys(key for row in rows for key in row))
    table.writeheader()
    for case, row in zip(cases, rows, strict=True):
        cells = {k: v if isinstance(v, str) else json.dumps(v) for k, v in row.items()}
        table.writerow({**cells, **({"labels": ";".join(case.labels)} if case.labels else {})})
    return text.getvalue().encode()


def _about(name: str, look: Callable[[], T]) -> T:
    """Call `look`; its problems say which dataset they are about."""
    try:
        return look()
    except ConfigError as error:
        raise ConfigError(
            [
                each if name in each.where else replace(each, where=f"{name} {each.where}".strip())
                for each in error.problems
            ]
        ) from None


_MARK = "header"
"""The mark under which a journal in a database stores the header of its run."""


_FileState: TypeAlias = tuple[int, ...]


def _file_state(path: Path) -> _FileState:
    """What changes with a file; empty if there is none."""
    try:
        state = path.stat()
    except OSError:
        return ()
    return state.st_mtime_ns, state.st_size, state.st_ino


@lru_cache(maxsize=10_000)
def _tag_files(folder: str) -> tuple[Path, Path]:
    """The two files that tags are read from, as paths: making those takes as long as a look."""
    return Path(folder) / HEADER, Path(folder) / TAGS


@lru_cache(maxsize=10_000)
def _tags_read(folder: str, header: _FileState, changed: _FileState) -> tuple[str, ...]:
    """Read when one of the two files changes: a page lists fifty runs."""
    del header, changed
    return tags_of(Path(folder))


@dataclass(frozen=True, kw_only=True)
class RunPlace:
    """Where one run is stored."""

    folder: Path
    journals: DatabaseJournals | None = None
    name: str = ""
    """The journal's name in a database."""

    @property
    def begun(self) -> bool:
        return (self.folder / HEADER).is_file()

    def open(self, setup: Setup) -> Run:
        """Resume the run, or start it."""
        if self.begun:
            return resume(setup, self.folder)
        return start(setup, folder=self.folder, furnish=self.furnish)

    def furnish(self, folder: Path) -> None:
        """Record the journal in a new folder, and the folder's header in the journal.

        So another machine can create the folder again.
        """
        if self.journals is None:
            return
        store = self.journals.journal(self.name)
        db = store.take()
        try:
            db.execute(store.sql.first_mark, (_MARK, read_text(folder / HEADER)))
        finally:
            store.close()
        point_to(store, folder)

    def fetch(self) -> bool:
        """Create the folder from the journal in the database; False if there is none."""
        if self.begun or self.journals is None:
            return self.begun
        store = self.journals.journal(self.name)
        with JournalReader(store) as reader:
            header = reader.marks().get(_MARK)
        if header is None:
            return False

        def fill(folder: Path) -> None:
            codec(Header).decode(json.loads(header)).write(folder)
            point_to(store, folder)

        self.folder.parent.mkdir(parents=True, exist_ok=True)
        if make_folder(self.folder, fill):
            remember_run(self.folder)
        return self.begun

    def remove(self) -> None:
        """Delete the run's folder and its journal."""
        if self.journals is not None:
            self.journals.delete(self.name)
        with suppress(FileNotFoundError):
            shutil.rmtree(self.folder)
        forget_run(self.folder)


RECENT = 1.0
"""For so many seconds a list shows the tags that it has seen."""
_MOST_RECENT = 10_000
_Named: TypeAlias = tuple[str, str, str]


def _named(record: StoredRun) -> _Named:
    return record.app_name, record.run_id, record.where.folder


@dataclass(frozen=True, kw_only=True)
class RunPlaces:
    """Where the runs of a service are stored."""

    data: Path
    journals: DatabaseJournals | None = None
    _recent: "dict[_Named, tuple[float, tuple[str, ...]]]" = field(
        default_factory=dict["_Named", tuple[float, tuple[str, ...]]]
    )
    """Tags of runs, and until when lists show them."""

    def __post_init__(self) -> None:
        url = None if self.journals is None else self.journals.url
        if url is not None and url.password and "${" not in url.storable:
            raise ConfigError.of(
                str(url),
                "journals in this database could not be opened again: "
                "a password in plain text is not stored",
                "write it as ${VAR}, or keep journals in files",
            )

    @property
    def datasets(self) -> Path:
        return self.data / "datasets"

    def of_new(self, app_name: str, run_id: str) -> RunPlace:
        """The place of a new run; a name that could lead to another folder is rejected."""
        if not (is_plain(app_name) and is_plain(run_id)):
            message = f"'{app_name}/{run_id}' cannot name a run here"
            raise ConfigError.of("id", message, "use letters, digits, '.', '-' and '_'")
        folder = (self.data / "runs" / app_name / run_id).absolute()
        return RunPlace(folder=folder, journals=self.journals, name=f"{app_name}/{run_id}")

    def where(self, place: RunPlace) -> Where:
        """The place as it is stored."""
        journal = "files" if place.journals is None else "database"
        return Where(journal=journal, host=socket.gethostname(), folder=str(place.folder))

    def why_not_here(self, record: StoredRun) -> str:
        """Why this service cannot continue a run; '' if it can."""
        where = record.where
        if not (is_plain(record.app_name) and is_plain(record.run_id)):
            return "its name cannot be used for a folder"
        if not where.folder:
            return ""  # it has not begun: any service can begin it
        if where.journal == "database":
            reason = "its journal is in a database, and journals here are in files"
            return reason if self.journals is None else ""
        mine = where.host == socket.gethostname() and not record.current_round
        if mine and not Path(where.folder).exists():
            return ""  # whoever wanted to begin it died before that
        return where.why_not_here()

    def of(self, record: StoredRun) -> RunPlace:
        """The place of a run; NotHere if that is somewhere else."""
        if why := self.why_not_here(record):
            raise NotHere(f'run "{record.run_id}" is not here: {why}')
        here = self.of_new(record.app_name, record.run_id)
        if record.where.journal == "database" or not record.where.folder:
            return here
        return RunPlace(folder=Path(record.where.folder))

    def tags(self, record: StoredRun) -> tuple[str, ...]:
        """The tags of a run that has begun, if its folder can be read from here."""
        if not record.where.folder:
            return ()
        folder = record.where.folder
        with suppress(BurnishError):
            if record.where.journal == "database":
                folder = str(self.of_new(record.app_name, record.run_id).folder)
            header, changed = map(_file_state, _tag_files(folder))
            return _tags_read(folder, header, changed) if header else ()
        return ()

    def recent_tags(self, record: StoredRun) -> tuple[str, ...]:
        """The same for a list, at most a second old: a page would look at a hundred files."""
        key, now = _named(record), time.monotonic()
        until, tags = self._recent.get(key, (now, ()))
        if until <= now:
            tags = self.tags(record)
            if len(self._recent) >= _MOST_RECENT:
                self._recent.clear()
            self._recent[key] = (now + RECENT, tags)
        return tags

    def forget_tags(self, record: StoredRun) -> None:
        """Look again for the next list: they were changed here."""
        self._recent.pop(_named(record), None)


_HIDDEN = (JOURNAL, COUNT, POINTER, LOCK, PROCESSES, "blobs")
"""Internal files, which may change at any time."""


def trials(folder: Path) -> list[Json]:
    """The trials as in trials.jsonl."""
    run = RunRecord.read(folder)
    return [json.loads(line) for line in trial_lines(run.rows, run.events)]


def candidates(folder: Path) -> list[Json]:
    """The starting point of the run, and each accepted candidate."""
    run = RunRecord.read(folder)
    accepted: list[Json] = []
    for row in run.rows:
        if row.trial.accepted or row.trial.phase == BASELINE:
            candidate = row.trial.candidate
            encoded = codec(Candidate).encode(candidate)
            assert isinstance(encoded, dict)
            accepted.append(
                {
                    "trial": row.number,
                    "id": candidate.id,
                    "values": encoded["values"],
                    "accepted": row.trial.accepted,
                    "files": [*run.files.get(row.number, ())],
                }
            )
    return accepted


def files(folder: Path) -> list[Json]:
    """Every file that clients may read."""
    return [
        {"path": str(path.relative_to(folder)), "bytes": path.stat().st_size}
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and not _is_hidden(path.relative_to(folder))
    ]


def file(folder: Path, name: str) -> Path:
    """One file; FileMissing for a path that leaves the folder by dots or a link."""
    home = folder.resolve()
    try:
        path = (home / name).resolve(strict=True)
        inside = path.is_relative_to(home) and path.is_file()
    except (OSError, ValueError, RuntimeError):
        inside, path = False, home
    if not inside or _is_hidden(path.relative_to(home)):
        raise FileMissing(f"this run has no file '{name}'", remedy="…/files lists those it has")
    return path


def _is_hidden(path: Path) -> bool:
    return not path.parts or path.parts[0].startswith(_HIDDEN)


# -- Event streams ---------------------------------------------------------------------------------


_LOOK_SECONDS = 1.0
"""How often the store is polled for events of other processes."""
_HEARTBEAT_SECONDS = 15.0
"""A comment is sent after this silence, or proxies would close the connection."""
_AT_ONCE = 200
_Frame = tuple[int, bytes]
"""The number of an event, and the event as it is sent."""


class _Tail:
    """The newest events of one run, while anyone is listening."""

    def __init__(self, store: RunStore, app_name: str, run_id: str, *, after: int) -> None:
        self._store = store
        self._run = (app_name, run_id)
        self._frames: deque[_Frame] = deque(maxlen=256)
        self._last = after
        self._news = asyncio.Event()
        self._changed = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._heartbeat = self._loop.call_later(_HEARTBEAT_SECONDS, self._wake)
        """Wakes all listeners after a silence: a timer for each would take longer than a frame."""
        self._closed = False
        self.listeners = 0
        self.ended: RunStatus | None = None

    async def frames(self, after: int) -> AsyncGenerator[bytes, None]:
        """All events after a number, then new ones until the run ends."""
        self._reader = self._reader or asyncio.create_task(self._read())
        while not self._closed:
            signal = self._changed
            frames = await self._since(after) if after < self._last else []
            for number, content in frames:
                yield content
                after = number
            if frames:
                continue
            if self.ended is not None:
                # Without an id: a client that reconnects gets it again.
                yield f'event: end\ndata: {{"status":"{self.ended.value}"}}\n\n'.encode()
                return
            await signal.wait()
            if after >= self._last and self.ended is None and not self._closed:
                yield b": still here\n\n"

    def announce(self) -> None:
        self._news.set()

    def close(self) -> None:
        """End the streams without an `end` event."""
        self._closed = True
        self._wake()
        self._news.set()  # the reader ends by itself: cancelling would cut off a store's work

    async def _since(self, after: int) -> list[_Frame]:
        first = self._frames[0][0] if self._frames else self._last + 1
        if after + 1 >= first:  # numbers have no gaps
            return [*islice(self._frames, after + 1 - first, None)]
        older = await self._store.events(*self._run, after=after, limit=_AT_ONCE)
        return [_frame(event) for event in older]

    async def _read(self) -> None:
        while self.ended is None and not self._closed:
            with suppress(BurnishError):  # a store in trouble is asked again
                await self._look()
            if self.ended is None and not self._closed:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._news.wait(), _LOOK_SECONDS)
                self._news.clear()

    async def _look(self) -> None:
        """Read new events; a run is over when it is finished and nothing is left to read."""
        try:
            await self._take()  # first of all, since they were announced
            run = await self._store.get(*self._run, result=False)
            status, newest = run.status, run.events
        except RunMissing:
            status, newest = RunStatus.CANCELED, self._last  # deleted meanwhile
        if newest > self._last:
            await self._take()
        if status.finished:
            self.ended = status
            self._wake()

    async def _take(self) -> None:
        """Read what is stored since the last time: once for all listeners."""
        full = True
        while full:
            events = await self._store.events(*self._run, after=self._last, limit=_AT_ONCE)
            full = len(events) == _AT_ONCE
            if events:
                self._frames.extend(map(_frame, events))
                self._last = events[-1].number
                self._wake()

    def _wake(self) -> None:
        signal, self._changed = self._changed, asyncio.Event()
        signal.set()
        self._heartbeat.cancel()
        if not self._closed:
            self._heartbeat = self._loop.call_later(_HEARTBEAT_SECONDS, self._wake)


class Tails:
    """The runs that have listeners, and how many there may be."""

    def __init__(self, store: RunStore, *, most: int = 500, per_token: int = 100) -> None:
        self._store = store
        self._tails: dict[tuple[str, str], _Tail] = {}
        self._most, self._per_token = most, per_token
        self._listeners: Counter[str] = Counter()
        self._closed = False

    @property
    def listeners(self) -> int:
        return self._listeners.total()

    def admit(self, account: str) -> Callable[[], None]:
        """Take a place for a listener of an account, '' without a token; call the result once.

        TooManyListeners if there is no place.
        """
        if self.listeners >= self._most:
            raise TooManyListeners("listeners", self._most)
        if account and self._listeners[account] >= self._per_token:
            raise TooManyListeners("listeners_per_token", self._per_token)
        self._listeners[account] += 1

        def leave() -> None:
            self._listeners[account] -= 1
            self._listeners += Counter[str]()  # without those that have none

        return leave

    def announce(self, app_name: str, run_id: str) -> None:
        if (tail := self._tails.get((app_name, run_id))) is not None:
            tail.announce()

    async def listen(
        self, app_name: str, run_id: str, *, after: int, newest: int
    ) -> AsyncGenerator[bytes, None]:
        """The events of a run after a number; `newest` is the number of the last event now."""
        if self._closed:
            return  # admitted before the service began to close, and only now read
        key = (app_name, run_id)
        tail = self._tails.get(key)
        if tail is None:
            tail = self._tails[key] = _Tail(self._store, *key, after=newest)
        tail.listeners += 1
        try:
            async for frame in tail.frames(after):
                yield frame
        finally:
            tail.listeners -= 1
            if not tail.listeners:
                tail.close()
                if self._tails.get(key) is tail:
                    del self._tails[key]

    def close(self) -> None:
        """End every stream, also those that have a place and have not begun."""
        self._closed = True
        for tail in self._tails.values():
            tail.close()


def _frame(event: RunEvent) -> _Frame:
    data: dict[str, Json] = {
        "number": event.number,
        "kind": event.kind,
        "round": event.round,
        "at": event.at.isoformat().replace("+00:00", "Z"),
        "payload": event.payload,
    }
    kind = event.kind.replace("\r", " ").replace("\n", " ")
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    frame = f"id: {event.number}\nevent: {kind}\ndata: {text}\n\n"
    return event.number, frame.encode("utf-8", "replace")
