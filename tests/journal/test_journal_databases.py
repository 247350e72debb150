"""Journals in real databases keep the rules of those in files; a lease decides who drives."""

from collections.abc import Generator
from pathlib import Path

import pytest

from burnish.core.errors import JournalIncomplete, JournalTrouble, RunLocked
from burnish.journal.database_store import DatabaseJournals
from burnish.journal.journal import Journal, JournalReader
from burnish.journal.sqlite_store import NAME as COUNT
from burnish.journal.sqlite_store import POINTER, point_to
from burnish.runs.directory import Header, look_into
from burnish.system.databases import DatabaseUrl
from tests.journal.databases import SERVERS, execute, tables_of, tables_on
from tests.journal.journals import Agent, effects_in, text_call
from tests.store_contracts import check_journal_store

pytestmark = pytest.mark.slow


@pytest.fixture(params=list(SERVERS))
def journals(request: pytest.FixtureRequest) -> Generator[DatabaseJournals]:
    with tables_on(request.param) as (address, prefix):
        yield DatabaseJournals(url=DatabaseUrl.parse(address), prefix=prefix)


def shortly_leased(journals: DatabaseJournals) -> DatabaseJournals:
    """Journals whose drivers are at once taken for dead."""
    return DatabaseJournals(url=journals.url, prefix=journals.prefix, lease_seconds=0.0)


async def test_the_contract_in_a_database(journals: DatabaseJournals) -> None:
    await check_journal_store(journals.journal)


def test_one_process_drives_and_hears_when_another_took_over(journals: DatabaseJournals) -> None:
    first = Journal(journals.journal("run"))
    with pytest.raises(RunLocked, match="driven by"):
        Journal(journals.journal("run"))
    with pytest.raises(RunLocked, match="driven by"):
        journals.delete("run")
    first.add_trial(0, b"{}")
    first.close()

    sleeper = Journal(shortly_leased(journals).journal("run"))
    heir = Journal(journals.journal("run"))
    with pytest.raises(RunLocked, match="taken over"):
        sleeper.add_trial(1, b'"too late"')
    with pytest.raises(RunLocked, match="taken over"):
        sleeper.set_mark("too", "late")
    sleeper.close()
    with pytest.raises(RunLocked):
        Journal(journals.journal("run"))
    heir.add_trial(1, b'"in time"')
    heir.close()
    with JournalReader(journals.journal("run")) as reader:
        assert list(reader.trials()) == [b"{}", b'"in time"']


def test_a_deleted_journal_leaves_nothing(journals: DatabaseJournals) -> None:
    journal = Journal(journals.journal("run"))
    journal.add_trial(0, b"{}")
    journal.close()
    Journal(journals.journal("other")).close()
    assert journals.delete("run")
    assert not journals.delete("run")
    with JournalReader(journals.journal("run")) as reader:
        assert list(reader.trials()) == list(reader.effects()) == []
    names = execute(journals.url, f"SELECT name FROM {journals.prefix}journals")
    assert [name for (name,) in names] == ["other"]


def test_tables_of_another_version_are_refused(journals: DatabaseJournals) -> None:
    Journal(journals.journal("run")).close()
    execute(journals.url, f"UPDATE {journals.prefix}journal_meta SET value = '99' WHERE run = 0")
    for opened in (Journal, JournalReader):
        with pytest.raises(JournalTrouble, match="another version of burnish"):
            opened(journals.journal("run"))


def test_tables_are_not_made_where_someone_does_it_by_hand(journals: DatabaseJournals) -> None:
    by_hand = DatabaseJournals(url=journals.url, prefix=journals.prefix, create_schema=False)
    with pytest.raises(JournalTrouble, match="--print-schema"):
        Journal(by_hand.journal("run"))
    assert tables_of(journals.url, journals.prefix) == []


def test_a_folder_names_the_database_of_its_journal(
    journals: DatabaseJournals, tmp_path: Path
) -> None:
    point_to(journals.journal("app/run"), tmp_path)
    journal = Journal(tmp_path)
    journal.add_trial(0, b"{}")
    journal.close()
    assert {path.name for path in tmp_path.iterdir()} == {POINTER, COUNT}
    with JournalReader(tmp_path) as reader:
        assert list(reader.trials()) == [b"{}"]


async def test_a_database_that_was_set_back_is_noticed(
    journals: DatabaseJournals, tmp_path: Path
) -> None:
    point_to(journals.journal("app/run"), tmp_path)
    effects = effects_in(tmp_path)
    for number in range(3):
        await effects.scope(trial=0).once(text_call(number), Agent())
    effects.journal.close()
    Header(id="run", strategy="none", seed=0, started_at="", burnish="").write(tmp_path)
    look_into(tmp_path, whole=True).close()
    execute(journals.url, f"DELETE FROM {journals.prefix}journal_effects")
    with pytest.raises(JournalIncomplete, match="it has 0 results, and 3 were on disk") as lost:
        look_into(tmp_path, whole=True)
    assert "the database was probably reset to an earlier state" in str(lost.value)
