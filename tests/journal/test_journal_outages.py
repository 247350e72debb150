"""Connections to the database of a journal are lost: everything is written again, and once."""

import asyncio
import secrets
from collections import Counter
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from burnish.core.protocols import Effects, Receipt
from burnish.journal.database_store import DatabaseJournals, JournalUnreachable
from burnish.journal.journal import Journal, JournalReader
from burnish.journal.once import JournaledEffects
from burnish.system import Redactor
from burnish.system.databases import DatabaseUrl
from tests.journal.database_proxy import Loss, Proxy
from tests.journal.databases import SERVERS, execute, tables_on
from tests.journal.journals import ONE_CALL, Agent, must_not_run, text_call

pytestmark = pytest.mark.slow


@pytest.fixture(params=list(SERVERS))
def own_database(request: pytest.FixtureRequest) -> Generator[DatabaseUrl]:
    """A database in which nobody else has connections."""
    with tables_on(request.param) as (address, _):
        url, name = DatabaseUrl.parse(address), f"t{secrets.token_hex(4)}"
        execute(url, f"CREATE DATABASE {name}")
        try:
            yield DatabaseUrl.parse(urlsplit(address)._replace(path=f"/{name}").geturl())
        finally:
            force = " WITH (FORCE)" if url.kind == "postgresql" else ""
            execute(url, f"DROP DATABASE {name}{force}")


def kill_connections(url: DatabaseUrl) -> int:
    """End every connection to the database but our own; how many there were."""
    if url.kind == "postgresql":
        others = "FROM pg_stat_activity WHERE datname = current_database()"
        mine = "pid <> pg_backend_pid()"
        return len(execute(url, f"SELECT pg_terminate_backend(pid) {others} AND {mine}"))
    ids = execute(
        url,
        "SELECT id FROM information_schema.processlist "
        "WHERE db = DATABASE() AND id <> CONNECTION_ID()",
    )
    execute(url, *(f"KILL {number}" for (number,) in ids))
    return len(ids)


async def test_killed_connections_are_made_again(own_database: DatabaseUrl) -> None:
    journals = DatabaseJournals(url=own_database)
    journal = Journal(journals.journal("run"))
    effects = JournaledEffects(journal, redactor=Redactor(secrets=()))
    killed: list[int] = []

    async def perform(nested: Effects) -> Receipt[str]:
        del nested
        killed.append(kill_connections(own_database))
        return Receipt(value="x" * 300_000, spend=ONE_CALL)

    for trial in range(3):
        await effects.scope(trial=trial).once(text_call(trial), perform)
        killed.append(kill_connections(own_database))
        assert await effects.scope(trial=trial).once(text_call(trial), must_not_run())
        killed.append(kill_connections(own_database))
        journal.add_trial(trial, b"%d" % trial)
        assert journal.add_event(f"trial:{trial}", b"{}") == (True, False)
    journal.close()
    assert sum(killed) >= len(killed), "there was nothing to kill"
    with JournalReader(journals.journal("run")) as reader:
        kill_connections(own_database)
        assert list(reader.trials()) == [b"0", b"1", b"2"]
        assert Counter(row.state for row in reader.effects()) == {"done": 3}
        assert len(list(reader.events())) == 3
        assert reader.billed == ONE_CALL.times(3)


@pytest.fixture
def proxy(own_database: DatabaseUrl) -> Generator[Proxy]:
    parts = urlsplit(own_database.expanded)
    with closing(Proxy(parts.hostname or "localhost", parts.port or 0)) as proxy:
        yield proxy


@pytest.fixture
def journals(own_database: DatabaseUrl, proxy: Proxy) -> DatabaseJournals:
    parts = urlsplit(own_database.expanded)
    address = parts._replace(netloc=f"{parts.username}@127.0.0.1:{proxy.port}").geturl()
    return DatabaseJournals(url=DatabaseUrl.parse(address))


@pytest.mark.parametrize("loss", ["request", "answer"])
async def test_a_commit_that_was_not_confirmed_is_there_once(
    journals: DatabaseJournals, proxy: Proxy, loss: Loss
) -> None:
    journal = Journal(journals.journal("run"))
    effects = JournaledEffects(journal, redactor=Redactor(secrets=()))
    for trial in range(3):
        proxy.loses = loss
        await effects.scope(trial=trial).once(text_call(trial), Agent())
        proxy.loses = loss
        journal.add_trial(trial, b"%d" % trial)
    journal.close()
    assert proxy.lost == 6
    with JournalReader(journals.journal("run")) as reader:
        assert list(reader.trials()) == [b"0", b"1", b"2"]
        assert [row.state for row in reader.effects()] == ["done"] * 3
        assert reader.billed == ONE_CALL.times(3)


async def test_a_database_that_stays_away_ends_the_run_which_can_be_resumed(
    journals: DatabaseJournals, proxy: Proxy
) -> None:
    impatient = replace(journals, outage_seconds=0.3, lease_seconds=0.0)
    journal = Journal(impatient.journal("run"))
    effects = JournaledEffects(journal, redactor=Redactor(secrets=()))
    await effects.scope(trial=0).once(text_call(0), Agent())
    proxy.away = True
    proxy.cut()
    with pytest.raises(JournalUnreachable, match="cannot be used") as lost:
        await effects.scope(trial=0).once(text_call(1), must_not_run())
    assert "resume the run" in lost.value.remedy
    with pytest.raises(JournalUnreachable):
        journal.add_trial(0, b"{}")
    journal.close()
    proxy.away = False
    again = Journal(journals.journal("run"))
    effects = JournaledEffects(again, redactor=Redactor(secrets=()))
    assert await effects.scope(trial=0).once(text_call(0), must_not_run()) == "hello"
    assert await effects.scope(trial=0).once(text_call(1), Agent()) == "hello"
    again.add_trial(0, b"{}")
    again.close()
    with JournalReader(journals.journal("run")) as reader:
        assert [row.state for row in reader.effects()] == ["done"] * 2
        assert reader.billed == ONE_CALL.times(2)


async def test_after_an_outage_longer_than_the_lease_the_run_goes_on(
    journals: DatabaseJournals, proxy: Proxy
) -> None:
    assert journals.outage_seconds > 60
    journal = Journal(replace(journals, lease_seconds=0.0).journal("run"))
    effects = JournaledEffects(journal, redactor=Redactor(secrets=()))
    await effects.scope(trial=0).once(text_call(0), Agent())
    proxy.away = True
    proxy.cut()
    agent = Agent()
    going_on = asyncio.create_task(effects.scope(trial=0).once(text_call(1), agent))
    for _ in range(4):
        assert await asyncio.to_thread(proxy.turned_away.acquire, timeout=120)
    assert not going_on.done()
    proxy.away = False
    assert await asyncio.wait_for(going_on, 120) == "hello"
    journal.add_trial(0, b"{}")
    journal.close()
    with JournalReader(journals.journal("run")) as reader:
        assert [row.state for row in reader.effects()] == ["done"] * 2
        assert reader.billed == ONE_CALL.times(2)
        assert list(reader.trials()) == [b"{}"]
