"""What is read of a run to show it: the same trials and costs as its journal has."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from burnish.core.cases import Split
from burnish.core.errors import JournalTrouble
from burnish.core.money import NOTHING, total
from burnish.journal.sqlite_store import JOURNAL_FILE
from burnish.runs.directory import RunRecord, look_into, trial_rows
from burnish.runs.setup import start
from tests.runs.small import add_letters, longer, small


async def _interrupted(folder: Path) -> None:
    """A run that did not end: its last evaluation belongs to no trial yet."""
    run = start(small(), folder=folder)
    await add_letters(run)
    await run.evaluate(longer(run.target.baseline), split=Split.HOLDOUT)
    await run.close()


def test_rows_and_totals_are_those_of_the_journal(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    asyncio.run(_interrupted(folder))
    record = RunRecord.read(folder)
    with look_into(folder) as journal:
        rows, costs = tuple(trial_rows(journal)), [*journal.costs()]
        assert record.billed == journal.billed
    assert record.rows == rows
    assert record.effects == len(costs)
    late = [cost for cost in costs if cost.trial >= len(rows)]
    assert record.unrecorded == total(next(iter(cost.spends.values())) for cost in late)
    assert record.spent != NOTHING


def test_a_row_whose_scores_are_damaged_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    asyncio.run(_interrupted(folder))
    body = json.dumps({"number": 0, "trial": {"candidate": {}, "train": {"scores": {"t0": 3}}}})
    with closing(sqlite3.connect(folder / JOURNAL_FILE)) as db:
        db.execute("UPDATE trials SET body = ? WHERE number = 0", (b"j" + body.encode(),))
        db.commit()
    with pytest.raises(JournalTrouble, match="is damaged"):
        RunRecord.read(folder)
