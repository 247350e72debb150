"""What is read of a run to show it: the same trials and costs as its journal has."""

import asyncio
import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Split
from burnish.core.content import canonical, codec
from burnish.core.errors import JournalTrouble
from burnish.core.money import NOTHING, total
from burnish.core.trials import TrialRow
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


_SCORES = {"t0": {"m": [1.0, None]}}


@pytest.mark.parametrize(
    "changes",
    [
        {"train": {"scores": {'"}}': {"}}": [0.5]}, "a}},": {"m": [1.0]}}}},
        {"holdout": {"scores": {"h": {}}}, "train": {"scores": _SCORES}},
        {"holdout": {"scores": {}}, "train": {"scores": _SCORES}},
        {"proposals": [{"role": "critic", "request": {"scores": _SCORES}, "answer": "}}"}]},
        {"proposals": [{"role": "critic", "request": '"scores":{"a}}'}], "train": {"scores": {}}},
    ],
)
def test_scores_are_those_of_the_journal_whatever_a_trial_holds(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    asyncio.run(_interrupted(tmp_path / "run"))
    with look_into(tmp_path / "run") as journal:
        stored = json.loads(journal.trial(0) or b"")
    trial = stored["trial"]
    measured = trial["train"]
    for name, change in changes.items():
        trial[name] = {**measured, **change} if isinstance(change, dict) else change
    with closing(sqlite3.connect(tmp_path / "run" / JOURNAL_FILE)) as db:
        body = b"j" + canonical(stored)
        db.execute("UPDATE trials SET body = ? WHERE number = 0", (body,))
        db.commit()
    with look_into(tmp_path / "run") as journal:
        expected = next(iter(trial_rows(journal)))
    row = RunRecord.read(tmp_path / "run").rows[0]
    assert row == expected
    assert codec(TrialRow).encode(row) == codec(TrialRow).encode(expected)


def test_a_run_that_goes_on_is_read_from_where_it_was(tmp_path: Path) -> None:
    asyncio.run(_interrupted(tmp_path / "run"))
    whole = RunRecord.read(tmp_path / "run")
    before = replace(whole, rows=whole.rows[:3], events=whole.events[:4])
    again = RunRecord.read(tmp_path / "run", before=before)
    assert (again.rows, again.events) == (whole.rows, whole.events)
    assert again.events[3] is before.events[3]
    assert again.rows[2] is before.rows[2], "a trial never changes, so it is not read again"
    other = replace(before, header=replace(before.header, id="another"), rows=whole.rows[3:])
    assert RunRecord.read(tmp_path / "run", before=other).rows == whole.rows
