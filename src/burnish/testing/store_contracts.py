"""The contract of a RunStore: what the service relies on, whatever the runs lie in."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TypeAlias, cast

from burnish.core.content import Json
from burnish.core.errors import BurnishError, ConfigError, NotJournalable, RunLocked
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
    StoredRun,
    StoreTrouble,
    Where,
)

Open: TypeAlias = Callable[[], Awaitable[RunStore]]
_HARD: Json = {
    "text": "日本語 🙂 \0 'quoted' \"twice\" %s ?",
    "z": [1, 2.5, None, True, {}],
    "a": [],
}
_LONG = 60.0


async def check_run_store(open_store: Open) -> None:
    """A store keeps runs apart, copies what it gives, and lets one process drive a run.

    `open_store` opens the same, empty place each time, as another process would.
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
    await store.close()
    await store.close()
    with _raises(StoreTrouble):
        await store.get("a", "one")
    if other is not store:
        await other.close()


class _raises(AbstractContextManager[None]):  # noqa: N801 - reads like pytest's, which users may lack
    """The block must raise this; with `text`, in these words."""

    def __init__(self, kind: type[BurnishError], text: str = "") -> None:
        self._kind, self._text = kind, text

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        del kind, traceback
        assert error is not None, f"{self._kind.__name__} was not raised"
        if not isinstance(error, self._kind):
            return False
        assert self._text in ("", str(error)), f"said: {error}"
        return True


async def _check_records(store: RunStore, other: RunStore) -> None:
    made = await store.create("a", "one", strategy="backprop", request=_HARD)
    assert (made.status, made.strategy, made.request) == (RunStatus.QUEUED, "backprop", _HARD)
    assert made.created_at.utcoffset() is not None, "a time without a zone"
    with _raises(RunExists, 'run "one" for app "a" already exists'):
        await store.create("a", "one")
    with _raises(RunMissing, 'run "one" for app "demo" not found: file does not exist'):
        await other.get("demo", "one")
    await store.create("b", "one", request="another app's")
    changed = await store.update(
        "a",
        "one",
        RunChanges(status=RunStatus.RUNNING, current_round=2, best_score=0.25, error="nul \0"),
    )
    assert changed.updated_at >= made.updated_at
    seen = await other.get("a", "one")
    assert (seen.status, seen.current_round, seen.best_score) == (RunStatus.RUNNING, 2, 0.25)
    assert seen.request == _HARD, "what was asked for is not what was kept"
    assert (await other.get("b", "one")).request == "another app's", "two apps share a run"
    _spoil(seen)
    assert (await store.get("a", "one")).request == _HARD, "what is got is not a copy"
    with _raises(NotJournalable):
        await store.update("a", "one", RunChanges(best_score=float("nan")))
    with _raises(NotJournalable):
        await store.update("a", "one", RunChanges(result=["\ud800"]))
    await _check_end(store, other)


def _spoil(record: StoredRun) -> None:
    cast("dict[str, Json]", record.request)["text"] = "changed by a reader"


async def _check_end(store: RunStore, other: RunStore) -> None:
    result: Json = {"Rounds": [{"Round": number, "Text": "x" * 5000} for number in range(20)]}
    ends = RunChanges(status=RunStatus.SUCCEEDED, result=result, where=Where(journal="database"))
    await store.update("a", "one", ends)
    ended = await other.get("a", "one")
    assert (ended.status, ended.result) == (RunStatus.SUCCEEDED, result)
    assert ended.where.journal == "database"
    assert (await other.get("a", "one", result=False)).result is None, "the result was not left out"
    with _raises(RunNotRunning, 'run "one" is not running: file does not exist'):
        await store.update("a", "one", RunChanges(status=RunStatus.FAILED))
    with _raises(RunMissing):
        await store.update("a", "none", RunChanges(current_round=1))


async def _check_names(store: RunStore) -> None:
    await store.create("a", "ONE")
    for bad in ("", " one", "one ", "x" * 256, "a\0b"):
        with _raises(ConfigError):
            await store.create("a", bad)
        with _raises(RunMissing):
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
    assert all(run.request is None for run in everything.runs), "a list carries large JSON"
    with _raises(ConfigError):
        await store.list_runs(cursor="page 2")


async def _check_events(store: RunStore, other: RunStore) -> None:
    await store.create("a", "events")
    progress = RunChanges(current_round=1, best_score=0.5)
    for number in range(3):
        event = NewEvent(kind="round_started", round=number, payload=_HARD, key=f"key {number}")
        appended = await store.append_event("a", "events", event, progress)
        assert appended == number + 1, "events are not counted from 1"
    again = NewEvent(kind="round_started", key="key 1")
    assert await other.append_event("a", "events", again) == 2, "an event was kept twice"
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
    assert numbers == list(range(1, 10)), "events at the same time lose their numbers"
    with _raises(RunMissing):
        await store.events("b", "events")


async def _check_leases(store: RunStore, other: RunStore) -> None:
    await store.create("a", "leased")
    lost = await store.claim("a", "leased", owner="first", seconds=0)
    assert lost is not None, "a run that nobody drives could not be claimed"
    assert await store.renew(lost, seconds=0), "a lease that ended and nobody took is kept"
    held = await other.claim("a", "leased", owner="second", seconds=_LONG)
    assert held is not None, "a lease that ended keeps others out"
    assert held.token > lost.token
    assert await store.claim("a", "leased", owner="third", seconds=_LONG) is None
    with _raises(LeaseLost):
        await store.renew(lost, seconds=_LONG)
    with _raises(LeaseLost):
        await store.update("a", "leased", RunChanges(current_round=7), lease=lost)
    with _raises(LeaseLost):
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
    assert "leased" in waiting, "a run that was let go is not offered"
    assert "one" not in waiting, "a finished run is offered"
    assert await store.claim("a", "one", owner="x", seconds=1) is None, "it is finished"


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
    assert not await store.cancel_requested("a", "driven")
    assert await other.request_cancel("a", "driven") is RunStatus.RUNNING
    assert await store.cancel_requested("a", "driven"), "the driver is not told"
    assert (await store.renew(held, seconds=_LONG)).cancel_requested
    ends = RunChanges(status=RunStatus.SUCCEEDED, result={"Status": "succeeded"})
    ended = await store.update("a", "driven", ends, lease=held)
    assert (ended.status, ended.error) == (RunStatus.CANCELED, "run canceled"), "cancel must win"
    assert ended.lease_until is None
    with _raises(LeaseLost):
        await store.renew(held, seconds=_LONG)
    with _raises(RunNotRunning, 'run "driven" is not running: file does not exist'):
        await other.request_cancel("a", "driven")
    await store.create("a", "alone")
    assert await other.request_cancel("a", "alone") is RunStatus.CANCELED, "nobody drives it"
    with _raises(RunMissing):
        await other.request_cancel("b", "alone")


async def _check_reopening(store: RunStore, other: RunStore) -> None:
    again = await other.reopen("a", "driven")
    assert (again.status, again.error) == (RunStatus.QUEUED, ""), "it cannot go on"
    assert not again.cancel_requested, "the next driver would stop at once"
    assert await store.claim("a", "driven", owner="me", seconds=_LONG) is not None
    assert (await other.reopen("a", "driven")).owner == "me", "it was taken from its driver"
    with _raises(RunMissing):
        await store.reopen("b", "driven")


async def _check_deleting(store: RunStore) -> None:
    with _raises(RunLocked):
        await store.delete("a", "wanted")
    await store.delete("a", "events")
    with _raises(RunMissing):
        await store.get("a", "events")
    with _raises(RunMissing):
        await store.delete("a", "events")
    await store.create("a", "events")
    assert await store.events("a", "events") == (), "events outlive their run"
