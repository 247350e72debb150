"""A journal in PostgreSQL, MySQL or MariaDB, so that another machine can take its run over."""

import os
import secrets
import socket
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from burnish.core.errors import JournalTrouble, RunLocked
from burnish.effects import database_schema
from burnish.effects.database_drivers import DatabaseConnection, Driver
from burnish.effects.database_urls import DatabaseUrl
from burnish.effects.packing import Packing
from burnish.effects.remote_writer import RemoteWriter
from burnish.effects.statements import Spelling, Statements
from burnish.effects.storage import BeforeCommit

LEASE_SECONDS = 30.0
"""How long a driver that died keeps its run from others."""
_SHORTEST = 0.05
"""Seconds between renewals, however short the lease."""
_PART = 4 * 1024 * 1024
"""Servers refuse packets above a size; MariaDB's is 16 MB where nobody set it."""


@dataclass(frozen=True, kw_only=True)
class DatabaseJournals:
    """The journals in one database."""

    url: DatabaseUrl
    prefix: str = database_schema.PREFIX
    create_schema: bool = True
    """Whether to make the tables; otherwise someone did by hand."""
    lease_seconds: float = LEASE_SECONDS

    def __post_init__(self) -> None:
        """Refuse a prefix that would change what statements mean."""
        database_schema.check_prefix(self.prefix)

    def prepare(self) -> None:
        """Make the tables, or see that they are there; a service does so when it starts."""
        driver = Driver(self.url)
        with closing(driver.connect()) as db:
            database_schema.prepare(db, driver, self.prefix, create=self.create_schema)

    def journal(self, name: str) -> "DatabaseStore":
        """The place of one run's journal, by a name that no other run has."""
        return DatabaseStore(self, name)

    def delete(self, name: str) -> bool:
        """Remove a journal that nobody drives; False where there is none."""
        driver = Driver(self.url)
        with closing(driver.connect()) as db:
            store = self.journal(name)
            if not store.find(db):
                return False
            store.take_lease(db)
            for table in database_schema.OF_A_RUN:
                db.execute(f"DELETE FROM {self.prefix}{table} WHERE run = {store.run}")
            db.execute(f"DELETE FROM {self.prefix}journals WHERE id = {store.run}")
        return True


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
        self._driver = Driver(journals.url)
        self._db: DatabaseConnection | None = None
        self._writer: RemoteWriter | None = None
        self.sql = self._spelled()

    def __str__(self) -> str:
        return str(self.journals.url)

    # -- opening and the lease -------------------------------------------------------------

    def take(self) -> DatabaseConnection:
        """Take the lease; RunLocked while another process holds it."""
        self._db = db = self._driver.connect()
        try:
            make = self.journals.create_schema
            database_schema.prepare(db, self._driver, self.journals.prefix, create=make)
            if not self.find(db):
                self._add(db)
            self.take_lease(db)
            db.execute(self.sql.first_mark, ("schema", str(database_schema.SCHEMA)))
        except BaseException:
            db.close()
            raise
        return db

    def look(self) -> DatabaseConnection:
        """Read; a journal that is not there is empty."""
        self._db = db = self._driver.connect()
        try:
            database_schema.check(db, self._driver, self.journals.prefix)
            self.find(db)
        except BaseException:
            db.close()
            raise
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
        now = self._driver.clock
        taken = db.execute(
            f"UPDATE {self._table} SET fence = fence + 1, owner = %s, "
            f"lease_until = {now} + {self.journals.lease_seconds} "
            f"WHERE id = {self.run} AND lease_until <= {now}",
            (self.owner,),
        )
        row = db.execute(
            f"SELECT fence, owner, lease_until - {now} FROM {self._table} WHERE id = {self.run}"
        ).fetchone()
        if taken.rowcount != 1 or row is None or row[1] != self.owner:
            raise self._locked(row)
        self.fence = int(row[0])

    def renew_lease(self, db: DatabaseConnection) -> None:
        """Stay the driver; RunLocked where another process has taken the run."""
        renewed = db.execute(
            f"UPDATE {self._table} "
            f"SET lease_until = {self._driver.clock} + {self.journals.lease_seconds} "
            f"WHERE id = {self.run} AND fence = {self.fence}"
        )
        if renewed.rowcount != 1:
            raise RunLocked(
                f"the run of the journal {self.path} was taken over by another process",
                remedy="this one had not renewed its lease in time; nothing it did since is kept",
            )

    def _add(self, db: DatabaseConnection) -> None:
        if not self.name or self.name != self.name.strip() or len(self.name) > 512:
            raise JournalTrouble(
                f"'{self.name}' cannot name a journal",
                remedy="give 1 to 512 characters, no space at either end",
            )
        spelling = Spelling(placeholder="%s", mysql=self._driver.is_mysql)
        # Two may add the same name at once: one of them does, and both find it.
        ignore = (
            " ON DUPLICATE KEY UPDATE owner = owner"
            if spelling.mysql
            else (" ON CONFLICT (name) DO NOTHING")
        )
        columns = f"INSERT INTO {self._table} (name, owner) VALUES (%s, %s)"
        db.execute(columns + ignore, (self.name, ""))
        self.find(db)

    def _locked(self, row: Any) -> RunLocked:
        who = "another process" if row is None else str(row[1]).rpartition(":")[0]
        left = self.journals.lease_seconds if row is None else max(0.0, float(row[2]))
        return RunLocked(
            f"the run of the journal {self.path} is driven by {who}",
            remedy=f"wait until it ends; if it died, its lease ends in {left:.0f} s",
        )

    def _spelled(self) -> Statements:
        mysql = self._driver.is_mysql
        prefix = f"{self.journals.prefix}journal_"
        return Statements(Spelling(prefix=prefix, run=self.run, placeholder="%s", mysql=mysql))

    # -- at work -----------------------------------------------------------------------------

    def writer(self, before_commit: BeforeCommit) -> RemoteWriter:
        """A writer with a connection of its own; it renews the lease also when idle."""
        self._writer = RemoteWriter(
            self._driver.connect(),
            name=self.path,
            renew=self.renew_lease,
            renew_every=max(_SHORTEST, self.journals.lease_seconds / 3),
            before_commit=before_commit,
        )
        return self._writer

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Any]:
        """Rows over a connection of their own, so that others may be asked for meanwhile."""
        with closing(self._driver.connect()) as db:
            yield from db.stream(sql, parameters)

    def keep(self, name: str, content: bytes) -> None:
        """A large value, in parts; the writer keeps it before the row that needs it."""
        assert self._writer is not None
        parts = range(0, len(content), _PART)
        rows = ((name, number, content[at : at + _PART]) for number, at in enumerate(parts))
        self._writer.put(*((self.sql.add_blob, row) for row in rows))

    def fetch(self, name: str) -> bytes:
        """A large value."""
        assert self._db is not None
        return b"".join(bytes(body) for (body,) in self._db.execute(self.sql.blob, (name,)))

    def close(self) -> None:
        """Give the lease back, if it is still held, and let go."""
        if self._db is None:
            return
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
