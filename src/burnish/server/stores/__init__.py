"""Where the service stores its runs: memory, SQLite, PostgreSQL, MySQL or MariaDB."""

from collections.abc import Mapping

from burnish.journal.database_store import LEASE_SECONDS, DatabaseJournals
from burnish.journal.tables import print_schema
from burnish.server.stores.database import DatabaseRunStore, MemoryRunStore
from burnish.server.stores.records import (
    Lease,
    LeaseLost,
    NewEvent,
    RunChanges,
    RunEvent,
    RunExists,
    RunFilter,
    RunMissing,
    RunNotRunning,
    RunPage,
    RunStatus,
    RunStore,
    StoredRun,
    StoreTrouble,
    Where,
)
from burnish.system.databases import PREFIX, DatabaseUrl, check_prefix

__all__ = [
    "DatabaseRunStore",
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
    "RunStatus",
    "RunStore",
    "StoreTrouble",
    "StoredRun",
    "Where",
    "journals_in",
    "open_store",
    "print_schema",
]


async def open_store(
    address: str,
    *,
    table_prefix: str = PREFIX,
    create_schema: bool = True,
    environ: Mapping[str, str] | None = None,
) -> RunStore:
    """The store at an address: `memory://`, `sqlite:///runs.db`, `postgresql://…`, `mysql://…`.

    Its tables are created, unless `create_schema` is off; those of another version are refused.
    """
    url = DatabaseUrl.parse(address, environ)
    check_prefix(table_prefix)
    if url.kind == "memory":
        return MemoryRunStore()
    store = DatabaseRunStore(url, table_prefix=table_prefix)
    try:
        await store.prepare(create_schema=create_schema)
    except BaseException:  # cancelled or failed, nobody else closes it
        await store.close()
        raise
    return store


def journals_in(
    address: str,
    *,
    table_prefix: str = PREFIX,
    create_schema: bool = True,
    lease_seconds: float = LEASE_SECONDS,
    environ: Mapping[str, str] | None = None,
) -> DatabaseJournals:
    """The journals in a PostgreSQL, MySQL or MariaDB database."""
    return DatabaseJournals(
        url=DatabaseUrl.parse(address, environ),
        prefix=table_prefix,
        create_schema=create_schema,
        lease_seconds=lease_seconds,
    )
