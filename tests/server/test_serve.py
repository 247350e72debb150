"""`burnish serve`: killed, ended and started again; two of them on one database."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.effects.databases import SERVERS, tables_on
from tests.server.processes import serving
from tests.server.world import TOY, calls

CONCURRENCY = 16
RUN = "/apps/toy/runs/r"


def toy(folder: Path, seconds: float = 0.03) -> Path:
    """A folder with a toy project."""
    folder.mkdir(exist_ok=True)
    (folder / "toy.yaml").write_text(TOY % seconds)
    return folder


def burnish(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The command line, to its end."""
    return subprocess.run(
        [sys.executable, "-m", "burnish.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | env,
    )


@pytest.mark.crash
def test_killed_with_a_run_in_progress(tmp_path: Path) -> None:
    """The next start goes on with it; nothing that was journaled is paid for again."""
    arguments = ("--app", "toy=toy.yaml", "--data", "data", "--lease", "1")
    with serving(toy(tmp_path), *arguments) as first:
        first.post("/apps/toy/runs", id="r")
        first.until(RUN, lambda run: run["current_round"] >= 2)
        first.kill()
    with serving(tmp_path, *arguments) as second:
        ended = second.until(RUN, lambda run: run["status"] not in ("queued", "running"))
        kinds = [each["kind"] for each in second.get(f"{RUN}/events?limit=200")["events"]]
        assert ended["status"] == "succeeded"
        assert "run_resumed" in kinds
        assert kinds.count("trial_recorded") == ended["current_round"] + 1
        second.post("/apps/toy/runs", id="later")
        second.until("/apps/toy/runs/later", lambda run: run["current_round"] >= 1)
        assert second.end() == 0, "a signal ends it well"
    with serving(tmp_path, *arguments) as third:
        later = third.until("/apps/toy/runs/later", lambda run: run["status"] == "succeeded")
        assert later["error"] == ""
    # Two runs of the same project; at most the calls in flight at the kill were paid once more.
    assert max(Counter(calls(tmp_path)).values()) <= 3
    again = sum(count - 2 for count in Counter(calls(tmp_path)).values() if count > 2)
    assert again <= CONCURRENCY


@pytest.mark.crash
@pytest.mark.parametrize("server", list(SERVERS))
def test_another_machine_takes_a_run_over(server: str, tmp_path: Path) -> None:
    """Two services on one database, each with a data folder of its own."""
    here, there = toy(tmp_path / "here"), toy(tmp_path / "there")
    with tables_on(server) as (address, prefix):
        arguments = ("--app", "toy=toy.yaml", "--data", "data", "--lease", "1", "--db", address)
        arguments += ("--table-prefix", prefix)
        with serving(here, *arguments) as first:
            first.post("/apps/toy/runs", id="r")
            first.until(RUN, lambda run: run["current_round"] >= 2)
            with serving(there, *arguments) as second:
                second.post("/apps/toy/runs", id="own")
                second.until("/apps/toy/runs/own", lambda run: run["status"] == "running")
                first.post("/apps/toy/runs/own/cancel")
                canceled = second.until(
                    "/apps/toy/runs/own", lambda run: run["status"] == "canceled"
                )
                assert canceled["error"] == "run canceled"
                first.kill()
                ended = second.until(RUN, lambda run: run["status"] == "succeeded")
                trials = second.get(f"{RUN}/trials?limit=200")
                assert trials["total"] == ended["current_round"] + 1
                assert ended["journal"] == "database"
                report = second.client.get(f"{RUN}/report").text
        assert report.startswith("# r")
        assert not (there / "data" / "runs" / "toy" / "r" / "journal.db").exists()
    paid, twice = Counter(calls(here)), Counter(calls(there))
    assert sum((paid & twice).values()) <= CONCURRENCY + len(calls(there)) // 2


@pytest.mark.slow
def test_what_an_operator_is_told(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    open_to_all = burnish("serve", "--host", "0.0.0.0", *data)
    assert open_to_all.returncode == 1
    assert "token" in open_to_all.stderr
    assert "Traceback" not in open_to_all.stderr
    absent = burnish("serve", "--app", "x=nothing.yaml", *data)
    assert (absent.returncode, "nothing.yaml" in absent.stderr) == (1, True)
    schema = burnish("serve", "--print-schema", "--db", "postgresql://me:secret@host/x")
    assert (schema.returncode, "secret" in schema.stdout) == (0, False)
    assert "CREATE TABLE burnish_runs" in schema.stdout
    made = burnish("serve", "token", "new", "--scope", "read", *data)
    assert made.returncode == 0
    assert made.stdout.strip() not in (tmp_path / "data" / "tokens.json").read_text()
