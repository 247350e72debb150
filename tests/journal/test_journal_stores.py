"""Where a journal lies: in its folder, or in a database that the folder names without secrets."""

import json
from pathlib import Path

import pytest

from burnish.core.errors import ConfigError, JournalTrouble
from burnish.journal.database_store import DatabaseJournals, JournalUnreachable
from burnish.journal.journal import Journal
from burnish.journal.sqlite_store import POINTER, SqliteStore, point_to, store_at
from burnish.system.databases import DatabaseUrl
from tests.store_contracts import check_journal_store


async def test_the_contract_in_files(tmp_path: Path) -> None:
    def make(name: str) -> SqliteStore:
        (tmp_path / name).mkdir(exist_ok=True)
        return SqliteStore(tmp_path / name)

    await check_journal_store(make)


def test_a_password_is_kept_out_of_files_and_errors(tmp_path: Path) -> None:
    address = "postgresql://me:s3cr%20et-pass@127.0.0.1:9/nothing?password=s3cr%20et-pass"
    journals = DatabaseJournals(url=DatabaseUrl.parse(address))
    store = journals.journal("run")
    with pytest.raises(JournalUnreachable) as caught:
        Journal(store)
    told = f"{caught.value} {caught.value!r} {store.path} {journals!r} {caught.value.__context__}"
    assert "et-pass" not in told
    point_to(store, tmp_path)
    assert "et-pass" not in (tmp_path / POINTER).read_text()
    assert "me@127.0.0.1:9" in (tmp_path / POINTER).read_text()


def test_a_variable_stays_one_in_the_file(tmp_path: Path) -> None:
    environ = {"DB_PASSWORD": "s3cret-pass"}
    url = DatabaseUrl.parse("mysql://me:${DB_PASSWORD}@127.0.0.1/runs", environ)
    assert (url.kind, url.password, url.database) == ("mysql", "s3cret-pass", "runs")
    point_to(DatabaseJournals(url=url).journal("run"), tmp_path)
    kept = json.loads((tmp_path / POINTER).read_text())
    assert kept["database"] == "mysql://me:${DB_PASSWORD}@127.0.0.1/runs"


@pytest.mark.parametrize("address", ["runs.db", "oracle://host/db", "mysql://me:pass@host:x/db"])
def test_an_address_that_is_none_is_refused_without_its_password(address: str) -> None:
    with pytest.raises(ConfigError) as caught:
        DatabaseUrl.parse(address)
    assert "pass" not in str(caught.value)


def test_a_damaged_pointer_is_refused(tmp_path: Path) -> None:
    (tmp_path / POINTER).write_text("{}")
    with pytest.raises(JournalTrouble, match="where the journal is"):
        store_at(tmp_path)
