"""The tables of stores and journals in a database, and which version they have.

Times are seconds since 1970 in UTC, by the clock of the database.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import (
    CHAR,
    BigInteger,
    Column,
    Connection,
    Dialect,
    Double,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    func,
    insert,
    inspect,
    select,
)
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.schema import CreateTable

from burnish.core.content import short_id
from burnish.core.errors import BurnishError, ConfigError, JournalTrouble, Problem
from burnish.journal.storage import AMOUNTS
from burnish.system.databases import PREFIX, check_prefix

_MYSQL = ("mysql", "mariadb")
_BY_HAND = (
    "create them by hand with the SQL of --print-schema, or omit --no-create-schema to have "
    "them created"
)


@dataclass(frozen=True, kw_only=True)
class Schema:
    """Tables that belong together. Those of another version are refused, never changed."""

    name: str
    tables: Mapping[str, Table]
    """By name, without the prefix."""
    versions: Table
    """Holds the version, in the row `key` and the column `column`."""
    key: Mapping[str, Any]
    column: str
    error: type[BurnishError]
    version: int

    def is_current(self, db: Connection) -> bool:
        """Whether the tables exist in this version."""
        return self._version(db) == self.version

    def create(self, db: Connection) -> None:
        """Create the tables if there are none; two processes may do so at once."""
        if self.is_current(db):
            return
        lock = f"burnish:{short_id([db.engine.url.database, self.versions.name, self.name])}"
        self._take_lock(db, lock)
        try:
            db.execute(CreateTable(self.versions, if_not_exists=True))
            # A locking read: another process may release its lock just before it commits.
            version = self._version(db, latest=True)
            self._refuse_another(version)
            if version is None:
                # Without transactional DDL, a killed process may have created some of them.
                for table in self.tables.values():
                    db.execute(CreateTable(table, if_not_exists=True))
                db.execute(self._first_version)
        finally:
            if db.dialect.name in _MYSQL:
                db.execute(select(func.release_lock(lock)))

    def require(self, db: Connection) -> None:
        """Refuse tables that do not exist or have another version."""
        version = self._version(db)
        if version is None:
            raise self.error(f"there are no tables for the {self.name}", remedy=_BY_HAND)
        self._refuse_another(version)

    def statements(self, dialect: Dialect) -> list[str]:
        """The SQL that creates the tables, for running it by hand."""
        tables = [self.versions, *self.tables.values()]
        created = [CreateTable(each, if_not_exists=True) for each in dict.fromkeys(tables)]
        version = self._first_version.compile(
            dialect=dialect, compile_kwargs={"literal_binds": True}
        )
        return [*(str(each.compile(dialect=dialect)).strip() for each in created), str(version)]

    def _version(self, db: Connection, *, latest: bool = False) -> int | None:
        if not inspect(db).has_table(self.versions.name):
            return None
        query = select(self.versions.c[self.column]).where(*self._row)
        row = db.execute(query.with_for_update() if latest else query).one_or_none()
        return None if row is None else int(row[0])

    @property
    def _row(self) -> list[Any]:
        return [self.versions.c[name] == value for name, value in self.key.items()]

    @property
    def _first_version(self) -> Any:
        column = self.versions.c[self.column]
        value = column.type.python_type(self.version)
        return insert(self.versions).values(**self.key, **{self.column: value})

    def _refuse_another(self, version: int | None) -> None:
        if version not in (None, self.version):
            raise self.error(
                f"the tables of the {self.name} were created by another version of burnish "
                f"(schema {version}, this one has {self.version})",
                remedy="use an empty database or another --table-prefix",
            )

    def _take_lock(self, db: Connection, lock: str) -> None:
        """Let in one process at a time; in SQLite the open transaction is the lock."""
        if db.dialect.name == "postgresql":
            db.execute(select(func.pg_advisory_xact_lock(func.hashtext(lock))))
            return
        mysql_lock = select(func.get_lock(lock, 60))
        if db.dialect.name in _MYSQL and not db.execute(mysql_lock).scalar():
            raise self.error(
                f"another process has been creating the tables of the {self.name} for a minute",
                remedy="check what it is doing, then try again",
            )


_NUMBER = BigInteger().with_variant(Integer(), "sqlite")  # SQLite counts only INTEGER by itself
_SECONDS: Double[float] = Double()
_BYTES = LargeBinary().with_variant(mysql.LONGBLOB(), *_MYSQL)
_TEXT = Text().with_variant(mysql.LONGTEXT(), *_MYSQL)
_NAME = String(255)
_LONG_NAME = Text().with_variant(String(512), *_MYSQL)
_HASH = LargeBinary().with_variant(mysql.BINARY(32), *_MYSQL)
# By default, MySQL does not distinguish names that differ only in case.
_EXACT: dict[str, Any] = {
    f"{kind}_{option}": value
    for kind in _MYSQL
    for option, value in (
        ("engine", "InnoDB"),
        ("default_charset", "utf8mb4"),
        ("collate", "utf8mb4_bin"),
    )
}
_Make: TypeAlias = Callable[..., Table]


def _maker(prefix: str, tables: dict[str, Table]) -> _Make:
    """A function that adds a table with this prefix to `tables`."""
    metadata = MetaData()

    def make(name: str, *columns: Column[Any] | UniqueConstraint) -> Table:
        tables[name] = Table(f"{prefix}{name}", metadata, *columns, **_EXACT)
        return tables[name]

    return make


def _column(name: str, kind: Any, *, nullable: bool = False, **options: Any) -> Column[Any]:
    return Column(name, kind, nullable=nullable, **options)


def _id() -> Column[Any]:
    return Column("id", _NUMBER, primary_key=True, autoincrement=True)


def _key(name: str, kind: Any = BigInteger) -> Column[Any]:
    return Column(name, kind, primary_key=True, autoincrement=False)


def store_schema(prefix: str, error: type[BurnishError]) -> Schema:
    """The tables of a store: runs with their events and their queue, accounts with charges."""
    tables: dict[str, Table] = {}
    make = _maker(prefix, tables)
    _runs(make, prefix)
    make(
        "run_events",
        _key("run"),
        _key("number"),
        _column("kind", _NAME),
        _column("round", Integer),
        _column("at", _SECONDS),
        _column("event_key", _NAME, nullable=True),
        _column("body", _BYTES),
        UniqueConstraint("run", "event_key", name=f"{prefix}run_events_key"),
    )
    # Requests and results, compressed, in parts that every server accepts.
    make("run_payloads", _key("run"), _key("name", String(16)), _key("part", Integer), _body())
    _accounts(make, prefix)
    _queue(make, prefix)
    versions = make("schema", _key("name", String(32)), _column("version", Integer))
    return Schema(
        name="store",
        tables=tables,
        versions=versions,
        key={"name": "runs"},
        column="version",
        version=5,  # 1 to 4 had other tables
        error=error,
    )


def _accounts(make: _Make, prefix: str) -> None:
    """What accounts have spent and reserved; a row of `accounts` serves as a lock."""
    amounts = ("usd", "calls", "tokens", "minutes")
    make("accounts", _key("name", _NAME))
    make(
        "charges",
        _id(),
        _column("account", _NAME),
        _column("app_name", _NAME),
        _column("run_id", _NAME),
        _column("open", SmallInteger),
        *(_column(f"granted_{name}", _SECONDS, nullable=True) for name in amounts),
        *(_column(name, _SECONDS) for name in amounts),
        UniqueConstraint("account", "id", name=f"{prefix}charges_account"),
        UniqueConstraint("app_name", "run_id", "id", name=f"{prefix}charges_run"),
    )
    make("uploads", _key("name", _NAME), _column("account", _NAME))


def _queue(make: _Make, prefix: str) -> None:
    """Whose turn it is, how far the runs of other processes are, and which processes there are."""
    make(
        "run_queue",
        _key("run"),
        _column("account", _NAME),
        _column("leased_at", _SECONDS),
        UniqueConstraint("account", "leased_at", "run", name=f"{prefix}run_queue_turns"),
    )
    make("run_progress", _key("run"), _column("lease_token", BigInteger), _body())
    make(
        "processes",
        _key("name", _NAME),
        _column("role", String(16)),
        _column("host", _NAME),
        _column("places", Integer),
        _column("busy", Integer),
        _column("seen_at", _SECONDS),
    )


def _body() -> Column[Any]:
    return _column("body", _BYTES)


def _runs(make: _Make, prefix: str) -> None:
    """One small row per run, which changes with every event."""
    make(
        "runs",
        _id(),
        _column("app_name", _NAME),
        _column("run_id", _NAME),
        _column("strategy", _NAME),
        _column("status", String(32)),
        _column("error", _TEXT),
        _column("current_round", Integer),
        _column("best_score", _SECONDS, nullable=True),
        _column("created_at", _SECONDS),
        _column("updated_at", _SECONDS),
        _column("owner", _NAME),
        _column("lease_token", BigInteger),
        _column("lease_until", _SECONDS),
        _column("cancel_requested", SmallInteger),
        _column("journal", String(32)),
        _column("host", _NAME),
        _column("folder", _TEXT),
        _column("events", BigInteger),
        UniqueConstraint("app_name", "run_id", name=f"{prefix}runs_app_run"),
        # Indexes for lists; as constraints they are created with the table in one step.
        UniqueConstraint("status", "id", name=f"{prefix}runs_status"),
        UniqueConstraint("app_name", "id", name=f"{prefix}runs_app"),
    )


def journal_schema(prefix: str) -> Schema:
    """The tables of journals: one row each in `journals`; all others carry its number."""
    tables: dict[str, Table] = {}
    make = _maker(prefix, tables)
    make(
        "journals",
        _id(),
        _column("name", _LONG_NAME, unique=True),
        _column("fence", BigInteger, server_default="0"),
        _column("owner", _LONG_NAME),
        _column("lease_until", _SECONDS, server_default="0"),
    )
    meta = make("journal_meta", _key("run"), _key("name", _LONG_NAME), _column("value", _TEXT))
    _effects(make)
    make("journal_trials", _key("run"), _key("number"), _body())
    make(
        "journal_events",
        _id(),
        _column("run", BigInteger),
        _column("key", _LONG_NAME),
        _body(),
        _column("delivered", SmallInteger, server_default="0"),
        UniqueConstraint("run", "key"),
    )
    make("journal_checks", _key("run"), _key("label", _LONG_NAME), _column("number", BigInteger))
    make(
        "journal_sessions",
        _key("run"),
        _key("id"),
        _column("started", _LONG_NAME),
        _column("active", _SECONDS),
        _column("who", _LONG_NAME),
    )
    make("journal_blobs", _key("run"), _key("name", CHAR(64)), _key("part"), _body())
    return Schema(
        name="journals",
        tables=tables,
        versions=meta,
        key={"run": 0, "name": "schema"},  # no run has the number 0
        column="value",
        version=1,
        error=JournalTrouble,
    )


def _effects(make: _Make) -> None:
    def amounts() -> list[Column[Any]]:
        return [_column(name, BigInteger) for name in AMOUNTS.split(", ")]

    def identity() -> list[Column[Any]]:
        return [
            _id(),
            _column("run", BigInteger),
            _column("key", _HASH),
            _column("kind", _LONG_NAME),
            _column("trial", BigInteger),
        ]

    make(
        "journal_effects",
        *identity(),
        _column("draw", BigInteger),
        _column("request", _BYTES, nullable=True),
        _column("value", _BYTES, nullable=True),
        _column("nested", _TEXT, nullable=True),
        _column("at", _SECONDS),
        _column("missing", SmallInteger, server_default="0"),
        _column("imported", SmallInteger, server_default="0"),
        *amounts(),
        UniqueConstraint("run", "key"),
    )
    make("journal_lost", *identity(), *amounts())


_DIALECTS: dict[str, Callable[[], Dialect]] = {
    "sqlite": sqlite.dialect,
    "postgresql": postgresql.dialect,
    "mysql": mysql.dialect,
}


def print_schema(dialect: str, *, table_prefix: str = PREFIX) -> str:
    """The SQL that creates all tables, including those of journals unless it is for SQLite."""
    name = {"mariadb": "mysql", "postgres": "postgresql"}.get(dialect, dialect)
    if name not in _DIALECTS:
        remedy = f"known: {', '.join(_DIALECTS)}"
        raise ConfigError([Problem(message=f"'{dialect}' has no schema", remedy=remedy)])
    check_prefix(table_prefix)
    schemas = [store_schema(table_prefix, JournalTrouble)]
    schemas += [] if name == "sqlite" else [journal_schema(table_prefix)]
    statements = [each for schema in schemas for each in schema.statements(_DIALECTS[name]())]
    return "".join(f"{statement};\n" for statement in statements)
