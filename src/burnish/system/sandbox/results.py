"""What a command may use, what is kept of its output, and what came of it."""

import codecs
import signal as signals
from dataclasses import dataclass
from typing import Literal, TypeAlias

EndedBy: TypeAlias = Literal["itself", "timeout", "memory", "processes", "flood", "lost"]

_MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class CommandLimits:
    """Bounds of one command with all the processes it starts; None is no bound."""

    seconds: float = 300.0
    memory_bytes: int | None = 4096 * _MIB
    """Of one process by the kernel, which refuses it more; of all together by a look at them."""
    file_bytes: int | None = 1024 * _MIB
    """The size of one file that it writes."""
    processes: int | None = 256
    """How many may run at once, threads not counted."""
    output_bytes: int = _MIB
    """What is kept of stdout, and of stderr: the head and the tail."""
    flood_bytes: int = 256 * _MIB
    """A command that writes more than this to stdout and stderr is ended."""


@dataclass(frozen=True, kw_only=True)
class CommandResult:
    """How a command ended and what it wrote."""

    exit_code: int
    """As shells have it: 128 + n where signal n ended it."""
    ended_by: EndedBy
    stdout: str
    """Whole, or its head and tail with a mark that says how much was left out."""
    stderr: str
    stdout_bytes: int
    """How much was written, kept or not."""
    stderr_bytes: int
    truncated: bool
    """Whether something was left out of stdout or stderr."""
    seconds: float
    cpu_seconds: float
    """Of all its processes together."""
    left_running: int
    """Processes that it left behind when it ended; they were ended too."""
    isolation: Literal["bwrap", "none"]
    reason: str
    """In words, why it is not ok; '' where it is."""

    @property
    def ok(self) -> bool:
        """Whether it ended by itself with exit code 0."""
        return self.ended_by == "itself" and self.exit_code == 0

    @property
    def timed_out(self) -> bool:
        """Whether it ran into its time limit."""
        return self.ended_by == "timeout"

    @property
    def out_of_memory(self) -> bool:
        """Whether all its processes together passed the memory limit.

        A single process that is refused memory fails in its own words instead.
        """
        return self.ended_by == "memory"

    @property
    def signal(self) -> int | None:
        """The signal that ended it, also where a shell or bubblewrap passed it on as 128 + n."""
        number = self.exit_code - 128
        return number if 0 < number < signals.NSIG else None


def failure_reason(ended_by: EndedBy, exit_code: int, limits: CommandLimits) -> str:
    """Why a command is not ok, in words; '' where it is."""
    if ended_by == "timeout":
        return f"the command ran for more than {limits.seconds:g} s"
    if ended_by == "memory":
        assert limits.memory_bytes is not None
        return f"the command used more than {limits.memory_bytes / _MIB:,.0f} MiB of memory"
    if ended_by == "processes":
        return f"the command ran more than {limits.processes} processes at once"
    if ended_by == "flood":
        return f"the command wrote more than {limits.flood_bytes / _MIB:,.0f} MiB of output"
    if ended_by == "lost":
        return "the process that watched the command was killed"
    if exit_code > 128 and exit_code - 128 in {int(number) for number in signals.valid_signals()}:
        return f"the command ended with {_name(exit_code - 128)}"
    return f"the command ended with exit code {exit_code}" if exit_code else ""


def _name(number: int) -> str:
    try:
        return f"signal {number} ({signals.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


class Capture:
    """Takes in any amount of bytes and keeps at most `cap` of them."""

    def __init__(self, cap: int) -> None:
        self.total = 0
        self._cap = max(2, cap)
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, part: bytes) -> None:
        """Take in what was written next."""
        self.total += len(part)
        room = self._cap - self._cap // 2 - len(self._head)
        self._head += part[:room]
        self._tail += part[room:]
        # Cut now and then only: cutting each time would copy the tail for every part.
        if len(self._tail) > 4 * self._cap:
            del self._tail[: -(self._cap // 2)]

    @property
    def left_out(self) -> int:
        """How many bytes are not kept."""
        return max(0, self.total - self._cap)

    def text(self) -> str:
        """What is kept, as UTF-8 with a mark in the place of the rest."""
        if not self.left_out:
            return bytes(self._head + self._tail).decode(errors="replace")
        head = codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(self._head))
        tail = bytes(self._tail[-(self._cap // 2) :])
        # A character that the cut went through is left out, not turned into a false one.
        begin = next((at for at, byte in enumerate(tail[:4]) if byte & 0xC0 != 0x80), 0)
        mark = f"\n[… {self.left_out:,} bytes left out …]\n"
        return head + mark + tail[begin:].decode(errors="replace")
