"""Real attempts to leave the sandbox. Under bubblewrap none succeeds; what Landlock leaves open is
listed here, and the table in SECURITY.md says the same."""

import asyncio
import ctypes
import json
import os
import pty
import re
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from burnish.system import ChildProcesses
from burnish.system.sandbox import (
    CommandLimits,
    CommandResult,
    Mode,
    Sandbox,
    probe_bubblewrap,
    probe_landlock,
)
from burnish.system.sandbox.walls import Walls, walled
from tests.security import attacks

pytestmark = [pytest.mark.slow, pytest.mark.on_disk]

PROBE, LANDLOCK = probe_bubblewrap(), probe_landlock()
NEEDS_BWRAP = pytest.mark.skipif(not PROBE.works, reason=f"bubblewrap: {PROBE.reason}")
NEEDS_LANDLOCK = pytest.mark.skipif(LANDLOCK.abi < 6, reason=f"Landlock: {LANDLOCK.reason}")
MIB = 1024 * 1024
LEFT_OPEN = {
    "see_other_processes",
    "change_modes_outside",
    "udp_loopback",
    "socket_of_service",
    "system_v_memory",
    "unshare",
}
"""What Landlock does not cover."""
LIMITED = {
    "fill_disk": "disk",
    "fill_memory_by_unnamed_files": "disk",
    "fork_bomb": "processes",
    "memory_hog": "memory",
    "run_for_ever": "timeout",
}
"""Attacks that a limit ends, and which one."""
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class Host:
    """Canaries on this machine, and a workspace between them."""

    folder: Path
    workspace: Path
    project: Path
    run: Path
    facts: dict[str, object]

    async def attacked(self, names: str, mode: Mode) -> CommandResult:
        """The attacks in one command, one after the other."""
        sandbox = Sandbox.open(
            mode,
            children=ChildProcesses(folder=self.folder / "processes"),
            hidden=[self.project, self.run],
        )
        shutil.copy(attacks.__file__, self.workspace / "attacks.py")
        world = {**self.facts, "pid": os.getpid(), "workspace": str(self.workspace)}
        (self.workspace / "world.json").write_text(json.dumps(world))
        packages = [".venv", "node_modules"] if mode == "bwrap" else []
        mounts = {self.workspace / name: self.project / name for name in packages}
        for place in mounts:
            place.mkdir()
        limits = CommandLimits(
            seconds=3 if names == "run_for_ever" else 100,
            memory_bytes=192 * MIB,
            disk_bytes=20 * MIB,
            processes=50,
        )
        return await sandbox.run(
            ["python", "attacks.py", names, "world.json"],
            cwd=self.workspace,
            writable=[self.workspace],
            mounts=mounts,
            limits=limits,
        )

    @property
    def written(self) -> list[Path]:
        """Canaries of the host that an attack has written to."""
        places = [self.folder, Path(str(self.facts["temporary"])) / "made"]
        shared = Path("/dev/shm") / str(self.facts["shared"])
        files = [path for place in places for path in (place, *place.rglob("*")) if path.is_file()]
        files = [path for path in (*files, shared) if not path.is_relative_to(self.workspace)]
        mark = str(self.facts["mark"]).encode()
        return [path for path in files if mark in path.read_bytes()]


@pytest.fixture(params=["tmp", "elsewhere", "home"])
def host(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Host]:
    """The project lies in /tmp, beside the temporary files, or in the home."""
    yield from _host(request.param, tmp_path, monkeypatch)


@pytest.fixture
def usual(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    yield from _host("tmp", tmp_path, monkeypatch)


def _host(layout: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    canary, secret = f"canary-{secrets.token_hex(8)}", f"key-{secrets.token_hex(8)}"
    home = folder / "home"
    temporary = Path(tempfile.gettempdir()) if layout == "tmp" else folder / "temporary"
    project = home / "project" if layout == "home" else folder / "project"
    run, outside = project / "results/run", folder / "outside"
    workspace = temporary / f".{os.getpid()}-{secrets.token_hex(8)}.burnish-tmp"
    other = temporary / f".{os.getpid()}-{secrets.token_hex(8)}.burnish-tmp"
    for made in (home / ".ssh", temporary, run, outside, workspace, other,
                 project / ".venv", project / "node_modules"):  # fmt: skip
        made.mkdir(parents=True, exist_ok=True)
    files = {
        "holdout": project / "holdout.json",
        "journal": run / "journal.db",
        "ssh_key": home / ".ssh/id_ed25519",
        "workspace_of_other": other / "canary",
        "inherited": outside / "open",
    }
    for path in files.values():
        path.write_text(canary)
        path.chmod(0o644)
    os.mkfifo(outside / "fifo")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", f"unix:path={outside}/service")
    monkeypatch.setenv("XDG_RUNTIME_DIR", f"/run/{canary}")
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with ExitStack() as opened:
        opened.callback(shutil.rmtree, workspace, ignore_errors=True)
        opened.callback(shutil.rmtree, other, ignore_errors=True)
        services = _services(opened, outside, canary)
        inherited = os.open(files["inherited"], os.O_RDONLY)
        opened.callback(os.close, inherited)
        os.set_inheritable(inherited, True)
        facts: dict[str, object] = {
            "canary": canary, "secret": secret, "home": str(home), "temporary": str(temporary),
            "project": str(project), "run": str(run), "outside": str(outside),
            "fifo": str(outside / "fifo"), "mark": f"mark-{secrets.token_hex(8)}", **services,
            **{name: str(path) for name, path in files.items()},
        }  # fmt: skip
        yield Host(folder=folder, workspace=workspace, project=project, run=run, facts=facts)


def _services(opened: ExitStack, outside: Path, canary: str) -> dict[str, object]:
    """Sockets, shared memory and a terminal of the host."""
    tcp = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
    udp = opened.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    udp.bind(("127.0.0.1", 0))
    threading.Thread(target=_echo, args=(udp,), daemon=True).start()
    for address in (f"\0{canary}", str(outside / "service")):
        line = opened.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        line.bind(address)
        line.listen()
    shared = Path("/dev/shm") / canary
    shared.write_text(canary)
    opened.callback(shared.unlink, missing_ok=True)
    libc, key = ctypes.CDLL(None), secrets.randbelow(2**30) + 1
    segment = libc.shmget(key, 1, stat.S_IRUSR | stat.S_IWUSR | 0o1000)
    opened.callback(libc.shmctl, segment, 0, None)
    ours, theirs = pty.openpty()
    opened.callback(os.close, ours)
    opened.callback(os.close, theirs)
    return {
        "tcp": tcp.getsockname()[1], "udp": udp.getsockname()[1], "abstract": canary,
        "socket": str(outside / "service"), "shared": canary, "key": key,
        "terminal": os.ttyname(theirs),
    }  # fmt: skip


def _echo(line: socket.socket) -> None:
    try:
        while True:
            content, sender = line.recvfrom(64)
            line.sendto(content, sender)
    except OSError:
        return


QUICK = [name for name in attacks.ATTACKS if name not in LIMITED]
PLACED = ("read_holdout", "read_journal", "read_ssh_key", "read_other_workspaces", "symlink_out",
          "reach_through_proc_root", "write_outside", "overwrite_packages")  # fmt: skip
"""Attacks whose way depends on where things lie."""


def successes(host: Host, names: list[str], result: CommandResult) -> set[str]:
    """The attacks that succeeded, seen from inside and from outside."""
    _, *parts = re.split(r"^== (\w+)\n", result.stdout, flags=re.MULTILINE)
    outputs = dict(zip(parts[::2], parts[1::2], strict=True))
    assert list(outputs) == names, result.stderr
    assert all(text.endswith("ended\n") for text in outputs.values()), (result, outputs)
    assert host.written == []
    if "daemon_outlives" in names:
        assert result.left_running > 0
        assert not daemons(str(host.workspace))
    assert not list(host.workspace.glob("core*"))
    changed = stat.S_IMODE(Path(str(host.facts["holdout"])).stat().st_mode) == 0o600
    seen = {"change_modes_outside"} if changed else set[str]()
    return seen | {name for name, text in outputs.items() if "ESCAPED" in text}


def daemons(workspace: str) -> list[str]:
    """Processes that still run an attack in this workspace."""
    running: list[str] = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if workspace in str((entry / "cwd").readlink()):
                running.append(entry.name)
    return running


@pytest.mark.parametrize(
    "mode",
    [pytest.param("bwrap", marks=NEEDS_BWRAP), pytest.param("landlock", marks=NEEDS_LANDLOCK)],
)
async def test_it_holds_wherever_things_lie(host: Host, mode: Mode) -> None:
    result = await host.attacked(",".join(PLACED), mode)
    assert successes(host, [*PLACED], result) == set(), result.stdout


@NEEDS_BWRAP
async def test_no_escape_succeeds_in_bubblewrap(usual: Host) -> None:
    result = await usual.attacked(",".join(QUICK), "bwrap")
    assert successes(usual, QUICK, result) == set(), result.stdout


@NEEDS_LANDLOCK
async def test_landlock_holds_what_it_covers(usual: Host) -> None:
    result = await usual.attacked(",".join(QUICK), "landlock")
    assert successes(usual, QUICK, result) == LEFT_OPEN, result.stdout


@pytest.mark.parametrize(
    "mode",
    [pytest.param("bwrap", marks=NEEDS_BWRAP), pytest.param("landlock", marks=NEEDS_LANDLOCK)],
)
@pytest.mark.parametrize("name", LIMITED)
async def test_limits_end_what_takes_too_much(usual: Host, name: str, mode: Mode) -> None:
    result = await usual.attacked(name, mode)
    assert "ESCAPED" not in result.stdout
    assert result.ended_by == LIMITED[name], result


async def test_the_attacks_work_where_nothing_holds(usual: Host) -> None:
    """An attack that never works proves nothing."""
    names = ["read_holdout", "read_journal", "read_ssh_key", "read_other_workspaces",
             "reach_through_proc_root", "hardlink_out", "rename_out", "change_modes_outside",
             "tcp_loopback", "udp_loopback", "abstract_socket", "socket_of_service",
             "shared_memory", "system_v_memory", "see_other_processes"]  # fmt: skip
    result = await usual.attacked(",".join(names), "none")
    assert len(usual.written) == 1  # the shared memory
    (Path("/dev/shm") / str(usual.facts["shared"])).write_text("")
    assert successes(usual, names, result) == {*names}


async def test_even_without_isolation_burnish_is_not_signalled(usual: Host) -> None:
    names = ["kill_burnish", "kill_watcher", "ptrace_burnish", "environment_secrets"]
    if not Sandbox.open("none", children=ChildProcesses(folder=usual.folder)).isolation.abi:
        pytest.skip("this kernel cannot keep signals in")
    result = await usual.attacked(",".join(names), "none")
    assert successes(usual, names, result) == set(), result.stdout


@NEEDS_BWRAP
@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
async def test_bubblewrap_holds_for_a_user_without_privileges(
    usual: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root's own Python is not theirs to read: the system's shell is enough here.
    for name in ("prefix", "base_prefix"):
        monkeypatch.setattr(sys, name, "/usr")
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    private = usual.workspace / "private"
    private.mkdir()
    walls = Walls(private=private, cwd=usual.workspace, writable=[usual.workspace], path="/usr/bin")
    argv = walled(PROBE.program, walls, PROBE.options)
    for path in (usual.workspace, *usual.workspace.rglob("*")):
        os.chown(path, 65534, 65534)
    script = (
        f"id -u; echo x > made; cat {usual.facts['holdout']} {usual.facts['ssh_key']}; "
        f"echo {usual.facts['mark']} > {usual.facts['outside']}/made; kill -CONT {os.getpid()}; "
        "echo x > /proc/sys/kernel/hostname; ls /proc | grep -c '^[0-9]'"
    )
    ran = await asyncio.to_thread(
        subprocess.run, [*argv, "/bin/sh", "-c", script], capture_output=True, text=True,
        check=False, user=65534, group=65534, extra_groups=[], env={"PATH": "/usr/bin:/bin"},
        cwd="/",
    )  # fmt: skip
    assert "65534" in ran.stdout, ran.stderr
    assert (usual.workspace / "made").exists()
    assert str(usual.facts["canary"]) not in ran.stdout
    assert usual.written == []
    assert int(ran.stdout.split()[-1]) < 10


def test_the_list_in_the_policy_is_this_one() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| (held|open) \| (held|open) \|$", text, re.MULTILINE)
    expected = {name: ("held", "open" if name in LEFT_OPEN else "held") for name in attacks.ATTACKS}
    assert {name: (bwrap, landlock) for name, bwrap, landlock in rows} == expected
    assert len(expected) >= 20
