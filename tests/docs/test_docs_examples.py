"""The example program survives being killed. What the examples print is run with the pages."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.example_copies import copy_example

from burnish.testing.doubles import story

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("toy_plugin")]


KILLED = """
import os, runpy, signal, sys
from pathlib import Path
program, folder = sys.argv[1:]
sys.path.insert(0, str(Path(program).parent))
from target import HelpSearch
search = HelpSearch.run
async def killed_after_three_trials(self, *args, **more):
    trials = Path(folder, "trials.jsonl")
    if trials.exists() and len(trials.read_bytes().splitlines()) >= 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return await search(self, *args, **more)
HelpSearch.run = killed_after_three_trials
del sys.argv[0]
runpy.run_path(program, run_name="__main__")
"""


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
    python, *arguments = program(cut)
    killed = subprocess.run(
        [python, "-c", KILLED, *arguments], check=False, stdout=subprocess.DEVNULL
    )
    assert killed.returncode == -signal.SIGKILL
    assert len((cut / "trials.jsonl").read_bytes().splitlines()) == 3
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
