"""Talking to the supervisor of a command: the order, what the command writes, the report."""

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from burnish.core.errors import BurnishError, FileTrouble
from burnish.system.processes import ChildProcesses, kill_marked
from burnish.system.sandbox import supervisor
from burnish.system.sandbox.output import Capture
from burnish.system.sandbox.results import EndedBy, Limits

_PART = 256 * 1024
_LET_GO = 8.0
"""Seconds in which a supervisor ends all that it started; it needs a few milliseconds."""
_DRAIN = 2.0
"""Seconds for what is still in the pipes once everyone who could write is gone."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """One command, as the supervisor needs it."""

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    limits: Limits
    marker: str
    walled: bool
    """Whether `argv` starts with bubblewrap."""

    def as_line(self) -> bytes:
        """How it is sent."""
        told: dict[str, Any] = {
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
        return json.dumps(told).encode() + b"\n"


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
class Supervised:
    """A command that ended, and what it wrote."""

    report: Report
    stdout: Capture
    stderr: Capture


async def supervise(order: Order, children: ChildProcesses, stdin: bytes) -> Supervised:
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
        said = err.text().strip().splitlines()
        message = f"bubblewrap could not isolate the command: {said[-1] if said else 'no reason'}"
        raise BurnishError(message, remedy="Mend what it names, or say `sandbox: none`.")
    return Supervised(report=report, stdout=out, stderr=err)


@dataclass(kw_only=True)
class _Supervision:
    """A supervisor at work."""

    order: Order
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
                while told := await _next(self.reader):
                    if "refused" in told:
                        raise FileTrouble(f"cannot start {self.order.argv[0]}: {told['refused']}")
                    if "group" not in told:
                        report = Report.model_validate(told)
                        self.settled = not report.stuck
                        return report
                    self.group = int(told["group"])
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
async def _supervisor(order: Order, children: ChildProcesses) -> AsyncGenerator[_Supervision, None]:
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
    children: ChildProcesses, order: Order, line: socket.socket
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
