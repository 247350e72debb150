"""A small bench for journal tests: effects over a real journal in a folder."""

import resource
import sqlite3
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from burnish.core.content import Json, codec
from burnish.core.money import NOTHING, Spend
from burnish.core.protocols import Call, Effects, Receipt
from burnish.journal.journal import Journal
from burnish.journal.once import Cache, JournaledEffects
from burnish.system import Redactor

ONE_CALL = Spend(calls=1, tokens_in=10, tokens_out=5, nano_usd=7)


def effects_in(
    folder: Path, *, secrets: tuple[str, ...] = (), cache: Cache | None = None
) -> JournaledEffects:
    """Effects over the journal in a folder."""
    return JournaledEffects(Journal(folder), redactor=Redactor(secrets=secrets), cache=cache)


def text_call(request: Json, *, draw: int = 0, estimate: Spend = ONE_CALL) -> Call[str]:
    """A call that gives a text."""
    return Call(kind="test", request=request, codec=codec(str), draw=draw, estimate=estimate)


def free_call(request: Json) -> Call[str]:
    """A computation: nothing is paid."""
    return text_call(request, estimate=NOTHING)


class Agent:
    """Counts how often it is really called."""

    def __init__(self, answer: str = "hello", *, spend: Spend = ONE_CALL) -> None:
        self.calls = 0
        self.answer = answer
        self.spend = spend

    async def __call__(self, effects: Effects) -> Receipt[str]:
        del effects
        self.calls += 1
        return Receipt(value=self.answer, spend=self.spend)


def must_not_run() -> Callable[[Effects], Awaitable[Receipt[str]]]:
    """A perform that fails the test when it is called."""

    async def perform(effects: Effects) -> Receipt[str]:
        del effects
        raise AssertionError("this effect was paid although it need not be")

    return perform


def rows(folder: Path, sql: str) -> list[tuple[object, ...]]:
    """What the journal's file really holds."""
    db = sqlite3.connect(folder / "journal.db")
    try:
        return db.execute(sql).fetchall()
    finally:
        db.close()


@contextmanager
def small_files(limit: int) -> Generator[None, None, None]:
    """No file may grow beyond the limit: as near to a full disk as a process gets by itself."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def files_in(folder: Path) -> list[Path]:
    """Every file below a folder."""
    return [path for path in folder.rglob("*") if path.is_file()]
