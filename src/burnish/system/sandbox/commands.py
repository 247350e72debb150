"""Running commands within limits, each under a supervisor, and behind walls where there are any."""

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
from burnish.system.processes import MARKER_VARIABLE, ChildProcesses, kill_marked
from burnish.system.sandbox import supervisor
from burnish.system.sandbox.isolation import (
    INSIDE_TMP,
    Isolation,
    Mode,
    Walls,
    clean_environment,
    resolve,
    walled,
    with_python,
)
from burnish.system.sandbox.results import (
    Capture,
    CommandLimits,
    CommandResult,
    EndedBy,
    failure_reason,
)

_PART = 256 * 1024
_LET_GO = 8.0
"""Seconds in which a supervisor ends all that it started; it needs a few milliseconds."""
_DRAIN = 2.0
"""Seconds for what is still in the pipes once everyone who could write is gone."""

_SHELL = "/bin/sh"


@dataclass(frozen=True, kw_only=True)
class _Order:
    """One command, as the supervisor needs it."""

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    limits: CommandLimits
    marker: str
    walled: bool
    """Whether `argv` starts with bubblewrap."""

    def as_line(self) -> bytes:
        """How it is sent."""
        fields: dict[str, Any] = {
            "argv": list(self.argv),
            "cwd": "/" if self.walled else str(self.cwd),
            "env": dict(self.env),
            "seconds": self.limits.seconds,
            "memory": self.limits.memory_bytes,
            "file": self.limits.file_bytes,
            "processes": self.limits.processes,
            "priority": os.getpriority(os.PRIO_PROCESS, 0),
            "walled": self.walled,
            "own": 2 if self.walled else 0,
        }
        return json.dumps(fields).encode() + b"\n"


class Report(BaseModel):
    """What the supervisor says at the end."""

    ended_by: EndedBy
    exit_code: int
    seconds: float
    cpu_seconds: float = 0.0
    left_running: int = 0
    stuck: int = 0
    """Processes that even a kill did not end: they hang in the kernel."""
    began: bool = True


@dataclass(frozen=True, kw_only=True)
class _Supervised:
    """A command that ended, and what it wrote."""

    report: Report
    stdout: Capture
    stderr: Capture


async def _supervise(order: _Order, children: ChildProcesses, stdin: bytes) -> _Supervised:
    """Carry out an order; nothing of it runs when this returns, or is cancelled."""
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
            await asyncio.wait({streams}, timeout=_DRAIN)
        finally:
            streams.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await streams
    if not report.began:
        lines = err.text().strip().splitlines()
        message = f"bubblewrap could not isolate the command: {lines[-1] if lines else 'no reason'}"
        raise BurnishError(message, remedy="Mend what it names, or say `sandbox: none`.")
    return _Supervised(report=report, stdout=out, stderr=err)


@dataclass(kw_only=True)
class _Supervision:
    """A supervisor at work."""

    order: _Order
    children: ChildProcesses
    process: asyncio.subprocess.Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    group: int | None = None
    settled: bool = False
    """Whether the supervisor said that everything is gone."""
    written: int = 0

    async def report(self) -> Report:
        """What came of it; the group of the command is on record for as long as it may run."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.order.limits.seconds + _LET_GO):
                while message := await _next(self.reader):
                    if "refused" in message:
                        raise FileTrouble(
                            f"cannot start {self.order.argv[0]}: {message['refused']}"
                        )
                    if "group" not in message:
                        report = Report.model_validate(message)
                        self.settled = not report.stuck
                        return report
                    self.group = int(message["group"])
                    self.children.record(self.group, marker=self.order.marker)
        # Nobody is left to end what still runs, and it may hold the pipes.
        self._end_command()
        return Report(ended_by="lost", exit_code=137, seconds=0.0)

    def note_output(self, size: int) -> None:
        """End a command that writes without end."""
        before, self.written = self.written, self.written + size
        if before <= self.order.limits.flood_bytes < self.written:
            self.writer.write(b"flood")

    async def end(self) -> None:
        """See everything gone. The end of the socket does it, whatever becomes of this process."""
        self.writer.close()
        try:
            await _gone(self.process)
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
    with contextlib.closing(here):
        with there:
            process = await _started(children, order, there)
        reader, writer = await asyncio.open_connection(sock=here)
        supervision = _Supervision(
            order=order, children=children, process=process, reader=reader, writer=writer
        )
        try:
            writer.write(order.as_line())
            yield supervision
        finally:
            await supervision.end()


async def _started(
    children: ChildProcesses, order: _Order, line: socket.socket
) -> asyncio.subprocess.Process:
    script, pipe = Path(supervisor.__file__), asyncio.subprocess.PIPE
    argv = [sys.executable, "-I", "-S", "-B", str(script), str(line.fileno())]
    return await children.spawn(
        argv, cwd=Path("/"), env={"PATH": os.defpath}, stdin=pipe, stdout=pipe, stderr=pipe,
        pass_fds=(line.fileno(),), marker=order.marker,
    )  # fmt: skip


async def _next(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    try:
        row = await reader.readline()
    except ConnectionError:
        return None
    return json.loads(row) if row.endswith(b"\n") else None


async def _gone(process: asyncio.subprocess.Process) -> None:
    waiting = asyncio.create_task(process.wait())
    try:
        limit = asyncio.get_running_loop().time() + _LET_GO
        while process.returncode is None and asyncio.get_running_loop().time() < limit:
            await asyncio.wait({waiting}, timeout=0.05)
    finally:
        waiting.cancel()


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
    """Where commands run that somebody else wrote, or that run what a model wrote."""

    isolation: Isolation
    children: ChildProcesses
    allow: tuple[str, ...] = ()
    """Names of variables that commands get from this process; keys are among them only if named."""
    network: bool = False
    """Whether commands may use the network; without isolation they always may."""
    hidden: tuple[Path, ...] = ()
    """Files and folders that isolated commands do not see, unless they may write in them."""

    @classmethod
    def open(
        cls,
        mode: Mode,
        *,
        children: ChildProcesses,
        allow: Sequence[str] = (),
        network: bool = False,
        hidden: Sequence[Path] = (),
    ) -> Self:
        """Find out what this machine offers, and clear away what a killed burnish left."""
        remove_stale_temporaries(Path(tempfile.gettempdir()), shared=True)
        return cls(
            isolation=resolve(mode),
            children=children,
            allow=tuple(allow),
            network=network,
            hidden=tuple(path.resolve() for path in hidden),
        )

    async def run(
        self,
        command: str | Sequence[str],
        *,
        cwd: Path,
        writable: Sequence[Path] = (),
        env: Mapping[str, str] | None = None,
        limits: CommandLimits | None = None,
        stdin: bytes = b"",
    ) -> CommandResult:
        """Run a command to its end; nothing that it started runs any more when this returns.

        A text is a line for `sh`, with its pipes and `&&`; a sequence is a program and its
        arguments, without a shell. Isolated, it can write to `writable` and to a /tmp of its own.
        """
        cwd, *writable = _folders(cwd, *writable)
        limits = limits or CommandLimits()
        async with _private_folder() as private:
            tmp = INSIDE_TMP if self._isolates else private / "tmp"
            roots = writable or [cwd]
            environment = clean_environment(tmp=tmp, allow=self.allow, extra=env, roots=roots)
            environment = with_python(environment, private / "tmp/bin", tmp / "bin")
            marker = secrets.token_hex(16)
            argv = _argv(command, cwd, f"{private / 'tmp/bin'}{os.pathsep}{environment['PATH']}")
            if self._isolates:
                walls = Walls(private=private, cwd=cwd, writable=writable, readable=[cwd],
                              hidden=self.hidden, network=self.network)  # fmt: skip
                argv = [*walled(self.isolation.program, walls), *argv]
            environment[MARKER_VARIABLE] = marker
            order = _Order(argv=argv, cwd=cwd, env=environment, limits=limits,
                          marker=marker, walled=self._isolates)  # fmt: skip
            return self._result(await _supervise(order, self.children, stdin), limits)

    @property
    def _isolates(self) -> bool:
        return self.isolation.kind == "bwrap"

    def _result(self, ran: _Supervised, limits: CommandLimits) -> CommandResult:
        report = ran.report
        return CommandResult(
            exit_code=report.exit_code,
            ended_by=report.ended_by,
            stdout=ran.stdout.text(),
            stderr=ran.stderr.text(),
            stdout_bytes=ran.stdout.total,
            stderr_bytes=ran.stderr.total,
            truncated=bool(ran.stdout.left_out or ran.stderr.left_out),
            seconds=report.seconds,
            cpu_seconds=report.cpu_seconds,
            left_running=report.left_running,
            isolation=self.isolation.kind,
            reason=failure_reason(report.ended_by, report.exit_code, limits),
        )


def _argv(command: str | Sequence[str], cwd: Path, path: str) -> list[str]:
    if isinstance(command, str):
        return [_SHELL, "-c", command]
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
    """A folder for what a command keeps for itself; named so that a later burnish clears it."""
    folder = _new_folder()
    try:
        yield folder
    finally:
        # Not in this thread: a command may have left very many files.
        removing = asyncio.create_task(asyncio.to_thread(remove_tree, folder))
        await asyncio.shield(removing)
