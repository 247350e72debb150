"""Which store a journal has: the file in its folder, or the database that the folder names.

A folder whose journal lies in a database holds a small file that says where. A password is not
written there: write the address with `${VAR}`, or leave it to the driver (PGPASSWORD, .pgpass).
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from burnish.core.errors import JournalTrouble, MissingExtra
from burnish.effects.sqlite_store import SqliteStore
from burnish.effects.storage import JournalStore
from burnish.system import read_bytes, write_atomic

if TYPE_CHECKING:
    from burnish.effects.database_store import DatabaseStore

POINTER = "journal.json"


class _Pointer(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    database: str
    name: str
    prefix: str
    create_schema: bool
    lease_seconds: float


def store_at(place: Path | JournalStore) -> JournalStore:
    """The store of a folder's journal; a store is given back as it is."""
    if not isinstance(place, Path):
        return place
    return named_database(place) or SqliteStore(place)


def point_to(store: "DatabaseStore", folder: Path) -> None:
    """Say in a folder that its journal lies in a database."""
    journals = store.journals
    pointer = _Pointer(
        database=journals.url.storable,
        name=store.name,
        prefix=journals.prefix,
        create_schema=journals.create_schema,
        lease_seconds=journals.lease_seconds,
    )
    write_atomic(folder / POINTER, json.dumps(pointer.model_dump(), indent=2) + "\n")


def named_database(
    folder: Path, environ: Mapping[str, str] | None = None
) -> "DatabaseStore | None":
    """The journal in a database that a folder names, or None."""
    path = folder / POINTER
    if not path.exists():
        return None
    try:
        pointer = _Pointer.model_validate_json(read_bytes(path))
    except ValidationError as error:
        raise JournalTrouble(
            f"{path} does not say where the journal is",
            remedy="restore it from a backup, or start a new run",
        ) from error
    # Late: most runs have their journal in a file.
    try:
        from burnish.effects.database_store import DatabaseJournals
        from burnish.system.databases import DatabaseUrl
    except ImportError as error:
        raise MissingExtra(
            f"the journal of {folder} lies in a database, which needs the package sqlalchemy",
            remedy="pip install 'burnish[postgres]' or 'burnish[mysql]'",
        ) from error

    journals = DatabaseJournals(
        url=DatabaseUrl.parse(pointer.database, environ),
        prefix=pointer.prefix,
        create_schema=pointer.create_schema,
        lease_seconds=pointer.lease_seconds,
    )
    return journals.journal(pointer.name)
