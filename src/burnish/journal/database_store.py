"""A journal in PostgreSQL, MySQL or MariaDB, so that another machine can take its run over."""

import os
import secrets
import socket
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, CursorResult

from burnish.core.errors import BurnishError, ConfigError, JournalTrouble, Problem, RunLocked
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

LEASE_SECONDS = 30.0
"""How long a driver that died keeps its run from others."""
_OUTAGE_SECONDS = 30.0
"""How long a database may be away before its runs give up."""
_SHORTEST = 0.05
"""Seconds between renewals, however short the lease."""


class JournalUnreachable(JournalTrouble):
    """The database that holds the journal does not answer, or refuses."""


@dataclass(frozen=True, kw_only=True)
class DatabaseJournals:
    """The journals in one database."""

    url: DatabaseUrl
    prefix: str = PREFIX
    create_schema: bool = True
    """Whether to make the tables; otherwise someone did by hand."""
    lease_seconds: float = LEASE_SECONDS
    outage_seconds: float = _OUTAGE_SECONDS

    def __post_init__(self) -> None:
        """Refuse a prefix that would change what statements mean, and files."""
        check_prefix(self.prefix)
        if not self.url.is_server:
            message = f"journals cannot lie in {self.url}"
            remedy = (
                "give the address of a PostgreSQL or MariaDB database, or leave the journals "
                "in the folders of the runs"
            )
            raise ConfigError([Problem(message=message, remedy=remedy)])

    @cached_property
    def database(self) -> Database:
        """Connections to it."""
        return Database(self.url, trouble=self._unreachable, pooled=False)

    def _unreachable(self, cause: str) -> JournalUnreachable:
        return JournalUnreachable(
            f"the journal in {self.url} cannot be used: {cause}",
            remedy="check that the database answers, then resume the run: nothing is lost",
        )

    @cached_property
    def schema(self) -> Schema:
        """The tables."""
        return journal_schema(self.prefix)

    def prepare(self) -> None:
        """Make the tables, or see that they are there; a service does so when it starts."""
        with self.database.transaction() as db:
            if self.create_schema:
                self.schema.migrate(db)
            else:
                self.schema.require(db)

    def journal(self, name: str) -> "DatabaseStore":
        """The place of one run's journal, by a name that no other run has."""
        return DatabaseStore(self, name)

    def delete(self, name: str) -> bool:
        """Remove a journal that nobody drives; False where there is none."""
        store = self.journal(name)
        with closing(DatabaseConnection(self.database)) as db:
            if not store.find(db):
                return False
            store.take_lease(db)
            for table in self.schema.tables.values():
                column = "run" if "run" in table.c else "id"
                db.execute(f"DELETE FROM {table.name} WHERE {column} = {store.run}")
        return True


class DatabaseConnection(LastingConnection):
    """A connection on which every statement is a transaction of its own, unless one is begun."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, isolation_level="AUTOCOMMIT")

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> CursorResult[Any]:
        """Run one statement."""
        return self.run(lambda db, _: _execute(db, sql, [parameters]))


def _execute(db: Connection, sql: str, rows: Sequence[Sequence[Any]]) -> CursorResult[Any]:
    """Run a statement for some rows, in as few journeys as the driver can."""
    if len(rows) > 1:
        return db.exec_driver_sql(sql, [tuple(row) for row in rows])
    return db.exec_driver_sql(sql, tuple(rows[0]) or None)


class DatabaseStore:
    """One run's journal in a database. Whoever drives it holds its lease."""

    def __init__(self, journals: DatabaseJournals, name: str) -> None:
        self.journals = journals
        self.name = name
        self.path = f"'{name}' in {journals.url}"
        self.packing = Packing(self)
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self.run = self.fence = 0
        self._table = f"{journals.prefix}journals"
        self._database = journals.database
        self._db: DatabaseConnection | None = None
        self._writer: DatabaseWriter | None = None
        self.sql = self._spelled()

    def __str__(self) -> str:
        return str(self.journals.url)

    # -- opening and the lease -------------------------------------------------------------

    def take(self) -> DatabaseConnection:
        """Take the lease; RunLocked while another process holds it."""
        self._db = db = DatabaseConnection(self._database)
        try:
            if not db.run(lambda tables, _: self.journals.schema.is_current(tables)):
                self.journals.prepare()
            if not self.find(db):
                self._add(db)
            self.take_lease(db)
            db.execute(self.sql.first_mark, ("schema", str(len(self.journals.schema.steps))))
        except BaseException:
            db.close()
            raise
        return db

    def look(self) -> DatabaseConnection:
        """Read; a journal that is not there is empty."""
        self._db = db = DatabaseConnection(self._database)
        try:
            db.run(lambda tables, _: self.journals.schema.require(tables))
            self.find(db)
        except BaseException:
            db.close()
            raise
        db.patience = self.journals.outage_seconds
        return db

    def find(self, db: DatabaseConnection) -> bool:
        """Learn the run's number; False where no journal has this name."""
        row = db.execute(f"SELECT id FROM {self._table} WHERE name = %s", (self.name,)).fetchone()
        # No run has the number -1, so a journal that is not there reads as an empty one.
        self.run = -1 if row is None else int(row[0])
        self.sql = self._spelled()
        return row is not None

    def take_lease(self, db: DatabaseConnection) -> None:
        """Become the driver, under a number that the next driver raises."""
        now = self._database.clock
        lease = db.execute(
            f"UPDATE {self._table} SET fence = fence + 1, owner = %s, "
            f"lease_until = {now} + {self.journals.lease_seconds} "
            f"WHERE id = {self.run} AND lease_until <= {now}",
            (self.owner,),
        )
        row: Any = db.execute(
            f"SELECT fence, owner, lease_until - {now} FROM {self._table} WHERE id = {self.run}"
        ).fetchone()
        if lease.rowcount != 1 or row is None or row[1] != self.owner:
            raise self._locked(row)
        self.fence = int(row[0])

    def renew_lease(self, db: Connection, group: int) -> None:
        """Stay the driver, and note the group that is written; RunLocked after a take-over."""
        renewed = db.exec_driver_sql(
            f"UPDATE {self._table} SET owner = %s, "
            f"lease_until = {self._database.clock} + {self.journals.lease_seconds} "
            f"WHERE id = {self.run} AND fence = {self.fence}",
            (self._owner_at(group),),
        )
        if renewed.rowcount != 1:
            raise RunLocked(
                f"the run of the journal {self.path} was taken over by another process",
                remedy="this one had not renewed its lease in time; nothing it did since is kept",
            )

    def has_written(self, db: Connection, group: int) -> bool:
        """Whether a group is there whose commit was not confirmed.

        While the server still has the lost connection's transaction open, nobody can say: that
        is part of the outage.
        """
        row = db.exec_driver_sql(
            f"SELECT owner FROM {self._table} WHERE id = {self.run} AND fence = {self.fence} "
            "FOR UPDATE NOWAIT"
        ).fetchone()
        return row is not None and row[0] == self._owner_at(group)

    def _owner_at(self, group: int) -> str:
        return f"{self.owner}.{group}"

    def _add(self, db: DatabaseConnection) -> None:
        if not self.name or self.name != self.name.strip() or len(self.name) > 512:
            raise JournalTrouble(
                f"'{self.name}' cannot name a journal",
                remedy="give 1 to 512 characters, no space at either end",
            )
        # Two may add the same name at once: one of them does, and both find it.
        spelling = Spelling(
            prefix=self.journals.prefix, placeholder="%s", mysql=self._database.is_mysql
        )
        db.execute(
            spelling.insert("journals", ("name", "owner"), unique=("name",)), (self.name, "")
        )
        self.find(db)

    def _locked(self, row: Any) -> RunLocked:
        who = "another process" if row is None else str(row[1]).rpartition(":")[0]
        left = self.journals.lease_seconds if row is None else max(0.0, float(row[2]))
        return RunLocked(
            f"the run of the journal {self.path} is driven by {who}",
            remedy=f"wait until it ends; if it died, its lease ends in {left:.0f} s",
        )

    def _spelled(self) -> Statements:
        prefix, mysql = f"{self.journals.prefix}journal_", self._database.is_mysql
        return Statements(Spelling(prefix=prefix, run=self.run, placeholder="%s", mysql=mysql))

    # -- at work -----------------------------------------------------------------------------

    def writer(self, before_commit: BeforeCommit) -> "DatabaseWriter":
        """A writer with a connection of its own; it renews the lease also when idle."""
        assert self._db is not None
        # From now on: a statement of the transaction that opens a journal cannot be repeated.
        self._db.patience = self.journals.outage_seconds
        self._writer = DatabaseWriter(self, before_commit)
        return self._writer

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Any]:
        """Rows over a connection of their own, so that others may be asked for meanwhile."""
        options = {"stream_results": True, "max_row_buffer": 100}
        with self._database.transaction(read_only=True, **options) as db:
            yield from _execute(db, sql, [parameters])

    def keep(self, name: str, content: bytes) -> None:
        """A large value, in parts; the writer keeps it before the row that needs it."""
        assert self._writer is not None
        parts = range(0, len(content), PART)
        rows = ((name, number, content[at : at + PART]) for number, at in enumerate(parts))
        self._writer.put(*((self.sql.add_blob, row) for row in rows))

    def fetch(self, name: str) -> bytes:
        """A large value."""
        assert self._db is not None
        return b"".join(bytes(body) for (body,) in self._db.execute(self.sql.blob, (name,)))

    def close(self) -> None:
        """Give the lease back, if it is still held, and let go."""
        if self._db is None:
            return
        self._db.patience = 0.0
        try:
            if self.fence:
                self._db.execute(
                    f"UPDATE {self._table} SET lease_until = 0 "
                    f"WHERE id = {self.run} AND fence = {self.fence}"
                )
        except JournalTrouble:
            pass  # the database is gone: the lease will end by itself
        finally:
            self._db.close()


class DatabaseWriter(JournalWriter):
    """Writes groups of statements, each in one transaction; a wait ends when they are kept.

    Everything runs in a thread of its own, since each statement is a journey to the server. A
    group begins by renewing the lease under the number with which the run was taken. Where
    another process has taken the run since, nothing of the group is kept: so a driver that slept
    through its lease cannot write between the rows of the next one.

    The renewal notes the group's number. Where the connection is lost before a commit is
    confirmed, that tells whether the group is there or is to be written again.
    """

    _trouble = JournalTrouble

    def __init__(self, store: DatabaseStore, before_commit: BeforeCommit) -> None:
        super().__init__(name=store.path, before_commit=before_commit)
        self._store = store
        journals = store.journals
        self._renew_every = max(_SHORTEST, journals.lease_seconds / 3)
        self._db = LastingConnection(journals.database, patience=journals.outage_seconds)
        self._group = 0
        self._thread.start()

    def close(self) -> None:
        """Keep what was given, then end the thread."""
        super().close()
        self._db.close()

    def _take_up(self) -> None:
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
        self._group += 1
        try:
            if statements and (more := self._before_commit()) is not None:
                statements = [*statements, more]
            self._db.run(lambda db, again: self._write(db, statements, again=again))
        except BurnishError as error:
            self._break(error)
        except Exception as error:  # noqa: BLE001 - this thread must live to tell who waits
            self._break(JournalTrouble(f"the journal {self._name} cannot be written: {error}"))

    def _write(self, db: Connection, statements: list[Statement], *, again: bool) -> None:
        if not (again and self._store.has_written(db, self._group)):
            self._store.renew_lease(db, self._group)
            for sql, rows in groupby(statements, itemgetter(0)):
                _execute(db, sql, [parameters for _, parameters in rows])
        db.commit()

    def _break(self, error: BurnishError) -> None:
        """Take nothing more: a later write would leave a hole where this one belongs."""
        with self._turn:
            self._broken = error
        self._db.close()  # the server takes back what was begun
