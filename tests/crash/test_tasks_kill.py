"""The artifact loop with real processes and a real SIGKILL: nothing twice, nothing left."""

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

from burnish.runs.directory import RunRecord
from tests.crash.nursery import ROOT
from tests.crash.tasks_child import FILE, SCORE
from tests.targets.artifacts.task_folders import seen, write

pytestmark = pytest.mark.crash


class World:
    """A folder with a task, and processes that optimise it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "project").mkdir(parents=True)
        write(folder / "project", {FILE: "1\n", "score.py": SCORE})
        (folder / "tmp").mkdir()
        self.own = seen(folder / "project")

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.crash.tasks_child", str(self.folder)],
            cwd=ROOT,
            env={
                **os.environ,
                "BURNISH_HOME": str(self.folder / "home"),
                "TMPDIR": str(self.folder / "tmp"),
            },
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def ended(self) -> dict[str, Any]:
        child = self.start()
        told, _ = child.communicate(timeout=120)
        assert child.returncode == 0
        return json.loads(told)

    @property
    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def decisions(self) -> list[tuple[object, ...]]:
        """What was decided; how long runs took is different each time."""
        rows = RunRecord.read(self.folder / "run").rows
        return [
            (
                row.trial.candidate.id,
                row.trial.cycle,
                row.trial.details.get("decision"),
                None if row.trial.decision is None else row.trial.decision.code,
            )
            for row in rows
        ]

    @property
    def workspaces(self) -> list[Path]:
        return sorted((self.folder / "tmp").iterdir())

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
        time.sleep(0.01)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, dict[str, Any]]:
    world = World(tmp_path_factory.mktemp("whole"))
    return world, world.ended()


def test_uninterrupted(whole: tuple[World, dict[str, Any]]) -> None:
    world, told = whole
    assert told["best"] == "5\n"
    assert world.workspaces == []
    assert world.running == []
    assert seen(world.folder / "project") == world.own


def test_killed_again_and_again(whole: tuple[World, dict[str, Any]], tmp_path: Path) -> None:
    reference, expected = whole
    world, kills = World(tmp_path / "world"), 0
    for number in range(1, 30, 3):
        child = world.start()
        until(lambda n=number, c=child: len(world.calls) >= n or c.poll() is not None)
        if child.poll() is not None:
            child.communicate()
            break
        child.kill()
        child.communicate()
        kills += 1
        until(lambda: world.running == [], 10)
        assert seen(world.folder / "project") == world.own
    told = world.ended()
    assert kills >= 4, kills
    assert told == expected
    assert world.decisions == reference.decisions
    # Two candidates are run at once, so that a kill loses two runs at most.
    assert len(world.calls) <= len(reference.calls) + 2 * kills
    assert world.workspaces == []
    assert world.running == []


def test_what_a_killed_one_left_is_cleared_by_the_next(tmp_path: Path) -> None:
    world = World(tmp_path / "world")
    child = world.start()
    until(lambda: any(call.startswith("run") for call in world.calls))
    # Its supervisors too, so that nobody is left who could end the runs.
    until(lambda: supervisors_of(child.pid) != [])
    supervisors = supervisors_of(child.pid)
    for pid in supervisors:
        os.kill(pid, signal.SIGSTOP)
    child.kill()
    for pid in supervisors:
        os.kill(pid, signal.SIGKILL)
    child.communicate()
    until(lambda: supervisors_of(child.pid) == [])
    assert world.workspaces
    assert world.running
    assert world.ended()["best"] == "5\n"
    assert world.workspaces == []
    assert world.running == []


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    world = World(tmp_path / "world")
    child = world.start()
    until(lambda: any(call.startswith("run") for call in world.calls))
    os.killpg(child.pid, signal.SIGINT)
    child.communicate(timeout=120)
    assert world.workspaces == []
    until(lambda: world.running == [], 5)
    assert world.ended()["best"] == "5\n"


def test_two_at_once_on_one_folder(tmp_path: Path, whole: tuple[World, dict[str, Any]]) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    write(tmp_path / "shared", {FILE: "1\n", "score.py": SCORE})
    for folder in (one, other):
        folder.mkdir()
        (folder / "project").symlink_to(tmp_path / "shared")
    before = seen(tmp_path / "shared")
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.crash.tasks_child", str(folder)],
            cwd=ROOT,
            # The same home and the same place for workspaces.
            env={
                **os.environ,
                "BURNISH_HOME": str(tmp_path / "home"),
                "TMPDIR": str(tmp_path),
            },
            stdout=subprocess.PIPE,
        )
        for folder in (one, other)
    ]
    told = [json.loads(child.communicate(timeout=120)[0]) for child in children]
    assert told == [whole[1], whole[1]]
    assert seen(tmp_path / "shared") == before
    assert not list(tmp_path.glob(".*.burnish-tmp"))


def supervisors_of(parent: int) -> list[int]:
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            said = (entry / "cmdline").read_bytes()
            above = (entry / "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if b"supervisor.py" in said and int(above) == parent:
            found.append(int(entry.name))
    return found
