"""Where the service keeps its runs: in memory, SQLite, PostgreSQL, MySQL or MariaDB."""

from typing import TYPE_CHECKING

from burnish.server.stores.errors import (
    LeaseLost,
    RunExists,
    RunMissing,
    RunNotRunning,
    StoreTrouble,
)
from burnish.server.stores.memory import MemoryRunStore
from burnish.server.stores.opening import journals_in, open_store
from burnish.server.stores.records import (
    Lease,
    NewEvent,
    RunChanges,
    RunEvent,
    RunFilter,
    RunPage,
    RunRecord,
    RunStatus,
    Where,
)
from burnish.server.stores.slimming import Slimming, slimmed
from burnish.server.stores.store import RunStore

if TYPE_CHECKING:
    from burnish.server.stores.schema import print_schema


def __getattr__(name: str) -> object:
    """SQLAlchemy is loaded only where it is used."""
    if name == "print_schema":
        from burnish.server.stores.schema import print_schema

        return print_schema
    raise AttributeError(name)


__all__ = [
    "Lease",
    "LeaseLost",
    "MemoryRunStore",
    "NewEvent",
    "RunChanges",
    "RunEvent",
    "RunExists",
    "RunFilter",
    "RunMissing",
    "RunNotRunning",
    "RunPage",
    "RunRecord",
    "RunStatus",
    "RunStore",
    "Slimming",
    "StoreTrouble",
    "Where",
    "journals_in",
    "open_store",
    "print_schema",
    "slimmed",
]
