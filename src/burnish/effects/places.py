"""Which store a journal has: the file in its folder, or the database that the folder names."""

from pathlib import Path

from burnish.effects.sqlite_store import SqliteStore
from burnish.effects.storage import JournalStore


def store_at(place: Path | JournalStore) -> JournalStore:
    """The store of a folder's journal; a store is given back as it is."""
    return SqliteStore(place) if isinstance(place, Path) else place
