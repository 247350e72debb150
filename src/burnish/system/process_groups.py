"""Groups of processes: whether one still runs, and how it is ended."""

import asyncio
import contextlib
import os
import signal
import time

from burnish.system.process_table import every_process

_POLL = 0.02
_KILLED_WITHIN = 2.0


def is_running(group: int) -> bool:
    """Whether any process of the group still runs."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    # The group is there, but perhaps only as zombies.
    return any(entry.group == group and entry.is_running for entry in every_process())


async def end_group(group: int, grace: float) -> None:
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


def kill_group(group: int) -> None:
    """End a group without asking, and see it gone."""
    _signal(group, signal.SIGKILL)
    limit = time.monotonic() + _KILLED_WITHIN
    while time.monotonic() < limit and is_running(group):
        time.sleep(_POLL)


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


async def _until_gone(group: int, seconds: float) -> None:
    limit = time.monotonic() + seconds
    # Nothing tells when the last member of a group is gone.
    while time.monotonic() < limit and is_running(group):  # noqa: ASYNC110
        await asyncio.sleep(_POLL)
