"""Ending the program though some of the user's code hangs.

The interpreter waits for every thread that is no daemon, and those of pools are none. And before it
ends, it closes coroutines that are still open, which runs the user's code once more.
"""

import os
import sys
import threading

POOL = "burnish pool"
_POOLS = (POOL, "AnyIO worker")
"""What threads are called that end by themselves once their loop is closed."""
_PATIENCE = 1.0
"""Seconds that they get for that."""
_LEFT: set[object] = set()
"""Held as long as the program lives: what is let go of is closed."""


def leave_behind(hanging: object) -> None:
    """Leave something of the user's to itself, since it does not end."""
    _LEFT.add(hanging)


def has_ended(hanging: object) -> None:
    """It has ended after all."""
    _LEFT.discard(hanging)


def end_program(code: int) -> None:
    """`sys.exit`, without waiting for what hangs."""
    pools = [t for t in threading.enumerate() if t.name.startswith(_POOLS) and not t.daemon]
    for thread in pools:
        thread.join(_PATIENCE / len(pools))
    if _LEFT or any(thread.is_alive() for thread in pools):
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
