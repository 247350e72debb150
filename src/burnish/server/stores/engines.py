"""Connections to the database of a store."""

import importlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, event
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from burnish.core.errors import ConfigError, Problem
from burnish.effects.database_urls import DatabaseUrl
from burnish.server.stores.errors import StoreTrouble
from burnish.system import is_network_file_system

_DRIVERS = {
    "sqlite": "sqlite+aiosqlite",
    "postgresql": "postgresql+asyncpg",
    "mysql": "mysql+asyncmy",
}
_RENAMED = {"sslmode": "ssl"}
"""What libpq calls one thing and asyncpg another."""
_READ = "burnish_reads"


class StoreEngine:
    """Opens transactions; whatever goes wrong is one clear error without a password."""

    def __init__(self, url: DatabaseUrl) -> None:
        self.url = url
        self._engine = _made(url)
        self._errors = _driver_errors(url.kind)
        self._closed = False

    @asynccontextmanager
    async def writing(self) -> AsyncGenerator[AsyncConnection]:
        """A transaction that is kept when the block ends well."""
        self._check_open()
        async with self._told(), self._engine.begin() as db:
            yield db

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[AsyncConnection]:
        """A transaction that changes nothing and waits for nobody who writes."""
        self._check_open()
        async with self._told(), self._engine.connect() as db:
            yield await db.execution_options(**{_READ: True})

    async def close(self) -> None:
        """Close every connection."""
        self._closed = True
        await self._engine.dispose()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreTrouble("the store is closed")

    @asynccontextmanager
    async def _told(self) -> AsyncGenerator[None]:
        try:
            yield
        except IntegrityError:
            raise
        except self._errors as error:
            raise self._trouble(error) from None  # the driver's own may hold the address

    def _trouble(self, error: Exception) -> StoreTrouble:
        cause = getattr(error, "orig", None) or error
        lines = str(cause).strip().splitlines() or [type(cause).__name__]
        return StoreTrouble(
            f"the store {self.url} cannot be used: {self.url.without_secrets(lines[0])}",
            remedy="check that the database is there, answers and may be written",
        )


def _made(url: DatabaseUrl) -> AsyncEngine:
    settings: dict[str, Any] = {"hide_parameters": True}
    if url.kind == "sqlite":
        engine = create_async_engine(_sqlite_url(url), connect_args={"timeout": 30}, **settings)
        _behave(engine, wal=not is_network_file_system(Path(url.database).absolute().parent))
        return engine
    # Rows are locked, not the gaps between them: runs do not wait for one another.
    settings |= {"pool_pre_ping": True, "isolation_level": "READ COMMITTED"}
    return create_async_engine(_server_url(url), **settings)


def _sqlite_url(url: DatabaseUrl) -> URL:
    if url.database in ("", ":memory:"):
        remedy = "write memory:// for a store that is gone when the process ends"
        raise ConfigError([Problem(message=f"{url} names no file", remedy=remedy)])
    return URL.create(_DRIVERS["sqlite"], database=url.database)


def _server_url(url: DatabaseUrl) -> URL:
    options = {_RENAMED.get(name, name): value for name, value in url.options.items()}
    return URL.create(
        _DRIVERS[url.kind],
        username=url.user or None,
        password=url.password or None,
        host=url.host or None,
        port=url.port,
        database=url.database or None,
        query=options if url.kind == "postgresql" else {"charset": "utf8mb4"} | options,
    )


def _behave(engine: AsyncEngine, *, wal: bool) -> None:
    """Make SQLite take its lock when a writing transaction begins.

    Otherwise two writers that have both read would each wait for the other, and one would fail.
    """

    def connected(connection: Any, record: object) -> None:
        del record
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA journal_mode = {'WAL' if wal else 'DELETE'}")
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.close()

    def begun(connection: Connection) -> None:
        reads = connection.get_execution_options().get(_READ)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    event.listen(engine.sync_engine, "connect", connected)
    event.listen(engine.sync_engine, "begin", begun)


def _driver_errors(kind: str) -> tuple[type[Exception], ...]:
    """SQLAlchemy wraps what happens at work, but not all that happens on connecting."""
    common = (SQLAlchemyError, OSError)
    if kind == "postgresql":
        driver = importlib.import_module("asyncpg")
        return (*common, driver.PostgresError, driver.InterfaceError)
    if kind == "mysql":
        return (*common, importlib.import_module("asyncmy.errors").MySQLError)
    return common
