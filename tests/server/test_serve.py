"""`burnish serve`: killed, ended and started again; two of them on one database."""

from collections import Counter
from pathlib import Path

import pytest

from tests.journal.databases import SERVERS, tables_on
from tests.server.processes import serving
from tests.server.world import TOY, calls

CONCURRENCY = 16
RUN = "/apps/toy/runs/r"


def toy(folder: Path, seconds: float = 0.03) -> Path:
    """A folder with a toy project."""
    folder.mkdir(exist_ok=True)
    (folder / "toy.yaml").write_text(TOY % seconds)
    return folder


@pytest.mark.crash
def test_killed_with_a_run_in_progress(tmp_path: Path) -> None:
    """The next start goes on with it; nothing that was journaled is paid for again."""
    arguments = ("--app", "toy=toy.yaml", "--data", "data", "--lease", "1")
    with serving(toy(tmp_path), *arguments) as first:
        first.post("/apps/toy/runs", id="r", settings={"max_trials": 6})
        first.until(RUN, lambda run: run["current_round"] >= 2)
        first.kill()
    with serving(tmp_path, *arguments) as second:
        ended = second.until(RUN, lambda run: run["status"] not in ("queued", "running"))
        kinds = [each["kind"] for each in second.get(f"{RUN}/events?limit=200")["events"]]
        assert ended["status"] == "succeeded"
        assert "run_resumed" in kinds
        assert kinds.count("trial_recorded") == ended["current_round"] + 1
        paid = Counter(calls(tmp_path))
        second.post("/apps/toy/runs", id="later")
        second.until("/apps/toy/runs/later", lambda run: run["status"] == "running")
        assert second.end() == 0, "a signal ends it well"
    assert max(paid.values()) <= 2
    again = sum(count > 1 for count in paid.values())
    assert again <= CONCURRENCY, "more than the calls in flight was paid for again"


@pytest.mark.crash
@pytest.mark.parametrize("server", list(SERVERS))
def test_another_machine_takes_a_run_over(server: str, tmp_path: Path) -> None:
    """Two services on one database, each with a data folder of its own."""
    here, there = toy(tmp_path / "here"), toy(tmp_path / "there")
    with tables_on(server) as (address, prefix):
        arguments = ("--app", "toy=toy.yaml", "--data", "data", "--lease", "1", "--db", address)
        arguments += ("--table-prefix", prefix)
        with serving(here, *arguments) as first:
            first.post("/apps/toy/runs", id="r", settings={"max_trials": 6})
            first.until(RUN, lambda run: run["current_round"] >= 2)
            with serving(there, *arguments) as second:
                second.post("/apps/toy/runs", id="own")
                second.until("/apps/toy/runs/own", lambda run: run["status"] == "running")
                first.post("/apps/toy/runs/own/cancel")
                canceled = second.until(
                    "/apps/toy/runs/own", lambda run: run["status"] == "canceled"
                )
                assert canceled["error"] == "run canceled"
                own = len(calls(there))
                first.kill()
                ended = second.until(RUN, lambda run: run["status"] == "succeeded")
                trials = second.get(f"{RUN}/trials?limit=200")
                assert trials["total"] == ended["current_round"] + 1
                assert ended["journal"] == "database"
                report = second.client.get(f"{RUN}/report").text
        assert report.startswith("# r")
        assert not (there / "data" / "runs" / "toy" / "r" / "journal.db").exists()
    # The run of the second service asked for the same: what it began with is not counted.
    before, after = set(calls(here)), Counter(calls(there))
    again = sum(count for call, count in after.items() if call in before)
    assert again <= CONCURRENCY + own, "more than the calls in flight was paid for again"
