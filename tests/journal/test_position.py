"""The count of results beside a journal: never more than is on disk; an odd one harms nobody."""

import asyncio
from pathlib import Path

import pytest

from burnish.journal.sqlite_store import NAME, PositionFile, reached
from tests.journal.journals import Agent, effects_in, free_call, text_call


async def test_it_counts_what_is_on_disk(tmp_path: Path) -> None:
    effects = effects_in(tmp_path)
    assert reached(tmp_path) == 0
    for number in range(3):
        await effects.scope(trial=0).once(text_call(number), Agent())
    await effects.scope(trial=0).once(text_call(0), Agent())
    assert reached(tmp_path) == 3, "one for each result, however often it is used"
    await effects.scope(trial=0).once(free_call("computed"), Agent())
    effects.journal.add_trial(0, b"{}")
    assert reached(tmp_path) == 4, "a trial comes after everything that it rests on"
    effects.journal.close()
    again = effects_in(tmp_path)
    await again.scope(trial=1).once(text_call("more"), Agent())
    assert reached(tmp_path) == 5
    again.journal.close()


async def test_results_of_one_commit_are_counted_with_one_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    effects, written = effects_in(tmp_path), list[int]()
    reach = PositionFile.reach

    def counted(position: PositionFile, count: int) -> None:
        reach(position, count)
        written.append(reached(tmp_path))

    monkeypatch.setattr(PositionFile, "reach", counted)
    told: list[int] = []

    async def one(number: int) -> None:
        await effects.scope(trial=0).once(text_call(number), Agent())
        told.append(reached(tmp_path))

    await asyncio.gather(*map(one, range(50)))
    assert all(count >= place for place, count in enumerate(told, 1)), "before anybody is told"
    assert written[-1] == 50
    assert len(set(written)) < 25, "not one write for each"
    effects.journal.close()


@pytest.mark.parametrize("content", [b"", b"\0" * 21, b"many\n", b"-3\n"])
def test_a_count_that_cannot_be_read_accuses_nobody(tmp_path: Path, content: bytes) -> None:
    (tmp_path / NAME).write_bytes(content)
    assert reached(tmp_path) == 0


def test_it_never_goes_back_and_a_journal_works_without_it(tmp_path: Path) -> None:
    position = PositionFile(tmp_path, 3)
    position.reach(2)
    assert reached(tmp_path) == 3
    position.close()
    position.close()
    nowhere = PositionFile(tmp_path / "gone", 1)
    nowhere.reach(2)
    nowhere.close()
    assert reached(tmp_path / "gone") == 0
