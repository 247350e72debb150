"""Processes that left their group and their parent, found by a token in their environment."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

_PROC = Path("/proc")
_KILLED_WITHIN = 2.0
_POLL = 0.01

VARIABLE = "BURNISH_SANDBOX"
"""Carries the token. Who clears it, or has no /proc to be found in, is not found."""


def kill_marked(token: str) -> None:
    """Kill every process that was started with this token, and see them gone."""
    limit = time.monotonic() + _KILLED_WITHIN
    while (pids := list(_marked(token))) and time.monotonic() < limit:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL)


def _marked(token: str) -> Iterator[int]:
    wanted = f"{VARIABLE}={token}".encode()
    for entry in _PROC.iterdir() if token and _PROC.is_dir() else ():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            # A zombie has no environment any more; others' is not ours to read.
            with contextlib.suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    yield int(entry.name)
