"""Runs event loops, also in notebooks, and ends them and the program even if user code hangs.

The interpreter waits for every non-daemon thread, including those of pools. Before it ends, it
also closes open coroutines, which runs user code once more.
"""

import os
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")

_POOL = "burnish pool"
_PATIENCE = 1.0
"""Seconds for threads that others started, once there is nothing more to do."""
_LEFT: set[object] = set()
"""Kept alive until the program ends: what is garbage collected is closed."""


def leave_behind(hanging: object) -> None:
    """Stop waiting for user code that does not end."""
    _LEFT.add(hanging)


def has_ended(hanging: object) -> None:
    """The user code has ended after all."""
    _LEFT.discard(hanging)


def end_program(code: int, *, alone: bool = False) -> None:
    """`sys.exit`, without waiting for what hangs.

    Threads that others started are only left behind by a program that is `alone` in its process:
    elsewhere the caller may go on.
    """
    # Threads of these names end by themselves once their loop is closed, within a second.
    names = (_POOL, "AnyIO worker")
    waited_for = [t for t in threading.enumerate() if not t.daemon]
    pools = [thread for thread in waited_for if thread.name.startswith(names)]
    _join(pools)
    if _LEFT or any(thread.is_alive() for thread in pools):
        _end_at_once(code)
    others = [t for t in waited_for if t not in pools and t is not threading.current_thread()]
    if others and alone:
        # Idle pools of the user end when the interpreter does, so it is asked to end first.
        watch = threading.Thread(target=_end_if_alive, args=(others, code), daemon=True)
        watch.start()
    sys.exit(code)


def _join(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        thread.join(_PATIENCE / len(threads))


def _end_if_alive(threads: Sequence[threading.Thread], code: int) -> None:
    """End the program if one of these threads does not end by itself."""
    _join(threads)
    if any(thread.is_alive() for thread in threads):
        _end_at_once(code)


def _end_at_once(code: int) -> NoReturn:
    with suppress(OSError, ValueError):  # closed, or nobody reads
        sys.stdout.flush()
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)


def notebook_display() -> Callable[..., Any] | None:
    """IPython's `display` in a cell of a notebook; None anywhere else."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is None:
        return None
    from importlib import import_module

    return import_module("IPython.display").display


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, without waiting at its end for a thread that hangs.

    `asyncio.run` waits for the threads of `asyncio.to_thread`, for ever if one of them hangs.
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

    inside = False
    with suppress(RuntimeError):
        inside = asyncio.get_running_loop().is_running()
    # Not inside of an `except`: what the work raises would keep that error, and all it refers to.
    return _in_thread(pooled()) if inside else asyncio.run(pooled())


def _in_thread(work: Coroutine[Any, Any, T]) -> T:
    """Run in a thread and wait: a loop of a notebook or a program runs in this one."""
    import asyncio
    from concurrent.futures import Future
    from contextvars import copy_context

    done: Future[T] = Future()
    running: list[Callable[[], object]] = []

    async def noted() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        running.append(lambda: loop.call_soon_threadsafe(task.cancel))
        return await work

    def run() -> None:
        try:
            done.set_result(asyncio.run(noted()))
        except BaseException as error:  # noqa: BLE001 - whoever waits gets it
            done.set_exception(error)

    thread = threading.Thread(target=copy_context().run, args=(run,), name=_POOL)
    thread.start()
    try:
        return done.result()
    except KeyboardInterrupt:
        for cancel in running:
            cancel()
        thread.join()
        raise
