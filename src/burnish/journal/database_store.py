"""A journal in PostgreSQL, MySQL or MariaDB, so that another machine can take its run over."""

import os
import secrets
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, CursorResult

from burnish.core.errors import BurnishError, ConfigError, JournalTrouble, Problem, RunLocked
from burnish.journal.outages import WAIT_MINUTES
from burnish.journal.storage import (
    BeforeCommit,
    JournalWriter,
    Packing,
    Spelling,
    Statement,
    Statements,
    by_loop,
    release,
)
from burnish.journal.tables import Schema, journal_schema
from burnish.system.databases import (
    PART,
    PREFIX,
    Database,
    DatabaseUrl,
    LastingConnection,
    check_prefix,
)

_ROWS = 100
"""How many rows of a stream are in memory at a time."""
LEASE_SECONDS = 30.0
"""How long a driver that died keeps its run locked."""
LOOK_SECONDS = 5.0
"""How long one who only reads waits for a database: nothing is lost by asking again later."""


class JournalUnreachable(JournalTrouble):
    """The journal's database does not answer or refuses the connection."""


@dataclass(frozen=True, kw_only=True)
class DatabaseJournals:
    """The journals in one database."""

    url: DatabaseUrl
    prefix: str = PREFIX
    create_schema: bool = True
    """Whether to create the tables, unless someone created them by hand."""
    lease_seconds: float = LEASE_SECONDS
    outage_seconds: float = 60 * WAIT_MINUTES
    """How long a database may be unreachable before its runs give up: a restart or a switch to
    another server takes a minute or two. A lease that ends meanwhile can be taken by another."""

    def __post_init__(self) -> None:
        check_prefix(self.prefix)
        if not self.url.is_server:
            message = f"journals cannot be stored in {self.url}"
            remedy = (
                "use the URL of a PostgreSQL or MariaDB database, or keep the journals "
                "in the folders of the runs"
            )
            raise ConfigError([Problem(message=message, remedy=remedy)])

    @property
    def database(self) -> Database:
        return _database(self.url)

    @cached_property
    def schema(self) -> Schema:
        return journal_schema(self.prefix)

    def prepare(self) -> None:
        """Create or check the tables; a service does so when it starts."""
        with closing(LastingConnection(self.database, patience=self.outage_seconds)) as lasting:
            lasting.run(lambda db, _: self._prepare(db))

    def _prepare(self, db: Connection) -> None:
        (self.schema.create if self.create_schema else self.schema.require)(db)
        db.commit()

    def journal(self, name: str) -> "DatabaseStore":
        """The store of one run's journal, by its unique name."""
        return DatabaseStore(self, name)

    def delete(self, name: str) -> bool:
        """Delete a journal that no process drives; False if there is none."""
        store = self.journal(name)
        with closing(_DatabaseConnection(self.database, patience=self.outage_seconds)) as db:
            if not store.find(db):
                return False
            store.take_lease(db)
            for table in self.schema.tables.values():
                column = "run" if "run" in table.c else "id"
                db.execute(f"DELETE FROM {table.name} WHERE {column} = {store.run}")
        return True


@lru_cache(maxsize=64)
def _database(url: DatabaseUrl) -> Database:
    """One for all journals of this process: it knows whether the database ever answered."""

    def unreachable(cause: str) -> JournalUnreachable:
        return JournalUnreachable(
            f"the journal in {url} cannot be used: {cause}",
            remedy="check that the database answers, then resume the run: nothing is lost",
        )

    return Database(url, trouble=unreachable, pooled=False)


class _DatabaseConnection(LastingConnection):
    """A connection on which every statement is a transaction, and can be repeated."""

    def __init__(self, database: Database, *, patience: float) -> None:
        super().__init__(database, patience=patience, isolation_level="AUTOCOMMIT")

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> CursorResult[Any]:
        return self.run(lambda db, _: _execute(db, sql, [parameters]))


def _execute(db: Connection, sql: str, rows: Sequence[Sequence[Any]]) -> CursorResult[Any]:
    if len(rows) > 1:
        return db.exec_driver_sql(sql, [tuple(row) for row in rows])
    return db.exec_driver_sql(sql, tuple(rows[0]) or None)


class DatabaseStore:
    """One run's journal in a database. The process that drives it holds its lease."""

    def __init__(self, journals: DatabaseJournals, name: str) -> None:
        self.journals = journals
        self.name = name
        self.path = f"'{name}' in {journals.url}"
        self.packing = Packing(self)
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self.run = self.fence = 0
        self._table = f"{journals.prefix}journals"
        self._database = journals.database
        self._patience = journals.outage_seconds
        self._db: _DatabaseConnection | None = None
        self._writer: JournalWriter | None = None
        self.sql = self._statements()

    def __str__(self) -> str:
        return str(self.journals.url)

    def take(self) -> _DatabaseConnection:
        """Take the lease; RunLocked while another process holds it."""
        self._db = db = _DatabaseConnection(self._database, patience=self._patience)
        try:
            if not db.run(lambda tables, _: self.journals.schema.is_current(tables)):
                self.journals.prepare()
            if not self.find(db):
                self._add(db)
            self.take_lease(db)
            db.execute(self.sql.first_mark, ("schema", str(self.journals.schema.version)))
        except BaseException:  # whatever it was, the connection is closed
            db.close()
            raise
        return db

    def look(self) -> _DatabaseConnection:
        """Open it for reading; a journal that does not exist is empty."""
        self._patience = min(self._patience, LOOK_SECONDS)
        self._db = db = _DatabaseConnection(self._database, patience=self._patience)
        try:
            db.run(lambda tables, _: self.journals.schema.require(tables))
            self.find(db)
        except BaseException:  # whatever it was, the connection is closed
            db.close()
            raise
        return db

    def find(self, db: _DatabaseConnection) -> bool:
        """Look up the run's number; False if no journal has this name."""
        row = db.execute(f"SELECT id FROM {self._table} WHERE name = %s", (self.name,)).fetchone()
        # No run has the number -1, so a journal that does not exist reads as an empty one.
        self.run = -1 if row is None else int(row[0])
        self.sql = self._statements()
        return row is not None

    def take_lease(self, db: _DatabaseConnection) -> None:
        """Become the driver, with a fence number that the next driver raises."""
        now = self._database.clock
        # Its own lease too: the answer to the first attempt may have been lost.
        lease = db.execute(
            f"UPDATE {self._table} SET fence = fence + 1, owner = %s, "
            f"lease_until = {now} + {self.journals.lease_seconds} "
            f"WHERE id = {self.run} AND (lease_until <= {now} OR owner = %s)",
            (self.owner, self.owner),
        )
        row: Any = db.execute(
            f"SELECT fence, owner, lease_until - {now} FROM {self._table} WHERE id = {self.run}"
        ).fetchone()
        if lease.rowcount != 1 or row is None or row[1] != self.owner:
            who = "another process" if row is None else str(row[1]).rpartition(":")[0]
            left = self.journals.lease_seconds if row is None else max(0.0, float(row[2]))
            raise RunLocked(
                f"the run of the journal {self.path} is driven by {who}",
                remedy=f"wait until it ends; if it died, its lease ends in {left:.0f} s",
            )
        self.fence = int(row[0])

    def renew_lease(self, db: Connection, group: int) -> None:
        """Stay the driver and record the group being written; RunLocked after a takeover."""
        renewed = db.exec_driver_sql(
            f"UPDATE {self._table} SET owner = %s, "
            f"lease_until = {self._database.clock} + {self.journals.lease_seconds} "
            f"WHERE id = {self.run} AND fence = {self.fence}",
            (f"{self.owner}.{group}",),
        )
        if renewed.rowcount != 1:
            raise RunLocked(
                f"the run of the journal {self.path} was taken over by another process",
                remedy="it did not renew its lease in time; nothing it did since was stored",
            )

    def has_written(self, db: Connection, group: int) -> bool:
        """Whether a group was written although its commit was not confirmed.

        Fails while the server still has the lost connection's transaction open: that is part of
        the outage.
        """
        row = db.exec_driver_sql(
            f"SELECT owner FROM {self._table} WHERE id = {self.run} AND fence = {self.fence} "
            "FOR UPDATE NOWAIT"
        ).fetchone()
        return row is not None and row[0] == f"{self.owner}.{group}"

    def _add(self, db: _DatabaseConnection) -> None:
        if not self.name or self.name != self.name.strip() or len(self.name) > 512:
            raise JournalTrouble(
                f"'{self.name}' is not a valid name for a journal",
                remedy="use 1 to 512 characters without spaces at either end",
            )
        # If two processes add the same name at once, one of them does and both find it.
        spelling = Spelling(
            prefix=self.journals.prefix, placeholder="%s", mysql=self._database.is_mysql
        )
        db.execute(
            spelling.insert("journals", ("name", "owner"), unique=("name",)), (self.name, "")
        )
        self.find(db)

    def _statements(self) -> Statements:
        prefix, mysql = f"{self.journals.prefix}journal_", self._database.is_mysql
        return Statements(Spelling(prefix=prefix, run=self.run, placeholder="%s", mysql=mysql))

    def writer(self, before_commit: BeforeCommit) -> JournalWriter:
        """A writer with its own connection, which also renews the lease."""
        self._writer = _DatabaseWriter(self, before_commit)
        return self._writer

    def stream(self, sql: str, parameters: Sequence[Any] = (), *, after: int = -1) -> Iterator[Any]:
        """Rows over a separate connection, so that other statements may run meanwhile."""
        options = {"stream_results": True, "max_row_buffer": _ROWS}
        lasting = LastingConnection(self._database, patience=self._patience, **options)
        with closing(lasting), ExitStack() as answers:
            answer: CursorResult[Any] | None = None

            def some(db: Connection, *, again: bool) -> Sequence[Any]:
                nonlocal answer
                if answer is None or again:
                    answer = _execute(db, sql, [(*parameters, after)])
                    answers.callback(answer.close)
                return answer.fetchmany(_ROWS)

            while rows := lasting.run(lambda db, again: some(db, again=again)):
                yield from rows
                after = rows[-1][0]

    def keep(self, name: str, content: bytes) -> None:
        """Store a large value in parts; the writer does so before the row that needs it."""
        assert self._writer is not None
        parts = range(0, len(content), PART)
        rows = ((name, number, content[at : at + PART]) for number, at in enumerate(parts))
        self._writer.put(*((self.sql.add_blob, row) for row in rows))

    def fetch(self, name: str) -> bytes:
        """Read a large value."""
        assert self._db is not None
        return b"".join(bytes(body) for (body,) in self._db.execute(self.sql.blob, (name,)))

    def close(self) -> None:
        """Release the lease, if it is still held, and the connection."""
        if self._db is None:
            return
        # Then the lease has ended by itself.
        self._db.patience = min(self._patience, self.journals.lease_seconds)
        try:
            if self.fence:
                self._db.execute(
                    f"UPDATE {self._table} SET lease_until = 0 "
                    f"WHERE id = {self.run} AND fence = {self.fence}"
                )
        except JournalTrouble:
            pass  # the database is gone, and so is the lease
        finally:
            self._db.close()


class _DatabaseWriter(JournalWriter):
    """Writes groups of statements, each in one transaction, in its own thread.

    A group begins by renewing the lease under the fence number with which the run was taken. If
    another process has taken the run since, nothing of the group is written: a driver that slept
    through its lease cannot write between the rows of the next one.

    The renewal records the group's number. If the connection is lost before a commit is
    confirmed, this shows whether the group has to be written again.
    """

    _trouble = JournalTrouble

    def __init__(self, store: DatabaseStore, before_commit: BeforeCommit) -> None:
        super().__init__(name=store.path, before_commit=before_commit)
        self._store = store
        journals = store.journals
        self._renew_every = max(0.05, journals.lease_seconds / 3)
        self._db = LastingConnection(journals.database, patience=journals.outage_seconds)
        self._group = 0
        self._thread.start()

    def close(self) -> None:
        super().close()
        self._db.close()

    def _take_up(self) -> None:
        self._turn.notify()

    def _commit_groups(self) -> None:
        while True:
            with self._lock:
                if not (self._waiting or self._closing):
                    self._turn.wait(self._renew_every)
                group, self._waiting = self._waiting, []
                if not group and (self._closing or self._broken):
                    return
            self._keep([statement for statement, _ in group])
            waiters = [waiter for _, waiter in group]
            release(waiters, by_loop(waiters), self._broken, lambda: None)

    def _keep(self, statements: list[Statement]) -> None:
        """Commit one group; without statements this only renews the lease."""
        if self._broken is not None:
            return
        self._group += 1
        try:
            if statements and (more := self._before_commit()) is not None:
                statements = [*statements, more]
            self._db.run(lambda db, again: self._write(db, statements, again=again))
        except BurnishError as error:
            self._break(error)
        except Exception as error:  # noqa: BLE001 - this thread must live to settle its waiters
            self._break(JournalTrouble(f"the journal {self._name} cannot be written: {error}"))

    def _write(self, db: Connection, statements: list[Statement], *, again: bool) -> None:
        if not (again and self._store.has_written(db, self._group)):
            self._store.renew_lease(db, self._group)
            for sql, rows in groupby(statements, itemgetter(0)):
                _execute(db, sql, [parameters for _, parameters in rows])
        db.commit()

    def _break(self, error: BurnishError) -> None:
        """Accept nothing more: a later write would leave a gap."""
        with self._lock:
            self._broken = error
        self._db.close()  # the server rolls back
