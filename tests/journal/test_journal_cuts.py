"""The server cuts the connection at each statement of a run, which still ends as if it had not."""

import gc
import json
import os
import threading
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest
from sqlalchemy import Connection, Engine, event

from burnish.core.errors import BurnishError
from burnish.journal.database_store import DatabaseJournals
from burnish.journal.journal import Journal, JournalReader
from burnish.journal.limits import Budget
from burnish.projects.launch import launched
from burnish.reports.rendering import NAME as REPORT
from burnish.server.runs import RunPlace
from burnish.system.databases import Database, DatabaseUrl
from tests.journal.databases import SERVERS, execute, tables_on
from tests.runs.small import add_letters, small

pytestmark = pytest.mark.slow

Lost: TypeAlias = Literal["request", "answer"]
# Drivers cannot close a cursor of a connection that is gone, and warn of it when it is collected.
UNCLOSED = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
_OFTEN = 2
"""How often the same statement is cut, and half as often as a commit."""
TABLES = ("effects", "lost", "trials", "events", "checks", "sessions", "meta")


@dataclass
class Cuts:
    """Ends connections on the side of the server.

    `request`: before a statement, which the server never hears of. `answer`: after it, which the
    client never learns. A statement passes when it comes again; a transaction is cut once, at a
    statement that no other was cut at, or else at its commit.
    """

    url: DatabaseUrl
    lost: Lost
    done: Counter[str] = field(default_factory=Counter[str])
    """How often each statement was cut."""
    _pending: set[str] = field(default_factory=set[str])
    """What was cut, and passes when it comes again."""
    _spared: set[int] = field(default_factory=set[int])
    """Threads whose transaction was cut, and passes when it comes again."""

    def __post_init__(self) -> None:
        self._database = Database(self.url, trouble=BurnishError, pooled=False)
        self._lock = threading.Lock()
        self._own = self._database.connect(isolation_level="AUTOCOMMIT")

    def close(self) -> None:
        self._own.close()
        self._database.close()

    def end(self, db: Connection) -> None:
        """End the other side of a connection, and wait until it is gone."""
        raw: Any = db.connection.dbapi_connection
        with self._lock:  # the journal writes in a thread of its own
            if self.url.kind == "postgresql":
                pid = raw.info.backend_pid
                self._own.exec_driver_sql(f"SELECT pg_terminate_backend({pid}, 60000)")
                return
            self._own.exec_driver_sql(f"KILL {raw.thread_id()}")
            threads = "SELECT id FROM information_schema.processlist WHERE id"
            while self._own.exec_driver_sql(f"{threads} = {raw.thread_id()}").fetchone():
                pass

    @contextmanager
    def falling(self) -> Generator[None]:
        """While entered, each statement and each commit is cut."""
        listeners: list[tuple[str, Any]] = [("commit", self._committing)]
        listeners += [
            ("before_cursor_execute", self._before)
            if self.lost == "request"
            else ("after_cursor_execute", self._after)
        ]
        for name, listener in listeners:
            event.listen(Engine, name, listener)
        try:
            yield
        finally:
            for name, listener in listeners:
                event.remove(Engine, name, listener)

    def _before(self, db: Connection, _: Any, sql: str, parameters: Any, *rest: Any) -> None:
        if self._strikes(db, sql, parameters):
            self.end(db)

    def _after(self, db: Connection, cursor: Any, sql: str, parameters: Any, *rest: Any) -> None:
        if self._strikes(db, sql, parameters):
            self.end(db)
            cursor.connection.cursor().execute("SELECT 1")  # raises what the driver raises

    def _committing(self, db: Connection) -> None:
        thread = threading.get_ident()
        if thread in self._spared or self.done["COMMIT"] == 2 * _OFTEN:
            self._spared.discard(thread)
            return
        self._spared.add(thread)
        self.done["COMMIT"] += 1
        if self.lost == "answer":
            raw: Any = db.connection.dbapi_connection
            raw.commit()
        self.end(db)

    def _strikes(self, db: Connection, sql: str, parameters: Any) -> bool:
        if db.engine is self._own.engine:
            return False
        options = db.get_execution_options()
        if options.get("stream_results") and self.lost == "answer":
            return False  # as if it were requested again
        if options.get("stream_results") or options.get("isolation_level") == "AUTOCOMMIT":
            key = f"{sql} {parameters}"
            struck = key not in self._pending and self.done[sql] < _OFTEN
            self._pending ^= {key} if struck else self._pending & {key}
        elif struck := threading.get_ident() not in self._spared and sql not in self.done:
            self._spared.add(threading.get_ident())
        self.done[sql] += struck
        return struck


@pytest.fixture(params=list(SERVERS))
def journals(request: pytest.FixtureRequest) -> Iterator[DatabaseJournals]:
    with tables_on(request.param) as (address, prefix):
        yield DatabaseJournals(url=DatabaseUrl.parse(address), prefix=prefix)
    gc.collect()  # here, and not in the middle of a test that has nothing to do with it


async def drive(journals: DatabaseJournals, folder: Path, name: str) -> None:
    """Start a run, and continue it to its end on another machine."""
    first = RunPlace(folder=folder / f"{name}-first", journals=journals, name=name)
    second = RunPlace(folder=folder / f"{name}-second", journals=journals, name=name)
    for place, trials in ((first, 2), (second, 3)):
        setup = small(steps=add_letters, budget=Budget(max_trials=trials))
        assert place.fetch() == (place is second)
        ending = await launched(lambda setup=setup, place=place: place.open(setup))
        assert ending.reason.code == "max_trials"
        assert (place.folder / REPORT).is_file()


def kept(journals: DatabaseJournals, name: str) -> dict[str, Any]:
    """What the journal of a run has: all of it but times."""
    store = journals.journal(name)
    count = f"SELECT COUNT(*) FROM {journals.prefix}journal_"
    with JournalReader(store) as reader:
        return {
            "trials": [json.loads(body)["trial"]["candidate"] for body in reader.trials()],
            "events": [json.loads(body)["id"] for body in reader.events()],
            "effects": sorted((row.key, row.trial, row.state) for row in reader.effects()),
            "billed": reader.billed,
            "totals": reader.totals,
            "marks": [*reader.marks()],
            "counts": {
                table: execute(journals.url, f"{count}{table} WHERE run = {store.run}")
                for table in TABLES
            },
        }


@pytest.mark.parametrize("lost", ["request", "answer"])
@UNCLOSED
async def test_a_run_that_is_cut_at_each_statement_ends_as_without(
    journals: DatabaseJournals, tmp_path: Path, lost: Lost
) -> None:
    with closing(Cuts(journals.url, lost)) as cuts:
        with cuts.falling():  # first, so that the tables are created meanwhile
            journals.prepare()
            await drive(journals, tmp_path, "cut")
        await drive(journals, tmp_path, "calm")
        assert kept(journals, "cut") == kept(journals, "calm")
    assert cuts.done.total() > 40, "there was next to nothing to cut"


@UNCLOSED
def test_rows_are_read_on_where_the_connection_was_cut(journals: DatabaseJournals) -> None:
    journal = Journal(journals.journal("run"))
    bodies = [os.urandom(60_000) for _ in range(120)]
    for number, body in enumerate(bodies):
        journal.add_trial(number, body)
    journal.close()
    with closing(Cuts(journals.url, "request")) as cuts:
        connected: list[Connection] = []

        def note(db: Connection) -> None:
            connected.append(db)

        event.listen(Engine, "engine_connect", note)
        try:
            with JournalReader(journals.journal("run")) as reader:
                rows = reader.trials(since=1)
                read = [next(rows)]
                cuts.end(connected[-1])
                read += rows
        finally:
            event.remove(Engine, "engine_connect", note)
    assert read == bodies[1:]
