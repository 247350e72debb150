"""Process identity, process groups, and children that never outlive their run."""

import asyncio
import contextlib
import math
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError

from burnish.system.files import file_trouble, read_bytes, write_atomic

if TYPE_CHECKING:
    import psutil

MARKER_VARIABLE = "BURNISH_SANDBOX"
"""The token by which processes are found that left their group and their parent."""
SILENT = 60.0
"""A process that cannot be seen from here counts as gone after this many silent seconds."""

_Stream: TypeAlias = int | IO[Any] | None
_PROC = Path("/proc")
_POLL = 0.02
_KILLED_WITHIN = 2.0


@dataclass(frozen=True, kw_only=True)
class _ProcessEntry:
    """One process; pid and start time together identify it for good."""

    pid: int
    group: int
    start_time: str
    """In a form that does not change with the clock: on Linux the clock ticks since boot,
    elsewhere as `ps` writes it."""
    is_running: bool
    """False for a zombie, which only waits to be reaped."""


def process_entry(pid: int) -> _ProcessEntry | None:
    """Look up one process; None if it is gone."""
    if not (_PROC / "self/stat").exists():
        return _process_elsewhere(pid)
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name may hold spaces and parentheses, so count from its last one.
    state, _, group, *rest = text.rpartition(")")[2].split()
    return _ProcessEntry(
        pid=pid, group=int(group), start_time=rest[16], is_running=state not in "ZXx"
    )


def _process_elsewhere(pid: int) -> _ProcessEntry | None:
    """The same where there is no /proc, as on macOS."""
    import psutil  # every run would load it, to look up itself

    try:
        process = psutil.Process(pid)
        return _ProcessEntry(
            pid=pid,
            group=os.getpgid(pid),
            start_time=" ".join(time.asctime(time.gmtime(process.create_time())).split()),
            is_running=process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD),
        )
    except (psutil.NoSuchProcess, ProcessLookupError):
        return None


def _boot_id() -> str:
    """Changes whenever the machine starts, and differs between machines; '' if unknown."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


@dataclass(frozen=True, kw_only=True)
class Owner:
    """The process that created something others may find later."""

    pid: int
    started: str
    boot: str
    host: str
    space: str
    """Its process id namespace: containers have their own."""

    @classmethod
    def here(cls) -> Self:
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
        texts = {name: str(record[name]) for name in ("started", "boot", "host", "space")}
        return cls(pid=int(record["pid"]), **texts)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def is_gone(self, sign_of_life: Path) -> bool:
        """Whether it ended; if it is on another machine or container, whether its file is old."""
        if self.host == os.uname().nodename:
            if "" not in (self.boot, _boot_id()) and self.boot != _boot_id():
                return True
            if self.space == _pid_namespace():
                entry = process_entry(self.pid)
                if entry is None or not entry.is_running:
                    return True
                started = (self.started, entry.start_time)
                return "" not in started and self.started != entry.start_time
        try:
            return time.time() - sign_of_life.stat().st_mtime > SILENT
        except FileNotFoundError:
            return False


def _pid_namespace() -> str:
    try:
        return str((_PROC / "self/ns/pid").readlink())
    except OSError:
        return ""


def is_running(group: int) -> bool:
    """Whether any process of the group still runs; zombies do not."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    import psutil

    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            if os.getpgid(pid) == group and (entry := process_entry(pid)) and entry.is_running:
                return True
    return False


async def _end_group(group: int, grace: float) -> None:
    """Terminate the group, wait for `grace` seconds, then kill it."""
    try:
        if grace > 0:
            _signal(group, signal.SIGTERM)
            await _until_gone(group, grace)
    finally:
        # Also when cancelled: nothing may outlive this call.
        if is_running(group):
            _signal(group, signal.SIGKILL)
    await _until_gone(group, _KILLED_WITHIN)


def kill_marked(token: str) -> None:
    """Kill every process that was started with this token, and wait until they are gone."""
    import psutil

    limit = time.monotonic() + _KILLED_WITHIN
    while (marked := list(_marked(token))) and time.monotonic() < limit:
        for process in marked:
            with contextlib.suppress(psutil.Error):
                process.kill()
        time.sleep(_POLL)


def _marked(token: str) -> "Iterator[psutil.Process]":
    import psutil

    for process in psutil.process_iter() if token else ():
        # A zombie has no environment any more; others' is not ours to read.
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(MARKER_VARIABLE) == token:
                yield process


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


async def _until_gone(group: int, seconds: float) -> None:
    limit = time.monotonic() + seconds
    # Nothing tells when the last member of a group is gone.
    while time.monotonic() < limit and is_running(group):  # noqa: ASYNC110
        await asyncio.sleep(_POLL)


class _Record(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)

    pgid: int
    start_time: str
    boot: str = ""
    marker: str = ""


@dataclass(frozen=True, kw_only=True)
class ChildProcesses:
    """Starts and ends child processes; `folder` has a record of each that runs."""

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
        """Start a program in its own session, and record its group."""
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
        except BaseException:  # without a record nobody could end it after a crash
            await self.end(process, grace=0)
            raise
        return process

    async def wait(self, process: asyncio.subprocess.Process) -> int:
        """Wait for the exit code, then end what is left in the group.

        Read its pipes at the same time: they end when the group is gone.
        """
        code = await exit_code(process)
        assert code is not None
        await self.end(process, grace=0)
        return code

    async def end(self, process: asyncio.subprocess.Process, *, grace: float = 2.0) -> None:
        """Terminate the whole group, wait for `grace` seconds, then kill it."""
        path = _record_path(self.folder, process.pid)
        # Long after it ended by itself, its number may belong to somebody else.
        if process.returncode is None or _is_ours(_read_record(path)):
            await _end_group(process.pid, grace)
        await exit_code(process)
        path.unlink(missing_ok=True)

    def record(self, group: int, *, marker: str = "") -> None:
        """Record a group; processes that carry its `marker` are ended with it."""
        leader = process_entry(group)
        started = leader.start_time if leader else ""
        record = _Record(pgid=group, start_time=started, boot=_boot_id(), marker=marker)
        # Not durable: no process survives the power cut either.
        write_atomic(_record_path(self.folder, group), record.model_dump_json(), durable=False)

    def forget(self, group: int) -> None:
        """Delete the record of a group that is gone."""
        _record_path(self.folder, group).unlink(missing_ok=True)

    def end_recorded(self, group: int) -> None:
        """Kill what is left of a recorded group, and the processes with its marker. Blocks."""
        _end_recorded(_record_path(self.folder, group))


def end_leftovers(folder: Path) -> list[int]:
    """Kill what a killed run left running, by its records; return the ended groups."""
    groups = [_end_recorded(path) for path in sorted(folder.glob("[0-9]*.json"))]
    return [group for group in groups if group is not None]


def _end_recorded(path: Path) -> int | None:
    record, ended = _read_record(path), None
    if record and _is_ours(record):
        ended = record.pgid
        _signal(ended, signal.SIGKILL)
        limit = time.monotonic() + _KILLED_WITHIN
        while time.monotonic() < limit and is_running(ended):
            time.sleep(_POLL)
    if record and record.boot in ("", _boot_id()):
        kill_marked(record.marker)
    path.unlink(missing_ok=True)
    return ended


def own_children(home: Path) -> ChildProcesses:
    """The children of this process, if no run folder can hold their records.

    Each process has its own folder under `home`, with a unique name. What dead processes left
    running is ended.
    """
    # This start of this machine: a home folder may be shared with others.
    machine = _boot_id().replace("-", "")[:12] or "here"
    for folder in sorted(home.glob(f"{machine}-*-*")):
        pid = folder.name.removeprefix(f"{machine}-").partition("-")[0]
        if pid.isdigit() and folder.name != _driver_name(machine, int(pid)):
            end_leftovers(folder)
            with contextlib.suppress(OSError):  # somebody else was faster, or wrote into it
                folder.rmdir()
    return ChildProcesses(folder=home / _driver_name(machine, os.getpid()))


def _driver_name(machine: str, pid: int) -> str:
    driver = process_entry(pid)
    if driver is None or not driver.is_running:
        return f"{machine}-{pid}-gone"
    started = "".join(driver.start_time.split()).replace(":", "")
    return f"{machine}-{pid}-{started}"


async def exit_code(process: asyncio.subprocess.Process, *, within: float = math.inf) -> int | None:
    """Wait for a process to end; None if it does not end `within` these seconds."""
    waiting = asyncio.create_task(process.wait())
    limit = time.monotonic() + within
    try:
        # Older Pythons wake the waiting only when the pipes are closed too, and a grandchild may
        # hold those open for ever.
        while process.returncode is None and time.monotonic() < limit:
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
    """Whether the recorded group still runs, and not another one that reuses its number."""
    if record is None or record.pgid <= 1 or record.pgid == os.getpgrp():
        return False
    if record.boot not in ("", _boot_id()):
        return False
    leader = process_entry(record.pgid)
    if leader is not None and leader.start_time != record.start_time:
        return False
    return is_running(record.pgid)
