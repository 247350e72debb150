"""Rehearsals: what was paid for is looked up, nothing else happens."""

from pathlib import Path

import pytest

from burnish.journal.journal import JournalReader
from burnish.journal.once import Cache, NotRehearsed
from tests.journal.journals import Agent, effects_in, must_not_run, text_call


async def test_it_answers_from_the_journal_and_notes_what_was_used(tmp_path: Path) -> None:
    effects = effects_in(tmp_path)
    await effects.scope(trial=0).once(text_call("known"), Agent("hello"))
    rehearsal = effects.rehearsal()
    assert await rehearsal.once(text_call("known"), must_not_run()) == "hello"
    assert rehearsal.used == {text_call("known").key}
    assert not rehearsal.ended
    effects.journal.close()


async def test_what_the_journal_does_not_hold_ends_it_for_good(tmp_path: Path) -> None:
    effects = effects_in(tmp_path)
    await effects.scope(trial=0).once(text_call("known"), Agent())
    billed, rehearsal = effects.journal.billed, effects.rehearsal()
    with pytest.raises(NotRehearsed):
        await rehearsal.once(text_call("new"), must_not_run())
    with pytest.raises(NotRehearsed):
        await rehearsal.once(text_call("known"), must_not_run())
    assert rehearsal.ended
    assert effects.journal.billed == billed
    effects.journal.close()
    with JournalReader(tmp_path) as journal:
        assert len(list(journal.effects())) == 1


async def test_within_bounds_it_uses_nothing_else_that_the_journal_holds(tmp_path: Path) -> None:
    effects = effects_in(tmp_path)
    for request in ("mine", "another trial's"):
        await effects.scope(trial=0).once(text_call(request), Agent())
    rehearsal = effects.rehearsal(within={text_call("mine").key})
    assert await rehearsal.once(text_call("mine"), must_not_run()) == "hello"
    with pytest.raises(NotRehearsed):
        await rehearsal.once(text_call("another trial's"), must_not_run())
    effects.journal.close()


async def test_a_fork_rehearses_on_what_the_earlier_run_has_paid_for(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    earlier = effects_in(tmp_path / "old")
    await earlier.scope(trial=0).once(text_call("known"), Agent("from before"))
    earlier.journal.close()
    cache = Cache(JournalReader(tmp_path / "old"))
    effects = effects_in(tmp_path / "new", cache=cache)
    assert await effects.rehearsal().once(text_call("known"), must_not_run()) == "from before"
    effects.journal.close()
    cache.close()
