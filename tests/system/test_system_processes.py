"""Child processes, and their children, end with their run."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core.errors import FileTrouble
from burnish.system import ChildProcesses, end_leftovers, processes
from burnish.system.processes import MARKER_VARIABLE, is_running, kill_marked, process_entry

pytestmark = pytest.mark.slow

FAMILY = (
    "import subprocess, time; p = subprocess.Popen(['sleep', '3600']); print(p.pid, flush=True); {}"
)
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "print('ready', flush=True); time.sleep(3600)"
)
DRIVER = (
    "import asyncio, os, signal, sys; from pathlib import Path\n"
    "from burnish.system import ChildProcesses\n"
    "async def main():\n"
    "    children = ChildProcesses(folder=Path(sys.argv[1]))\n"
    "    child = await children.spawn([sys.executable, '-c', sys.argv[2]], stdout=-1, stderr=-3)\n"
    "    print(child.pid, (await child.stdout.readline()).decode(), flush=True)\n"
    "    os.kill(os.getpid(), signal.SIGKILL)\n"
    "asyncio.run(main())"
)


def is_alive(pid: int) -> bool:
    entry = process_entry(pid)
    return entry is not None and entry.is_running


def eventually(condition: Callable[[], bool]) -> bool:
    limit = time.monotonic() + 120
    while not condition() and time.monotonic() < limit:
        time.sleep(0.01)
    return condition()


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_process_is_looked_up_in_the_same_way_without_proc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Start times differ: each system has its own form of them."""
    with subprocess.Popen(python("input()"), stdin=subprocess.PIPE) as child:
        here = process_entry(child.pid)
        monkeypatch.setattr(processes, "_PROC", tmp_path)
        there = process_entry(child.pid)
        assert here is not None
        assert there is not None
        assert here.start_time
        assert there.start_time
        assert replace(here, start_time="") == replace(there, start_time="")
        assert here.group == os.getpgrp()
        assert here.is_running
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        zombie = process_entry(child.pid)
        assert zombie is not None
        assert not zombie.is_running
        monkeypatch.undo()
        zombie = process_entry(child.pid)
        assert zombie is not None
        assert not zombie.is_running
    assert process_entry(child.pid) is None
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    assert process_entry(child.pid) is None


async def first_line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout
    return (await process.stdout.readline()).decode().strip()


@pytest.fixture
def children(tmp_path: Path) -> ChildProcesses:
    return ChildProcesses(folder=tmp_path / "processes")


async def test_ending_a_child_ends_its_children_too(children: ChildProcesses) -> None:
    child = await children.spawn(python(FAMILY.format("time.sleep(3600)")), stdout=-1)
    grandchild = int(await first_line(child))
    record = json.loads((children.folder / f"{child.pid}.json").read_text())
    assert record["pgid"] == child.pid == os.getpgid(grandchild)
    entry = process_entry(child.pid)
    assert entry
    assert record["start_time"] == entry.start_time
    await children.end(child)
    assert child.returncode == -signal.SIGTERM
    assert not is_alive(child.pid)
    assert not is_alive(grandchild)
    assert not names_in(children.folder)


async def test_a_child_that_will_not_listen_is_killed_after_the_grace(
    children: ChildProcesses,
) -> None:
    child = await children.spawn(python(STUBBORN), stdout=-1)
    assert await first_line(child) == "ready"
    await children.end(child, grace=0.1)
    assert child.returncode == -signal.SIGKILL
    assert not names_in(children.folder)


async def test_a_child_that_ends_by_itself_leaves_no_record_and_no_children(
    children: ChildProcesses,
) -> None:
    child = await children.spawn(python(FAMILY.format("raise SystemExit(3)")), stdout=-1)
    grandchild = int(await first_line(child))
    assert await children.wait(child) == 3
    assert not is_alive(grandchild)
    assert not names_in(children.folder)
    await children.end(child)


async def test_the_output_is_whole_when_it_is_read_beside_the_waiting(
    children: ChildProcesses,
) -> None:
    code = FAMILY.format("print('x' * 300_000)")
    child = await children.spawn(python(code), stdout=-1)
    assert child.stdout
    output, status = await asyncio.gather(child.stdout.read(), children.wait(child))
    assert output.count(b"x") == 300_000
    assert status == 0


async def test_a_cancelled_end_still_kills(children: ChildProcesses) -> None:
    child = await children.spawn(python(STUBBORN), stdout=-1)
    assert await first_line(child) == "ready"
    ending = asyncio.create_task(children.end(child, grace=3600))
    await asyncio.sleep(0.05)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert await child.wait() == -signal.SIGKILL
    await children.end(child)
    assert not names_in(children.folder)


async def test_arguments_reach_the_program(children: ChildProcesses, tmp_path: Path) -> None:
    code = "import os, sys; print(os.listdir(), os.environ['COLOUR'], sys.stdin.read() == '')"
    child = await children.spawn(python(code), cwd=tmp_path, env={"COLOUR": "red"}, stdout=-1)
    assert await first_line(child) == "['processes'] red True"
    assert await children.wait(child) == 0


async def test_a_program_that_is_not_there_is_named(children: ChildProcesses) -> None:
    with pytest.raises(FileTrouble, match="cannot start no-such-program: it does not exist"):
        await children.spawn(["no-such-program"])


async def test_a_child_that_cannot_be_recorded_does_not_stay(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileTrouble):
        await ChildProcesses(folder=tmp_path / "file").spawn(["sleep", "3600"])


def test_what_a_killed_run_left_is_ended(tmp_path: Path) -> None:
    code = FAMILY.format("time.sleep(3600)")
    command = [*python(DRIVER), str(tmp_path), code]
    driver = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert driver.returncode == -signal.SIGKILL, driver.stderr
    child, grandchild = map(int, driver.stdout.split())
    assert is_alive(child)
    assert is_alive(grandchild)
    assert end_leftovers(tmp_path) == [child]
    assert not is_alive(child)
    assert not is_alive(grandchild)
    assert not names_in(tmp_path)


def test_orphans_are_ended_when_their_leader_is_gone(tmp_path: Path) -> None:
    command = [*python(DRIVER), str(tmp_path), FAMILY.format("time.sleep(3600)")]
    driver = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    child, grandchild = map(int, driver.stdout.split())
    os.kill(child, signal.SIGKILL)
    assert eventually(lambda: not is_alive(child))
    assert is_alive(grandchild)
    assert end_leftovers(tmp_path) == [child]
    assert not is_alive(grandchild)


@pytest.mark.parametrize("change", [{"start_time": "1"}, {"boot": "another machine"}])
async def test_a_later_owner_of_the_number_is_left_alone(
    children: ChildProcesses, change: dict[str, str]
) -> None:
    child = await children.spawn(["sleep", "3600"])
    path = children.folder / f"{child.pid}.json"
    right = path.read_text()
    path.write_text(json.dumps(json.loads(right) | change))
    assert end_leftovers(children.folder) == []
    assert is_alive(child.pid)
    assert not path.exists()
    path.write_text(right)
    await children.end(child)


def test_records_that_name_nobody_are_removed(tmp_path: Path) -> None:
    own = {"pgid": os.getpgrp(), "start_time": "1"}
    (tmp_path / f"{os.getpgrp()}.json").write_text(json.dumps(own))
    (tmp_path / "999999999.json").write_text('{"pgid": 999999999, "start_time": "1"}')
    (tmp_path / "12.json").write_text("torn")
    (tmp_path / "notes.txt").write_text("stays")
    assert end_leftovers(tmp_path) == []
    assert names_in(tmp_path) == ["notes.txt"]
    assert end_leftovers(tmp_path / "missing") == []


def test_a_process_is_named_as_in_records_of_earlier_versions() -> None:
    entry = process_entry(os.getpid())
    assert entry
    assert (entry.pid, entry.group, entry.is_running) == (os.getpid(), os.getpgrp(), True)
    if Path("/proc/self/stat").exists():
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        assert entry.start_time == fields[19]
    else:
        columns = {"LC_ALL": "C", "TZ": "UTC", "PATH": os.defpath}
        ps = ["ps", "-o", "lstart=", "-p", str(os.getpid())]
        shown = subprocess.run(ps, env=columns, capture_output=True, text=True, check=True).stdout
        assert entry.start_time == " ".join(shown.split())


def test_a_zombie_and_its_group_do_not_run() -> None:
    child = subprocess.Popen(["true"], start_new_session=True)
    assert eventually(lambda: not is_alive(child.pid))
    entry = process_entry(child.pid)
    assert entry, "nobody has waited for it"
    assert not is_running(child.pid)
    child.wait()
    assert process_entry(child.pid) is None


def test_an_odd_name_does_not_hide_a_process(tmp_path: Path) -> None:
    program = tmp_path / "odd ) (name"
    program.symlink_to(shutil.which("sleep") or "sleep")
    child = subprocess.Popen([str(program), "60"], start_new_session=True)
    entry = process_entry(child.pid)
    assert entry
    assert entry.group == child.pid
    assert entry.start_time
    assert is_running(child.pid)
    child.kill()
    child.wait()


def test_those_with_a_marker_are_ended_wherever_they_went() -> None:
    marked, other = (
        subprocess.Popen(
            ["sleep", "60"], env={**os.environ, MARKER_VARIABLE: token}, start_new_session=True
        )
        for token in ("this one", "another")
    )
    kill_marked("")
    assert is_alive(marked.pid)
    kill_marked("this one")
    assert marked.wait() == -signal.SIGKILL
    assert is_alive(other.pid)
    kill_marked("another")
    assert other.wait() == -signal.SIGKILL
