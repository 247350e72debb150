"""Running an event loop whose end a thread of the user's code cannot hold up.

`asyncio.run` waits for the threads of `asyncio.to_thread`: for ever, where one of them hangs.
"""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from burnish.system.leaving import POOL

T = TypeVar("T")


class _Pool(ThreadPoolExecutor):
    """Threads that nobody waits for at the end: what they are to give was waited for before."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002
        """Let threads end that have nothing to do."""
        del wait
        super().shutdown(wait=False, cancel_futures=cancel_futures)


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, without waiting at its end for a thread that hangs."""

    async def pooled() -> T:
        asyncio.get_running_loop().set_default_executor(_Pool(thread_name_prefix=POOL))
        return await work

    return asyncio.run(pooled())
