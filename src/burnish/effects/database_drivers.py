"""Connections to the databases that can hold journals: PostgreSQL, MySQL and MariaDB."""

import importlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Protocol, cast

from burnish.core.errors import JournalTrouble, MissingExtra
from burnish.effects.database_urls import DatabaseUrl
from burnish.effects.storage import Rows

CLOCKS = {
    "postgresql": "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS DOUBLE PRECISION)",
    "mysql": "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1e6)",
    "sqlite": "((julianday('now') - 2440587.5) * 86400.0)",
}
"""Seconds since 1970 in UTC, by the clock of the database: machines may differ, it does not."""

_PARTS = {"postgresql": ("psycopg", "postgres"), "mysql": ("pymysql", "mysql")}
_CONNECT_SECONDS = 10
_MYSQL_FIRST = (
    # Rows are locked, not the gaps between them: runs do not wait for one another.
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    # What does not fit is an error, never cut off.
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES'",
)


class JournalUnreachable(JournalTrouble):
    """The database that holds the journal does not answer, or refuses."""


class _Cursor(Rows, Protocol):
    rowcount: int

    def execute(self, sql: str, parameters: Any = None, /) -> Any: ...
    def executemany(self, sql: str, rows: Sequence[Any], /) -> Any: ...
    def close(self) -> None: ...


class _Connection(Protocol):
    def cursor(self, *arguments: Any) -> _Cursor: ...
    def close(self) -> None: ...


class Driver:
    """Opens connections; whatever goes wrong is one clear error without a password."""

    def __init__(self, url: DatabaseUrl) -> None:
        if url.kind not in _PARTS:
            raise JournalTrouble(
                f"a journal cannot lie in {url}",
                remedy="give the address of a PostgreSQL, MySQL or MariaDB database, or leave "
                "the journal in the run's folder",
            )
        self.url = url
        self.clock = CLOCKS[url.kind]
        self._module = _loaded(*_PARTS[url.kind])
        self.errors: tuple[type[Exception], ...] = (self._module.Error, OSError)
        """What it raises when the database does not do as it is told."""

    @property
    def is_mysql(self) -> bool:
        """Whether MySQL's words are spoken there; MariaDB speaks them too."""
        return self.url.kind == "mysql"

    def connect(self) -> "DatabaseConnection":
        """A new connection."""
        try:
            opened = self._mysql() if self.is_mysql else self._postgresql()
        except (*self.errors, ValueError, RuntimeError) as error:
            raise self.trouble(error) from None
        connection = DatabaseConnection(self, cast("_Connection", opened))
        for statement in _MYSQL_FIRST if self.is_mysql else ():
            connection.execute(statement)
        return connection

    def trouble(self, error: Exception) -> JournalUnreachable:
        """The error for what a driver raised. Its own is not kept: it may hold the address."""
        lines = str(error).strip().splitlines() or [type(error).__name__]
        told = self.url.without_secrets(lines[0])
        return JournalUnreachable(
            f"the journal in {self.url} cannot be used: {told}",
            remedy="check that the database answers, then resume the run: nothing is lost",
        )

    def _postgresql(self) -> Any:
        rest = self.url.expanded.partition("://")[2]
        return self._module.connect(
            f"postgresql://{rest}", autocommit=True, connect_timeout=_CONNECT_SECONDS
        )

    def _mysql(self) -> Any:
        url = self.url
        flags = importlib.import_module("pymysql.constants.CLIENT")
        settings: dict[str, Any] = {"host": url.host or "localhost", "port": url.port or 3306}
        settings |= {"unix_socket": url.options["unix_socket"]} if self._by_socket else {}
        return self._module.connect(
            user=url.user or None,
            password=url.password,
            database=url.database,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=_CONNECT_SECONDS,
            client_flag=flags.FOUND_ROWS,
            **settings,
        )

    @property
    def _by_socket(self) -> bool:
        return "unix_socket" in self.url.options

    def streaming(self, connection: _Connection) -> _Cursor:
        """A cursor that leaves the rows with the server until they are asked for."""
        if self.is_mysql:
            return connection.cursor(importlib.import_module("pymysql.cursors").SSCursor)
        return connection.cursor()


class DatabaseConnection:
    """A connection on which every statement is a transaction of its own, unless one is begun."""

    def __init__(self, driver: Driver, opened: _Connection) -> None:
        self._driver = driver
        self._opened = opened

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> _Cursor:
        """Run one statement."""
        try:
            cursor = self._opened.cursor()
            cursor.execute(sql, parameters or None)
        except self._driver.errors as error:
            raise self._driver.trouble(error) from None
        return cursor

    def execute_all(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run one statement for many rows, in as few journeys as the driver can."""
        try:
            cursor = self._opened.cursor()
            cursor.executemany(sql, rows)
        except self._driver.errors as error:
            raise self._driver.trouble(error) from None

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Any]:
        """Row after row; nothing else may run on this connection meanwhile."""
        cursor = self._driver.streaming(self._opened)
        try:
            if self._driver.is_mysql:
                cursor.execute(sql, parameters or None)
                yield from cursor
            else:
                yield from cast("Any", cursor).stream(sql, parameters or None)
        except self._driver.errors as error:
            raise self._driver.trouble(error) from None

    def close(self) -> None:
        """Let go; a connection that is gone is closed too."""
        with suppress(*self._driver.errors):
            self._opened.close()


def _loaded(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f"a journal in this database needs the package {module}",
            remedy=f"pip install 'burnish[{extra}]'",
        ) from error
