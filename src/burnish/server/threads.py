"""Event loops in threads of their own, so that nothing a run does blocks the service."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")


class Job(Generic[T]):
    """A coroutine in another thread's loop; unlike a future's, its end is waited for."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[object, object, T]) -> None:
        self._loop = loop
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self.done: concurrent.futures.Future[T] = concurrent.futures.Future()
        loop.call_soon_threadsafe(self._begin)

    async def ended(self) -> T:
        """Wait for it. Cancelling this wait leaves the job alone."""
        return await asyncio.shield(asyncio.wrap_future(self.done))

    def cancel(self) -> None:
        """Cancel it; `done` is done once it has cleaned up."""
        with suppress(RuntimeError):  # the loop is closed: it has ended
            self._loop.call_soon_threadsafe(self._cancel)

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._work)
        self._task.add_done_callback(self._finish)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _finish(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.done.set_exception(JobCancelled())
        elif (error := task.exception()) is not None:
            self.done.set_exception(error)
        else:
            self.done.set_result(task.result())


class JobCancelled(Exception):
    """A job was cancelled, and has cleaned up. Not to be mistaken for one's own cancelling."""


class LoopThread:
    """A thread that runs an event loop while it is entered, or until it is closed."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        # Daemon: user code that never returns may not keep the service from ending.
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[object, object, T]) -> Job[T]:
        """Begin a coroutine there."""
        return Job(self._loop, work)

    def close(self) -> None:
        """End the loop; what is left in it is cancelled. Does not wait for that: see `join`."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.stop)

    def join(self, seconds: float = 5.0) -> None:
        """Wait until the thread has ended."""
        self._thread.join(seconds)

    def __enter__(self) -> "LoopThread":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def _live(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._wind_up()

    def _wind_up(self) -> None:
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
