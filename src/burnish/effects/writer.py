"""The journal's one writer: statements in order, committed in groups.

Statements run at once in the thread that gives them; only the commit, which waits for the
disk, is left to a thread of its own. Whatever comes meanwhile waits for the next group, so the
cost of reaching the disk is divided among all that happened during the last visit. Were the
statements left to that thread too, a busy event loop would let go of the interpreter only now
and then, and each of them would wait for it.
"""

import asyncio
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeAlias

from burnish.core.errors import BurnishError, FileTrouble
from burnish.effects.storage import BeforeCommit, Statement

Waiter: TypeAlias = "asyncio.Future[None] | Future[None] | None"
Loops: TypeAlias = "dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]]"


class StatementWriter(ABC):
    """Takes statements in order; a wait ends when they are kept."""

    def put(self, *statements: Statement) -> None:
        """Give statements that are kept together; what is given later is kept no sooner."""
        self._add(*((each, None) for each in statements))

    def write(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Give a statement and wait until it is kept."""
        done: Future[None] = Future()
        self._add(((sql, parameters), done))
        done.result()

    async def commit(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Give a statement and wait, without blocking the loop, until it is kept."""
        done = asyncio.get_running_loop().create_future()
        self._add(((sql, parameters), done))
        await done

    def checkpoint_soon(self) -> None:
        """With the next commit, move what was kept to where it stays; a server does it itself."""
        return

    @abstractmethod
    def close(self) -> None:
        """Keep what was given, then let go."""

    @abstractmethod
    def _add(self, *given: tuple[Statement, Waiter]) -> None:
        """Take statements, each with who waits for it."""


class Writer(StatementWriter):
    """Executes statements in the order they were given; a wait ends when they are on disk."""

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        *,
        name: str,
        before_commit: BeforeCommit = lambda: None,
    ) -> None:
        self._db = connect()
        self._name = name
        self._waiting: list[tuple[Statement, Waiter]] = []
        """Given while a commit was under way."""
        self._executed: list[Waiter] = []
        """In the open transaction."""
        self._committing = self._closing = self._left_to_loop = self._checkpoint_due = False
        self._broken: FileTrouble | None = None
        self._turn = threading.Condition()
        self._before_commit = before_commit
        self._thread = threading.Thread(target=self._commit_groups, name="burnish-journal")
        self._thread.daemon = True
        self._thread.start()

    def checkpoint_soon(self) -> None:
        """After the next commit, move the WAL into the file: a lost WAL then costs less."""
        self._checkpoint_due = True

    def close(self) -> None:
        """Commit what was given, then end the thread."""
        with self._turn:
            self._closing = True
            self._turn.notify()
        self._thread.join()
        self._db.close()

    def _add(self, *given: tuple[Statement, Waiter]) -> None:
        with self._turn:
            if self._broken is not None:
                raise self._broken
            if self._closing:
                raise FileTrouble(f"the journal {self._name} is closed")
            self._waiting += given
            if not self._committing:
                self._execute_waiting()

    def _execute_waiting(self) -> None:
        """Run what was given, in the caller's thread; the lock is held."""
        given, self._waiting = self._waiting, []
        self._left_to_loop = False
        if not given:
            return
        self._executed += [waiter for _, waiter in given]
        try:
            if not self._db.in_transaction:
                self._db.execute("BEGIN IMMEDIATE")
            for statement, _ in given:
                self._db.execute(*statement)
        except sqlite3.Error as error:
            self._break(error)
        self._turn.notify()

    def _commit_groups(self) -> None:
        while True:
            with self._turn:
                while not (self._executed or self._mine_to_execute or self._closing):
                    self._turn.wait()
                self._execute_waiting()
                group, self._executed = self._executed, []
                if not group:
                    return
                self._committing = True
            loops = by_loop(group)
            self._commit()
            self._finish(loops)
            release(group, loops, self._broken, self._go_on)

    def _commit(self) -> None:
        if self._broken is not None:
            return
        try:
            if (more := self._before_commit()) is not None:
                self._db.execute(*more)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._break(error)
            return
        if self._checkpoint_due:
            self._checkpoint_due = False
            with suppress(sqlite3.Error):  # it is tried again after the next trial
                self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _finish(self, loops: "Loops") -> None:
        """End a commit. What waits is left to a loop, unless there is none or it waits itself."""
        with self._turn:
            self._committing = False
            blocked = any(isinstance(waiter, Future) for _, waiter in self._waiting)
            self._left_to_loop = bool(loops) and not blocked
            if not self._left_to_loop:
                self._execute_waiting()

    @property
    def _mine_to_execute(self) -> bool:
        return bool(self._waiting) and not self._left_to_loop

    def _go_on(self) -> None:
        with self._turn:
            if not self._committing:
                self._execute_waiting()

    def _break(self, error: sqlite3.Error) -> None:
        """Take nothing more: a later write would leave a hole where this one belongs."""
        with suppress(sqlite3.Error):  # where nothing can be written, even this may fail
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        self._broken = FileTrouble(
            f"the journal {self._name} cannot be written: {error}",
            remedy="free some space or make the folder writable, then resume the run",
        )


def by_loop(group: Sequence[Waiter]) -> Loops:
    """Those who wait in an event loop that still runs."""
    found: Loops = {}
    for waiter in group:
        if isinstance(waiter, asyncio.Future) and not waiter.get_loop().is_closed():
            found.setdefault(waiter.get_loop(), []).append(waiter)
    return found


def release(
    group: Sequence[Waiter],
    loops: Loops,
    trouble: BurnishError | None,
    go_on: Callable[[], None],
) -> None:
    """Tell everyone who waits, the waiters of one loop in one go; then let the loops go on."""
    for waiter in group:
        if isinstance(waiter, Future):
            _settle(waiter, trouble)
    for loop, waiters in loops.items():
        with suppress(RuntimeError):  # it was closed just now: nobody waits there any more
            loop.call_soon_threadsafe(_settle_all, waiters, trouble, go_on)


def _settle_all(
    waiters: Sequence["asyncio.Future[None]"],
    trouble: BurnishError | None,
    go_on: Callable[[], None],
) -> None:
    go_on()
    for waiter in waiters:
        if not waiter.done():
            _settle(waiter, trouble)


def _settle(waiter: "asyncio.Future[None] | Future[None]", trouble: BurnishError | None) -> None:
    if trouble is None:
        waiter.set_result(None)
    else:
        waiter.set_exception(trouble)
