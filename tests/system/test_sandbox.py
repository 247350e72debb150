"""Commands that misbehave in every way end within their limits, and nothing of them is left."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from burnish.core.errors import BurnishError, FileTrouble
from burnish.system import ChildProcesses, end_leftovers
from burnish.system.sandbox import (
    CommandLimits,
    CommandResult,
    Isolation,
    Sandbox,
    probe_bubblewrap,
    probe_landlock,
)

pytestmark = [pytest.mark.slow, pytest.mark.on_disk]

PROBE = probe_bubblewrap()
NEEDS_BWRAP = pytest.mark.skipif(not PROBE.works, reason=f"bubblewrap: {PROBE.reason}")
LANDLOCK = probe_landlock()
NEEDS_LANDLOCK = pytest.mark.skipif(not LANDLOCK.works, reason=f"Landlock: {LANDLOCK.reason}")
MODES = [
    "none",
    pytest.param("bwrap", marks=NEEDS_BWRAP),
    pytest.param("landlock", marks=NEEDS_LANDLOCK),
]
MIB = 1024 * 1024
# Bounded: a real bomb that gets away takes the whole machine with it.
CROWD = "for i in $(seq 150); do sleep 20 & done; wait"
SCATTERED_CROWD = "for i in $(seq 150); do setsid sleep 20 & done; wait; sleep 20"


@pytest.fixture(params=MODES)
def sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> Sandbox:
    children = ChildProcesses(folder=tmp_path / "processes")
    return Sandbox.open(request.param, children=children)


@pytest.fixture
def bare(tmp_path: Path) -> Sandbox:
    """As on a machine where nothing keeps a command from signalling others."""
    isolation = Isolation(kind="none", summary="")
    return Sandbox(isolation=isolation, children=ChildProcesses(folder=tmp_path / "processes"))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path: Path):  # pyright: ignore[reportUnusedFunction]
    yield
    records = tmp_path / "processes"
    assert not records.exists() or not list(records.iterdir())
    assert not marked()


def marked() -> list[int]:
    """Processes of any sandbox that run now, except those of other tests at the same time."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"OWNER={os.getpid()}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


async def ran(sandbox: Sandbox, place: Path, command: str, **limits: float | None) -> CommandResult:
    chosen = CommandLimits(**{"seconds": 120, **limits})  # pyright: ignore[reportArgumentType]
    env = {"OWNER": str(os.getpid())}
    return await sandbox.run(command, cwd=place, writable=[place], env=env, limits=chosen)


async def test_what_it_writes_and_how_it_ends(sandbox: Sandbox, place: Path) -> None:
    result = await ran(sandbox, place, "echo out && echo err >&2; echo made | tee file; exit 3")
    assert (result.stdout, result.stderr) == ("out\nmade\n", "err\n")
    assert (result.exit_code, result.ended_by) == (3, "itself")
    assert result.isolation == sandbox.isolation.kind
    assert result.left_running == 0
    assert (place / "file").read_text() == "made\n"


async def test_a_sequence_is_a_program_without_a_shell(sandbox: Sandbox, place: Path) -> None:
    code = "import sys; print(sys.argv[1:], sys.stdin.read().upper())"
    result = await sandbox.run(["python", "-c", code, "$HOME;"], cwd=place, stdin=b"given")
    assert result.stdout == "['$HOME;'] GIVEN\n"
    assert result.ok


async def test_python_is_the_one_of_burnish(sandbox: Sandbox, place: Path) -> None:
    result = await ran(sandbox, place, "python -c 'import burnish, sys; print(sys.prefix)'")
    assert result.stdout.strip() == sys.prefix


async def test_keys_do_not_reach_it(
    sandbox: Sandbox, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    result = await ran(sandbox, place, "env; cat /proc/$PPID/environ")
    assert "sk-secret" not in result.stdout
    assert "PYTHONPATH" not in result.stdout


async def test_input_that_nobody_reads_does_no_harm(sandbox: Sandbox, place: Path) -> None:
    result = await sandbox.run("exit 0", cwd=place, stdin=b"x" * (4 * MIB))
    assert result.ok


async def test_a_program_that_is_not_there_is_named(sandbox: Sandbox, place: Path) -> None:
    with pytest.raises(FileTrouble, match="cannot start no-such-program"):
        await sandbox.run(["no-such-program"], cwd=place)
    with pytest.raises(FileTrouble, match="there is no such folder"):
        await sandbox.run("true", cwd=place / "nowhere")


async def test_the_whole_tree_is_killed_at_the_timeout(sandbox: Sandbox, place: Path) -> None:
    strays = "sleep 3600 & setsid sleep 3600 & (setsid sh -c 'sleep 3600 &' &)"
    command = f"trap '' TERM; {strays}; sleep 3600"
    result = await ran(sandbox, place, command, seconds=0.4)
    assert result.ended_by == "timeout"
    assert 0.4 <= result.seconds < 120
    assert "more than 0.4 s" in result.reason


async def test_daemons_do_not_outlive_it(sandbox: Sandbox, place: Path) -> None:
    daemon = "(setsid sh -c 'env -i sleep 3677 & touch up; sleep 3677' >/dev/null 2>&1 &)"
    command = f"{daemon}; while [ ! -e up ]; do sleep 0.05; done; echo done"
    result = await ran(sandbox, place, command)
    assert result.ok
    assert result.stdout == "done\n"
    assert result.left_running > 0
    assert "sleep\0" + "3677" not in every_command_line()


def every_command_line() -> str:
    lines: list[str] = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(entry.read_text(errors="replace"))
        except OSError:
            continue
    return "\n".join(lines)


async def test_a_child_that_keeps_the_pipe_does_not_hold_it_up(
    sandbox: Sandbox, place: Path
) -> None:
    started = time.monotonic()
    result = await ran(sandbox, place, "sleep 3600 & echo on")
    assert result.stdout == "on\n"
    assert time.monotonic() - started < 120


async def test_closed_streams_are_not_the_end(sandbox: Sandbox, place: Path) -> None:
    result = await ran(sandbox, place, "exec >&- 2>&- <&-; sleep 0.3; touch late; exit 4")
    assert result.exit_code == 4
    assert (place / "late").exists()


@pytest.mark.parametrize("bomb", [CROWD, SCATTERED_CROWD])
async def test_too_many_processes_are_ended(sandbox: Sandbox, place: Path, bomb: str) -> None:
    started = time.monotonic()
    result = await ran(sandbox, place, bomb, processes=40)
    assert result.ended_by == "processes"
    assert result.reason == "the command ran more than 40 processes at once"
    assert time.monotonic() - started < 120


async def test_endless_output_is_capped_and_ended(sandbox: Sandbox, place: Path) -> None:
    result = await ran(sandbox, place, "echo first; yes", output_bytes=1000, flood_bytes=16 * MIB)
    assert result.ended_by == "flood"
    assert result.truncated
    assert result.stdout.startswith("first\ny\n")
    assert len(result.stdout) < 1100
    assert result.stdout_bytes > 16 * MIB


async def test_long_output_within_the_flood_is_fine(sandbox: Sandbox, place: Path) -> None:
    result = await ran(sandbox, place, "seq 1 200000 >&2; echo end", output_bytes=1000)
    assert result.ok
    assert result.truncated
    assert result.stderr.startswith("1\n2\n")
    assert result.stderr.endswith("200000\n")
    assert "bytes left out" in result.stderr


async def test_a_huge_file_is_refused(sandbox: Sandbox, place: Path) -> None:
    command = "head -c 5000000 /dev/zero > big; echo after"
    result = await ran(sandbox, place, command, file_bytes=MIB)
    assert (place / "big").stat().st_size <= MIB
    assert result.stdout == "after\n"


@pytest.mark.parametrize(
    "filling",
    [
        "for i in $(seq 40); do head -c 1000000 /dev/zero > part$i; done",
        "mkdir d; cd d; for i in $(seq 40); do head -c 1000000 /dev/zero > $TMPDIR/part$i; done",
        'python -c \'import os, time; os.write(os.memfd_create("x"), bytes(40_000_000)); '
        "time.sleep(60)'",
    ],
)
async def test_a_disk_is_not_filled_by_many_files(
    sandbox: Sandbox, place: Path, filling: str
) -> None:
    (place / "before").write_bytes(bytes(30 * MIB))
    result = await ran(sandbox, place, f"{filling}; sleep 60", disk_bytes=20 * MIB)
    assert result.ended_by == "disk"
    assert result.reason == "the command wrote more than 20 MiB to disk"


async def test_a_disk_is_not_filled_by_empty_files(sandbox: Sandbox, place: Path) -> None:
    (place / "before").write_bytes(bytes(2 * MIB))
    result = await ran(sandbox, place, "seq 6000 | xargs touch; sleep 60", disk_bytes=MIB)
    assert result.ended_by == "disk"
    assert result.reason == "the command wrote more than 1 MiB to disk"


async def test_what_was_there_before_is_not_counted(sandbox: Sandbox, place: Path) -> None:
    (place / "before").write_bytes(bytes(30 * MIB))
    result = await ran(sandbox, place, "cp before after; sleep 0.5; rm after", disk_bytes=31 * MIB)
    assert result.ok, result.reason


async def test_one_process_is_refused_more_memory(sandbox: Sandbox, place: Path) -> None:
    result = await ran(sandbox, place, "python -c 'bytearray(10**9)'", memory_bytes=256 * MIB)
    assert "MemoryError" in result.stderr
    assert result.exit_code == 1


async def test_many_processes_are_ended_when_they_use_too_much(
    sandbox: Sandbox, place: Path
) -> None:
    one = "python -c 'import time; x = bytearray(80 * 2**20); time.sleep(3600)' &"
    result = await ran(sandbox, place, f"{one} {one} {one} wait", memory_bytes=160 * MIB)
    assert result.ended_by == "memory"
    assert "160 MiB" in result.reason


async def test_memory_that_is_shared_counts_once(sandbox: Sandbox, place: Path) -> None:
    code = (
        "import os, time; x = bytearray(60 * 2**20)\n"
        "children = [os.fork() for _ in range(2)]\n"
        "time.sleep(0.5)\n"
    )
    (place / "share.py").write_text(code)
    result = await ran(sandbox, place, "python share.py", memory_bytes=180 * MIB)
    assert result.ended_by == "itself"


async def test_a_signal_is_reported(sandbox: Sandbox, place: Path) -> None:
    result = await ran(sandbox, place, "kill -SEGV $$")
    assert result.exit_code == 128 + signal.SIGSEGV
    assert result.reason == "the command ended with signal 11 (SIGSEGV)"


async def test_it_may_delete_its_workspace(sandbox: Sandbox, place: Path) -> None:
    (place / "file").write_text("x")
    result = await ran(sandbox, place, f"rm -rf {place}/* {place} 2>/dev/null; echo gone")
    assert result.stdout == "gone\n"
    assert not (place / "file").exists()


async def test_cpu_time_is_measured(sandbox: Sandbox, place: Path) -> None:
    result = await ran(sandbox, place, "python -c 'sum(range(6_000_000))'")
    assert 0.02 < result.cpu_seconds < 120


async def test_several_at_once(sandbox: Sandbox, place: Path) -> None:
    runs = [ran(sandbox, place, f"sleep 0.2; echo {n}; exit {n}") for n in range(6)]
    results = await asyncio.gather(*runs)
    assert [(r.exit_code, r.stdout) for r in results] == [(n, f"{n}\n") for n in range(6)]


async def test_cancelled_nothing_is_left(sandbox: Sandbox, place: Path) -> None:
    command = "(setsid sleep 3600 &); touch started; sleep 3600"
    running = asyncio.create_task(ran(sandbox, place, command))
    await appearing(place / "started")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not marked()


async def test_cancelled_twice_nothing_is_left(sandbox: Sandbox, place: Path) -> None:
    running = asyncio.create_task(
        ran(sandbox, place, "(setsid sleep 3600 &); touch started; sleep 3600")
    )
    await appearing(place / "started")
    running.cancel()
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert eventually(lambda: not marked())


async def appearing(path: Path) -> None:
    # Nothing tells when another process has made a file.
    while not await asyncio.to_thread(path.exists):  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def eventually(condition: Callable[[], bool]) -> bool:
    limit = time.monotonic() + 120
    while not condition() and time.monotonic() < limit:
        time.sleep(0.01)
    return condition()


@pytest.mark.parametrize("pause", ["", "sleep 0.2;"])
async def test_killing_its_watcher_does_not_free_it(bare: Sandbox, place: Path, pause: str) -> None:
    command = f"{pause} (setsid sleep 3600 &); sleep 3600 & kill -9 $PPID; sleep 3600"
    result = await ran(bare, place, command)
    assert result.ended_by == "lost"
    assert not marked()


async def test_a_private_folder_is_removed_whatever_is_in_it(sandbox: Sandbox, place: Path) -> None:
    code = (
        "import os\n"
        "os.chdir(os.environ['TMPDIR'])\n"
        "for _ in range(1100): os.mkdir('deep'); os.chdir('deep')\n"
        "os.mkdir('locked', 0o000)\n"
    )
    (place / "dig.py").write_text(code)
    assert (await ran(sandbox, place, "python dig.py")).ok
    assert not private_folders()


def network_of_this_process() -> str:
    return str(Path("/proc/self/ns/net").readlink())


def private_folders() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f".{os.getpid()}-*.burnish-tmp"))


DRIVER = """
import asyncio, os, signal, sys
from pathlib import Path
from burnish.system import ChildProcesses
from burnish.system.sandbox import Sandbox
async def main():
    place = Path(sys.argv[1])
    sandbox = Sandbox.open(sys.argv[2], children=ChildProcesses(folder=place / "processes"))
    command = "(setsid sh -c 'echo $$ > stray; sleep 3600' &); echo $$ > main; sleep 3600"
    env = {"OWNER": sys.argv[3]}
    running = asyncio.create_task(
        sandbox.run(command, cwd=place, writable=[place], env=env))
    while not ((place / "main").exists() and (place / "stray").exists()):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    if sys.argv[4] == "both":
        for record in (place / "processes").glob("*.json"):
            pid = int(record.stem)
            if b"supervisor.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("killed", ["burnish", "both"])
def test_killed_with_burnish(tmp_path: Path, mode: str, killed: str) -> None:
    argv = [sys.executable, "-c", DRIVER, str(tmp_path), mode, str(os.getpid()), killed]
    driver = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert driver.returncode == -signal.SIGKILL, driver.stderr
    if killed == "burnish":
        # Nobody has to come and clear up.
        assert eventually(lambda: not marked())
    end_leftovers(tmp_path / "processes")
    assert eventually(lambda: not marked())


async def test_walls_that_cannot_be_built_are_no_failure_of_the_command(
    tmp_path: Path, place: Path
) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho bwrap: no namespaces left >&2; exit 1\n")
    broken.chmod(0o755)
    isolation = Isolation(kind="bwrap", program=str(broken), summary="")
    sandbox = Sandbox(isolation=isolation, children=ChildProcesses(folder=tmp_path / "processes"))
    with pytest.raises(BurnishError, match="could not isolate the command: bwrap: no namespaces"):
        await sandbox.run("true", cwd=place)


@NEEDS_BWRAP
class TestIsolation:
    """What only bubblewrap gives."""

    @pytest.fixture
    def sandbox(self, tmp_path: Path) -> Sandbox:
        children = ChildProcesses(folder=tmp_path / "processes")
        secret = tmp_path / "secret"
        secret.mkdir()
        (secret / "holdout").write_text("answers")
        return Sandbox.open("bwrap", children=children, hidden=[secret, tmp_path / "not-there"])

    async def test_only_the_workspace_can_be_written(
        self, sandbox: Sandbox, place: Path, tmp_path: Path
    ) -> None:
        command = f"echo x > in; echo x > {tmp_path}/out; echo x > /etc/out; echo x > ~/own; ls ~"
        result = await ran(sandbox, place, command)
        assert (place / "in").exists()
        assert not (tmp_path / "out").exists()
        assert "/etc/out: Read-only file system" in result.stderr
        assert result.stdout == "own\n"

    async def test_there_is_no_network(self, sandbox: Sandbox, place: Path) -> None:
        code = "import socket; print(sorted(n for _, n in socket.if_nameindex()))"
        result = await sandbox.run(["python", "-c", code], cwd=place)
        assert result.stdout == "['lo']\n"

    async def test_with_network_the_interfaces_are_there(self, tmp_path: Path, place: Path) -> None:
        children = ChildProcesses(folder=tmp_path / "processes")
        sandbox = Sandbox.open("bwrap", children=children, network=True)
        result = await sandbox.run(["readlink", "/proc/self/ns/net"], cwd=place)
        assert result.stdout.strip() == network_of_this_process()

    async def test_hidden_folders_are_empty(
        self, sandbox: Sandbox, place: Path, tmp_path: Path
    ) -> None:
        result = await ran(
            sandbox, place, f"ls -a {tmp_path}/secret; cat {tmp_path}/secret/holdout"
        )
        assert "answers" not in result.stdout
        assert not result.ok

    async def test_it_sees_no_other_processes(self, sandbox: Sandbox, place: Path) -> None:
        result = await ran(sandbox, place, "ls /proc | grep -c '^[0-9]'")
        assert int(result.stdout) < 10

    async def test_an_exit_code_of_1_is_the_commands_own(
        self, sandbox: Sandbox, place: Path
    ) -> None:
        assert (await ran(sandbox, place, "echo bwrap: no >&2; exit 1")).exit_code == 1


KEYS = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
keyctl = 250 if os.uname().machine == "x86_64" else 219
SESSION, NEW, READ = ctypes.c_long(-3), b"burnish-test-key", ctypes.create_string_buffer(64)
key = libc.syscall(keyctl, 10, SESSION, b"user", NEW, 0)  # KEYCTL_SEARCH
if key >= 0 and libc.syscall(keyctl, 11, key, READ, 64, 0) > 0:  # KEYCTL_READ
    print("read", READ.value.decode())
else:
    print("no key")
"""
GIVING = """
import ctypes, os, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
add_key, keyctl = (248, 250) if os.uname().machine == "x86_64" else (217, 219)
libc.syscall(keyctl, 1, None)  # a session of its own, so that the test leaves nothing behind
if libc.syscall(add_key, b"user", b"burnish-test-key", b"secret", 6, ctypes.c_long(-3)) < 0:
    sys.exit(77)
sys.exit(subprocess.run(sys.argv[1:], timeout=120).returncode)
"""
THERE = """
import asyncio, sys
from pathlib import Path
from burnish.system import ChildProcesses
from burnish.system.sandbox import CommandLimits, Sandbox
place = Path(sys.argv[2])
sandbox = Sandbox.open(sys.argv[1], children=ChildProcesses(folder=place.parent / "processes"))
limits = CommandLimits(seconds=120)
ran = sandbox.run("python keys.py", cwd=place, writable=[place], env={}, limits=limits)
print(asyncio.run(ran).stdout)
"""


@pytest.mark.parametrize("mode", MODES)
def test_keys_of_the_users_session_are_not_in_its_keyring(mode: str, place: Path) -> None:
    (place / "keys.py").write_text(KEYS)

    def told(*command: str) -> str:
        argv = [sys.executable, "-c", GIVING, sys.executable, *command]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=240, check=False)
        if done.returncode == 77:
            pytest.skip("this kernel, or its container, has no keyrings")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert told(str(place / "keys.py")) == "read secret", "what is not isolated reads it"
    assert told("-c", THERE, mode, str(place)) == "no key"
