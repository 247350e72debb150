"""Delegations with a real SIGKILL: the workspace is put back, no journaled call is repeated."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.crash.bills import check_bill
from tests.crash.chains import ROOT
from tests.crash.delegation_child import ROUNDS
from tests.delegation.delegation_world import REPORT

pytestmark = pytest.mark.crash


class World:
    """A folder with a delegation, and processes that drive it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "tmp").mkdir(parents=True)

    def start(self) -> subprocess.Popen[bytes]:
        home, tmp = str(self.folder / "home"), str(self.folder / "tmp")
        return subprocess.Popen(
            [sys.executable, "-m", "tests.crash.delegation_child", str(self.folder)],
            cwd=ROOT,
            env={**os.environ, "BURNISH_HOME": home, "TMPDIR": tmp},
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def ended(self) -> dict[str, Any]:
        child = self.start()
        told, _ = child.communicate(timeout=120)
        assert child.returncode == 0
        return json.loads(told)

    def lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    @property
    def running(self) -> list[int]:
        """Processes that work below the folder."""
        found: list[int] = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if f"TMPDIR={self.folder}".encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
        return found


def until(happened: Callable[[], bool], seconds: float = 120) -> None:
    limit = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.005)


def test_killed_again_and_again(tmp_path: Path) -> None:
    whole = World(tmp_path / "whole")
    expected = whole.ended()
    assert expected["status"] == "complete"
    assert expected["files"]["log.txt"] == "line\n" * ROUNDS
    assert expected["files"]["report.md"].startswith(REPORT)
    world, kills = World(tmp_path / "killed"), 0
    # In the middle of each command, where the workspace is half changed.
    for number in range(1, ROUNDS + 1):
        child, before = world.start(), len(world.lines("commands"))
        until(lambda n=before, c=child: len(world.lines("commands")) > n or c.poll() is not None)
        child.kill()
        child.communicate()
        kills += 1
        until(lambda: world.running == [])
        assert (world.folder / "run/workspace/log.txt").read_text().count("half") <= 1, number
    # And once between two calls of models.
    child, before = world.start(), len(world.lines("calls"))
    until(lambda: len(world.lines("calls")) > before or child.poll() is not None)
    child.kill()
    child.communicate()
    told = world.ended()
    assert told == expected
    calls = world.lines("calls")
    assert set(calls) == set(whole.lines("calls"))
    assert len(calls) <= len(whole.lines("calls")) + kills + 1, "at most one in flight each"
    assert world.running == []
    check_bill(world.folder / "run", asked=len(calls), lost=kills + 1)
