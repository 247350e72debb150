"""The journal's one writer: a thread that commits whatever has queued up, in order.

Effects that end together share one commit, so the cost of reaching the disk is divided
among them and a slow disk makes the groups larger, not the queue longer.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeAlias

from burnish.core.errors import FileTrouble

Statement: TypeAlias = tuple[str, Sequence[Any]]
Waiter: TypeAlias = "asyncio.Future[None] | Future[None] | None"


class Writer:
    """Executes statements in the order they were given; a wait ends when they are on disk."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], *, name: str) -> None:
        self._connect = connect
        self._name = name
        self._queue: list[tuple[Statement, Waiter]] = []
        self._wake = threading.Condition()
        self._closing = False
        self._broken: FileTrouble | None = None
        self.before_commit: Callable[[], Statement | None] = lambda: None
        """A statement to add to a commit, now and then."""
        self._thread = threading.Thread(target=self._work, name="burnish-journal", daemon=True)
        self._thread.start()

    def put(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Queue a statement; whatever is queued later reaches the disk no sooner."""
        self._add(((sql, parameters), None))

    def write(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Queue a statement and wait until it is on disk."""
        done: Future[None] = Future()
        self._add(((sql, parameters), done))
        done.result()

    async def commit(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Queue a statement and wait, without blocking the loop, until it is on disk."""
        done = asyncio.get_running_loop().create_future()
        self._add(((sql, parameters), done))
        await done

    def flush(self) -> None:
        """Wait until everything queued so far is on disk."""
        self.write("SELECT 1")

    def close(self) -> None:
        """Write what is queued, then end the thread."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join()

    def _add(self, item: tuple[Statement, Waiter]) -> None:
        with self._wake:
            if self._broken is not None:
                raise self._broken
            if self._closing:
                raise FileTrouble(f"the journal {self._name} is closed")
            self._queue.append(item)
            self._wake.notify()

    def _work(self) -> None:
        connection = self._connect()
        try:
            while True:
                with self._wake:
                    while not self._queue and not self._closing:
                        self._wake.wait()
                    batch, self._queue = self._queue, []
                if not batch:
                    return
                _release(batch, self._commit(connection, [item[0] for item in batch]))
        finally:
            connection.close()

    def _commit(
        self, connection: sqlite3.Connection, statements: Sequence[Statement]
    ) -> FileTrouble | None:
        if self._broken is not None:
            return self._broken
        try:
            connection.execute("BEGIN IMMEDIATE")
            for sql, parameters in statements:
                connection.execute(sql, parameters)
            if (more := self.before_commit()) is not None:
                connection.execute(*more)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            # A later write would leave a hole where this one belongs: nothing more is taken.
            self._broken = _trouble(self._name, error)
        return self._broken


def _trouble(name: str, error: sqlite3.Error) -> FileTrouble:
    return FileTrouble(
        f"the journal {name} cannot be written: {error}",
        remedy="free some space or make the folder writable, then resume the run",
    )


def _release(batch: Sequence[tuple[Statement, Waiter]], trouble: FileTrouble | None) -> None:
    """Tell everyone who waits; the waiters of one loop in one go."""
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for _, waiter in batch:
        if isinstance(waiter, asyncio.Future):
            by_loop.setdefault(waiter.get_loop(), []).append(waiter)
        elif waiter is not None:
            _settle(waiter, trouble)
    for loop, waiters in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle_all, waiters, trouble)


def _settle_all(waiters: Sequence["asyncio.Future[None]"], trouble: FileTrouble | None) -> None:
    for waiter in waiters:
        if not waiter.done():
            _settle(waiter, trouble)


def _settle(waiter: "asyncio.Future[None] | Future[None]", trouble: FileTrouble | None) -> None:
    if trouble is None:
        waiter.set_result(None)
    else:
        waiter.set_exception(trouble)
