"""Which processes there are: from /proc where it exists, from `ps` elsewhere."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_BOOT = _PROC / "sys/kernel/random/boot_id"
_COLUMNS = "pid=,pgid=,stat=,lstart="


@dataclass(frozen=True, kw_only=True)
class ProcessEntry:
    """One process; pid and start time together name it for good."""

    pid: int
    group: int
    start_time: str
    is_running: bool
    """False for a zombie, which only waits to be reaped."""


def every_process() -> list[ProcessEntry]:
    """All processes of this machine."""
    if not _has_proc():
        return parse_ps(_ps("-A"))
    pids = (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
    return [entry for pid in pids if (entry := process_entry(pid))]


def process_entry(pid: int) -> ProcessEntry | None:
    """What is known of one process; None when it is gone."""
    if not _has_proc():
        return next(iter(parse_ps(_ps("-p", str(pid)))), None)
    try:
        return parse_stat((_PROC / str(pid) / "stat").read_text(errors="replace"))
    except (FileNotFoundError, ProcessLookupError):
        return None


def boot_id() -> str:
    """Changes whenever the machine starts, and differs between machines; '' when not known."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


def parse_stat(text: str) -> ProcessEntry:
    """Read a line of /proc/<pid>/stat."""
    # The name may hold spaces and parentheses, so count from its last one.
    head, _, tail = text.rpartition(")")
    state, _, group, *rest = tail.split()
    return ProcessEntry(
        pid=int(head.split()[0]),
        group=int(group),
        start_time=rest[16],
        is_running=state not in "ZXx",
    )


def parse_ps(text: str) -> list[ProcessEntry]:
    """Read what `ps -o pid=,pgid=,stat=,lstart=` prints."""
    return list(_ps_entries(text))


def _ps_entries(text: str) -> Iterator[ProcessEntry]:
    for line in text.splitlines():
        pid, group, state, *start = line.split()
        yield ProcessEntry(
            pid=int(pid),
            group=int(group),
            start_time=" ".join(start),
            is_running=not state.startswith(("Z", "X")),
        )


def _has_proc() -> bool:
    return (_PROC / "self/stat").exists()


def _ps(*arguments: str) -> str:
    command = ("ps", *arguments, "-o", _COLUMNS)
    environ = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    # A pid that is gone is exit code 1 and no output.
    asked = subprocess.run(  # noqa: S603
        command, env=environ, capture_output=True, text=True, check=False
    )
    return asked.stdout
