"""Stores in memory and in a file: the contract, cheap progress, large results, addresses."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from burnish.core.content import Json
from burnish.core.errors import ConfigError
from burnish.server.stores import (
    Lease,
    MemoryRunStore,
    NewEvent,
    RunChanges,
    RunStore,
    StoreTrouble,
    Where,
    journals_in,
    open_store,
    print_schema,
)
from burnish.server.stores.records import pack, unpack
from tests.store_contracts import check_run_store


async def test_the_contract_in_memory() -> None:
    store = MemoryRunStore()

    async def again() -> RunStore:
        return store

    await check_run_store(again)


async def test_the_contract_catches_a_store_in_which_two_processes_drive_a_run() -> None:
    class Generous(MemoryRunStore):
        async def claim(
            self, app_name: str, run_id: str, *, owner: str, seconds: float
        ) -> Lease | None:
            del seconds
            return await super().claim(app_name, run_id, owner=owner, seconds=0)

    store = Generous()

    async def again() -> RunStore:
        return store

    with pytest.raises(AssertionError):
        await check_run_store(again)


async def test_the_contract_in_sqlite(tmp_path: Path) -> None:
    await check_run_store(lambda: open_store(f"sqlite:///{tmp_path / 'runs.db'}"))


async def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is not a database at all, not even close" * 100)
    for name in ("text.db", "missing/runs.db"):
        with pytest.raises(StoreTrouble, match="cannot be used"):
            await open_store(f"sqlite:///{tmp_path / name}")


async def test_addresses_and_prefixes_that_are_none_are_refused() -> None:
    for address in ("sqlite://", "sqlite:///:memory:", "mongodb://host/db"):
        with pytest.raises(ConfigError):
            await open_store(address)
    with pytest.raises(ConfigError, match="table names"):
        await open_store("memory://", table_prefix="x; DROP TABLE runs --")
    with pytest.raises(ConfigError, match="journals cannot be stored in"):
        journals_in("sqlite:///runs.db")
    with pytest.raises(ConfigError, match="known: sqlite"):
        print_schema("oracle")


async def test_progress_does_not_rewrite_the_result(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path / 'runs.db'}")
    await store.create("a", "one")
    large: Json = {"Rounds": ["".join(chr(33 + n * n % 90) for n in range(200_000))]}
    await store.update("a", "one", RunChanges(result=large))
    before = written(tmp_path)
    for number in range(20):
        changes = RunChanges(current_round=number, best_score=number / 20)
        await store.append_event("a", "one", NewEvent(kind="round_completed"), changes)
    assert written(tmp_path) - before < 20 * 60_000
    await store.close()


def written(folder: Path) -> int:
    """How large the files of the database are, its log included."""
    return sum(path.stat().st_size for path in folder.iterdir())


def big_result() -> dict[str, Any]:
    step = {"StepID": "s1", "Input": {"Text": "question " * 20}, "Output": {"Text": "answer " * 20}}
    case = {"EvalCaseID": "c", "Trace": {"Steps": [step] * 10}, "Metrics": [{"Score": 0.5}]}
    evaluation = {"OverallScore": 0.5, "EvalSets": [{"EvalSetID": "t", "Cases": [case] * 100}]}
    return {"Rounds": [{"Round": n, "Train": evaluation} for n in range(20)], "ErrorMessage": ""}


@pytest.mark.slow
async def test_large_results_do_not_block_the_event_loop() -> None:
    store, result = MemoryRunStore(), big_result()
    await store.create("a", "one")
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    turning = asyncio.create_task(turn())
    for work in (store.update("a", "one", RunChanges(result=result)), store.get("a", "one")):
        before = turns
        await work
        assert turns - before > 10, "the loop stood still while a result was packed or unpacked"
    turning.cancel()
    assert (await store.get("a", "one")).result == result


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -1.5e300, "", "日本\0", [], {}, [[]], {"": {}}, [1, [2, [{"a": [None]}]]]],
)
def test_every_json_value_comes_back(value: Json) -> None:
    for deeper in range(12):
        assert unpack(pack(value)) == value
        value = [value, "next"] if deeper % 2 else {"inner": value, "n": deeper}


def test_who_can_take_a_run_over(tmp_path: Path) -> None:
    assert Where(journal="database").why_not_here() == ""
    gone = Where(host="elsewhere", folder=str(tmp_path / "run")).why_not_here()
    assert "elsewhere" in gone
    assert "cannot see" in gone
    (tmp_path / "run.json").touch()
    assert Where(host="another-container", folder=str(tmp_path)).why_not_here() == ""
