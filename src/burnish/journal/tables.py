"""The tables of stores and journals in a database, their versions and migrations.

Times are seconds since 1970 in UTC, by the clock of the database.
"""

from collections.abc import Callable, Mapping, Sequence
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
    update,
)
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.schema import CreateTable, ExecutableDDLElement

from burnish.core.content import short_id
from burnish.core.errors import BurnishError, ConfigError, JournalTrouble, Problem
from burnish.journal.storage import AMOUNTS
from burnish.system.databases import PREFIX, check_prefix

_Step: TypeAlias = Sequence[ExecutableDDLElement]
"""One migration: what leads from one version to the next. One that was released stays as it is."""

_MYSQL = ("mysql", "mariadb")
_LOCK_SECONDS = 60
_BY_HAND = (
    "make them by hand: --print-schema shows the SQL; or leave out --no-create-schema, and they "
    "are made by themselves"
)


@dataclass(frozen=True, kw_only=True)
class Schema:
    """Tables that belong together, in versions that migrations lead to."""

    name: str
    tables: Mapping[str, Table]
    """By what they are called without the prefix."""
    versions: Table
    """Where the version is noted, in the row `key`, in the column `column`."""
    key: Mapping[str, Any]
    column: str
    steps: tuple[_Step, ...]
    error: type[BurnishError]

    def is_current(self, db: Connection) -> bool:
        """Whether the tables are there, in this version."""
        return self._version(db) == len(self.steps)

    def migrate(self, db: Connection) -> None:
        """Make the tables, or bring them up to date; two processes may start at once."""
        if self.is_current(db):
            return
        lock = f"burnish:{short_id([db.engine.url.database, self.versions.name, self.name])}"
        self._take_lock(db, lock)
        try:
            db.execute(CreateTable(self.versions, if_not_exists=True))
            version = self._version(db)
            self._refuse_newer(version or 0)
            for step in self.steps[version or 0 :]:
                for statement in step:
                    db.execute(statement)
            if version != len(self.steps):
                db.execute(self._noted(new=version is None))
        finally:
            if db.dialect.name in _MYSQL:
                db.execute(select(func.release_lock(lock)))

    def require(self, db: Connection) -> None:
        """Refuse tables that are not there, or of another version."""
        version = self._version(db)
        if version is None:
            raise self.error(f"there are no tables of the {self.name}", remedy=_BY_HAND)
        self._refuse_newer(version)
        if version < len(self.steps):
            raise self.error(
                f"the tables of the {self.name} are out of date "
                f"(schema {version}, needed {len(self.steps)})",
                remedy=_BY_HAND,
            )

    def statements(self, dialect: Dialect) -> list[str]:
        """The SQL that makes the tables, for one who wants to run it by hand."""
        made = [CreateTable(self.versions, if_not_exists=True), *(x for s in self.steps for x in s)]
        noted = self._noted(new=True).compile(
            dialect=dialect, compile_kwargs={"literal_binds": True}
        )
        return [*(str(each.compile(dialect=dialect)).strip() for each in made), str(noted)]

    def _version(self, db: Connection) -> int | None:
        if not inspect(db).has_table(self.versions.name):
            return None
        row = db.execute(select(self.versions.c[self.column]).where(*self._row)).one_or_none()
        return None if row is None else int(row[0])

    @property
    def _row(self) -> list[Any]:
        return [self.versions.c[name] == value for name, value in self.key.items()]

    def _noted(self, *, new: bool) -> Any:
        """The newest version, as the column's type has it."""
        column = self.versions.c[self.column]
        value = {self.column: column.type.python_type(len(self.steps))}
        if new:
            return insert(self.versions).values(**self.key, **value)
        return update(self.versions).where(*self._row).values(value)

    def _refuse_newer(self, version: int) -> None:
        if version > len(self.steps):
            raise self.error(
                f"the tables of the {self.name} were made by a newer burnish "
                f"(schema {version}, this one knows {len(self.steps)})",
                remedy="upgrade burnish",
            )

    def _take_lock(self, db: Connection, lock: str) -> None:
        """One process at a time; in SQLite the open transaction is lock enough."""
        if db.dialect.name == "postgresql":
            db.execute(select(func.pg_advisory_xact_lock(func.hashtext(lock))))
            return
        mysql_lock = select(func.get_lock(lock, _LOCK_SECONDS))
        if db.dialect.name in _MYSQL and not db.execute(mysql_lock).scalar():
            raise self.error(
                f"another process has been making the tables of the {self.name} for a minute",
                remedy="see what it is doing, then try again",
            )


# -- columns -------------------------------------------------------------------------------

_NUMBER = BigInteger().with_variant(Integer(), "sqlite")  # SQLite counts only INTEGER by itself
_SECONDS: Double[float] = Double()
_BYTES = LargeBinary().with_variant(mysql.LONGBLOB(), *_MYSQL)
_TEXT = Text().with_variant(mysql.LONGTEXT(), *_MYSQL)
_NAME = String(255)
_LONG_NAME = Text().with_variant(String(512), *_MYSQL)
_HASH = LargeBinary().with_variant(mysql.BINARY(32), *_MYSQL)
# Names that differ in case only are two names, which MySQL does not think by itself.
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
    """What makes tables whose names begin so, and collects them."""
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


def _created(tables: Mapping[str, Table]) -> _Step:
    # Where tables are not made in a transaction, a killed process may have made some of them.
    return [CreateTable(table, if_not_exists=True) for table in tables.values()]


# -- runs of a service ---------------------------------------------------------------------


def store_schema(prefix: str, error: type[BurnishError]) -> Schema:
    """The tables of a store: `runs`, `run_events` and `run_payloads`."""
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
    # Requests and results, compressed, in parts that every server takes.
    make("run_payloads", _key("run"), _key("name", String(16)), _key("part", Integer), _body())
    first = _created(tables)
    versions = make("schema", _key("name", String(32)), _column("version", Integer))
    return Schema(
        name="store",
        tables=tables,
        versions=versions,
        key={"name": "runs"},
        column="version",
        steps=(first,),
        error=error,
    )


def _body() -> Column[Any]:
    return _column("body", _BYTES)


def _runs(make: _Make, prefix: str) -> None:
    """One row a run, small: it changes with every event."""
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
        # Indexes for lists. As constraints they are part of the table, which is made in one step.
        UniqueConstraint("status", "id", name=f"{prefix}runs_status"),
        UniqueConstraint("app_name", "id", name=f"{prefix}runs_app"),
    )


# -- journals ------------------------------------------------------------------------------


def journal_schema(prefix: str) -> Schema:
    """The tables of journals: one row a journal in `journals`, all others carry its number."""
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
        key={"run": 0, "name": "schema"},  # 0 is the number of no run
        column="value",
        steps=(_created(tables),),
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


# -- by hand -------------------------------------------------------------------------------

_DIALECTS: dict[str, Callable[[], Dialect]] = {
    "sqlite": sqlite.dialect,
    "postgresql": postgresql.dialect,
    "mysql": mysql.dialect,
}


def print_schema(dialect: str, *, table_prefix: str = PREFIX) -> str:
    """The SQL that makes all tables, for one who wants to run it by hand.

    Where journals can lie in that database, their tables are made too.
    """
    name = {"mariadb": "mysql", "postgres": "postgresql"}.get(dialect, dialect)
    if name not in _DIALECTS:
        remedy = f"known: {', '.join(_DIALECTS)}"
        raise ConfigError([Problem(message=f"'{dialect}' has no schema", remedy=remedy)])
    check_prefix(table_prefix)
    schemas = [store_schema(table_prefix, JournalTrouble)]
    schemas += [] if name == "sqlite" else [journal_schema(table_prefix)]
    statements = [each for schema in schemas for each in schema.statements(_DIALECTS[name]())]
    return "".join(f"{statement};\n" for statement in statements)
