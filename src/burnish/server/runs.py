"""Where runs and datasets of the service lie, and reading them."""

import json
import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, TypeVar

from pydantic import Field

from burnish.core.content import Json, codec
from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.core.surfaces import Candidate
from burnish.datasets.case_files import CaseFile
from burnish.datasets.client_cases import check_client_cases, read_client_cases
from burnish.journal.database_store import DatabaseJournals
from burnish.journal.journal import JournalReader
from burnish.journal.sqlite_store import JOURNAL_FILE as JOURNAL
from burnish.journal.sqlite_store import NAME as COUNT
from burnish.journal.sqlite_store import POINTER, point_to
from burnish.runs.directory import LOCK, PROCESSES, Header, RunRecord
from burnish.runs.directory import NAME as HEADER
from burnish.runs.events import BASELINE
from burnish.runs.ledger import trial_lines
from burnish.runs.run import Run
from burnish.runs.setup import Setup, resume, start
from burnish.server.security import is_plain
from burnish.server.stores.records import StoredRun, Where
from burnish.system import make_folder, read_text, write_atomic


class AppMissing(BurnishError):
    """No app of that name is served here."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f'no app "{name}" is served here', remedy="GET /api/v1/apps lists those that are"
        )


class AppUnfit(BurnishError):
    """The app itself is wrong, or does not have what is asked for."""


class DatasetMissing(BurnishError):
    """No dataset of that name."""


class FileMissing(BurnishError):
    """A run has no such file."""


class TooManyRuns(BurnishError):
    """As many runs as the limits allow are waiting."""


class NotAllowed(BurnishError):
    """A request names something that only the operator may."""


class NotHere(BurnishError):
    """What is asked for lies on another machine."""


class ManagerClosed(BurnishError):
    """The manager takes no more runs."""

    def __init__(self) -> None:
        super().__init__("the run manager is closed", remedy="start the service again")


# -- The datasets of a service --------------------------------------------------------------------


NAME = r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,80}(\.evalset)?\.(jsonl|json|csv|yaml|yml)$"
DatasetName = Annotated[str, Field(pattern=NAME, max_length=100)]
_NAME = re.compile(NAME)
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Datasets:
    """Files of cases in one folder. A name is no path: nothing else can be reached.

    Clients write here, so whatever lies here is read as data: a file with fields that a client may
    not use is refused when it is sent, and when it is used, however it came here.
    """

    folder: Path

    def names(self) -> list[str]:
        """What is there."""
        if not self.folder.is_dir():
            return []
        return sorted(each.name for each in self.folder.iterdir() if _NAME.match(each.name))

    def path(self, name: str) -> Path:
        """The file of a dataset that may be used; DatasetMissing where there is none."""
        path = self._file(name)
        _about(name, lambda: check_client_cases(path))
        return path

    def read(self, name: str) -> CaseFile:
        """The cases; ConfigError with all that is wrong."""
        path = self._file(name)
        return _about(name, lambda: read_client_cases(path))

    def write(self, name: str, content: bytes) -> CaseFile:
        """Keep a dataset, if it can be read; one of the same name is replaced."""
        path = self._at(name)
        _require_text(name, content)
        # Elsewhere: nobody can name a file that was not found good, and two may send one at once.
        with TemporaryDirectory() as elsewhere:
            trial = Path(elsewhere) / name
            trial.write_bytes(content)
            cases = read_client_cases(trial)
        self.folder.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            path.unlink()
        write_atomic(path, content)
        return cases

    def delete(self, name: str) -> None:
        """Remove a dataset, whatever is in it."""
        self._file(name).unlink()

    def _file(self, name: str) -> Path:
        path = self._at(name)
        if not path.is_file() or path.is_symlink():
            raise DatasetMissing(
                f"there is no dataset '{name}'", remedy="GET /api/v1/datasets lists them"
            )
        return path.resolve()

    def _at(self, name: str) -> Path:
        if not _NAME.match(name) or "\n" in name:
            message = f"'{name}' cannot name a dataset"
            remedy = "use a name such as holdout.jsonl: letters, digits, '-', '_' and a suffix"
            raise ConfigError([Problem(where="name", message=message, remedy=remedy)])
        return self.folder / name


def _require_text(name: str, content: bytes) -> None:
    try:
        content.decode()
    except UnicodeDecodeError as error:
        message = f"it is not UTF-8 text (at byte {error.start})"
        problem = Problem(where=name, message=message, remedy="send it as UTF-8")
        raise ConfigError([problem]) from None


def _about(name: str, look: Callable[[], T]) -> T:
    """What a look at a dataset gives; its problems say which dataset they are about."""
    try:
        return look()
    except ConfigError as error:
        raise ConfigError(
            [
                each if name in each.where else replace(each, where=f"{name} {each.where}".strip())
                for each in error.problems
            ]
        ) from None


# -- Where runs lie -------------------------------------------------------------------------------


_MARK = "header"
"""Under this mark a journal in a database keeps the header of its run."""


@dataclass(frozen=True, kw_only=True)
class RunPlace:
    """Where one run lies."""

    folder: Path
    journals: DatabaseJournals | None = None
    name: str = ""
    """The journal's, in a database."""

    @property
    def begun(self) -> bool:
        """Whether the run is there already."""
        return (self.folder / HEADER).is_file()

    def open(self, setup: Setup) -> Run:
        """The run to go on with, or a new one."""
        return resume(setup, self.folder) if self.begun else self.start(setup)

    def start(self, setup: Setup) -> Run:
        """A new run here."""
        return start(setup, folder=self.folder, furnish=self.furnish)

    def furnish(self, folder: Path) -> None:
        """Say in a new folder where the journal lies, and in the journal what the folder says.

        So another machine can make the folder again.
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
        """Make the folder here from the journal in the database; False where there is none."""
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
        make_folder(self.folder, fill)
        return self.begun


@dataclass(frozen=True, kw_only=True)
class RunPlaces:
    """Where the runs of a service lie."""

    data: Path
    journals: DatabaseJournals | None = None

    def __post_init__(self) -> None:
        """Refuse an address whose password would not be found again."""
        url = None if self.journals is None else self.journals.url
        if url is not None and url.password and "${" not in url.storable:
            raise ConfigError(
                [
                    Problem(
                        where=str(url),
                        message="journals in this database could not be opened again: "
                        "a password in plain text is not kept",
                        remedy="write it as ${VAR}, or keep journals in files",
                    )
                ]
            )

    @property
    def datasets(self) -> Path:
        """Where datasets lie."""
        return self.data / "datasets"

    def of_new(self, app_name: str, run_id: str) -> RunPlace:
        """Where a run will lie that begins here; a name that could lead elsewhere is refused."""
        if not (is_plain(app_name) and is_plain(run_id)):
            message = f"'{app_name}/{run_id}' cannot name a run here"
            remedy = "use letters, digits, '.', '-' and '_'"
            raise ConfigError([Problem(where="id", message=message, remedy=remedy)])
        folder = (self.data / "runs" / app_name / run_id).absolute()
        return RunPlace(folder=folder, journals=self.journals, name=f"{app_name}/{run_id}")

    def where(self, place: RunPlace) -> Where:
        """The place as the store keeps it."""
        journal = "files" if place.journals is None else "database"
        return Where(journal=journal, host=socket.gethostname(), folder=str(place.folder))

    def why_not_here(self, record: StoredRun) -> str:
        """Why this service cannot go on with a run; '' where it can."""
        where = record.where
        if not (is_plain(record.app_name) and is_plain(record.run_id)):
            return "its name cannot be that of a folder"
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
        """Where a run lies; NotHere where that is somewhere else."""
        if why := self.why_not_here(record):
            raise NotHere(f'run "{record.run_id}" is not here: {why}')
        here = self.of_new(record.app_name, record.run_id)
        if record.where.journal == "database" or not record.where.folder:
            return here
        return RunPlace(folder=Path(record.where.folder))


# -- Reading run folders for the service; nothing outside of one can be named ---------------------


_HIDDEN = (JOURNAL, COUNT, POINTER, LOCK, PROCESSES, "blobs")
"""What is burnish's own, and may change at any time."""


def require(place: RunPlace) -> None:
    """Refuse a run that has no folder yet."""
    if not place.fetch():
        raise FileMissing("this run has not begun", remedy="ask again when it is running")


def trials(folder: Path) -> list[Json]:
    """The trials as trials.jsonl has them."""
    run = RunRecord.read(folder)
    return [json.loads(line) for line in trial_lines(run.rows, run.events)]


def candidates(folder: Path) -> list[Json]:
    """Where the run began, and each candidate that was accepted."""
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
    """Every file that may be looked at."""
    return [
        {"path": str(path.relative_to(folder)), "bytes": path.stat().st_size}
        for path in sorted(_walk(folder))
    ]


def file(folder: Path, name: str) -> Path:
    """One of them; a path that leads out of the folder, by dots or by a link, is none."""
    home = folder.resolve()
    try:
        path = (home / name).resolve(strict=True)
        inside = path.is_relative_to(home) and path.is_file()
    except (OSError, ValueError, RuntimeError):
        inside, path = False, home
    if not inside or _is_hidden(path.relative_to(home)):
        raise FileMissing(f"this run has no file '{name}'", remedy="…/files lists those it has")
    return path


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and not _is_hidden(path.relative_to(folder)):
            yield path


def _is_hidden(path: Path) -> bool:
    return not path.parts or path.parts[0].startswith(_HIDDEN)
