"""The rules of the journal, one by one, as DESIGN.md numbers them (those that concern it alone)."""

import asyncio
import random
import sqlite3
import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest

from burnish.core.errors import (
    FileTrouble,
    JournalTrouble,
    NotJournalable,
    ReplayDiverged,
    SealedTestRead,
)
from burnish.core.money import NOTHING, Spend
from burnish.core.protocols import Effects, Receipt
from burnish.journal.journal import Journal, JournalReader
from burnish.journal.once import Cache
from burnish.journal.sqlite_store import JOURNAL_FILE, connect
from burnish.journal.storage import COMPRESS_ABOVE, FILE_ABOVE, Packing
from tests.journal.journals import (
    ONE_CALL,
    Agent,
    effects_in,
    files_in,
    free_call,
    must_not_run,
    rows,
    small_files,
    text_call,
)


async def test_rule_01_wal_with_full_sync_and_one_commit_for_many(tmp_path: Path) -> None:
    effects = effects_in(tmp_path)
    scope = effects.scope(trial=0)
    await asyncio.gather(*(scope.once(text_call(n), Agent(str(n))) for n in range(200)))
    effects.journal.close()
    db = connect(tmp_path / "journal.db", wal=True)
    assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert db.execute("PRAGMA synchronous").fetchone() == (2,)
    db.close()
    assert rows(tmp_path, "SELECT COUNT(*) FROM effects WHERE value IS NOT NULL") == [(200,)]


def test_rule_01_no_wal_where_it_is_unsafe(tmp_path: Path) -> None:
    db = connect(tmp_path / "journal.db", wal=False)
    assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    db.close()


def test_rule_01_values_are_compressed_above_2_kb_and_in_files_above_256_kb(tmp_path: Path) -> None:
    packing = Packing(tmp_path / "blobs")
    small, middle = b"x" * COMPRESS_ABOVE, b"x" * (COMPRESS_ABOVE + 1)
    assert packing.pack(small)[1:] == small
    assert len(packing.pack(middle)) < 100
    large = random.Random(1).randbytes(FILE_ABOVE + 5000)
    packed = packing.pack(large)
    assert len(packed) < 100
    assert [path.name for path in (tmp_path / "blobs").iterdir()] == [packed[1:].decode()]
    for content in (b"", small, middle, large):
        assert packing.unpack(packing.pack(content)) == content


def test_rule_01_a_lost_blob_is_said_clearly(tmp_path: Path) -> None:
    packing = Packing(tmp_path / "blobs")
    packed = packing.pack(random.Random(1).randbytes(FILE_ABOVE + 5000))
    for blob in (tmp_path / "blobs").iterdir():
        blob.unlink()
    with pytest.raises(JournalTrouble, match="cannot be read"):
        packing.unpack(packed)


async def test_rule_02_noted_before_it_starts_and_completed_when_it_ends(tmp_path: Path) -> None:
    effects = effects_in(tmp_path)
    seen: list[list[tuple[object, ...]]] = []

    async def perform(nested: Effects) -> Receipt[str]:
        del nested
        seen.append(rows(tmp_path, "SELECT value IS NULL, calls, nano_usd FROM effects"))
        return Receipt(value="done", spend=Spend(calls=1, nano_usd=9))

    await effects.scope(trial=0).once(text_call("a"), perform)
    assert seen == [[(1, 1, 7)]], "on disk with its estimate before the call was made"
    assert rows(tmp_path, "SELECT value IS NULL, calls, nano_usd FROM effects") == [(0, 1, 9)]
    assert effects.journal.billed == Spend(calls=1, nano_usd=9)
    effects.journal.close()


async def test_rule_02_what_was_in_flight_when_the_process_died_is_billed_not_spent(
    tmp_path: Path,
) -> None:
    first = effects_in(tmp_path)
    await first.journal.note(text_call("a"), trial=0, request=b"{}")
    first.journal.close()
    second = effects_in(tmp_path)
    assert second.journal.billed == ONE_CALL
    scope = second.scope(trial=0)
    assert await scope.once(text_call("a"), Agent("again")) == "again"
    assert second.journal.billed == ONE_CALL.times(2)
    assert scope.used == {text_call("a").key: ONE_CALL}
    second.journal.close()


async def test_rule_04_cancellation_and_bugs_are_not_stored(tmp_path: Path) -> None:
    effects = effects_in(tmp_path)

    async def bug(nested: Effects) -> Receipt[str]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await effects.scope(trial=0).once(text_call("a"), bug)
    effects.journal.close()
    assert rows(tmp_path, "SELECT COUNT(*) FROM effects") == [(0,)]
    assert rows(tmp_path, "SELECT calls FROM lost") == [(1,)]


async def test_rule_05_a_continue_is_kept_by_its_number(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.add_continue("minutes", 1)
    journal.add_continue("minutes", 2)
    journal.close()
    again = Journal(tmp_path)
    assert [again.continued("minutes", n) for n in (1, 2, 3)] == [True, True, False]
    assert not again.continued("stop_file", 1)
    again.close()


async def test_rule_05_a_continue_is_on_disk_before_what_follows_from_it(tmp_path: Path) -> None:
    effects = effects_in(tmp_path)
    found: list[tuple[object, ...]] = []

    async def perform(nested: Effects) -> Receipt[str]:
        found.extend(rows(tmp_path, "SELECT label, number FROM checks"))
        return Receipt(value="x")

    effects.journal.add_continue("minutes", 1)
    await effects.scope(trial=0).once(text_call("a"), perform)
    assert found == [("minutes", 1)]
    effects.journal.close()


async def test_rule_06_a_miss_in_a_recorded_trial_raises_before_anything_is_paid(
    tmp_path: Path,
) -> None:
    effects = effects_in(tmp_path)
    await effects.scope(trial=0).once(text_call("a"), Agent())
    effects.journal.add_trial(0, b"{}")
    with pytest.raises(ReplayDiverged, match="trial 0"):
        await effects.scope(trial=0).once(text_call("b"), must_not_run())
    assert await effects.scope(trial=0).once(text_call("a"), must_not_run()) == "hello"
    assert await effects.scope(trial=1).once(text_call("b"), Agent("live")) == "live"
    effects.journal.close()


async def test_rule_07_the_first_result_is_the_journaled_one_redacted(tmp_path: Path) -> None:
    effects = effects_in(tmp_path, secrets=("canary-secret-1234",))
    said = Agent("the key is canary-secret-1234")
    call = text_call({"header": "canary-secret-1234"})
    first = await effects.scope(trial=0).once(call, said)
    again = await effects.scope(trial=0).once(call, must_not_run())
    assert first == again == "the key is [redacted]"
    effects.journal.close()
    assert not [path for path in files_in(tmp_path) if b"canary-secret" in path.read_bytes()]


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
async def test_rule_07_lone_surrogates_are_refused(tmp_path: Path, text: str) -> None:
    effects = effects_in(tmp_path)
    with pytest.raises(NotJournalable):
        await effects.scope(trial=0).once(text_call("a"), Agent(text))
    effects.journal.close()


async def test_rule_08_draws_are_named_not_counted(tmp_path: Path) -> None:
    effects = effects_in(tmp_path)
    scope = effects.scope(trial=0)
    assert await scope.once(text_call("a", draw=0), Agent("zero")) == "zero"
    assert await scope.once(text_call("a", draw=1), Agent("one")) == "one"
    assert await scope.once(text_call("a", draw=0), must_not_run()) == "zero"
    effects.journal.close()


async def test_rule_11_one_key_in_flight_runs_once_and_outlives_whoever_waits(
    tmp_path: Path,
) -> None:
    effects = effects_in(tmp_path)
    begun, gate, agent = asyncio.Event(), asyncio.Event(), Agent()

    async def slow(nested: Effects) -> Receipt[str]:
        begun.set()
        await gate.wait()
        return await agent(nested)

    waiting = [
        asyncio.create_task(effects.scope(trial=0).once(text_call("a"), slow)) for _ in range(5)
    ]
    await begun.wait()
    waiting[0].cancel()
    gate.set()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert results[1:] == ["hello"] * 4
    assert agent.calls == 1
    effects.journal.close()


async def test_rule_11_a_result_nobody_waits_for_is_kept(tmp_path: Path) -> None:
    effects = effects_in(tmp_path)
    begun, gate = asyncio.Event(), asyncio.Event()

    async def slow(nested: Effects) -> Receipt[str]:
        begun.set()
        await gate.wait()
        return Receipt(value="kept", spend=ONE_CALL)

    waiting = asyncio.create_task(effects.scope(trial=0).once(text_call("a"), slow))
    await begun.wait()
    waiting.cancel()
    gate.set()
    await asyncio.gather(waiting, return_exceptions=True)
    async with asyncio.timeout(120):
        while not effects.journal.find(text_call("a").key):  # noqa: ASYNC110 - in a database
            await asyncio.sleep(0.01)
    assert await effects.scope(trial=0).once(text_call("a"), must_not_run()) == "kept"
    effects.journal.close()


async def test_rule_11_closing_leaves_nothing_running(tmp_path: Path) -> None:
    effects = effects_in(tmp_path)
    begun = asyncio.Event()
    ended: list[str] = []

    async def forever(nested: Effects) -> Receipt[str]:
        try:
            begun.set()
            await asyncio.sleep(3600)
        finally:
            ended.append("ended")
        return Receipt(value="never")

    waiting = asyncio.create_task(effects.scope(trial=0).once(text_call("a"), forever))
    await begun.wait()
    await effects.cancel_all()
    assert ended == ["ended"]
    assert (await asyncio.gather(waiting, return_exceptions=True))[0].__class__ is (
        asyncio.CancelledError
    )
    effects.journal.close()
    assert rows(tmp_path, "SELECT calls FROM lost") == [(1,)]


async def test_rule_12_only_leaves_carry_cost_and_nested_effects_do_not_deadlock(
    tmp_path: Path,
) -> None:
    effects = effects_in(tmp_path)

    async def conversation(nested: Effects) -> Receipt[str]:
        parts = [await nested.once(text_call(["turn", n]), Agent(f"{n}")) for n in range(3)]
        return Receipt(value="".join(parts))

    scope = effects.scope(trial=0)
    assert await scope.once(free_call("conversation"), conversation) == "012"
    assert sum(scope.used.values(), NOTHING) == ONE_CALL.times(3)
    again = effects.scope(trial=0)
    assert await again.once(free_call("conversation"), must_not_run()) == "012"
    assert again.used == scope.used, "a replay sees what was nested, too"
    assert effects.journal.billed == ONE_CALL.times(3)
    effects.journal.close()


async def test_rule_13_trials_and_events_are_in_the_journal(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.add_trial(0, b'{"number": 0}')
    assert journal.add_event("trial:0", b"{}") == (True, False)
    assert journal.add_event("trial:0", b"{}") == (False, False)
    journal.event_delivered("trial:0")
    journal.close()
    journal = Journal(tmp_path)
    assert journal.add_event("trial:0", b"{}") == (False, True)
    journal.close()
    with JournalReader(tmp_path) as reader:
        assert list(reader.trials()) == [b'{"number": 0}']
        assert list(reader.events()) == [b"{}"]


async def test_totals_are_stored_at_the_end_and_only_true_until_the_next_session(
    tmp_path: Path,
) -> None:
    effects = effects_in(tmp_path)
    await effects.scope(trial=0).once(text_call("a"), Agent())
    effects.journal.close()
    with closing(sqlite3.connect(tmp_path / JOURNAL_FILE)) as db:
        db.execute("UPDATE effects SET calls = 5")
        db.commit()
    with JournalReader(tmp_path) as reader:
        assert reader.totals.results == 1
        assert reader.totals.billed == ONE_CALL, "no row is read"
    effects = effects_in(tmp_path)
    await effects.scope(trial=0).once(text_call("b"), Agent())
    with JournalReader(tmp_path) as reader:
        assert reader.totals.results == 2
        assert reader.totals.billed.calls == 5 + 1
    effects.journal.close()
    with JournalReader(tmp_path) as reader:
        assert reader.totals.billed == reader.billed


async def test_rule_17_a_fork_takes_what_is_there_and_pays_for_the_rest(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    first = effects_in(old)
    await first.scope(trial=0).once(text_call("a"), Agent("from the old run"))
    first.journal.close()
    with JournalReader(old) as reader:
        second = effects_in(new, cache=Cache(reader))
        scope = second.scope(trial=0)
        assert await scope.once(text_call("a"), must_not_run()) == "from the old run"
        assert await scope.once(text_call("b"), Agent("new")) == "new"
        assert second.journal.billed == ONE_CALL
        second.journal.close()
    third = effects_in(new)
    assert await third.scope(trial=0).once(text_call("a"), must_not_run()) == "from the old run"
    third.journal.close()


async def test_rule_04_retry_missing_asks_again_only_for_what_is_missing(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    first = effects_in(old)

    async def outage(nested: Effects) -> Receipt[str]:
        return Receipt(value="nobody answered", spend=ONE_CALL, missing=True)

    await first.scope(trial=0).once(text_call("a"), outage)
    await first.scope(trial=0).once(text_call("b"), Agent("fine"))
    assert await first.scope(trial=0).once(text_call("a"), must_not_run()) == "nobody answered"
    first.journal.close()
    with JournalReader(old) as reader:
        second = effects_in(new, cache=Cache(reader, retry_missing=True))
        scope = second.scope(trial=0)
        assert await scope.once(text_call("a"), Agent("now it did")) == "now it did"
        assert await scope.once(text_call("b"), must_not_run()) == "fine"
        second.journal.close()


async def test_rule_20_after_the_sealed_test_was_read_only_it_may_go_on(tmp_path: Path) -> None:
    effects = effects_in(tmp_path)
    await effects.scope(trial=0).once(text_call("a"), Agent())
    effects.journal.set_mark("sealed_read", "now")
    assert await effects.scope(trial=0).once(text_call("a"), must_not_run()) == "hello"
    assert await effects.scope(trial=1, sealed=True).once(text_call("t"), Agent("test")) == "test"
    with pytest.raises(SealedTestRead, match="--fork"):
        await effects.scope(trial=1).once(text_call("b"), must_not_run())
    effects.journal.close()


def test_a_journal_of_another_version_is_refused(tmp_path: Path) -> None:
    Journal(tmp_path).close()
    db = sqlite3.connect(tmp_path / "journal.db")
    db.execute("UPDATE meta SET value = '99' WHERE name = 'schema'")
    db.commit()
    db.close()
    for opened in (Journal, JournalReader):
        with pytest.raises(JournalTrouble, match="another version of burnish"):
            opened(tmp_path)


@pytest.mark.parametrize("content", [b"this is not a database at all, not even close" * 100])
def test_a_file_that_is_no_journal_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "journal.db").write_bytes(content)
    for opened in (Journal, JournalReader):
        with pytest.raises(JournalTrouble, match="not a journal"):
            opened(tmp_path)


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileTrouble, match="cannot be opened"):
        Journal(tmp_path / "nowhere")


def test_a_run_killed_before_it_had_a_journal_reads_as_empty(tmp_path: Path) -> None:
    (tmp_path / "journal.db").touch()
    for folder in (tmp_path, tmp_path / "nothing"):
        with JournalReader(folder) as reader:
            assert list(reader.trials()) == list(reader.effects()) == []
            assert reader.billed == NOTHING


async def test_a_full_disk_stops_the_run_and_loses_nothing(tmp_path: Path) -> None:
    effects = effects_in(tmp_path)
    await effects.scope(trial=0).once(text_call("a"), Agent())

    async def fill_the_disk() -> None:
        for n in range(1000):
            await effects.scope(trial=0).once(text_call(["big", n]), Agent("x" * 1900))

    with small_files(200_000), pytest.raises(FileTrouble, match="cannot be written"):
        await fill_the_disk()
    with pytest.raises(FileTrouble, match="cannot be written"):
        await effects.scope(trial=0).once(text_call("z"), Agent())
    effects.journal.close()
    again = effects_in(tmp_path)
    assert await again.scope(trial=0).once(text_call("a"), must_not_run()) == "hello"
    assert await again.scope(trial=0).once(text_call("z"), Agent("space again")) == "space again"
    again.journal.close()


async def test_memory_does_not_grow_with_the_journal(tmp_path: Path) -> None:
    effects = effects_in(tmp_path)

    async def some(start: int) -> None:
        for n in range(start, start + 200):
            await effects.scope(trial=0).once(free_call(n), Agent("x" * 5000))

    await some(0)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    await some(1000)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    effects.journal.close()
    assert grown < 200_000, f"{grown} bytes for 200 results of 5,000 characters"
