"""Where a journal lies: what it needs of the place, be it a file or a database."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from burnish.core.money import Spend
from burnish.effects.packing import Packing
from burnish.effects.statements import Statements

Statement: TypeAlias = tuple[str, Sequence[Any]]
BeforeCommit: TypeAlias = Callable[[], Statement | None]


class Rows(Protocol):
    """What a statement gave."""

    def fetchone(self) -> Any:
        """The next row, or None."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """The rows that are left."""
        ...


class Connection(Protocol):
    """A connection on which every statement is a transaction of its own."""

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Rows:
        """Run one statement."""
        ...

    def close(self) -> None:
        """Let go."""
        ...


class JournalWriter(Protocol):
    """Executes statements in the order they were given; a wait ends when they are kept."""

    def put(self, *statements: Statement) -> None:
        """Give statements that are kept together; what is given later is kept no sooner."""
        ...

    def write(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Give a statement and wait until it is kept."""
        ...

    async def commit(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Give a statement and wait, without blocking the loop, until it is kept."""
        ...

    def checkpoint_soon(self) -> None:
        """With the next commit, move what was kept to where it stays."""
        ...

    def close(self) -> None:
        """Keep what was given, then end."""
        ...


class JournalStore(Protocol):
    """One run's journal, wherever it lies. Its tables are those of schema.py."""

    @property
    def path(self) -> Path | str:
        """How messages name it; no password is in it."""
        ...

    @property
    def sql(self) -> Statements:
        """The statements as this place spells them; known once it was taken or looked at."""
        ...

    @property
    def packing(self) -> Packing:
        """How values lie in rows, and where large ones go."""
        ...

    def take(self) -> Connection:
        """Open it for driving: tables made, one driver at a time. Close the store when done."""
        ...

    def look(self) -> Connection:
        """Open it for reading: nothing is written, a driver may be at work."""
        ...

    def writer(self, before_commit: BeforeCommit) -> JournalWriter:
        """The one writer of a journal that was taken.

        `before_commit` may add a statement to a commit, now and then.
        """
        ...

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterable[Any]:
        """Many rows, not all in memory at once; other statements may run meanwhile."""
        ...

    def close(self) -> None:
        """Let go of the place; the writer was closed before."""
        ...


def billed(db: Connection, sql: Statements) -> Spend:
    """Everything that was started: completed effects, and lost ones by their estimate."""
    rows = (db.execute(each).fetchone() for each in sql.billed)
    return sum((Spend.of(map(int, row)) for row in rows), Spend())


def one(db: Connection, sql: str) -> float:
    """The one number a query gives."""
    return float(db.execute(sql).fetchone()[0])
