"""The contracts of stores: of a JournalStore, and of a RunStore of the service."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias, cast

from burnish.core.content import Json, codec
from burnish.core.errors import (
    ConfigError,
    NotJournalable,
    ReplayDiverged,
    RunLocked,
    SealedTestRead,
)
from burnish.core.money import NOTHING, Spend
from burnish.core.protocols import Call, Effects, Receipt
from burnish.journal.journal import EffectRow, Journal, JournalReader
from burnish.journal.once import Cache, JournaledEffects
from burnish.journal.storage import FILE_ABOVE, JournalStore
from burnish.server.stores import (
    LeaseLost,
    NewEvent,
    RunChanges,
    RunExists,
    RunFilter,
    RunMissing,
    RunNotRunning,
    RunStatus,
    RunStore,
    StoreTrouble,
    Where,
)
from burnish.server.stores.queue import ServiceProcess
from burnish.server.tokens import ServiceRole
from burnish.system import Redactor
from burnish.testing.doubles import raises

# -- Journals --------------------------------------------------------------------------------------


Make: TypeAlias = Callable[[str], JournalStore]
_Perform: TypeAlias = Callable[[Effects], Awaitable[Receipt[str]]]
_ONE = Spend(calls=1, tokens_in=10, tokens_out=5, nano_usd=7)
_SECRET = "canary-secret-1234"


async def check_journal_store(make: Make) -> None:
    """Check that a journal pays once, records effects before paying, and can be reopened.

    `make` opens the store of the journal with this name, as another process would; different names
    are different journals.
    """
    await _check_noted_first(make)
    await _check_lost(make)
    await _check_many_and_large(make)
    await _check_nested(make)
    await _check_trials_and_guard(make)
    await _check_events_and_checks(make)
    await _check_fork(make)
    await _check_sealed(make)


def _effects(store: JournalStore, cache: Cache | None = None) -> JournaledEffects:
    return JournaledEffects(Journal(store), redactor=Redactor(secrets=(_SECRET,)), cache=cache)


def _call(request: Json, estimate: Spend = _ONE) -> Call[str]:
    return Call(kind="contract", request=request, codec=codec(str), estimate=estimate)


def _says(text: str, spend: Spend = _ONE) -> _Perform:
    async def perform(effects: Effects) -> Receipt[str]:
        del effects
        return Receipt(value=text, spend=spend)

    return perform


async def _never(effects: Effects) -> Receipt[str]:
    del effects
    raise AssertionError("an effect was paid although it is in the journal")


def _rows(store: JournalStore) -> list[EffectRow]:
    with JournalReader(store) as reader:
        return list(reader.effects())


async def _check_noted_first(make: Make) -> None:
    """Rules 2 and 7."""
    effects = _effects(make("noted"))
    seen: list[EffectRow] = []

    async def perform(nested: Effects) -> Receipt[str]:
        del nested
        seen.extend(_rows(make("noted")))
        return Receipt(value=f"\0 🙂 {_SECRET}", spend=Spend(calls=1, nano_usd=9))

    first = await effects.scope(trial=0).once(_call({"key": _SECRET}), perform)
    assert first == "\0 🙂 [redacted]", "the first result is not the one that is stored"
    assert [(row.state, row.spend) for row in seen] == [("in flight", _ONE)], (
        "a paid effect is not recorded with its estimate before it starts"
    )
    assert effects.journal.billed == Spend(calls=1, nano_usd=9)
    (row,) = _rows(make("noted"))
    assert (row.state, row.request) == ("done", {"key": "[redacted]"})
    effects.journal.close()
    again = _effects(make("noted"))
    assert again.journal.session == 2, "sessions are not counted"
    assert await again.scope(trial=0).once(_call({"key": _SECRET}), _never) == first
    again.journal.close()


async def _check_lost(make: Make) -> None:
    """Rules 2 and 4: what was in flight is billed, not spent; bugs are not stored."""
    effects = _effects(make("lost"))

    async def bug(nested: Effects) -> Receipt[str]:
        del nested
        raise ZeroDivisionError

    with raises(ZeroDivisionError):
        await effects.scope(trial=0).once(_call("bug"), bug)
    await effects.journal.note(_call("a"), trial=0, request=b'"a"')
    effects.journal.close()
    assert [row.state for row in _rows(make("lost"))] == ["in flight"], "an error was stored"
    for billed in (2, 2):
        again = _effects(make("lost"))
        assert again.journal.billed == _ONE.times(billed), "lost effects are not billed once"
        again.journal.close()
    again = _effects(make("lost"))
    scope = again.scope(trial=0)
    assert await scope.once(_call("a"), _says("again")) == "again"
    assert again.journal.billed == _ONE.times(3)
    assert scope.used == {_call("a").key: _ONE}
    again.journal.close()


async def _check_many_and_large(make: Make) -> None:
    """What is large, and much of it, comes back as it was stored."""
    effects = _effects(make("many"))
    scope = effects.scope(trial=0)
    large = "".join(hashlib.sha256(b"%d" % n).hexdigest() for n in range(FILE_ABOVE // 30))
    texts = {0: large, 1: "x" * 10_000, **{number: str(number) for number in range(2, 60)}}
    await asyncio.gather(*(scope.once(_call(number), _says(texts[number])) for number in texts))
    effects.journal.close()
    rows = _rows(make("many"))
    assert [row.request for row in rows] == list(texts), "effects are out of order"
    assert {row.state for row in rows} == {"done"}
    with JournalReader(make("many")) as reader:
        values = [(row.request, row.value) for row in reader.values({0}, kinds={rows[0].kind})]
        assert values == list(texts.items()), "results cannot be read by their trial"
        assert not [*reader.values({1}, kinds={rows[0].kind})]
    again = _effects(make("many"))
    for number, text in texts.items():
        assert await again.scope(trial=0).once(_call(number), _never) == text
    assert again.journal.billed == _ONE.times(60)
    again.journal.close()


async def _check_nested(make: Make) -> None:
    """Only leaves carry cost, and a replay sees them."""
    effects = _effects(make("nested"))

    async def talk(nested: Effects) -> Receipt[str]:
        turns = [await nested.once(_call(["turn", n]), _says(f"{n}")) for n in range(3)]
        return Receipt(value="".join(turns))

    first = effects.scope(trial=0)
    assert await first.once(_call("talk", NOTHING), talk) == "012"
    effects.journal.close()
    again = _effects(make("nested"))
    second = again.scope(trial=0)
    assert await second.once(_call("talk", NOTHING), _never) == "012"
    assert second.used == first.used, "a replay does not see what was nested"
    again.journal.close()
    with JournalReader(make("nested")) as reader:
        whole = [row for row in reader.costs() if len(row.spends) == 4]
        assert len(whole) == 1
        assert reader.billed == _ONE.times(3)


async def _check_trials_and_guard(make: Make) -> None:
    """Rules 6 and 13."""
    effects = _effects(make("trials"))
    await effects.scope(trial=0).once(_call("a"), _says("hello"))
    body = b'{"number":0,"text":"' + b"y" * 5000 + b'"}'
    effects.journal.add_trial(0, body)
    with JournalReader(make("trials")) as reader:
        assert list(reader.trials()) == [reader.trial(0)] == [body], "a trial is not stored at once"
    effects.journal.close()
    again = _effects(make("trials"))
    assert again.journal.trials_recorded == 1
    assert again.journal.trial(0) == body
    assert again.journal.trial(1) is None
    with raises(ReplayDiverged):
        await again.scope(trial=0).once(_call("b"), _never)
    assert await again.scope(trial=0).once(_call("a"), _never) == "hello"
    assert await again.scope(trial=1).once(_call("b"), _says("live")) == "live"
    again.journal.close()


async def _check_events_and_checks(make: Make) -> None:
    """Rules 5, 13 and 18."""
    journal = Journal(make("events"))
    assert journal.add_event("trial:0", b"{}") == (True, False)
    assert journal.add_event("TRIAL:0", b"[]") == (True, False), "keys differ in case too"
    assert journal.add_event("trial:0", b"{}") == (False, False)
    journal.event_delivered("trial:0")
    journal.add_continue("minutes", 1)
    journal.add_continue("minutes", 2)
    journal.set_mark("note", "one")
    journal.set_mark("note", "two 🙂")
    journal.close()
    again = Journal(make("events"))
    assert again.add_event("trial:0", b"{}") == (False, True)
    assert [again.continued("minutes", n) for n in (1, 2, 3)] == [True, True, False]
    assert again.mark("note") == "two 🙂"
    assert again.active_before > 0, "the time of earlier sessions is forgotten"
    again.close()
    with JournalReader(make("events")) as reader:
        assert list(reader.events()) == [b"{}", b"[]"]
        assert reader.marks()["note"] == "two 🙂"


async def _check_fork(make: Make) -> None:
    """Rules 4 and 17."""
    first = _effects(make("old"))
    await first.scope(trial=0).once(_call("a"), _says("from the old run"))
    first.journal.close()
    with JournalReader(make("old")) as reader:
        second = _effects(make("new"), Cache(reader))
        assert await second.scope(trial=0).once(_call("a"), _never) == "from the old run"
        assert await second.scope(trial=0).once(_call("b"), _says("new")) == "new"
        assert second.journal.billed == _ONE, "what was paid before is paid again"
        second.journal.close()
    assert [row.state for row in _rows(make("new"))] == ["imported", "done"]


async def _check_sealed(make: Make) -> None:
    """A run that has read its sealed test leads to nothing new."""
    effects = _effects(make("sealed"))
    await effects.scope(trial=0).once(_call("a"), _says("hello"))
    effects.journal.set_mark("sealed_read", "now")
    effects.journal.close()
    again = _effects(make("sealed"))
    assert await again.scope(trial=1, sealed=True).once(_call("t"), _says("test")) == "test"
    with raises(SealedTestRead):
        await again.scope(trial=1).once(_call("b"), _never)
    again.journal.close()


# -- Runs of the service ---------------------------------------------------------------------------


Open: TypeAlias = Callable[[], Awaitable[RunStore]]
_HARD: Json = {
    "text": "日本語 🙂 \0 'quoted' \"twice\" %s ?",
    "z": [1, 2.5, None, True, {}],
    "a": [],
}
_LONG = 60.0


async def check_run_store(open_store: Open) -> None:
    """Check that a store separates runs, returns copies, and lets only one process drive a run.

    `open_store` opens the same, initially empty store each time, as another process would.
    """
    store, other = await open_store(), await open_store()
    await _check_records(store, other)
    await _check_names(store)
    await _check_lists(store)
    await _check_events(store, other)
    await _check_leases(store, other)
    await _check_one_wins(store, other)
    await _check_canceling(store, other)
    await _check_reopening(store, other)
    await _check_deleting(store)
    await _check_queue(store, other)
    await _check_processes(store, other)
    await store.close()
    await store.close()
    with raises(StoreTrouble):
        await store.get("a", "one")
    if other is not store:
        await other.close()


async def _check_records(store: RunStore, other: RunStore) -> None:
    run = await store.create("a", "one", strategy="backprop", request=_HARD)
    assert (run.status, run.strategy, run.request) == (RunStatus.QUEUED, "backprop", _HARD)
    assert run.created_at.utcoffset() is not None, "the time has no time zone"
    with raises(RunExists, 'run "one" for app "a" already exists'):
        await store.create("a", "one")
    with raises(RunMissing, 'run "one" for app "demo" not found: file does not exist'):
        await other.get("demo", "one")
    await store.create("b", "one", request="another app's")
    changed = await store.update(
        "a",
        "one",
        RunChanges(status=RunStatus.RUNNING, current_round=2, best_score=0.25, error="nul \0"),
    )
    assert changed.updated_at >= run.updated_at
    seen = await other.get("a", "one")
    assert (seen.status, seen.current_round, seen.best_score) == (RunStatus.RUNNING, 2, 0.25)
    assert seen.request == _HARD, "the stored request is not the original one"
    assert (await other.get("b", "one")).request == "another app's", "two apps share a run"
    cast("dict[str, Json]", seen.request)["text"] = "changed by a reader"
    assert (await store.get("a", "one")).request == _HARD, "the store does not return a copy"
    with raises(NotJournalable):
        await store.update("a", "one", RunChanges(best_score=float("nan")))
    with raises(NotJournalable):
        await store.update("a", "one", RunChanges(result=["\ud800"]))
    await _check_end(store, other)


async def _check_end(store: RunStore, other: RunStore) -> None:
    result: Json = {"Rounds": [{"Round": number, "Text": "x" * 5000} for number in range(20)]}
    ends = RunChanges(status=RunStatus.SUCCEEDED, result=result, where=Where(journal="database"))
    await store.update("a", "one", ends)
    done = await other.get("a", "one")
    assert (done.status, done.result) == (RunStatus.SUCCEEDED, result)
    assert done.where.journal == "database"
    assert (await other.get("a", "one", result=False)).result is None, "the result was not left out"
    with raises(RunNotRunning, 'run "one" is not running: file does not exist'):
        await store.update("a", "one", RunChanges(status=RunStatus.FAILED))
    with raises(RunMissing):
        await store.update("a", "none", RunChanges(current_round=1))


async def _check_names(store: RunStore) -> None:
    await store.create("a", "ONE")
    for bad in ("", " one", "one ", "x" * 256, "a\0b"):
        with raises(ConfigError):
            await store.create("a", bad)
        with raises(RunMissing):
            await store.get("a", bad)


async def _check_lists(store: RunStore) -> None:
    for number in range(5):
        await store.create("list", f"run-{number}", strategy="edits" if number % 2 else "refine")
    await store.update("list", "run-3", RunChanges(status=RunStatus.FAILED, error="no"))
    names: list[str] = []
    cursor = ""
    while True:
        page = await store.list_runs(RunFilter(app_name="list"), limit=2, cursor=cursor)
        names += [run.run_id for run in page.runs]
        cursor = page.cursor
        if not cursor:
            break
    assert names == [f"run-{number}" for number in (4, 3, 2, 1, 0)], f"listed as {names}"
    failed = RunFilter(app_name="list", strategy="edits", status=RunStatus.FAILED)
    assert [run.error for run in (await store.list_runs(failed)).runs] == ["no"]
    everything = await store.list_runs()
    assert {run.app_name for run in everything.runs} >= {"a", "b", "list"}
    assert all(run.request is None for run in everything.runs), "a list contains large JSON"
    with raises(ConfigError):
        await store.list_runs(cursor="page 2")


async def _check_events(store: RunStore, other: RunStore) -> None:
    await store.create("a", "events")
    progress = RunChanges(current_round=1, best_score=0.5)
    for number in range(3):
        event = NewEvent(kind="round_started", round=number, payload=_HARD, key=f"key {number}")
        appended = await store.append_event("a", "events", event, progress)
        assert appended == number + 1, "events are not counted from 1"
    again = NewEvent(kind="round_started", key="key 1")
    assert await other.append_event("a", "events", again) == 2, "an event was stored twice"
    seen = await other.events("a", "events", after=1)
    assert [(event.number, event.round) for event in seen] == [(2, 1), (3, 2)]
    assert seen[0].payload == _HARD
    assert len(await other.events("a", "events", limit=2)) == 2
    record = await other.get("a", "events")
    assert (record.events, record.current_round, record.best_score) == (3, 1, 0.5)
    await asyncio.gather(
        *(each.append_event("a", "events", NewEvent(kind="x")) for each in (store, other) * 3)
    )
    numbers = [event.number for event in await store.events("a", "events")]
    assert numbers == list(range(1, 10)), "concurrent events lose their numbers"
    with raises(RunMissing):
        await store.events("b", "events")


async def _check_leases(store: RunStore, other: RunStore) -> None:
    await store.create("a", "leased")
    lost = await store.claim("a", "leased", owner="first", seconds=0)
    assert lost is not None, "an idle run could not be claimed"
    assert await store.renew(lost, seconds=0), "an expired lease that nobody took cannot be renewed"
    held = await other.claim("a", "leased", owner="second", seconds=_LONG)
    assert held is not None, "an expired lease keeps others out"
    assert held.token > lost.token
    assert await store.claim("a", "leased", owner="third", seconds=_LONG) is None
    with raises(LeaseLost):
        await store.renew(lost, seconds=_LONG)
    with raises(LeaseLost):
        await store.update("a", "leased", RunChanges(current_round=7), lease=lost)
    with raises(LeaseLost):
        await store.append_event("a", "leased", NewEvent(kind="late"), lease=lost)
    await store.release(lost)
    record = await other.get("a", "leased")
    assert (record.owner, record.current_round, record.events) == ("second", 0, 0)
    assert (await other.renew(held, seconds=_LONG)).until >= held.until
    undriven = RunFilter(app_name="a", undriven=True)
    assert "leased" not in {run.run_id for run in (await store.list_runs(undriven)).runs}
    await other.update("a", "leased", RunChanges(status=RunStatus.RUNNING), lease=held)
    await other.release(held)
    waiting = {run.run_id for run in (await store.list_runs(undriven)).runs}
    assert "leased" in waiting, "a released run is not listed as undriven"
    assert "one" not in waiting, "a finished run is listed as undriven"
    assert await store.claim("a", "one", owner="x", seconds=1) is None, "a finished run was claimed"


async def _check_one_wins(store: RunStore, other: RunStore) -> None:
    await store.create("a", "wanted")
    tries = (
        each.claim("a", "wanted", owner=f"owner {number}", seconds=_LONG)
        for number, each in enumerate((store, other) * 4)
    )
    won = [lease for lease in await asyncio.gather(*tries) if lease is not None]
    assert len(won) == 1, f"{len(won)} processes drive one run"


async def _check_canceling(store: RunStore, other: RunStore) -> None:
    await store.create("a", "driven")
    held = await store.claim("a", "driven", owner="me", seconds=_LONG)
    assert held is not None
    await store.update("a", "driven", RunChanges(status=RunStatus.RUNNING), lease=held)
    assert not (await store.get("a", "driven")).cancel_requested
    assert await other.request_cancel("a", "driven") is RunStatus.RUNNING
    assert (await store.get("a", "driven")).cancel_requested, "the driver does not see the request"
    assert (await store.renew(held, seconds=_LONG)).cancel_requested
    ends = RunChanges(status=RunStatus.SUCCEEDED, result={"Status": "succeeded"})
    done = await store.update("a", "driven", ends, lease=held)
    assert (done.status, done.error) == (RunStatus.CANCELED, "run canceled"), "cancel must win"
    assert done.lease_until is None
    with raises(LeaseLost):
        await store.renew(held, seconds=_LONG)
    with raises(RunNotRunning, 'run "driven" is not running: file does not exist'):
        await other.request_cancel("a", "driven")
    await store.create("a", "alone")
    assert await other.request_cancel("a", "alone") is RunStatus.CANCELED, "it is idle"
    with raises(RunMissing):
        await other.request_cancel("b", "alone")


async def _check_reopening(store: RunStore, other: RunStore) -> None:
    again = await other.reopen("a", "driven")
    assert (again.status, again.error) == (RunStatus.QUEUED, ""), "a reopened run is not queued"
    assert not again.cancel_requested, "the next driver would stop at once"
    assert await store.claim("a", "driven", owner="me", seconds=_LONG) is not None
    late = await other.reopen("a", "driven", request="too late")
    assert late.owner == "me", "the driver lost its run"
    assert (await other.get("a", "driven")).request is None, "the driver's request was replaced"
    await other.reopen("a", "alone", request=_HARD)
    assert (await store.get("a", "alone")).request == _HARD, "the new request is not stored"
    with raises(RunMissing):
        await store.reopen("b", "driven")


async def _check_deleting(store: RunStore) -> None:
    with raises(RunLocked):
        await store.delete("a", "wanted")
    await store.delete("a", "events")
    with raises(RunMissing):
        await store.get("a", "events")
    with raises(RunMissing):
        await store.delete("a", "events")
    await store.create("a", "events")
    assert await store.events("a", "events") == (), "events outlive their run"


async def _check_queue(store: RunStore, other: RunStore) -> None:
    for number in range(3):
        await store.create("queue", f"many-{number}", account="many")
    await store.create("queue", "single", account="single")
    assert await store.queue.next_runs(["no such app"]) == ()
    skipped = await store.queue.next_runs(["queue"], skip=[("queue", "many-0")])
    assert skipped[0] == ("queue", "many-1"), "accounts without a run do not go by age"
    before = await other.queue.length()
    order: list[str] = []
    while keys := await other.queue.next_runs(["queue"]):
        order.append(keys[0][1])
        assert await store.claim(*keys[0], owner="me", seconds=_LONG) is not None
    expected = ["many-0", "single", "many-1", "many-2"]
    assert order == expected, f"runs are taken in the order {order}"
    after = await other.queue.length()
    assert (before.waiting - after.waiting, after.running - before.running) == (4, 4)
    await _check_turns(store)


async def _check_turns(store: RunStore) -> None:
    """With one place, accounts take turns, however many runs each of them has waiting."""
    for account in ("many", "single"):
        for number in range(2):
            await store.create("turns", f"{account}-{number}", account=account)
    order: list[str] = []
    while keys := await store.queue.next_runs(["turns"]):
        order.append(keys[0][1])
        lease = await store.claim(*keys[0], owner="me", seconds=_LONG)
        assert lease is not None
        await store.update(*keys[0], RunChanges(status=RunStatus.SUCCEEDED), lease=lease)
    assert order == ["single-0", "single-1", "many-0", "many-1"], (
        f"many has three runs going on, and runs are taken in the order {order}"
    )


async def _check_processes(store: RunStore, other: RunStore) -> None:
    process = ServiceProcess(name="me", role=ServiceRole.WORKER, host="here", places=2, busy=1)
    await store.queue.check_in(process)
    await store.queue.check_in(replace(process, busy=2))
    assert await other.queue.processes(seconds=_LONG) == (replace(process, busy=2),)
    await other.queue.check_out("me")
    assert await store.queue.processes(seconds=_LONG) == ()
    await store.create("a", "reporting")
    held = await store.claim("a", "reporting", owner="me", seconds=_LONG)
    assert held is not None
    assert await other.progress("a", "reporting") is None, "nothing was reported"
    await store.renew(held, seconds=_LONG, progress=_HARD)
    await store.renew(held, seconds=_LONG)
    assert await other.progress("a", "reporting") == _HARD
    await store.release(held)
    assert await other.progress("a", "reporting") is None, "nobody drives it"
