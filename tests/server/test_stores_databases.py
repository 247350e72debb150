"""Stores in real databases keep the contract; tables are made once, by the store or by hand."""

import asyncio
import sqlite3
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from burnish.journal.journal import Journal
from burnish.server.stores import RunStatus, StoreTrouble, journals_in, open_store, print_schema
from burnish.server.stores.database import DatabaseRunStore
from burnish.system.databases import DatabaseUrl
from tests.journal.databases import SERVERS, execute, tables_of, tables_on
from tests.store_contracts import check_run_store

pytestmark = pytest.mark.slow


@pytest.fixture(params=["sqlite", *SERVERS])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[tuple[str, str]]:
    """An address and a table prefix, for each kind of database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'runs.db'}", "burnish_"
    else:
        with tables_on(request.param) as found:
            yield found


async def test_the_contract_in_a_database(place: tuple[str, str]) -> None:
    await check_run_store(lambda: open_store(place[0], table_prefix=place[1]))


async def test_services_that_start_at_once_make_the_tables_once(place: tuple[str, str]) -> None:
    opening = (open_store(place[0], table_prefix=place[1]) for _ in range(4))
    stores = await asyncio.gather(*opening)
    await stores[0].create("a", "one")
    assert (await stores[3].get("a", "one")).status is RunStatus.QUEUED
    for store in stores:
        await store.close()


async def test_a_schema_made_by_hand(place: tuple[str, str]) -> None:
    address, prefix = place
    with pytest.raises(StoreTrouble, match="--print-schema"):
        await open_store(address, table_prefix=prefix, create_schema=False)
    by_hand(address, print_schema(DatabaseUrl.parse(address).kind, table_prefix=prefix))
    store = await open_store(address, table_prefix=prefix, create_schema=False)
    await store.create("a", "one")
    await store.close()
    if not address.startswith("sqlite"):
        journals = journals_in(address, table_prefix=prefix, create_schema=False)
        Journal(journals.journal("a/one")).close()
        assert f"{prefix}journal_effects" in tables_of(DatabaseUrl.parse(address), prefix)


def by_hand(address: str, sql: str) -> None:
    """What an administrator does with the printed schema."""
    url = DatabaseUrl.parse(address)
    if url.kind == "sqlite":
        with closing(sqlite3.connect(url.database)) as db:
            db.executescript(sql)
        return
    execute(url, *(statement for statement in sql.split(";\n") if statement.strip()))


async def test_tables_of_another_version_are_refused_and_stay(place: tuple[str, str]) -> None:
    address, prefix = place
    store = await open_store(address, table_prefix=prefix)
    await store.create("a", "one")
    assert isinstance(store, DatabaseRunStore)
    another = replace(store.schema, version=store.schema.version + 1)
    with pytest.raises(StoreTrouble, match="another version of burnish"):
        await store.prepare(schema=another)
    assert (await store.get("a", "one")).status is RunStatus.QUEUED, "what was there is lost"
    with store._database.transaction() as db:  # pyright: ignore[reportPrivateUsage]
        db.exec_driver_sql(f"UPDATE {prefix}schema SET version = {another.version}")
    await store.close()
    for create in (True, False):
        with pytest.raises(StoreTrouble, match="another version of burnish"):
            await open_store(address, table_prefix=prefix, create_schema=create)


async def test_a_password_is_nowhere_in_an_error() -> None:
    for address in (
        "postgresql://me:s3cr%20et-pass@127.0.0.1:9/nothing",
        "mysql://me:s3cr%20et-pass@127.0.0.1:9/nothing",
        "mysql://nobody-here:s3cr%20et-pass@127.0.0.1/test",
        "postgresql://nobody_here:s3cr%20et-pass@127.0.0.1/no_such_database",
    ):
        with pytest.raises(StoreTrouble) as caught:
            await open_store(address)
        error = caught.value
        assert "et-pass" not in f"{error} {error!r} {error.__cause__}"
        assert "127.0.0.1" in str(error)
