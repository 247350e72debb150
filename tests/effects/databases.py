"""Real database servers for tests: tables under a random prefix, dropped afterwards."""

import os
import secrets
from collections.abc import Generator
from contextlib import closing, contextmanager

import pytest

from burnish.effects.database_drivers import Driver, JournalUnreachable
from burnish.effects.database_urls import DatabaseUrl

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
        Driver(url).connect().close()
    except JournalUnreachable as error:
        pytest.skip(f"no {server} at {url} ({variable} names another): {error.message}")
    prefix = f"t{secrets.token_hex(4)}_"
    try:
        yield address, prefix
    finally:
        drop(url, prefix)


def tables_of(url: DatabaseUrl, prefix: str) -> list[str]:
    """The tables whose names begin so."""
    sql = "SELECT table_name FROM information_schema.tables WHERE table_name LIKE %s"
    with closing(Driver(url).connect()) as db:
        return [str(name) for (name,) in db.execute(sql, (f"{prefix.rstrip('_')}\\_%",))]


def drop(url: DatabaseUrl, prefix: str) -> None:
    """Leave nothing behind."""
    tables = tables_of(url, prefix)
    with closing(Driver(url).connect()) as db:
        for table in tables:
            db.execute(f"DROP TABLE {table}")
