"""The limits of a command, its captured output, and its result."""

import codecs
import signal as signals
from dataclasses import dataclass
from typing import Literal, TypeAlias

from burnish.system.sandbox.isolation import IsolationKind

EndedBy: TypeAlias = Literal["itself", "timeout", "memory", "processes", "disk", "flood", "lost"]

_MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class CommandLimits:
    """Limits of one command and all processes it starts; None means no limit."""

    seconds: float = 300.0
    memory_bytes: int | None = 4096 * _MIB
    """Enforced by the kernel for one process, and by polling for all of them together."""
    file_bytes: int | None = 1024 * _MIB
    """The maximum size of one file that it writes."""
    disk_bytes: int | None = 8192 * _MIB
    """How much it may write to its folders in total, enforced by polling."""
    processes: int | None = 256
    """How many may run at once, not counting threads."""
    output_bytes: int = _MIB
    """How much of stdout, and of stderr, is kept: the head and the tail."""
    flood_bytes: int = 256 * _MIB
    """A command that writes more than this to stdout and stderr is stopped."""


@dataclass(frozen=True, kw_only=True)
class CommandResult:
    """How a command ended and what it wrote."""

    exit_code: int
    """As in shells: 128 + n if signal n ended it."""
    ended_by: EndedBy
    stdout: str
    """Complete, or its head and tail with a note of how much was left out."""
    stderr: str
    stdout_bytes: int
    """How much was written, including what was left out."""
    stderr_bytes: int
    truncated: bool
    """Whether something was left out of stdout or stderr."""
    seconds: float
    cpu_seconds: float
    """Of all its processes together."""
    left_running: int
    """Processes that it left behind; they were ended too."""
    isolation: IsolationKind
    reason: str
    """Why it is not ok; '' if it is."""

    @property
    def ok(self) -> bool:
        """Whether it ended by itself with exit code 0."""
        return self.ended_by == "itself" and self.exit_code == 0


def failure_reason(ended_by: EndedBy, exit_code: int, limits: CommandLimits) -> str:
    """Why a command is not ok; '' if it is."""
    if ended_by == "timeout":
        return f"the command ran for more than {limits.seconds:g} s"
    if ended_by == "memory":
        assert limits.memory_bytes is not None
        return f"the command used more than {limits.memory_bytes / _MIB:,.0f} MiB of memory"
    if ended_by == "processes":
        return f"the command ran more than {limits.processes} processes at once"
    if ended_by == "disk":
        assert limits.disk_bytes is not None
        return f"the command wrote more than {limits.disk_bytes / _MIB:,.0f} MiB to disk"
    if ended_by == "flood":
        return f"the command wrote more than {limits.flood_bytes / _MIB:,.0f} MiB of output"
    if ended_by == "lost":
        return "the process that watched the command was killed"
    number = exit_code - 128
    if number > 0 and number in {int(each) for each in signals.valid_signals()}:
        names = {int(each): f" ({each.name})" for each in signals.Signals}
        return f"the command ended with signal {number}{names.get(number, '')}"
    return f"the command ended with exit code {exit_code}" if exit_code else ""


class Capture:
    """Accepts any number of bytes and keeps at most `cap` of them."""

    def __init__(self, cap: int) -> None:
        self.total = 0
        self._cap = max(2, cap)
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, part: bytes) -> None:
        self.total += len(part)
        room = self._cap - self._cap // 2 - len(self._head)
        self._head += part[:room]
        self._tail += part[room:]
        # Cut now and then only: cutting each time would copy the tail for every part.
        if len(self._tail) > 4 * self._cap:
            del self._tail[: -(self._cap // 2)]

    @property
    def left_out(self) -> int:
        return max(0, self.total - self._cap)

    def text(self) -> str:
        """What was kept, as UTF-8, with a note in place of the rest."""
        if not self.left_out:
            return bytes(self._head + self._tail).decode(errors="replace")
        head = codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(self._head))
        tail = bytes(self._tail[-(self._cap // 2) :])
        # A character that the cut went through is left out, not turned into a false one.
        begin = next((at for at, byte in enumerate(tail[:4]) if byte & 0xC0 != 0x80), 0)
        mark = f"\n[… {self.left_out:,} bytes left out …]\n"
        return head + mark + tail[begin:].decode(errors="replace")
