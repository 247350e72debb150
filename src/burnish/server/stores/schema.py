"""Making and migrating the tables of a store, by itself or by hand."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from sqlalchemy import Connection, Dialect, Table, select, text
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.exc import OperationalError, ProgrammingError
from sqlalchemy.schema import CreateTable

from burnish.core.content import short_id
from burnish.core.errors import ConfigError, Problem
from burnish.effects import database_schema
from burnish.server.stores.errors import StoreTrouble
from burnish.server.stores.tables import Tables

Step: TypeAlias = Callable[[Tables, Dialect], Sequence[str]]
"""One migration: the statements that lead from one version to the next."""

NAME = "runs"
_DIALECTS: dict[str, Callable[[], Dialect]] = {
    "sqlite": sqlite.dialect,
    "postgresql": postgresql.dialect,
    "mysql": mysql.dialect,
}
_LOCK_SECONDS = 60
_BY_HAND = (
    "make them by hand: --print-schema shows the SQL; or leave out --no-create-schema, and they "
    "are made by themselves"
)


def _first(tables: Tables, dialect: Dialect) -> Sequence[str]:
    # Where tables are not made in a transaction, a killed process may have made some of them.
    made = (tables.runs, tables.events, tables.payloads)
    return [_made(table, dialect) for table in made]


STEPS: tuple[Step, ...] = (_first,)
"""Every migration, in order. A step that was released is never changed."""


def print_schema(dialect: str, *, table_prefix: str = database_schema.PREFIX) -> str:
    """The SQL that makes all tables, for one who wants to run it by hand.

    Where journals can lie in that database, their tables are made too.
    """
    name = {"mariadb": "mysql", "postgres": "postgresql"}.get(dialect, dialect)
    if name not in _DIALECTS:
        known = ", ".join(_DIALECTS)
        raise ConfigError([Problem(message=f"'{dialect}' has no schema", remedy=f"known: {known}")])
    database_schema.check_prefix(table_prefix)
    tables, spoken = Tables.named(table_prefix), _DIALECTS[name]()
    statements = [_made(tables.schema, spoken)]
    statements += [each for step in STEPS for each in step(tables, spoken)]
    statements.append(_versions(tables, len(STEPS), new=True))
    if name != "sqlite":
        statements += database_schema.tables(mysql=name == "mysql", prefix=table_prefix)
    return "".join(f"{statement};\n" for statement in statements)


def migrate(db: Connection, prefix: str, steps: Sequence[Step] = STEPS) -> None:
    """Make the tables, or bring them up to date; two services may start at once."""
    tables, dialect = Tables.named(prefix), db.dialect
    lock = f"burnish:{short_id([db.engine.url.database, prefix, NAME])}"
    _take_lock(db, lock)
    try:
        db.execute(text(_made(tables.schema, dialect)))
        found = _found(db, tables)
        _refuse_newer(found or 0, len(steps))
        for step in steps[found or 0 :]:
            for statement in step(tables, dialect):
                db.execute(text(statement))
        if found != len(steps):
            db.execute(text(_versions(tables, len(steps), new=found is None)))
    finally:
        _give_lock(db, lock)


def require(db: Connection, prefix: str, steps: Sequence[Step] = STEPS) -> None:
    """Refuse tables that are not there, or of another version."""
    try:
        found = _found(db, Tables.named(prefix)) or 0
    except (ProgrammingError, OperationalError) as error:
        lines = str(error.orig).splitlines() or [""]
        raise StoreTrouble(f"there are no tables of a store: {lines[0]}", remedy=_BY_HAND) from None
    _refuse_newer(found, len(steps))
    if found < len(steps):
        told = f"the tables of the store are out of date (schema {found}, needed {len(steps)})"
        raise StoreTrouble(told, remedy=_BY_HAND)


def _made(table: Table, dialect: Dialect) -> str:
    return str(CreateTable(table, if_not_exists=True).compile(dialect=dialect)).strip()


def _versions(tables: Tables, version: int, *, new: bool) -> str:
    name = tables.schema.name
    if new:
        return f"INSERT INTO {name} (name, version) VALUES ('{NAME}', {version})"  # noqa: S608 - ours
    return f"UPDATE {name} SET version = {version} WHERE name = '{NAME}'"  # noqa: S608 - ours


def _found(db: Connection, tables: Tables) -> int | None:
    version = select(tables.schema.c.version).where(tables.schema.c.name == NAME)
    return db.execute(version).scalar()


def _refuse_newer(found: int, known: int) -> None:
    if found > known:
        raise StoreTrouble(
            f"the tables of the store were made by a newer burnish "
            f"(schema {found}, this one knows {known})",
            remedy="upgrade burnish",
        )


def _take_lock(db: Connection, name: str) -> None:
    """One process at a time; in SQLite the transaction that is open is lock enough."""
    if db.dialect.name == "postgresql":
        db.execute(text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": name})
    elif db.dialect.name in ("mysql", "mariadb"):
        asked = {"name": name, "seconds": _LOCK_SECONDS}
        if not db.execute(text("SELECT GET_LOCK(:name, :seconds)"), asked).scalar():
            raise StoreTrouble(
                "another process has been making the tables of the store for a minute",
                remedy="see what it is doing, then try again",
            )


def _give_lock(db: Connection, name: str) -> None:
    if db.dialect.name in ("mysql", "mariadb"):
        db.execute(text("SELECT RELEASE_LOCK(:name)"), {"name": name})
