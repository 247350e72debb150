"""The example program survives being killed. What the examples print is run with the pages."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.example_copies import copy_example

from burnish.testing.doubles import story

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("toy_plugin")]


@pytest.fixture
def program(tmp_path: Path) -> Callable[[Path], list[str]]:
    """The command that runs the example, in a copy: Python writes beside what it imports."""
    home = copy_example("own_target", tmp_path / "own_target")
    return lambda folder: [sys.executable, str(home / "run.py"), str(folder)]


def test_the_program_killed_and_run_again_tells_the_same_story(
    tmp_path: Path, program: Callable[[Path], list[str]]
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    subprocess.run(program(whole), check=True, stdout=subprocess.DEVNULL)
    process = subprocess.Popen(program(cut), stdout=subprocess.DEVNULL)
    _wait_for_rows(cut / "trials.jsonl", 3)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "it was over before it could be killed"
    subprocess.run(program(cut), check=True, stdout=subprocess.DEVNULL)
    assert story(cut / "trials.jsonl") == story(whole / "trials.jsonl")
    assert _endings(cut)[-1]["spent"] == _endings(whole)[-1]["spent"]


def test_the_program_run_again_pays_for_nothing(
    tmp_path: Path, program: Callable[[Path], list[str]]
) -> None:
    folder = tmp_path / "run"
    for _ in range(2):
        subprocess.run(program(folder), check=True, stdout=subprocess.DEVNULL)
    first, second = _endings(folder)
    assert first["billed"] == second["billed"]


def _endings(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "events.jsonl").read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    return [event["data"] for event in events if event["kind"] == "run_finished"]


def _wait_for_rows(ledger: Path, rows: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if ledger.exists() and len(ledger.read_bytes().splitlines()) >= rows:
            return
        time.sleep(0.002)
    raise AssertionError(f"{ledger} never had {rows} rows")
