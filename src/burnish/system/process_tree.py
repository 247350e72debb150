"""The processes that came of this one: how many they are and what memory they use.

The supervisor of a command uses it, so nothing but Python itself is imported here. Where there is
no /proc, no descendants are seen.
"""

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path


def descendants(enough: int | None) -> Iterator[int]:
    """All that came of this process; stops soon after `enough` were found."""
    todo, found = [os.getpid()], 0
    while todo and (enough is None or found <= enough):
        for child in _children(todo.pop()):
            found += 1
            todo.append(child)
            yield child


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            found += map(int, _read(f"/proc/{pid}/task/{task}/children").split())
    return found


def resident_bytes(pid: int) -> int:
    """The memory that a process uses, with what it shares."""
    fields = _read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * resource.getpagesize() if fields else 0


def proportional_bytes(pid: int) -> int:
    """The same, with only its part of what it shares; much slower to find out."""
    for row in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if row.startswith("Pss:"):
            return int(row.split()[1]) * 1024
    return resident_bytes(pid)


def tasks_of_user() -> int:
    """How many threads of all processes belong to this user."""
    count = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if process.stat().st_uid == os.getuid():
                count += len(list((process / "task").iterdir()))
    return count


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
