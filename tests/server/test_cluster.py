"""A service of several processes on one PostgreSQL: some answer, others drive."""

import re
from collections import Counter
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from burnish.journal.database_store import DatabaseJournals
from burnish.journal.journal import Journal
from burnish.journal.limits import Budget
from burnish.journal.once import JournaledEffects
from burnish.journal.sqlite_store import point_to
from burnish.runs.directory import NAME as HEADER
from burnish.server.accounting import Accounting
from burnish.server.runs import RunPlaces
from burnish.server.stores import RunStatus, open_store
from burnish.server.stores.records import RunChanges
from burnish.server.tokens import Client
from burnish.system import Redactor
from burnish.system.databases import DatabaseUrl
from tests.journal.database_proxy import Proxy
from tests.journal.databases import tables_on
from tests.journal.journals import Agent, text_call
from tests.server.processes import Process, serving, working
from tests.server.test_serve import CONCURRENCY, RUN, toy
from tests.server.world import calls

LONG = "/apps/toy/runs/long"
ENDED = ("succeeded", "failed", "canceled")


def metric(process: Process, name: str) -> float:
    """One value of /metrics, which is at the root too."""
    text = process.client.get(process.client.base_url.copy_with(path="/metrics")).text
    found = re.search(rf"^burnish_{re.escape(name)} (\S+)$", text, re.MULTILINE)
    assert found, text
    return float(found[1])


@pytest.mark.crash
def test_workers_drive_what_an_api_accepts(tmp_path: Path) -> None:
    """The api drives nothing; a worker that dies is replaced, and a cancel reaches a worker."""
    toy(tmp_path)
    with tables_on("postgresql") as (address, prefix):
        arguments = ("--app", "toy=toy.yaml", "--lease", "1", "--db", address)
        arguments += ("--table-prefix", prefix, "--max-running", "1", "--data")
        with serving(tmp_path, "--role", "api", *arguments, "front") as api:
            api.post("/apps/toy/runs", id="r", settings={"max_trials": 6})
            assert api.get(RUN)["status"] == "queued"
            assert not calls(tmp_path), "an api made calls"
            assert metric(api, "queue_runs") == 1
            assert metric(api, 'workers{state="idle"}') == 0
            with working(tmp_path, *arguments, "here") as first:
                api.until(RUN, lambda run: run["current_round"] >= 2)
                assert metric(api, "queue_running") == 1
                first.kill()
            with working(tmp_path, *arguments, "there") as second:
                ended = api.until(RUN, lambda run: run["status"] in ENDED)
                trials = api.get(f"{RUN}/trials?limit=200")
                paid = Counter(calls(tmp_path))
                api.post("/apps/toy/runs", id="long")
                api.until(LONG, lambda run: run["status"] == "running")
                roles = {each["role"] for each in api.get("/ready")["processes"]}
                api.post(f"{LONG}/cancel")
                canceled = api.until(LONG, lambda run: run["status"] in ENDED)
                assert second.end() == 0, "a signal ends it well"
            assert api.end() == 0
    assert (ended["status"], canceled["status"]) == ("succeeded", "canceled")
    assert roles == {"api", "worker"}
    assert trials["total"] == ended["current_round"] + 1
    assert max(paid.values()) <= 2
    again = sum(count > 1 for count in paid.values())
    assert again <= CONCURRENCY, "more than the calls in flight was paid for again"


async def test_a_run_that_ends_in_an_outage_is_charged_when_its_database_is_back(
    tmp_path: Path,
) -> None:
    with tables_on("postgresql") as (address, prefix):
        parts = urlsplit(address)
        with closing(Proxy(parts.hostname or "", parts.port or 5432)) as proxy:
            through = parts._replace(netloc=f"{parts.username}@127.0.0.1:{proxy.port}").geturl()
            journals = DatabaseJournals(url=DatabaseUrl.parse(through), prefix=prefix)
            store = await open_store("memory://")
            places = RunPlaces(data=tmp_path, journals=journals)
            accounting = Accounting(store, places)
            place, key = places.of_new("toy", "r"), ("toy", "r")
            await accounting.reserve(Client(account="a"), key, Budget())
            await store.create(*key)
            changes = RunChanges(status=RunStatus.SUCCEEDED, where=places.where(place))
            await store.update(*key, changes)
            journal = Journal(journals.journal(place.name))
            effects = JournaledEffects(journal, redactor=Redactor(secrets=()))
            await effects.scope(trial=0).once(text_call("a question"), Agent())
            journal.close()
            place.folder.mkdir(parents=True)
            (place.folder / HEADER).touch()
            point_to(journals.journal(place.name), place.folder)
            proxy.away = True
            proxy.cut()
            assert await accounting.settle_finished() == 0
            assert (await store.accounts.standing("a")).runs == 1, "it is still to be settled"
            proxy.away = False
            assert await accounting.settle_finished() == 1
            assert (await store.accounts.standing("a")).spent.max_calls == 1
            await store.close()
