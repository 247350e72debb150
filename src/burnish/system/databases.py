"""Databases that hold runs and journals: their addresses, their connections, and outages.

There is one driver a database: sqlite3, psycopg for PostgreSQL, PyMySQL for MySQL and MariaDB.
All of them block, so whoever lives in an event loop uses them in threads.
"""

import os
import re
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

from sqlalchemy import URL, Connection, Engine, NullPool, StaticPool, create_engine, event
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from burnish.core.errors import BurnishError, ConfigError, MissingExtra, Problem
from burnish.system.config import expand_variables
from burnish.system.files import is_network_file_system

T = TypeVar("T")

PREFIX = "burnish_"
"""What the names of tables begin with, unless the user says otherwise."""
PART = 4 * 1024 * 1024
"""Bytes of a large value in one row: servers refuse packets above a size, MariaDB above 16 MB."""

# -- addresses -----------------------------------------------------------------------------

_KINDS = {
    "postgres": "postgresql",
    "postgresql": "postgresql",
    "mysql": "mysql",
    "mariadb": "mysql",
    "sqlite": "sqlite",
    "memory": "memory",
}
_HIDDEN = "***"
_EXAMPLES = "sqlite:///file.db, postgresql://user@host/database or mysql://user@host/database"


@dataclass(frozen=True, kw_only=True, repr=False)
class DatabaseUrl:
    """An address, with `${VAR}` expanded. Its text and its repr have no password."""

    kind: str
    """`postgresql`, `mysql` (MariaDB too), `sqlite` or `memory`."""
    written: str
    """As the user wrote it. Files hold `storable` instead."""
    expanded: str

    @classmethod
    def parse(cls, text: str, environ: Mapping[str, str] | None = None) -> "DatabaseUrl":
        """Read an address such as `postgresql://me:${PASSWORD}@host/database`."""
        expanded = expand_variables(text, os.environ if environ is None else environ)
        scheme, separator, _ = expanded.partition("://")
        if not separator:
            raise _bad_address("the address of the database does not begin with its kind")
        kind = _KINDS.get(scheme.partition("+")[0])
        if kind is None:
            raise _bad_address(f"'{scheme}' is no kind of database that burnish knows")
        try:
            _ = urlsplit(expanded).port
        except ValueError:  # a driver would refuse it too, and show the whole address
            message = "the port in the address of the database is not a number"
            raise _bad_address(message) from None
        return cls(kind=kind, written=text, expanded=expanded)

    @property
    def is_server(self) -> bool:
        """Whether a server holds the database, so that several machines can share it."""
        return self.kind in ("postgresql", "mysql")

    @property
    def password(self) -> str:
        """The secret part."""
        return unquote(urlsplit(self.expanded).password or "")

    @property
    def database(self) -> str:
        """The database on the server, or the path of the file."""
        return unquote(urlsplit(self.expanded).path[1:])

    @property
    def options(self) -> dict[str, str]:
        """What follows the question mark."""
        return dict(parse_qsl(urlsplit(self.expanded).query))

    @property
    def storable(self) -> str:
        """The address for a file: a `${VAR}` stays one, a password in plain text is left out."""
        return _without_password(self.written, variables_stay=True)

    def redacted(self, text: str) -> str:
        """A driver's message without the password."""
        secrets = [each for each in (self.password, self.options.get("password")) if each]
        for secret in {*secrets, *(quote(each, safe="") for each in secrets)}:
            text = text.replace(secret, _HIDDEN)
        return text

    def __str__(self) -> str:
        return _without_password(self.expanded, variables_stay=False)

    def __repr__(self) -> str:
        return f"DatabaseUrl({str(self)!r})"


def _without_password(text: str, *, variables_stay: bool) -> str:
    """The address with its password hidden, or left out; options may hold one too."""
    parts = urlsplit(text)
    who, at, where = parts.netloc.rpartition("@")
    user, colon, password = who.partition(":")
    if colon and not (variables_stay and password.startswith("${")):
        who = user if variables_stay else f"{user}:{_HIDDEN}"
    options = [each for each in parts.query.split("&") if each and not each.startswith("password")]
    netloc = f"{who}{at}{where}"
    return urlunsplit((parts.scheme, netloc, parts.path, "&".join(options), ""))


def _bad_address(message: str) -> ConfigError:
    return ConfigError([Problem(message=message, remedy=f"write {_EXAMPLES}")])


def check_prefix(prefix: str) -> None:
    """Refuse what cannot begin the name of a table."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,31}|", prefix):
        message = f"'{prefix}' cannot begin the names of tables"
        remedy = "give up to 32 letters, digits and underscores, a digit not first"
        raise ConfigError([Problem(message=message, remedy=remedy)])


# -- connections ---------------------------------------------------------------------------

_CLOCKS = {
    "postgresql": "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS DOUBLE PRECISION)",
    "mysql": "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1e6)",
    "sqlite": "((julianday('now') - 2440587.5) * 86400.0)",
}
_DRIVERS = {
    "postgresql": ("postgresql+psycopg", "postgres"),
    "mysql": ("mysql+pymysql", "mysql"),
    "sqlite": ("sqlite", "server"),
}
_OPTIONS = {
    # A server that is gone without a word is noticed within a minute.
    "postgresql": {"connect_timeout": "10", "keepalives_idle": "30", "keepalives_interval": "10"},
    # What does not fit is an error, never cut off.
    "mysql": {
        "connect_timeout": "10",
        "read_timeout": "120",
        "charset": "utf8mb4",
        "sql_mode": "STRICT_ALL_TABLES",
    },
}
_READ_ONLY = "burnish_read_only"
_FAILURES = (SQLAlchemyError, OSError)
_REFUSALS = (*_FAILURES, RuntimeError, TypeError, ValueError)
"""Drivers raise the last three for options that they do not have."""


class Database:
    """Connections to one database. Every failure becomes `trouble`, without a password."""

    def __init__(
        self, url: DatabaseUrl, *, trouble: Callable[[str], BurnishError], pooled: bool = True
    ) -> None:
        self.url = url
        self.kind = "sqlite" if url.kind == "memory" else url.kind
        self.clock = _CLOCKS[self.kind]
        """Seconds since 1970 in UTC, by the database's clock: those of machines may differ."""
        self._trouble = trouble
        try:
            self._engine = _sqlite(url) if self.kind == "sqlite" else _server(url, pooled=pooled)
        except ImportError as error:
            driver, extra = _DRIVERS[self.kind]
            raise MissingExtra(
                f"{url} needs the package {driver.partition('+')[2]}",
                remedy=f"pip install 'burnish[{extra}]'",
            ) from error

    @property
    def is_mysql(self) -> bool:
        """Whether MySQL's SQL is spoken there; MariaDB speaks it too."""
        return self.kind == "mysql"

    def connect(self, **options: Any) -> Connection:
        """A connection with SQLAlchemy's execution options. Close it when done."""
        try:
            return self._engine.connect().execution_options(**options)
        except _REFUSALS as error:
            raise self.trouble(error) from None  # the driver's own may hold the address

    @contextmanager
    def transaction(self, *, read_only: bool = False, **options: Any) -> Generator[Connection]:
        """A transaction that is committed when the block ends well.

        One that is read only waits for nobody who writes. A row whose key is there already
        is the caller's affair: IntegrityError.
        """
        db = self.connect(**{_READ_ONLY: read_only}, **options)
        try:
            with db, db.begin():
                yield db
        except IntegrityError:
            raise
        except _FAILURES as error:
            raise self.trouble(error) from None

    def trouble(self, error: Exception) -> BurnishError:
        """The error to raise for what a driver raised."""
        cause = getattr(error, "orig", None) or error
        lines = str(cause).strip().splitlines() or [type(cause).__name__]
        return self._trouble(self.url.redacted(lines[0]))

    def close(self) -> None:
        """Close every connection that nobody uses."""
        self._engine.dispose()


def _server(url: DatabaseUrl, *, pooled: bool) -> Engine:
    parts = urlsplit(url.expanded)
    address = URL.create(
        _DRIVERS[url.kind][0],
        username=unquote(parts.username or "") or None,
        password=url.password or None,
        host=parts.hostname or None,
        port=parts.port,
        database=url.database or None,
        query=_OPTIONS[url.kind] | url.options,
    )
    settings: dict[str, Any] = {"pool_pre_ping": True} if pooled else {"poolclass": NullPool}
    # Rows are locked, not the gaps between them: runs do not wait for one another.
    return create_engine(
        address, isolation_level="READ COMMITTED", hide_parameters=True, **settings
    )


def _sqlite(url: DatabaseUrl) -> Engine:
    """SQLite takes its lock when a writing transaction begins.

    Otherwise two writers that have both read would each wait for the other, and one would fail.
    """
    if url.kind == "memory":
        engine = create_engine(
            "sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False}
        )
        mode = "MEMORY"
    elif url.database in ("", ":memory:"):
        remedy = "write memory:// for a store that is gone when the process ends"
        raise ConfigError([Problem(message=f"{url} names no file", remedy=remedy)])
    else:
        address = URL.create("sqlite", database=url.database)
        engine = create_engine(address, hide_parameters=True, connect_args={"timeout": 30})
        on_network = is_network_file_system(Path(url.database).absolute().parent)
        mode = "DELETE" if on_network else "WAL"

    def connected(connection: Any, record: object) -> None:
        del record
        connection.isolation_level = None
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute("PRAGMA synchronous = FULL")

    def begun(connection: Connection) -> None:
        read_only = connection.get_execution_options().get(_READ_ONLY)
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begun)
    return engine


# -- outages -------------------------------------------------------------------------------

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_PASSING = {1053, 1205, 1213, 3572}
"""MySQL: the server shuts down, a row is locked, a deadlock was resolved, a row is locked."""


class LastingConnection:
    """A connection that is made again after an outage: a restart, a killed connection."""

    def __init__(self, database: Database, *, patience: float = 0.0, **options: Any) -> None:
        self._database = database
        self._options = options
        self.patience = patience
        """Seconds for which it tries to connect again."""
        self._db: Connection | None = database.connect(**options)

    def run(self, work: Callable[[Connection, bool], T]) -> T:
        """Do the work; where the connection is lost meanwhile, do it again on a new one.

        `work` is told whether it was begun before: what it wrote then may be there.
        """
        pause, ends, again = _FIRST_PAUSE, 0.0, False
        while True:
            try:
                if self._db is None:
                    self._db = self._database.connect(**self._options)
                return work(self._db, again)
            except (BurnishError, *_FAILURES) as error:
                outage = self._is_outage(error)
                self.close()
                ends = ends or time.monotonic() + self.patience
                if not outage or time.monotonic() + pause > ends:
                    trouble = self._database.trouble(error)
                    raise error if isinstance(error, BurnishError) else trouble from None
            again = True
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def close(self) -> None:
        """Let go; a connection that is gone is closed too."""
        if self._db is not None:
            with suppress(*_FAILURES):
                self._db.close()
            self._db = None

    def _is_outage(self, error: Exception) -> bool:
        """Whether the same may succeed later. Not to get a connection back is part of it."""
        if self._db is None:
            return True
        if not isinstance(error, DBAPIError):
            return isinstance(error, OSError)
        cause = error.orig
        state = str(getattr(cause, "sqlstate", None) or "")
        arguments: tuple[Any, ...] = getattr(cause, "args", ())
        # 08: the connection, 40: rolled back for another's sake, 55: locked, 57: the operator.
        return (
            error.connection_invalidated
            or state[:2] in ("08", "40", "55", "57")
            or bool(_PASSING.intersection(arguments[:1]))
        )
