"""Databases for runs and journals: their addresses, connections, and outages.

There is one driver per database: sqlite3, psycopg for PostgreSQL, PyMySQL for MySQL and MariaDB.
All of them block, so code in an event loop uses them in threads.
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

from sqlalchemy import URL, Connection, Engine, NullPool, Select, StaticPool, create_engine, event
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from burnish.core.errors import BurnishError, ConfigError, MissingExtra
from burnish.system.extras import install_command
from burnish.system.files import is_network_file_system
from burnish.system.variables import expand_variables

T = TypeVar("T")

PREFIX = "burnish_"
"""The default prefix of table names."""
PART = 4 * 1024 * 1024
"""Bytes of a large value per row: servers refuse larger packets, MariaDB above 16 MB."""

_KINDS = {
    "postgres": "postgresql",
    "postgresql": "postgresql",
    "mysql": "mysql",
    "mariadb": "mysql",
    "sqlite": "sqlite",
    "memory": "memory",
}
_HIDDEN = "***"


@dataclass(frozen=True, kw_only=True, repr=False)
class DatabaseUrl:
    """An address with `${VAR}` expanded. Its text and its repr contain no password."""

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
            raise _bad_address(f"'{scheme}' is not a kind of database that burnish supports")
        try:
            _ = urlsplit(expanded).port
        except ValueError:  # a driver would refuse it too, and show the whole address
            message = "the port in the address of the database is not a number"
            raise _bad_address(message) from None
        return cls(kind=kind, written=text, expanded=expanded)

    @property
    def is_server(self) -> bool:
        return self.kind in ("postgresql", "mysql")

    @property
    def password(self) -> str:
        return unquote(urlsplit(self.expanded).password or "")

    @property
    def database(self) -> str:
        return unquote(urlsplit(self.expanded).path[1:])

    @property
    def options(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.expanded).query))

    @property
    def storable(self) -> str:
        """The address for a file: keeps a `${VAR}`, leaves out a password in plain text."""
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
    """The address with its password hidden or left out; options may contain one too."""
    parts = urlsplit(text)
    who, at, where = parts.netloc.rpartition("@")
    user, colon, password = who.partition(":")
    if colon and not (variables_stay and password.startswith("${")):
        who = user if variables_stay else f"{user}:{_HIDDEN}"
    options = [each for each in parts.query.split("&") if each and not each.startswith("password")]
    netloc = f"{who}{at}{where}"
    return urlunsplit((parts.scheme, netloc, parts.path, "&".join(options), ""))


def _bad_address(message: str) -> ConfigError:
    examples = "sqlite:///file.db, postgresql://user@host/database or mysql://user@host/database"
    return ConfigError.of("", message, f"write {examples}")


def check_prefix(prefix: str) -> None:
    """Reject a prefix that no table name can have."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,31}|", prefix):
        remedy = "use up to 32 letters, digits and underscores, not beginning with a digit"
        raise ConfigError.of("", f"'{prefix}' is not a valid prefix for table names", remedy)


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
"""Drivers raise the last three for options that they do not support."""


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
        self._file = Path(url.database) if url.kind == "sqlite" else None
        self._seen: tuple[int, int] | None = None
        """The identity of the SQLite file that connections were opened to."""
        self.has_answered = False
        """Whether anything ever connected to it: its address is right, then."""
        try:
            self._engine = _sqlite(url) if self.kind == "sqlite" else _server(url, pooled=pooled)
        except ImportError as error:
            driver, extra = _DRIVERS[self.kind]
            raise MissingExtra(
                f"{url} needs the package {driver.partition('+')[2]}",
                remedy=install_command(extra),
            ) from error

    @property
    def is_mysql(self) -> bool:
        """Whether it uses MySQL's SQL, as MariaDB does too."""
        return self.kind == "mysql"

    def connect(self, **options: Any) -> Connection:
        """A connection with SQLAlchemy's execution options. Close it when done."""
        try:
            db = self._engine.connect().execution_options(**options)
        except _REFUSALS as error:
            raise self.trouble(error) from None  # the driver's own may hold the address
        self.has_answered = True
        return db

    def prepared(self, query: Select[Any]) -> "PreparedQuery":
        """A query for frequent reads; it gets its values by the names of its bindparams."""
        return PreparedQuery(self, self._engine, query)

    @contextmanager
    def transaction(
        self, *, read_only: bool = False, may_create: bool = False, **options: Any
    ) -> Generator[Connection]:
        """A transaction that is committed when the block succeeds.

        A read-only one does not wait for writers. A duplicate key raises IntegrityError. Only with
        `may_create` is a SQLite file created; one that was removed or replaced is noticed.
        """
        self.watch(may_create=may_create)
        db = self.connect(**{_READ_ONLY: read_only}, **options)
        try:
            with db, db.begin():
                yield db
        except IntegrityError:
            raise
        except _FAILURES as error:
            raise self.trouble(error) from None

    def watch(self, *, may_create: bool = False) -> None:
        """Open connections go on with a file that is no longer there, and lose what they write."""
        if self._file is None:
            return
        try:
            state = self._file.stat()
        except OSError as error:
            self._engine.dispose()
            self._seen = None
            if may_create and isinstance(error, FileNotFoundError):
                return
            raise self._trouble(f"its file cannot be used: {error.strerror}") from None
        seen = (state.st_dev, state.st_ino)
        if self._seen not in (None, seen):
            self._engine.dispose()
        self._seen = seen

    def trouble(self, error: Exception) -> BurnishError:
        """The error to raise for a driver's error."""
        cause = getattr(error, "orig", None) or error
        lines = str(cause).strip().splitlines() or [type(cause).__name__]
        return self._trouble(self.url.redacted(lines[0]))

    def close(self) -> None:
        """Close every unused connection."""
        self._engine.dispose()


class PreparedQuery:
    """A query that is compiled once. Its rows are plain tuples, as of one moment.

    What SQLAlchemy does for each query takes ten times as long as SQLite takes to find a row.
    """

    def __init__(self, database: Database, engine: Engine, query: Select[Any]) -> None:
        self._database, self._engine = database, engine
        compiled = query.compile(engine, compile_kwargs={"render_postcompile": True})
        self._sql = str(compiled)
        self._own = dict(compiled.params)
        self._order = compiled.positiontup
        self.columns = tuple(query.selected_columns.keys())

    def rows(self, **values: object) -> list[tuple[Any, ...]]:
        """All rows for these values."""
        self._database.watch()
        given = self._own | values
        parameters = given if self._order is None else [given[name] for name in self._order]
        dialect = self._engine.dialect
        driver = dialect.loaded_dbapi.Error  # nobody turns it into one of SQLAlchemy's here
        try:
            db = self._engine.raw_connection()
        except (driver, *_REFUSALS) as error:
            raise self._database.trouble(error) from None  # as in `connect`
        cursor = db.cursor()
        try:
            cursor.execute(self._sql, parameters)
            rows = list(cursor.fetchall())
            cursor.close()
        except (driver, *_FAILURES) as error:
            if isinstance(error, driver) and dialect.is_disconnect(error, db, cursor):
                db.invalidate(error)
            raise self._database.trouble(error) from None
        finally:
            db.close()
        return rows


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

    Otherwise two writers that have both read would wait for each other, and one would fail.
    """
    if url.kind == "memory":
        engine = create_engine(
            "sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False}
        )
        mode = "MEMORY"
    elif url.database in ("", ":memory:"):
        remedy = "use memory:// for a store that is lost when the process ends"
        raise ConfigError.of("", f"{url} does not name a file", remedy)
    else:
        address = URL.create("sqlite", database=url.database)
        waits = {"timeout": _seconds(url.options.get("timeout", "30"))}
        engine = create_engine(address, hide_parameters=True, connect_args=waits)
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


def _seconds(text: str) -> float:
    """How long to wait for a lock."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 3600:
        raise _bad_address("the timeout in the address of the database is not a number of seconds")
    return seconds


_PASSING = {1053, 1205, 1213, 3572}
"""MySQL: the server shuts down, a row is locked, a deadlock was resolved, a row is locked."""


class LastingConnection:
    """A connection that reconnects after an outage: a restart, a killed connection.

    A database that never answered this process is not waited for: its address may be wrong.
    """

    def __init__(self, database: Database, *, patience: float, **options: Any) -> None:
        self._database = database
        self._options = options
        self.patience = patience
        """Seconds for which it tries to connect again."""
        self._db: Connection | None = None

    def run(self, work: Callable[[Connection, bool], T]) -> T:
        """Do the work; if the connection is lost meanwhile, do it again on a new one.

        The second argument of `work` tells whether this is a retry. What it wrote before may be
        there or not, so it looks first, or writes what may be written twice.
        """
        pause, ends, again = 0.05, 0.0, False
        while True:
            try:
                if self._db is None:
                    self._db = self._database.connect(**self._options)
                return work(self._db, again)
            except (BurnishError, *_FAILURES) as error:
                outage = self._is_outage(error)
                self.close()
                patience = self.patience if self._database.has_answered else 0.0
                ends = ends or time.monotonic() + patience
                if not outage or time.monotonic() + pause > ends:
                    trouble = self._database.trouble(error)
                    raise error if isinstance(error, BurnishError) else trouble from None
            again = True
            time.sleep(pause)
            pause = min(2 * pause, 2.0)

    def close(self) -> None:
        """Close the connection, even one that is lost."""
        if self._db is not None:
            with suppress(*_FAILURES):
                self._db.close()
            self._db = None

    def _is_outage(self, error: Exception) -> bool:
        """Whether a retry may succeed, also if connecting itself failed."""
        if self._db is None or self._db.invalidated:
            return True
        if not isinstance(error, DBAPIError):
            return isinstance(error, OSError)
        cause = error.orig
        state = str(getattr(cause, "sqlstate", None) or "")
        arguments: tuple[Any, ...] = getattr(cause, "args", ())
        # 08: the connection, 40: rolled back for another's sake, 55: locked, 57: the operator.
        return state[:2] in ("08", "40", "55", "57") or bool(_PASSING.intersection(arguments[:1]))
