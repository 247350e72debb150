"""A store from its address."""

import asyncio
import importlib
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from burnish.core.errors import ConfigError, MissingExtra, Problem
from burnish.effects.database_schema import PREFIX, check_prefix
from burnish.effects.database_store import LEASE_SECONDS, DatabaseJournals
from burnish.effects.database_urls import DatabaseUrl
from burnish.server.stores.errors import StoreTrouble
from burnish.server.stores.memory import MemoryRunStore

if TYPE_CHECKING:
    from burnish.server.stores.store import RunStore

_NEEDED = {
    "sqlite": ("aiosqlite", "server"),
    "postgresql": ("asyncpg", "postgres"),
    "mysql": ("asyncmy", "mysql"),
}


async def open_store(
    address: str,
    *,
    table_prefix: str = PREFIX,
    create_schema: bool = True,
    environ: Mapping[str, str] | None = None,
) -> "RunStore":
    """The store at an address: `memory://`, `sqlite:///runs.db`, `postgresql://…`, `mysql://…`.

    Its tables are made or brought up to date, unless `create_schema` is off.
    """
    url = DatabaseUrl.parse(address, environ)
    check_prefix(table_prefix)
    if url.kind == "memory":
        return MemoryRunStore()
    _require(url)
    if url.kind == "sqlite":
        await asyncio.to_thread(_try_file, url)
    from burnish.server.stores.database import DatabaseRunStore

    store = DatabaseRunStore(url, table_prefix=table_prefix)
    try:
        await store.prepare(create_schema=create_schema)
    except BaseException:
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
    """The journals in the database of a store, PostgreSQL or MySQL and MariaDB."""
    url = DatabaseUrl.parse(address, environ)
    if url.kind not in ("postgresql", "mysql"):
        remedy = "give the address of a PostgreSQL or MariaDB database, or leave the journals "
        told = Problem(
            message=f"journals cannot lie in {url}", remedy=f"{remedy}in the folders of the runs"
        )
        raise ConfigError([told])
    return DatabaseJournals(
        url=url, prefix=table_prefix, create_schema=create_schema, lease_seconds=lease_seconds
    )


def _try_file(url: DatabaseUrl) -> None:
    """See that the file can be opened: the driver leaves a thread behind where it cannot."""
    try:
        with closing(sqlite3.connect(url.database)) as db:
            db.execute("PRAGMA schema_version").fetchone()
    except sqlite3.Error as error:
        raise StoreTrouble(
            f"the store {url} cannot be used: {error}",
            remedy="check that its folder is there, may be written, and that it is a store",
        ) from error


def _require(url: DatabaseUrl) -> None:
    driver, extra = _NEEDED[url.kind]
    for module, needed in (("sqlalchemy", "server"), (driver, extra)):
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise MissingExtra(
                f"the store {url} needs the package {module}",
                remedy=f"pip install 'burnish[{needed}]'",
            ) from error
