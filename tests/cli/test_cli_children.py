"""The command line as a process: signals, a closed pipe, a full disk, what stands on stdout."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from burnish.testing.doubles import story
from tests.cli.console import SLOW, START, Burnish, Said, child, finish, forked, until

pytestmark = pytest.mark.slow

TINY_DISK = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
del sys.argv[1]
{START}
"""


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A project whose trials take a while."""
    path = tmp_path / "slow.yaml"
    path.write_text(SLOW, encoding="utf-8")
    return path


def started(slow: Path) -> tuple["subprocess.Popen[str]", str]:
    """A child that has recorded its first trial, and what it said so far."""
    args = ("optimize", slow.name, "-o", "run", "--progress", "json")
    process = forked(*args, cwd=slow.parent)
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if '"kind":"trial_recorded"' in line and '"trial":1' in line:
            return process, seen
    raise AssertionError(finish(process).err)


def ended_the_same(burnish: Burnish, slow: Path) -> None:
    """After a resume the run tells what an uninterrupted one tells."""
    assert burnish("runs", "resume", "run", "-q").code == 0
    assert burnish("optimize", slow.name, "-q", "-o", "whole").code == 0
    runs = (slow.parent / name / "trials.jsonl" for name in ("run", "whole"))
    assert story(next(runs)) == story(next(runs))


def kinds(said: Said) -> list[str]:
    return [record["kind"] for record in said.records]


@pytest.mark.crash
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_finishes_the_trial_and_exits_with_two(
    burnish: Burnish, slow: Path, number: signal.Signals
) -> None:
    process, seen = started(slow)
    process.send_signal(number)
    said = finish(process, seen=seen)
    assert said.code == 2
    assert kinds(said)[-1] == "run_interrupted"
    rows = (slow.parent / "run" / "trials.jsonl").read_text(encoding="utf-8").splitlines()
    assert kinds(said).count("trial_recorded") == len(rows) >= 2
    assert "stopped  signal: " in said.err
    assert said.err.endswith("go on    burnish runs resume run\n")
    assert burnish("runs", "show", "run", "--json").json["status"] == "interrupted"
    ended_the_same(burnish, slow)


@pytest.mark.crash
def test_a_second_signal_stops_at_once(burnish: Burnish, slow: Path) -> None:
    slow.write_text(SLOW.replace("0.01", "900, counter: calls.txt"), encoding="utf-8")
    process = forked("optimize", slow.name, "-o", "run", cwd=slow.parent)
    assert process.stdout is not None
    until((slow.parent / "calls.txt").exists)
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert any("which may take minutes" in line for line in process.stdout)
    process.send_signal(signal.SIGINT)
    said = finish(process)
    assert said.code == 2
    assert "stopped at once" in said.err
    assert "Traceback" not in said.err
    assert said.err.endswith("go on    burnish runs resume run\n")
    shown = burnish("runs", "show", "run", "--json").json
    assert shown["status"] in ("interrupted", "killed")


def test_stdout_is_pure_ndjson(slow: Path) -> None:
    said = finish(child("optimize", slow.name, "--progress", "json", "-o", "run", cwd=slow.parent))
    assert said.code == 0
    events = [record for record in said.records if record["kind"] != "tick"]
    kept = (slow.parent / "run" / "events.jsonl").read_text(encoding="utf-8").splitlines()
    assert events == [json.loads(line) for line in kept]
    ticks = [record["data"] for record in said.records if record["kind"] == "tick"]
    assert {tick["split"] for tick in ticks} == {"train", "holdout", "test"}
    assert all(tick["done"] <= tick["total"] for tick in ticks)
    assert said.err.startswith("claim    sealed test, looked at once: score ")


@pytest.mark.crash
def test_a_closed_pipe_shows_no_traceback_and_the_run_goes_on_later(
    burnish: Burnish, slow: Path
) -> None:
    process = forked("optimize", slow.name, "-o", "run", cwd=slow.parent)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    told = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=120) == 2
    assert told == "the output was closed\ngo on    burnish runs resume run\n"
    assert burnish("runs", "show", "run", "--json").json["status"] == "killed"
    ended_the_same(burnish, slow)


def test_looking_into_a_closed_pipe(burnish: Burnish, finished: Path) -> None:
    process = forked("runs", "show", "done", "--calls", "--json", cwd=finished.parent)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=120) in (0, 1)


@pytest.mark.crash
@pytest.mark.parametrize("size", [100_000, 150_000])
def test_a_full_disk_is_one_message_and_the_run_goes_on_later(
    burnish: Burnish, slow: Path, size: int
) -> None:
    args = (str(size), "optimize", slow.name, "-q", "-o", "run")
    said = finish(forked(*args, cwd=slow.parent, start=TINY_DISK))
    assert said.code == 1
    assert said.err.startswith("error: ")
    assert "Traceback" not in said.err
    assert said.err.endswith("go on    burnish runs resume run\n")
    ended_the_same(burnish, slow)
