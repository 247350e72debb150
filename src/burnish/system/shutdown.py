"""Ending event loops and the program though some of the user's code hangs.

The interpreter waits for every thread that is no daemon, and those of pools are none. And before it
ends, it closes coroutines that are still open, which runs the user's code once more.
"""

import os
import sys
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_POOL = "burnish pool"
_POOLS = (_POOL, "AnyIO worker")
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


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, without waiting at its end for a thread that hangs.

    `asyncio.run` itself waits for the threads of `asyncio.to_thread`: for ever, where one of them
    hangs. What they are to give was waited for before.
    """
    # Late: every command comes through this file, and most have no loop.
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    class Pool(ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002
            del wait
            super().shutdown(wait=False, cancel_futures=cancel_futures)

    async def pooled() -> T:
        asyncio.get_running_loop().set_default_executor(Pool(thread_name_prefix=_POOL))
        return await work

    return asyncio.run(pooled())
