"""Runners that misbehave: each ends as a crash with a reason, and nothing of them stays."""

import asyncio
import os
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core.surfaces import Candidate
from burnish.journal.once import DirectEffects
from burnish.system.sandbox import CommandLimits, Mode
from burnish.targets.artifacts.task import Runner
from tests.targets.artifacts.task_folders import (
    FILE,
    PROBE,
    left_behind,
    opened,
    ran_by,
    seen,
    task_in,
    why,
)

pytestmark = [pytest.mark.slow, pytest.mark.on_disk]
NEEDS_BWRAP = pytest.mark.skipif(not PROBE.works, reason=f"bubblewrap: {PROBE.reason}")
MODES = ["none", pytest.param("bwrap", marks=NEEDS_BWRAP)]
MIB = 1024 * 1024
GOOD = "echo 1 > out.txt"


@pytest.fixture(autouse=True)
def _nothing_stays(tmp_path: Path) -> Generator[None, None, None]:  # pyright: ignore[reportUnusedFunction]
    before = left_behind()
    yield
    assert ours(left_behind() - before) == set()
    assert running(tmp_path.name) == []


def ours(names: set[str]) -> set[str]:
    """Those of this process: other tests run at the same time."""
    return {name for name in names if name.startswith(f".{os.getpid()}-")}


def running(mark: str) -> list[int]:
    """Processes whose command line has the mark in it."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            said = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if mark.encode() in said and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


@pytest.mark.parametrize("mode", MODES)
async def test_one_that_hangs(tmp_path: Path, mode: Mode) -> None:
    outcome = await ran_by(
        tmp_path, f"sleep 3600 # {tmp_path.name}", mode, limits=CommandLimits(seconds=0.5)
    )
    assert "ran for more than 0.5 s" in why(outcome)
    assert 0.5 <= outcome.seconds < 120


async def test_one_that_floods(tmp_path: Path) -> None:
    limits = CommandLimits(seconds=120, flood_bytes=4 * MIB, output_bytes=1000)
    outcome = await ran_by(tmp_path, "yes", limits=limits)
    assert "MiB of output" in why(outcome)
    assert len(str(outcome.data)) < 5000


@pytest.mark.parametrize("mode", MODES)
async def test_one_that_leaves_a_daemon(tmp_path: Path, mode: Mode) -> None:
    mark = tmp_path.name
    command = f"setsid sh -c 'sleep 3600; : {mark}' > /dev/null 2>&1 & {GOOD}"
    outcome = await ran_by(tmp_path, command, mode)
    assert outcome.measures["score"] == 1
    assert running(mark) == []


async def test_one_that_eats_memory(tmp_path: Path) -> None:
    limits = CommandLimits(seconds=120, memory_bytes=128 * MIB)
    outcome = await ran_by(tmp_path, "python -c 'x = bytearray(2**30)'", limits=limits)
    assert "MemoryError" in why(outcome)


async def test_one_that_writes_a_huge_file(tmp_path: Path) -> None:
    limits = CommandLimits(seconds=120, file_bytes=MIB)
    outcome = await ran_by(tmp_path, "head -c 8000000 /dev/zero > big.bin", limits=limits)
    assert "the runner failed" in why(outcome)


@pytest.mark.parametrize("mode", MODES)
async def test_one_that_deletes_its_workspace(tmp_path: Path, mode: Mode) -> None:
    outcome = await ran_by(tmp_path / "project", 'rm -rf "$PWD"; true', mode)
    assert "tampering" in why(outcome)


@NEEDS_BWRAP
async def test_one_that_deletes_what_is_around_its_workspace(tmp_path: Path) -> None:
    before = seen(tmp_path)
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    outcome = await ran_by(
        tmp_path / "project", f'rm -rf "$PWD" "$(dirname "$PWD")" {tmp_path}; true', "bwrap"
    )
    assert "tampering" in why(outcome)
    assert mine.read_text() == "mine"
    assert before.items() <= seen(tmp_path).items()


async def test_one_that_moves_its_workspace_away(tmp_path: Path) -> None:
    command = f'mv "$PWD" {tmp_path}/moved; ln -s /etc "$PWD"; true'
    outcome = await ran_by(tmp_path / "project", command)
    assert "tampering" in why(outcome)


@pytest.mark.parametrize("mode", MODES)
async def test_one_that_kills_its_process_group_and_its_parent(tmp_path: Path, mode: Mode) -> None:
    for command in ("kill -9 0", "kill -9 $PPID; sleep 1; exit 1"):
        outcome = await ran_by(tmp_path, command, mode, limits=CommandLimits(seconds=120))
        assert "the runner failed" in why(outcome)


@pytest.mark.parametrize("mode", MODES)
async def test_one_that_takes_all_permissions_away(tmp_path: Path, mode: Mode) -> None:
    outcome = await ran_by(tmp_path, f"{GOOD}; mkdir -p a/b; chmod 0 a/b a; chmod 500 .", mode)
    assert outcome.failure is None or "tampering" in why(outcome)


async def test_one_that_leaves_ten_thousand_files(tmp_path: Path) -> None:
    outcome = await ran_by(tmp_path, f"mkdir many; seq -f many/%g 10000 | xargs touch; {GOOD}")
    assert outcome.measures["score"] == 1


async def test_many_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    command = "sleep 0.2; cat value.txt > out.txt"
    target = opened(task_in(tmp_path, runner=Runner(command=command)))
    [case] = target.dataset().train

    async def score(number: int) -> float:
        candidate = Candidate(values={FILE: str(number)})
        receipt = await target.run(candidate, case, draw=0, effects=DirectEffects())
        return receipt.value.measures["score"]

    assert await asyncio.gather(*map(score, range(4))) == [0, 1, 2, 3]
    await target.close()


@pytest.mark.parametrize("after", [0.0, 0.02, 0.3])
async def test_cancelled_it_leaves_nothing(tmp_path: Path, after: float) -> None:
    task = task_in(tmp_path, runner=Runner(command=f"sleep 3600 # {tmp_path.name}"))
    (tmp_path / "many").mkdir()
    for number in range(300):
        (tmp_path / "many" / str(number)).touch()
    target = opened(replace(task, include=(FILE,)))
    [case] = target.dataset().train
    running_it = asyncio.create_task(
        target.run(target.baseline, case, draw=0, effects=DirectEffects())
    )
    await asyncio.sleep(after)
    running_it.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running_it
    await target.close()
    assert running(tmp_path.name) == []
