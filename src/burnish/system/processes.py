"""Processes: who they are, how groups of them end, and children that never outlive their run."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Self, TypeAlias

import psutil
from pydantic import BaseModel, ConfigDict, ValidationError

from burnish.system.files import file_trouble, read_bytes, write_atomic

MARKER_VARIABLE = "BURNISH_SANDBOX"
"""Carries the token by which processes are known that left their group and their parent."""
SILENT = 60.0
"""Seconds without a sign of life after which a process that cannot be seen from here is gone."""

_Stream: TypeAlias = int | IO[Any] | None
_POLL = 0.02
_KILLED_WITHIN = 2.0


# -- who they are ----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _ProcessEntry:
    """One process; pid and start time together name it for good."""

    pid: int
    group: int
    start_time: str
    is_running: bool
    """False for a zombie, which only waits to be reaped."""


def process_entry(pid: int) -> _ProcessEntry | None:
    """What is known of one process; None when it is gone."""
    try:
        process = psutil.Process(pid)
        return _ProcessEntry(
            pid=pid,
            group=os.getpgid(pid),
            start_time=_start_time(process),
            is_running=process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD),
        )
    except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
        return None


def _boot_id() -> str:
    """Changes whenever the machine starts, and differs between machines; '' when not known."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _start_time(process: psutil.Process) -> str:
    """When a process started, in a form that a change of the clock leaves as it is.

    psutil counts from the time of the boot, which moves with the clock. Linux has the clock ticks
    since then; elsewhere it is written as `ps` does, as in records that are older than this.
    """
    if psutil.LINUX:
        text = Path(f"/proc/{process.pid}/stat").read_text(errors="replace")
        # The name may hold spaces and parentheses, so count from its last one.
        return text.rpartition(")")[2].split()[19]
    return " ".join(time.asctime(time.gmtime(process.create_time())).split())


@dataclass(frozen=True, kw_only=True)
class Owner:
    """The process that made something others may find later."""

    pid: int
    started: str
    boot: str
    host: str
    space: str
    """The space of process numbers it lives in: containers have their own."""

    @classmethod
    def here(cls) -> Self:
        """This process."""
        entry = process_entry(os.getpid())
        return cls(
            pid=os.getpid(),
            started=entry.start_time if entry else "",
            boot=_boot_id(),
            host=os.uname().nodename,
            space=_pid_namespace(),
        )

    @classmethod
    def parse(cls, record: Mapping[str, Any]) -> Self:
        """An owner as it was written down."""
        return cls(
            pid=int(record["pid"]),
            started=str(record["started"]),
            boot=str(record["boot"]),
            host=str(record["host"]),
            space=str(record["space"]),
        )

    def as_json(self) -> dict[str, Any]:
        """How it is written down."""
        return asdict(self)

    def is_gone(self, sign_of_life: Path) -> bool:
        """Whether it ended; one of another machine or container when its file is old."""
        if self.host == os.uname().nodename:
            if "" not in (self.boot, _boot_id()) and self.boot != _boot_id():
                return True
            if self.space == _pid_namespace():
                return self._ended_here()
        try:
            return time.time() - sign_of_life.stat().st_mtime > SILENT
        except FileNotFoundError:
            return False

    def _ended_here(self) -> bool:
        entry = process_entry(self.pid)
        if entry is None or not entry.is_running:
            return True
        return "" not in (self.started, entry.start_time) and self.started != entry.start_time


def _pid_namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


# -- groups, and those who left them ---------------------------------------------------------


def is_running(group: int) -> bool:
    """Whether any process of the group still runs; zombies do not."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    members = (process_entry(pid) for pid in psutil.pids() if _group_of(pid) == group)
    return any(entry is not None and entry.is_running for entry in members)


async def _end_group(group: int, grace: float) -> None:
    """Ask the group to end, wait for `grace` seconds, then kill it."""
    try:
        if grace > 0:
            _signal(group, signal.SIGTERM)
            await _until_gone(group, grace)
    finally:
        # Also when cancelled: nothing may outlive this call.
        if is_running(group):
            _signal(group, signal.SIGKILL)
    await _until_gone(group, _KILLED_WITHIN)


def _kill_group(group: int) -> None:
    """End a group without asking, and see it gone."""
    _signal(group, signal.SIGKILL)
    limit = time.monotonic() + _KILLED_WITHIN
    while time.monotonic() < limit and is_running(group):
        time.sleep(_POLL)


def kill_marked(token: str) -> None:
    """Kill every process that was started with this token, and see them gone."""
    limit = time.monotonic() + _KILLED_WITHIN
    while (marked := list(_marked(token))) and time.monotonic() < limit:
        for process in marked:
            with contextlib.suppress(psutil.Error):
                process.kill()
        time.sleep(_POLL)


def _marked(token: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter() if token else ():
        # A zombie has no environment any more; others' is not ours to read.
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(MARKER_VARIABLE) == token:
                yield process


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


async def _until_gone(group: int, seconds: float) -> None:
    limit = time.monotonic() + seconds
    # Nothing tells when the last member of a group is gone.
    while time.monotonic() < limit and is_running(group):  # noqa: ASYNC110
        await asyncio.sleep(_POLL)


# -- children on record ----------------------------------------------------------------------


class _Record(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)

    pgid: int
    start_time: str
    boot: str = ""
    marker: str = ""


@dataclass(frozen=True, kw_only=True)
class ChildProcesses:
    """Starts and ends child processes; `folder` records those that run."""

    folder: Path

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: _Stream = asyncio.subprocess.DEVNULL,
        stdout: _Stream = None,
        stderr: _Stream = None,
        pass_fds: Sequence[int] = (),
        marker: str = "",
    ) -> asyncio.subprocess.Process:
        """Start a program in a session of its own and put its group on record."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            process = await asyncio.create_subprocess_exec(
                *argv,
                cwd=cwd,
                env=env,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                pass_fds=pass_fds,
            )
        except OSError as error:
            raise file_trouble("start", Path(error.filename or argv[0]), error) from error
        try:
            self.record(process.pid, marker=marker)
        except BaseException:
            # Without a record nobody could end it after a crash.
            await self.end(process, grace=0)
            raise
        return process

    async def wait(self, process: asyncio.subprocess.Process) -> int:
        """The exit code, once it ended by itself; what it left running in its group is ended.

        Read its pipes at the same time: they reach their end when the group is gone.
        """
        code = await _exit_code(process)
        await self.end(process, grace=0)
        return code

    async def end(self, process: asyncio.subprocess.Process, *, grace: float = 2.0) -> None:
        """End the whole group: ask, wait for `grace` seconds, then kill."""
        path = _record_path(self.folder, process.pid)
        # Long after it ended by itself, its number may belong to somebody else.
        if process.returncode is None or _is_ours(_read_record(path)):
            await _end_group(process.pid, grace)
        await _exit_code(process)
        path.unlink(missing_ok=True)

    def record(self, group: int, *, marker: str = "") -> None:
        """Put a group on record; with a `marker`, whoever carries it is ended with the group."""
        leader = process_entry(group)
        started = leader.start_time if leader else ""
        record = _Record(pgid=group, start_time=started, boot=_boot_id(), marker=marker)
        # Not durable: no process survives the power cut either.
        write_atomic(_record_path(self.folder, group), record.model_dump_json(), durable=False)

    def forget(self, group: int) -> None:
        """Take a group that is known to be gone off the record."""
        _record_path(self.folder, group).unlink(missing_ok=True)

    def end_recorded(self, group: int) -> None:
        """Kill what still runs of a group that `record` put on record, and those with its marker.

        Blocks for the moment that this takes.
        """
        _end_recorded(_record_path(self.folder, group))


def end_leftovers(folder: Path) -> list[int]:
    """Kill what a killed run left running, by its records; the groups that were ended."""
    groups = [_end_recorded(path) for path in sorted(folder.glob("[0-9]*.json"))]
    return [group for group in groups if group is not None]


def _end_recorded(path: Path) -> int | None:
    record, ended = _read_record(path), None
    if record and _is_ours(record):
        _kill_group(record.pgid)
        ended = record.pgid
    if record and record.boot in ("", _boot_id()):
        kill_marked(record.marker)
    path.unlink(missing_ok=True)
    return ended


def own_children(home: Path) -> ChildProcesses:
    """The children of this process, for those who have no run's folder to keep their records in.

    Each driving process has a folder of its own under `home`, named so that nobody else can be
    mistaken for it. What drivers that are gone left running is ended.
    """
    _end_orphans(home)
    return ChildProcesses(folder=home / _driver_name(os.getpid()))


def _end_orphans(home: Path) -> None:
    machine = _machine()
    for folder in sorted(home.glob(f"{machine}-*-*")):
        pid = folder.name.removeprefix(f"{machine}-").partition("-")[0]
        if pid.isdigit() and folder.name != _driver_name(int(pid)):
            end_leftovers(folder)
            with contextlib.suppress(OSError):  # somebody else was faster, or wrote into it
                folder.rmdir()


def _driver_name(pid: int) -> str:
    driver = process_entry(pid)
    if driver is None or not driver.is_running:
        return f"{_machine()}-{pid}-gone"
    started = "".join(driver.start_time.split()).replace(":", "")
    return f"{_machine()}-{pid}-{started}"


def _machine() -> str:
    """This start of this machine: a home folder may be shared with others."""
    return _boot_id().replace("-", "")[:12] or "here"


async def _exit_code(process: asyncio.subprocess.Process) -> int:
    waiting = asyncio.create_task(process.wait())
    try:
        # Older Pythons wake the waiting only when the pipes are closed too, and a grandchild may
        # hold those open for ever.
        while process.returncode is None:
            await asyncio.wait({waiting}, timeout=0.05)
    finally:
        waiting.cancel()
    return process.returncode


def _record_path(folder: Path, group: int) -> Path:
    return folder / f"{group}.json"


def _read_record(path: Path) -> _Record | None:
    try:
        return _Record.model_validate_json(read_bytes(path)) if path.exists() else None
    except ValidationError:
        return None


def _is_ours(record: _Record | None) -> bool:
    """Whether the group still runs and is the one on record, not a later owner of its number."""
    if record is None or record.pgid <= 1 or record.pgid == os.getpgrp():
        return False
    if record.boot not in ("", _boot_id()):
        return False
    leader = process_entry(record.pgid)
    if leader is not None and leader.start_time != record.start_time:
        return False
    return is_running(record.pgid)
