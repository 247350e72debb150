"""Where runs lie: folders below the data folder, journals in them or in a database."""

import json
import socket
from dataclasses import dataclass
from pathlib import Path

from burnish.core.codec import codec
from burnish.core.errors import ConfigError, Problem
from burnish.effects.database_store import DatabaseJournals
from burnish.effects.journal_reader import JournalReader
from burnish.effects.places import point_to
from burnish.runs.header import NAME as HEADER
from burnish.runs.header import Header
from burnish.runs.opening import resume, start
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.server.errors import NotHere
from burnish.server.naming import is_plain
from burnish.server.stores.records import RunRecord, Where
from burnish.system import make_folder, read_text

MARK = "header"
"""Under this mark a journal in a database keeps the header of its run."""


@dataclass(frozen=True, kw_only=True)
class Place:
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
            db.execute(store.sql.first_mark, (MARK, read_text(folder / HEADER)))
        finally:
            store.close()
        point_to(store, folder)

    def fetch(self) -> bool:
        """Make the folder here from the journal in the database; False where there is none."""
        if self.begun or self.journals is None:
            return self.begun
        store = self.journals.journal(self.name)
        with JournalReader(store) as reader:
            kept = reader.marks().get(MARK)
        if kept is None:
            return False

        def fill(folder: Path) -> None:
            codec(Header).decode(json.loads(kept)).write(folder)
            point_to(store, folder)

        self.folder.parent.mkdir(parents=True, exist_ok=True)
        make_folder(self.folder, fill)
        return self.begun


@dataclass(frozen=True, kw_only=True)
class Places:
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

    def of_new(self, app_name: str, run_id: str) -> Place:
        """Where a run will lie that begins here; a name that could lead elsewhere is refused."""
        if not (is_plain(app_name) and is_plain(run_id)):
            message = f"'{app_name}/{run_id}' cannot name a run here"
            remedy = "use letters, digits, '.', '-' and '_'"
            raise ConfigError([Problem(where="id", message=message, remedy=remedy)])
        folder = (self.data / "runs" / app_name / run_id).absolute()
        return Place(folder=folder, journals=self.journals, name=f"{app_name}/{run_id}")

    def where(self, place: Place) -> Where:
        """The place as the store keeps it."""
        journal = "files" if place.journals is None else "database"
        return Where(journal=journal, host=socket.gethostname(), folder=str(place.folder))

    def why_not_here(self, record: RunRecord) -> str:
        """Why this service cannot go on with a run; '' where it can."""
        where = record.where
        if not (is_plain(record.app_name) and is_plain(record.run_id)):
            return "its name cannot be that of a folder"
        if not where.folder:
            return ""  # it has not begun: any service can begin it
        if where.journal == "database":
            told = "its journal is in a database, and journals here are in files"
            return told if self.journals is None else ""
        mine = where.host == socket.gethostname() and not record.current_round
        if mine and not Path(where.folder).exists():
            return ""  # whoever wanted to begin it died before that
        return where.why_not_here()

    def of(self, record: RunRecord) -> Place:
        """Where a run lies; NotHere where that is somewhere else."""
        if why := self.why_not_here(record):
            raise NotHere(f'run "{record.run_id}" is not here: {why}')
        here = self.of_new(record.app_name, record.run_id)
        if record.where.journal == "database" or not record.where.folder:
            return here
        return Place(folder=Path(record.where.folder))
