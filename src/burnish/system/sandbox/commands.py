"""Runs commands within limits, each under a supervisor, and isolated if possible."""

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel

from burnish.core.errors import BurnishError, FileTrouble
from burnish.system.files import file_trouble, remove_stale_temporaries, remove_tree, spare_beside
from burnish.system.processes import MARKER_VARIABLE, ChildProcesses, exit_code, kill_marked
from burnish.system.sandbox import supervisor
from burnish.system.sandbox.isolation import (
    Capture,
    CommandLimits,
    CommandResult,
    EndedBy,
    Isolation,
    Mode,
    failure_reason,
    resolve,
)
from burnish.system.sandbox.walls import (
    INSIDE_TMP,
    Walls,
    clean_environment,
    fenced,
    guarded,
    walled,
    with_python,
)

_PART = 256 * 1024
_LET_GO = 8.0
"""Seconds for a supervisor to end all that it started; it needs a few milliseconds."""


@dataclass(frozen=True, kw_only=True)
class _Launcher:
    """The program that isolates a command before it becomes it, and how it reports that."""

    name: str = ""
    at: int = 0
    """Where its option for a descriptor goes; 0 if it has none."""
    option: str = ""
    mark: str = ""
    """What it writes there if the command has run."""
    processes: int = 0
    """How many processes of its own it has."""
    enters: bool = False
    """Whether it goes to the command's folder by itself."""


_PLAIN = _Launcher()
_BUBBLEWRAP = _Launcher(
    name="bubblewrap", at=1, option="--json-status-fd", mark='"exit-code"', processes=2, enters=True
)
_LANDLOCK = _Launcher(name="Landlock", at=5, option="--status-fd", mark="started")


@dataclass(frozen=True, kw_only=True)
class _Order:
    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    limits: CommandLimits
    marker: str
    folders: Sequence[Path]
    """What it may write to, and so may fill."""
    launcher: "_Launcher"

    def as_line(self) -> bytes:
        fields: dict[str, Any] = {
            "argv": list(self.argv),
            "cwd": "/" if self.launcher.enters else str(self.cwd),
            "env": dict(self.env),
            "seconds": self.limits.seconds,
            "memory": self.limits.memory_bytes,
            "file": self.limits.file_bytes,
            "disk": self.limits.disk_bytes,
            "folders": [str(folder) for folder in self.folders],
            "processes": self.limits.processes,
            "priority": os.getpriority(os.PRIO_PROCESS, 0),
            "status": [self.launcher.at, self.launcher.option, self.launcher.mark],
            "own": self.launcher.processes,
        }
        return json.dumps(fields).encode() + b"\n"


class _Report(BaseModel):
    """The supervisor's final report."""

    ended_by: EndedBy
    exit_code: int
    seconds: float
    cpu_seconds: float = 0.0
    left_running: int = 0
    stuck: int = 0
    """Processes that survived even a kill, because they hang in the kernel."""
    began: bool = True


async def _supervise(
    order: _Order, children: ChildProcesses, stdin: bytes
) -> tuple[_Report, Capture, Capture]:
    """Run a command; nothing of it is left when this returns or is cancelled."""
    async with _supervisor(order, children) as supervision:
        process = supervision.process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        out, err = (Capture(order.limits.output_bytes) for _ in range(2))
        streams = asyncio.gather(
            _write(process.stdin, stdin),
            _read(process.stdout, out, supervision),
            _read(process.stderr, err, supervision),
        )
        try:
            report = await supervision.report()
            # All who could write are gone, or hang in the kernel and are not waited for.
            await asyncio.wait({streams}, timeout=2.0)
        finally:
            streams.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await streams
    if not report.began:
        lines = err.text().strip().splitlines()
        reason = lines[-1] if lines else "no reason"
        message = f"{order.launcher.name} could not isolate the command: {reason}"
        raise BurnishError(message, remedy="Fix what it reports, or set `sandbox: none`.")
    return report, out, err


@dataclass(kw_only=True)
class _Supervision:
    order: _Order
    children: ChildProcesses
    process: asyncio.subprocess.Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    group: int | None = None
    settled: bool = False
    """Whether the supervisor reported that everything is gone."""
    written: int = 0

    async def report(self) -> _Report:
        """Wait for the report; the group of the command is recorded as long as it may run."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.order.limits.seconds + _LET_GO):
                while message := await _next(self.reader):
                    if "refused" in message:
                        raise FileTrouble(
                            f"cannot start {self.order.argv[0]}: {message['refused']}"
                        )
                    if "group" not in message:
                        report = _Report.model_validate(message)
                        self.settled = not report.stuck
                        return report
                    self.group = int(message["group"])
                    self.children.record(self.group, marker=self.order.marker)
        # Nobody is left to end what still runs, and it may hold the pipes.
        self._end_command()
        return _Report(ended_by="lost", exit_code=137, seconds=0.0)

    def note_output(self, size: int) -> None:
        """Stop a command that floods its output."""
        before, self.written = self.written, self.written + size
        if before <= self.order.limits.flood_bytes < self.written:
            self.writer.write(b"flood")

    async def end(self) -> None:
        """End everything; the supervisor does it when the socket closes, even if we are killed."""
        self.writer.close()
        try:
            await exit_code(self.process, within=_LET_GO)
        finally:
            try:
                await self.children.end(self.process, grace=0)
            finally:
                self._end_command()

    def _end_command(self) -> None:
        if self.group is None:
            # Without a report it may have been started all the same.
            kill_marked("" if self.settled else self.order.marker)
        elif self.settled:
            self.children.forget(self.group)
        else:
            self.children.end_recorded(self.group)


@asynccontextmanager
async def _supervisor(
    order: _Order, children: ChildProcesses
) -> AsyncGenerator[_Supervision, None]:
    here, there = socket.socketpair()
    script, pipe = Path(supervisor.__file__), asyncio.subprocess.PIPE
    argv = [sys.executable, "-I", "-S", "-B", str(script), str(there.fileno())]
    with contextlib.closing(here):
        with there:
            process = await children.spawn(
                argv, cwd=Path("/"), env={"PATH": os.defpath}, stdin=pipe, stdout=pipe,
                stderr=pipe, pass_fds=(there.fileno(),), marker=order.marker,
            )  # fmt: skip
        reader, writer = await asyncio.open_connection(sock=here)
        supervision = _Supervision(
            order=order, children=children, process=process, reader=reader, writer=writer
        )
        try:
            writer.write(order.as_line())
            yield supervision
        finally:
            await supervision.end()


async def _next(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    try:
        row = await reader.readline()
    except ConnectionError:
        return None
    return json.loads(row) if row.endswith(b"\n") else None


async def _write(pipe: asyncio.StreamWriter, content: bytes) -> None:
    # A command that does not read its input may be gone before it was given all of it.
    with contextlib.suppress(ConnectionError):
        pipe.write(content)
        await pipe.drain()
    pipe.close()
    with contextlib.suppress(ConnectionError):
        await pipe.wait_closed()


async def _read(pipe: asyncio.StreamReader, capture: Capture, supervision: _Supervision) -> None:
    while part := await pipe.read(_PART):
        capture.add(part)
        supervision.note_output(len(part))


@dataclass(frozen=True, kw_only=True)
class Sandbox:
    """Where untrusted commands run."""

    isolation: Isolation
    children: ChildProcesses
    allow: tuple[str, ...] = ()
    """Environment variables that commands inherit; keys only if they are listed here."""
    network: bool = False
    """Whether commands may use the network; without isolation they always can."""
    hidden: tuple[Path, ...] = ()
    """Not visible to isolated commands even inside a visible folder, unless they may write there.

    Most of the machine is not visible anyway: only what the system and Python consist of is."""
    readable: tuple[Path, ...] = ()
    """Further files and folders that isolated commands can read."""

    @classmethod
    def open(
        cls,
        mode: Mode,
        *,
        children: ChildProcesses,
        allow: Sequence[str] = (),
        network: bool = False,
        hidden: Sequence[Path] = (),
        readable: Sequence[Path] = (),
    ) -> Self:
        """Detect what this machine supports, and remove what a killed burnish left."""
        remove_stale_temporaries(Path(tempfile.gettempdir()), shared=True)
        return cls(
            isolation=resolve(mode),
            children=children,
            allow=tuple(allow),
            network=network,
            hidden=tuple(path.resolve() for path in hidden),
            readable=tuple(path.resolve() for path in readable),
        )

    @property
    def summary(self) -> str:
        """One sentence: what is isolated, or why nothing is, and what would isolate better."""
        if self.isolation.kind == "none":
            return self.isolation.notice
        network = "the network is open" if self.network else "there is no network"
        return f"{self.isolation.notice}; {network}"

    async def run(
        self,
        command: str | Sequence[str],
        *,
        cwd: Path,
        writable: Sequence[Path] = (),
        readable: Sequence[Path] = (),
        mounts: Mapping[Path, Path] | None = None,
        home: Path | None = None,
        env: Mapping[str, str] | None = None,
        limits: CommandLimits | None = None,
        stdin: bytes = b"",
    ) -> CommandResult:
        """Run a command to its end; nothing that it started is left when this returns.

        A string is a line for `sh`, with its pipes and `&&`; a sequence is a program and its
        arguments, without a shell. If isolated, it can write to `writable` and to its own /tmp;
        it can read `readable` too, and in bubblewrap it finds `mounts`, folders of the host by
        their places in `writable`.
        Without a `home`, it has an empty one that is removed.
        """
        cwd, *writable = _folders(cwd, *writable, *([] if home is None else [home]))
        limits = limits or CommandLimits()
        async with _private_folder() as private:
            tmp = INSIDE_TMP if self.isolation.kind == "bwrap" else private / "tmp"
            roots = writable or [cwd]
            environment = clean_environment(
                tmp=tmp, home=home, allow=self.allow, extra=env, roots=roots
            )
            environment = with_python(environment, private / "tmp/bin", tmp / "bin")
            marker = secrets.token_hex(16)
            path = f"{private / 'tmp/bin'}{os.pathsep}{environment['PATH']}"
            argv = _argv(command, cwd, path)
            walls = Walls(
                private=private, cwd=cwd, writable=writable,
                readable=[*self.readable, *readable],
                mounts=mounts or {}, hidden=self.hidden, network=self.network,
                path=environment["PATH"], program=_program(command),
            )  # fmt: skip
            argv, launcher = self._isolated(argv, walls)
            environment[MARKER_VARIABLE] = marker
            order = _Order(argv=argv, cwd=cwd, env=environment, limits=limits, marker=marker,
                           folders=[*writable, private], launcher=launcher)  # fmt: skip
            report, out, err = await _supervise(order, self.children, stdin)
        return CommandResult(
            exit_code=report.exit_code,
            ended_by=report.ended_by,
            stdout=out.text(),
            stderr=err.text(),
            stdout_bytes=out.total,
            stderr_bytes=err.total,
            truncated=bool(out.left_out or err.left_out),
            seconds=report.seconds,
            cpu_seconds=report.cpu_seconds,
            left_running=report.left_running,
            isolation=self.isolation.kind,
            reason=failure_reason(report.ended_by, report.exit_code, limits),
        )

    def _isolated(self, argv: list[str], walls: Walls) -> tuple[list[str], _Launcher]:
        isolation = self.isolation
        if isolation.kind == "bwrap":
            # In the host's network its abstract sockets can be reached; Landlock closes them.
            inner = guarded(isolation.abi, sockets=True) if self.network and isolation.abi else []
            outer = walled(isolation.program, walls, isolation.options)
            return [*outer, *inner, *argv], _BUBBLEWRAP
        if isolation.kind == "landlock":
            return [*fenced(walls, abi=isolation.abi), *argv], _LANDLOCK
        if isolation.protects_burnish:
            return [*guarded(isolation.abi), *argv], _LANDLOCK
        return argv, _PLAIN


def _program(command: str | Sequence[str]) -> str:
    """The name of the program, as far as a line for the shell shows it."""
    words = command.split() if isinstance(command, str) else command
    return next((word for word in words if "=" not in word), "")


def _argv(command: str | Sequence[str], cwd: Path, path: str) -> list[str]:
    if isinstance(command, str):
        return ["/bin/sh", "-c", command]
    if not command:
        raise FileTrouble("cannot start a command: it is empty", remedy="Name a program.")
    program = command[0]
    if shutil.which(str(cwd / program) if os.sep in program else program, path=path) is None:
        remedy = "Name a program on the PATH, or a path to one."
        raise FileTrouble(f"cannot start {program}: there is no such program", remedy=remedy)
    return list(command)


def _folders(*paths: Path) -> list[Path]:
    folders = [path.resolve() for path in paths]
    for folder in folders:
        if not folder.is_dir():
            raise FileTrouble(f"cannot run a command in {folder}: there is no such folder")
    return folders


def _new_folder() -> Path:
    folder = spare_beside(Path(tempfile.gettempdir()).resolve() / "sandbox")
    try:
        folder.mkdir(mode=0o700)
        (folder / "tmp/home").mkdir(parents=True)
    except OSError as error:
        raise file_trouble("make", folder, error) from error
    return folder


@asynccontextmanager
async def _private_folder() -> AsyncGenerator[Path, None]:
    """A private folder for a command, with a name that lets a later burnish remove it."""
    folder = _new_folder()
    try:
        yield folder
    finally:
        # Not in this thread: a command may have left very many files.
        removing = asyncio.create_task(asyncio.to_thread(remove_tree, folder))
        await asyncio.shield(removing)
