"""A journal that has less than the run's files show: noticed on opening, and by whom it is read."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from burnish.core.cases import Split
from burnish.core.errors import JournalIncomplete
from burnish.journal.limits import Budget
from burnish.journal.sqlite_store import NAME, reached
from burnish.runs.directory import RunRecord, look_into
from burnish.runs.run import Run
from tests.runs.small import Agent, add_letters, driven, small

pytestmark = pytest.mark.slow


async def finished(folder: Path, trials: int = 2) -> Path:
    await driven(small(steps=add_letters, budget=Budget(max_trials=trials)), folder)
    return folder


def change(folder: Path, sql: str) -> None:
    with closing(sqlite3.connect(folder / "journal.db")) as db, db:
        db.execute(sql)


def rows(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.jsonl")}


async def refusal(folder: Path) -> str:
    """What is said by who reads the run and by who goes on with it; nobody is called."""
    agent = Agent()
    before = rows(folder)
    with pytest.raises(JournalIncomplete) as reading:
        RunRecord.read(folder)
    with pytest.raises(JournalIncomplete) as driving:
        await driven(small(steps=add_letters, agent=agent), folder)
    assert str(reading.value) == str(driving.value)
    assert not agent.calls
    assert rows(folder) == before
    return str(driving.value)


async def test_a_trial_that_only_the_ledger_has(tmp_path: Path) -> None:
    folder = await finished(tmp_path / "run", 1)
    shutil.copy(folder / "journal.db", tmp_path / "older.db")
    await finished(folder, 3)
    shutil.copy(tmp_path / "older.db", folder / "journal.db")
    (folder / NAME).unlink()  # the count is lost too
    told = await refusal(folder)
    assert "its last trial is 1, and trials.jsonl shows trial 3" in told
    assert "journal.db-wal was probably deleted, damaged, or left out of a copy" in told
    assert "or continue from trial 1 with --fork run" in told


async def test_an_event_that_only_the_file_has(tmp_path: Path) -> None:
    folder = await finished(tmp_path / "run")
    change(folder, "DELETE FROM events WHERE key = 'session:1:end'")
    assert "events.jsonl shows the event 'session:1:end'" in await refusal(folder)


async def test_results_that_nothing_but_the_count_tells_of(tmp_path: Path) -> None:
    folder = await finished(tmp_path / "run")
    count = reached(folder)
    change(folder, "DELETE FROM effects WHERE id = (SELECT MAX(id) FROM effects)")
    told = await refusal(folder)
    assert f"it has {count - 1} results, and {count} were on disk; its last trial is 2" in told


async def test_a_journal_without_any_trial_that_was_lost_whole(tmp_path: Path) -> None:
    async def steps(run: Run) -> None:
        await run.evaluate(run.target.baseline, split=Split.TRAIN)

    folder = tmp_path / "run"
    await driven(small(steps=steps), folder)
    (folder / "journal.db").unlink()
    told = await refusal(folder)
    assert "it has no trial" in told
    assert "or continue from the start with --fork run" in told


def torn(folder: Path) -> None:
    for name in ("trials.jsonl", "events.jsonl"):
        with (folder / name).open("a", encoding="utf-8") as file:
            file.write('{"number": 99, "id": "session:9:end"')


def nonsense(folder: Path) -> None:
    (folder / "trials.jsonl").write_bytes(b"\xff\x00\n[1]\n")
    (folder / "events.jsonl").write_bytes(b'{"id": 7}\n')
    (folder / NAME).write_bytes(bytes(21))


def absent(folder: Path) -> None:
    for name in ("trials.jsonl", "events.jsonl", NAME):
        (folder / name).unlink()


def emptied(folder: Path) -> None:
    for name in ("trials.jsonl", "events.jsonl", NAME):
        (folder / name).write_bytes(b"")


@pytest.mark.parametrize("harm", [torn, nonsense, absent, emptied])
async def test_files_that_show_nothing_accuse_nobody(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    folder = await finished(tmp_path / "run")
    whole = rows(folder)
    harm(folder)
    look_into(folder, whole=True).close()
    agent = Agent()
    await driven(small(steps=add_letters, agent=agent, budget=Budget(max_trials=2)), folder)
    assert not agent.calls
    assert rows(folder)["trials.jsonl"] == whole["trials.jsonl"], "mended from the journal"
    assert reached(folder) > 0


async def test_a_run_can_be_read_while_it_is_driven(tmp_path: Path) -> None:
    read: list[int] = []

    async def steps(run: Run) -> None:
        await add_letters(run)

    class Reader:
        def event(self, event: object) -> None:
            read.append(len(RunRecord.read(tmp_path / "run").rows))

        def tick(self, tick: object) -> None:
            look_into(tmp_path / "run", whole=True).close()

    setup = small(steps=steps, budget=Budget(max_trials=3))
    await driven(setup, tmp_path / "run", Reader())
    assert read[-1] == 4
    assert reached(tmp_path / "run") == _results(tmp_path / "run")


async def test_a_long_row_is_read_whole(tmp_path: Path) -> None:
    folder = await finished(tmp_path / "run")
    row = f'{{"number": 9, "text": "{"é" * 200_000}"}}\n'
    (folder / "trials.jsonl").write_text(row + row[:1000], encoding="utf-8")
    assert "trials.jsonl shows trial 9" in await refusal(folder)


def _results(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "journal.db")) as db:
        query = "SELECT COUNT(*) FROM effects WHERE value IS NOT NULL"
        return int(db.execute(query).fetchone()[0])
