"""A service of several processes on one PostgreSQL: some answer, others drive."""

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.journal.databases import tables_on
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
            assert metric(api, 'queue_runs{priority="normal"}') == 1
            assert metric(api, 'workers{state="idle"}') == 0
            with working(tmp_path, *arguments, "here") as first:
                api.until(RUN, lambda run: run["current_round"] >= 2)
                assert metric(api, 'queue_running{priority="normal"}') == 1
                first.kill()
            with working(tmp_path, *arguments, "there") as second:
                ended = api.until(RUN, lambda run: run["status"] in ENDED)
                trials = api.get(f"{RUN}/trials?limit=200")
                paid = Counter(calls(tmp_path))
                api.post("/apps/toy/runs", id="long", priority="low")
                api.until(LONG, lambda run: run["status"] == "running")
                roles = {each["role"] for each in api.get("/ready")["processes"]}
                api.post(f"{LONG}/cancel")
                canceled = api.until(LONG, lambda run: run["status"] in ENDED)
                assert second.end() == 0, "a signal ends it well"
            assert api.end() == 0
    assert (ended["status"], canceled["status"]) == ("succeeded", "canceled")
    assert (canceled["priority"], roles) == ("low", {"api", "worker"})
    assert trials["total"] == ended["current_round"] + 1
    assert max(paid.values()) <= 2
    again = sum(count > 1 for count in paid.values())
    assert again <= CONCURRENCY, "more than the calls in flight was paid for again"
