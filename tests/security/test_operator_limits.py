"""Limits of the operator: every door, per token, durable, in every kind of store."""

import asyncio
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from burnish.core.money import Spend
from burnish.server import Security, TokenBook, create_app
from burnish.server.accounting import stop_at
from burnish.server.apps import FileApp
from burnish.server.manager import RunManager
from burnish.server.stores import open_store
from burnish.server.stores.accounts import (
    MEGABYTE,
    AccountLimits,
    Amounts,
    ChargeExists,
    LimitReached,
)
from burnish.server.tokens import FILE, Client, ClientLimits, TokenFile
from tests.journal.databases import SERVERS, tables_on
from tests.server.world import RUN, Door, desk_app, knocked, listening, manager_of, toy_app

API = "/api/v1"
SOME = AccountLimits(amounts=Amounts(max_usd=1.0, max_calls=100), runs=3)
NOTHING = Amounts.of(Spend(), seconds=0.0)


@pytest.fixture(params=["sqlite", *SERVERS])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[tuple[str, str]]:
    """An address and a table prefix, for each kind of database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'runs.db'}", "burnish_"
    else:
        with tables_on(request.param) as found:
            yield found


@pytest.mark.slow
async def test_reservations_and_spending_in_every_store(place: tuple[str, str]) -> None:
    stores = [await open_store(place[0], table_prefix=place[1]) for _ in range(2)]
    accounts, other = (store.accounts for store in stores)
    first = await accounts.reserve("a", ("toy", "1"), Amounts(max_usd=0.4), SOME)
    assert first == Amounts(max_usd=0.4, max_calls=100.0)
    with pytest.raises(LimitReached, match="running runs have reserved 100") as caught:
        await other.reserve("a", ("toy", "2"), Amounts(), SOME)
    assert caught.value.limit == "max_calls"
    assert await other.reserve("b", ("toy", "2"), Amounts(), SOME) != first, "accounts are apart"
    with pytest.raises(ChargeExists):
        await other.reserve("b", ("toy", "1"), Amounts(), SOME)
    spent = Amounts.of(Spend(calls=60, nano_usd=700_000_000), seconds=60)
    await accounts.settle(("toy", "1"), spent)
    await accounts.settle(("toy", "1"), NOTHING)  # only once
    use = await other.standing("a")
    assert (use.spent, use.runs) == (spent, 0)
    again = await other.reserve("a", ("toy", "3"), Amounts(), SOME)
    assert again.max_usd == pytest.approx(0.3)  # pyright: ignore[reportUnknownMemberType]
    assert again.max_calls == 40
    await other.settle(("toy", "3"), None)
    with pytest.raises(LimitReached, match=r"1 of 1 USD of this token are spent"):
        await accounts.reserve("a", ("toy", "4"), Amounts(), SOME)
    await accounts.forget(("toy", "1"))
    use = await other.standing("a")
    assert use.spent.max_usd == pytest.approx(1.0), "deleting refunds"  # pyright: ignore[reportUnknownMemberType]
    await accounts.upload("a", "x.jsonl")
    assert [await other.uploader(name) for name in ("x.jsonl", "y.jsonl")] == ["a", None]
    await accounts.remove_upload("x.jsonl")
    assert await other.uploader("x.jsonl") is None
    for store in stores:
        await store.close()
    later = await open_store(place[0], table_prefix=place[1])
    assert (await later.accounts.standing("a")).spent.max_calls == 100
    await later.close()


@pytest.mark.slow
async def test_concurrent_reservations_never_exceed_the_limit(place: tuple[str, str]) -> None:
    stores = [await open_store(place[0], table_prefix=place[1]) for _ in range(3)]
    limits = AccountLimits(amounts=Amounts(max_usd=1.0))

    async def reserve(number: int) -> float:
        try:
            accounts = stores[number % 3].accounts
            granted = await accounts.reserve(
                "a", ("toy", str(number)), Amounts(max_usd=0.3), limits
            )
        except LimitReached:
            return 0.0
        assert granted.max_usd is not None
        return granted.max_usd

    granted = await asyncio.gather(*(reserve(number) for number in range(9)))
    assert sum(granted) == pytest.approx(1.0)  # pyright: ignore[reportUnknownMemberType]
    assert sorted(granted)[-3:] == [0.3] * 3
    for store in stores:
        await store.close()


def secured(tmp_path: Path, **tokens: ClientLimits) -> tuple[Security, dict[str, dict[str, str]]]:
    """A service's access control, and the headers of each token."""
    file = TokenFile(path=tmp_path / FILE)
    headers = {
        name: {"authorization": f"Bearer {file.add(name, limits=limits)}"}
        for name, limits in tokens.items()
    }
    return Security(tokens=TokenBook((), tmp_path / FILE)), headers


def limit_of(answer: httpx.Response) -> tuple[int, str, str]:
    error = answer.json()["error"]
    return answer.status_code, error["code"], error["problems"][0]["where"]


@pytest.mark.slow
async def test_a_run_is_cut_to_the_rest_and_spending_survives_a_restart(tmp_path: Path) -> None:
    security, headers = secured(tmp_path, team=ClientLimits(max_calls=40))
    run: dict[str, Any] = {"headers": headers["team"], "json": {}}
    for restart in range(2):
        store = await open_store(f"sqlite:///{tmp_path / 'runs.db'}")
        manager = manager_of(tmp_path, toy_app(tmp_path), store=store)
        async with listening(create_app(manager, security=security)) as client:
            if not restart:
                started = await client.post(f"{API}/apps/toy/runs", **run)
                assert started.status_code == 201, started.text
                ended = await manager.wait("toy", started.json()["id"])
                assert isinstance(ended.result, dict)
                assert ended.result["ended"] == "max_calls"
            await manager.accounting.settle_finished()
            account = (await client.get(f"{API}/account", headers=headers["team"])).json()
            assert account["limits"]["max_calls"] == 40
            assert 0 < account["spent"]["max_calls"] <= 40
            assert account["runs"] == 0


@pytest.mark.slow
async def test_every_dialect_names_the_limit_that_is_reached(tmp_path: Path) -> None:
    limits = ClientLimits(max_runs=1, max_upload=1)
    security, headers = secured(tmp_path, team=limits, other=ClientLimits(max_calls=10**6))
    door = Door()
    app = desk_app(tmp_path, door)
    manager = manager_of(tmp_path, app, toy_app(tmp_path))
    async with listening(create_app(manager, security=security)) as client:
        mine: Any = {"headers": headers["team"]}
        first = await client.post("/promptiter/v1/apps/desk/async-runs", json={"run": RUN}, **mine)
        assert first.status_code == 201, first.text
        await knocked(door)
        second = await client.post(f"{API}/apps/toy/runs", json={}, **mine)
        assert limit_of(second) == (429, "limit_reached", "max_runs")
        blocking = await client.post("/promptiter/v1/apps/desk/runs", json={"run": RUN}, **mine)
        assert blocking.status_code == 429
        assert blocking.json()["error"].startswith("max_runs")
        measured = await client.post(f"{API}/evaluations", json={"app": "toy"}, **mine)
        assert measured.status_code in (422, 429)
        big = b'{"input": "' + b"x" * MEGABYTE + b'"}\n'
        upload = await client.put(f"{API}/datasets/big.jsonl", content=big, **mine)
        assert limit_of(upload) == (413, "too_large", "max_upload")
        plain = await client.post("/promptiter/v1/apps/desk/runs", content=big, **mine)
        assert plain.status_code == 413
        assert "max_upload" in plain.json()["error"]
        others = await client.post(
            f"{API}/apps/toy/runs", json={"settings": {"max_trials": 1}}, headers=headers["other"]
        )
        assert others.status_code == 201, "one token's limit binds another"
        door.open.set()
        await manager.wait("desk", first.json()["result"]["ID"])
        after = await client.post(
            f"{API}/apps/toy/runs", json={"settings": {"max_trials": 1}}, **mine
        )
        assert after.status_code == 201, after.text


@pytest.mark.slow
async def test_the_limit_of_a_resumed_run_includes_what_it_spent(tmp_path: Path) -> None:
    manager = RunManager([toy_app(tmp_path)], data=tmp_path / "data")
    client = Client(account="team", limits=ClientLimits(max_calls=40))
    async with manager:
        first = await manager.start("toy", {}, run_id="r", client=client)
        assert (await manager.wait("toy", first.run_id)).status.value == "succeeded"
        await manager.accounting.settle_finished()
        spent = (await manager.store.accounts.standing("team")).spent.max_calls
        assert spent is not None
        assert 0 < spent <= 40
        again = await manager.accounting.reserve(
            Client(account="team", limits=ClientLimits(max_calls=int(spent) + 7)),
            ("toy", "r"),
            (await _budget(manager)),
            again=True,
        )
        assert again.max_calls == spent + 7
        used_up = replace(client, limits=ClientLimits(max_calls=int(spent)))
        with pytest.raises(LimitReached, match="max_calls"):
            await manager.start("toy", {}, client=used_up)
        await manager.delete("toy", "r")
        assert (await manager.store.accounts.standing("team")).spent.max_calls == spent


async def _budget(manager: RunManager) -> Any:
    app = manager.app("toy")
    assert isinstance(app, FileApp)
    work = await asyncio.to_thread(app.plan, {})
    await work.drop()
    return work.budget


@pytest.mark.slow
async def test_a_run_without_a_budget_of_its_own_stops_at_what_is_granted(tmp_path: Path) -> None:
    manager = RunManager([toy_app(tmp_path)], data=tmp_path / "data")
    async with manager:
        run = await manager.start("toy", {"settings": {"max_trials": 1}})
        await manager.wait("toy", run.run_id)
    folder = tmp_path / "data" / "runs" / "toy" / run.run_id
    assert stop_at(folder, Amounts(max_calls=1))().startswith("max_calls")
    assert stop_at(folder, Amounts(max_minutes=1e-9))().startswith("max_minutes")
    assert stop_at(folder, Amounts(max_calls=10**6))() == ""
    assert stop_at(tmp_path / "nothing", Amounts(max_calls=1))() == ""
