"""Real database servers for tests: tables under a random prefix, dropped afterwards."""

import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from burnish.core.errors import BurnishError
from burnish.system.databases import Database, DatabaseUrl

SERVERS = {
    "postgresql": ("BURNISH_TEST_POSTGRESQL", "postgresql://postgres@127.0.0.1:5432/test"),
    "mariadb": ("BURNISH_TEST_MARIADB", "mariadb://root@127.0.0.1:3306/test"),
}


@contextmanager
def tables_on(server: str) -> Generator[tuple[str, str], None, None]:
    """An address and a prefix for tables of one test; the test is skipped where no server is."""
    variable, usual = SERVERS[server]
    address = os.environ.get(variable, usual)
    url = DatabaseUrl.parse(address)
    try:
        execute(url, "SELECT 1")
    except BurnishError as error:
        pytest.skip(f"no {server} at {url} ({variable} names another): {error.message}")
    prefix = f"t{secrets.token_hex(4)}_"
    try:
        yield address, prefix
    finally:
        execute(url, *(f"DROP TABLE {table}" for table in tables_of(url, prefix)))


def execute(url: DatabaseUrl, *statements: str) -> list[Any]:
    """What the last statement gives; each is committed by itself."""
    database = Database(url, trouble=BurnishError, pooled=False)
    rows: list[Any] = []
    try:
        with database.connect(isolation_level="AUTOCOMMIT") as db:
            for statement in statements:
                result = db.exec_driver_sql(statement)
                rows = [*result] if result.returns_rows else []
    finally:
        database.close()
    return rows


def tables_of(url: DatabaseUrl, prefix: str) -> list[str]:
    """The tables whose names begin so."""
    rows = execute(url, "SELECT table_name FROM information_schema.tables")
    return [str(name) for (name,) in rows if str(name).startswith(prefix)]
