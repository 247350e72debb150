"""The writer of a journal in a database: groups of statements, each in one transaction.

Everything runs in a thread of its own, since each statement is a journey to the server. A group
begins by renewing the lease under the number with which the run was taken. Where another
process has taken the run since, nothing of the group is kept: so a driver that slept through
its lease cannot write between the rows of the next one.
"""

import threading
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from burnish.core.errors import BurnishError, JournalTrouble
from burnish.effects.database_drivers import DatabaseConnection
from burnish.effects.storage import BeforeCommit, Statement
from burnish.effects.writer import StatementWriter, Waiter, by_loop, release


class RemoteWriter(StatementWriter):
    """Executes statements in the order they were given; a wait ends when they are kept."""

    def __init__(
        self,
        db: DatabaseConnection,
        *,
        name: str,
        renew: Callable[[DatabaseConnection], None],
        renew_every: float,
        before_commit: BeforeCommit,
    ) -> None:
        self._db = db
        self._name = name
        self._renew = renew
        self._renew_every = renew_every
        self._before_commit = before_commit
        self._waiting: list[tuple[Statement, Waiter]] = []
        self._closing = False
        self._broken: BurnishError | None = None
        self._turn = threading.Condition()
        self._thread = threading.Thread(target=self._commit_groups, name="burnish-journal")
        self._thread.daemon = True
        self._thread.start()

    def close(self) -> None:
        """Keep what was given, then end the thread."""
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
                raise JournalTrouble(f"the journal {self._name} is closed")
            self._waiting += given
            self._turn.notify()

    def _commit_groups(self) -> None:
        while True:
            with self._turn:
                if not (self._waiting or self._closing):
                    self._turn.wait(self._renew_every)
                group, self._waiting = self._waiting, []
                if not group and (self._closing or self._broken):
                    return
            self._keep([statement for statement, _ in group])
            waiters = [waiter for _, waiter in group]
            release(waiters, by_loop(waiters), self._broken, lambda: None)

    def _keep(self, statements: list[Statement]) -> None:
        """One transaction; without statements it only renews the lease."""
        if self._broken is not None:
            return
        try:
            self._db.execute("BEGIN")
            self._renew(self._db)
            if statements and (more := self._before_commit()) is not None:
                statements = [*statements, more]
            for sql, rows in groupby(statements, _text):
                self._execute(sql, [parameters for _, parameters in rows])
            self._db.execute("COMMIT")
        except BurnishError as error:
            self._break(error)
        except Exception as error:  # noqa: BLE001 - this thread must live to tell who waits
            self._break(JournalTrouble(f"the journal {self._name} cannot be written: {error}"))

    def _execute(self, sql: str, rows: list[Sequence[Any]]) -> None:
        if len(rows) == 1:
            self._db.execute(sql, rows[0])
        else:
            self._db.execute_all(sql, rows)

    def _break(self, error: BurnishError) -> None:
        """Take nothing more: a later write would leave a hole where this one belongs."""
        with self._turn:
            self._broken = error
        self._db.close()  # the server takes back what was begun


def _text(statement: Statement) -> str:
    return statement[0]
