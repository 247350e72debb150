"""What a run paid, held against what was really asked."""

from pathlib import Path

from burnish.core.money import total
from burnish.journal.journal import JournalReader
from burnish.runs.directory import RunRecord


def check_bill(run: Path, *, asked: int, lost: int) -> None:
    """Spent is what the journal completed; billed has no more than `lost` calls beside it.

    `asked` is how many questions models really heard: each was on the bill before it was asked.
    """
    record = RunRecord.read(run)
    with JournalReader(run) as journal:
        completed = total(next(iter(row.spends.values())) for row in journal.costs())
        assert len({row.key for row in journal.effects()}) == len([*journal.effects()])
    assert record.spent == completed
    assert record.spent.calls <= asked <= record.billed.calls
    assert record.billed.calls - record.spent.calls <= lost
