"""Training with a real SIGKILL: delegations go on where they were, the registry is told once."""

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from burnish.core.money import Spend
from burnish.delegation.policy import PolicyRegistry
from burnish.runs.directory import RunRecord
from burnish.testing.delegation_world import GUILTY, RULE
from burnish.testing.doubles import story
from tests.crash.bills import check_bill
from tests.crash.chains import ROOT
from tests.crash.suite_child import main, prepare

pytestmark = pytest.mark.crash

IN_FLIGHT = 6
"""Two delegations at once, or six questions about texts."""


class World:
    """A folder with a training, and processes that drive it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        prepare(folder)

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.crash.suite_child", str(self.folder)],
            cwd=ROOT,
            env={**os.environ, "BURNISH_HOME": str(self.folder / "home")},
        )

    @property
    def calls(self) -> int:
        path = self.folder / "calls"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def told(self) -> list[list[tuple[object, ...]]]:
        """What stands in the registry, names of runs and times aside."""
        with sqlite3.connect(self.folder / "policy.db") as db:
            found = [
                db.execute("SELECT epoch_num, mean_loss FROM epochs ORDER BY id").fetchall(),
                db.execute("SELECT task_name, loss FROM epoch_runs ORDER BY rowid").fetchall(),
                db.execute(
                    "SELECT artifact_name, version, is_active FROM artifact_versions ORDER BY id"
                ).fetchall(),
            ]
        db.close()
        return found


def until(happened: Callable[[], bool], seconds: float = 120) -> None:
    limit = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.002)


def test_killed_again_and_again(tmp_path: Path) -> None:
    whole = World(tmp_path / "whole")
    main(whole.folder)
    world, kills = World(tmp_path / "killed"), 0
    # In the first epoch, and in the second one.
    for number in (9, 44):
        child = world.start()
        until(lambda n=number, c=child: world.calls >= n or c.poll() is not None)
        child.kill()
        child.wait()
        kills += 1
    main(world.folder)
    trials = Path("run") / "trials.jsonl"
    assert _decided(world.folder / trials) == _decided(whole.folder / trials)
    assert world.told() == whole.told()
    assert RULE in PolicyRegistry(world.folder / "policy.db").texts()[GUILTY]
    again = world.calls - whole.calls
    assert again <= kills * IN_FLIGHT, "no more than what was in flight is asked again"
    check_bill(world.folder / "run", asked=world.calls, lost=kills * IN_FLIGHT)
    assert _spent(world.folder) == _spent(whole.folder), "a kill changes nothing that was used"


def _spent(folder: Path) -> Spend:
    return RunRecord.read(folder / "run").spent


def _decided(path: Path) -> list[object]:
    """The story without the names of delegations, which chance gives."""
    rows = story(path)
    for row in rows:
        for run in row["trial"]["details"].get("runs", ()):
            run.pop("run_id")
    return rows
