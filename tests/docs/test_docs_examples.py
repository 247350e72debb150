"""The examples run, and the one with a program survives being killed."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from docs_pages import ROOT

from burnish.projects import Overrides, launch, load_project
from burnish.runs.opening import start
from burnish.testing.stories import story


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """The examples in a folder of their own, without the results of whoever tried them."""
    home = tmp_path / "examples"
    shutil.copytree(ROOT / "examples", home, ignore=shutil.ignore_patterns("results"))
    return home


def _program(examples: Path, folder: Path) -> list[str]:
    return [sys.executable, str(examples / "own_target" / "run.py"), str(folder)]


def test_the_toy_improves_and_says_so_on_the_sealed_test(examples: Path) -> None:
    project = load_project(examples / "toy" / "toy.yaml", Overrides(max_trials=16))
    ending = launch(lambda: start(project.setup, root=project.root))
    assert ending.reason.code == "max_trials"
    assert ending.sealed is not None
    assert ending.sealed.gain is not None
    assert ending.sealed.gain.low > 0


def test_the_program_killed_and_run_again_tells_the_same_story(
    examples: Path, tmp_path: Path
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    subprocess.run(_program(examples, whole), check=True, stdout=subprocess.DEVNULL)
    process = subprocess.Popen(_program(examples, cut), stdout=subprocess.DEVNULL)
    _wait_for_rows(cut / "trials.jsonl", 3)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "it was over before it could be killed"
    again = subprocess.run(_program(examples, cut), check=True, stdout=subprocess.PIPE, text=True)
    assert story(cut / "trials.jsonl") == story(whole / "trials.jsonl")
    assert "spent    152 calls" in again.stdout


def test_the_program_run_again_pays_for_nothing(examples: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for _ in range(2):
        subprocess.run(_program(examples, folder), check=True, stdout=subprocess.DEVNULL)
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    first, second = (e["data"]["billed"] for e in events if e["kind"] == "run_finished")
    assert first == second


async def test_the_program_keeps_the_contracts(
    examples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(examples / "own_target")
    script = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from burnish import Outcome\n"
        "from burnish.testing import check_metric, check_strategy, check_target\n"
        "from run import setup\n"
        "async def main():\n"
        "    made = setup()\n"
        "    case = made.dataset.train[0]\n"
        "    await check_target(made.target, made.dataset.train)\n"
        "    await check_metric(made.metrics[0], case, [Outcome(replies=('Use a voucher',))])\n"
        "    await check_strategy(setup, Path(sys.argv[1]))\n"
        "asyncio.run(main())\n"
    )
    checked = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        script,
        str(tmp_path),
        env={**os.environ, "PYTHONPATH": str(examples / "own_target")},
        stderr=asyncio.subprocess.PIPE,
    )
    _, told = await checked.communicate()
    assert checked.returncode == 0, told.decode()


def _wait_for_rows(ledger: Path, rows: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if ledger.exists() and len(ledger.read_bytes().splitlines()) >= rows:
            return
        time.sleep(0.002)
    raise AssertionError(f"{ledger} never had {rows} rows")
