"""The manager: runs of any strategy, started, watched, canceled, resumed, picked up."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from burnish.compat.promptiter import RunResult, Slimming
from burnish.core.content import Json
from burnish.core.errors import ConfigError, RunLocked
from burnish.server.manager import RunManager, ServiceLimits
from burnish.server.routes.promptiter import run_result
from burnish.server.runs import AppMissing, ManagerClosed, TooManyRuns
from burnish.server.stores import (
    Lease,
    LeaseLost,
    MemoryRunStore,
    RunMissing,
    RunNotRunning,
    RunStatus,
    Where,
    open_store,
)
from tests.compat.promptiter.desk import Bench, request
from tests.server.world import (
    RUN,
    Door,
    calls,
    desk_app,
    knocked,
    manager_of,
    toy_app,
    until,
)

pytestmark = pytest.mark.slow
ASKED: dict[str, Any] = {"kind": "promptiter", "promptiter": RUN}


async def test_a_run_of_an_engine_is_queued_then_driven_and_kept(tmp_path: Path) -> None:
    async with manager_of(tmp_path) as manager:
        record = await manager.start("desk", request())
        assert (record.status, record.strategy) == (RunStatus.QUEUED, "backprop")
        ended = await manager.wait("desk", record.run_id)
        told = await run_result(manager.store, ended)
        slim = await run_result(
            manager.store, ended, Slimming(omit_evaluation_cases=True, omit_losses=True)
        )
        events = [event.kind for event in await manager.events("desk", record.run_id)]
    assert (ended.status, ended.error, ended.best_score) == (RunStatus.SUCCEEDED, "", 1.0)
    assert (ended.owner, ended.current_round) == ("", 2)
    direct = (await Bench(folder=tmp_path / "alone").engine.run(request())).to_json()
    assert told["AcceptedProfile"] == direct["AcceptedProfile"]
    assert (told["AppName"], told["ID"]) == ("desk", record.run_id)
    rounds = told["Rounds"]
    assert isinstance(rounds, list)
    assert len(rounds) == len(RunResult.from_json(direct).rounds)
    assert '"Cases"' not in str(slim), "it was to be left out"
    assert events[1:4] == ["structure_snapshot", "accepted_profile", "baseline_validation"]
    assert events[-2:] == ["round_completed", "status"]


async def test_what_is_known_so_far_is_put_together_from_events(tmp_path: Path) -> None:
    door = Door(after=4)  # validation and train of round 1 are answered
    async with manager_of(tmp_path, desk_app(tmp_path, door)) as manager:
        record = await manager.start("desk", ASKED)
        await knocked(door)
        running = await until(manager, "desk", record.run_id, RunStatus.RUNNING)
        early = RunResult.from_json(await run_result(manager.store, running))
        door.open.set()
        ended = await manager.wait("desk", record.run_id)
        events = await manager.events("desk", record.run_id)
    late = RunResult.from_json(ended.result)
    assert early.status == "running"
    assert (early.structure, early.baseline_validation) == (
        late.structure,
        late.baseline_validation,
    )
    assert early.rounds[0].patches == late.rounds[0].patches
    assert early.rounds[0].validation is None
    assert len({event.number for event in events}) == len(events) == ended.events


async def test_a_project_file_runs_by_its_own_strategy(tmp_path: Path) -> None:
    async with manager_of(tmp_path) as manager:
        record = await manager.start("toy", {"settings": {"max_trials": 2}})
        ended = await manager.wait("toy", record.run_id)
        assert ended.strategy == "climb"
        assert isinstance(ended.result, dict)
        assert (ended.status, ended.current_round) == (RunStatus.SUCCEEDED, 2)
        assert ended.result["ended"] == "max_trials"
        folder = Path(ended.where.folder)
        assert (folder / "report.md").is_file()
        await manager.delete("toy", record.run_id)
        assert not folder.exists()  # noqa: ASYNC240 - a test may wait for a disk
        with pytest.raises(RunMissing):
            await manager.get("toy", record.run_id)


async def test_what_is_wrong_is_said_before_anything_is_kept(tmp_path: Path) -> None:
    wrong: list[tuple[str, Any, type[Exception]]] = [
        ("desk", {"kind": "promptiter", "promptiter": RUN | {"MaxRounds": 0}}, ConfigError),
        ("desk", ASKED | {"promptiter": RUN | {"TargetSurfaceIDs": ["x"]}}, ConfigError),
        ("desk", {"kind": "optimize"}, ConfigError),
        ("toy", {"settings": {"max_trials": 0}}, ConfigError),
        ("toy", {"settings": {"agent": "os:system"}}, ConfigError),
        ("toy", {"settings": {"critic": "openai:x"}}, ConfigError),
        ("toy", {"settings": {"metric_file": "/etc/passwd"}}, ConfigError),
        ("toy", {"settings": {"train": "../toy.yaml"}}, ConfigError),
        ("nobody", {}, AppMissing),
    ]  # fmt: skip
    async with manager_of(tmp_path) as manager:
        for app, asked, error in wrong:
            with pytest.raises(error):
                await manager.start(app, asked)
        with pytest.raises(ConfigError, match="cannot name a run"):
            await manager.start("toy", run_id="../../elsewhere")
        assert (await manager.list_runs()).runs == ()
    assert not calls(tmp_path)


async def test_a_canceled_run_stays_so_until_it_is_resumed(tmp_path: Path) -> None:
    door = Door(after=3)
    async with manager_of(tmp_path, desk_app(tmp_path, door)) as manager:
        run = (await manager.start("desk", ASKED)).run_id
        await knocked(door)
        with pytest.raises(RunLocked):
            await manager.delete("desk", run)
        await manager.cancel("desk", run)
        ended = await manager.wait("desk", run)
        assert (ended.status, ended.error) == (RunStatus.CANCELED, "run canceled")
        assert RunResult.from_json(ended.result).baseline_validation is not None
        with pytest.raises(RunNotRunning, match=f'run "{run}" is not running: file does not exist'):
            await manager.cancel("desk", run)
        door.open.set()
        assert (await manager.resume("desk", run)).status is RunStatus.QUEUED
        again = await manager.wait("desk", run)
    assert (again.status, again.error) == (RunStatus.SUCCEEDED, "")
    journaled = door.asked[:3]
    assert not set(journaled) & set(door.asked[3:]), "what was journaled was asked for again"


async def test_failures_are_told(tmp_path: Path) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("a bug")

    bench = Bench(folder=tmp_path)
    bench.backward.says = broken
    app = desk_app(tmp_path)
    app.engine = bench.engine
    async with manager_of(tmp_path, app) as manager:
        run = (await manager.start("desk", ASKED)).run_id
        ended = await manager.wait("desk", run)
    assert ended.status is RunStatus.FAILED
    assert "a bug" in ended.error
    assert RunResult.from_json(ended.result).baseline_validation is not None


async def test_a_closed_manager_takes_nothing_and_closes_once(tmp_path: Path) -> None:
    manager = manager_of(tmp_path)
    await manager.open()
    await manager.close()
    await manager.close()
    with pytest.raises(ManagerClosed):
        await manager.start("desk", ASKED)
    with pytest.raises(ManagerClosed):
        await manager.cancel("desk", "x")


async def test_apps_that_share_a_store_are_kept_apart(tmp_path: Path) -> None:
    apps = [desk_app(tmp_path, name="one"), desk_app(tmp_path, name="two")]
    async with manager_of(tmp_path, *apps) as manager:
        await manager.start("one", ASKED, run_id="same")
        with pytest.raises(RunMissing):
            await manager.get("two", "same")
        await manager.start("two", ASKED, run_id="same")
        ended = [await manager.wait(name, "same") for name in ("one", "two")]
    assert [record.status for record in ended] == [RunStatus.SUCCEEDED] * 2
    assert len({record.where.folder for record in ended}) == 2
    with pytest.raises(ConfigError):
        RunManager([apps[0], apps[0]], data=tmp_path)


async def test_more_runs_than_allowed_wait_or_are_refused(tmp_path: Path) -> None:
    door = Door()
    limits = ServiceLimits(running=1, waiting=1, grace_seconds=0.1)
    async with manager_of(tmp_path, desk_app(tmp_path, door), limits=limits) as manager:
        first = await manager.start("desk", ASKED)
        await knocked(door)
        second = await manager.start("desk", ASKED)
        with pytest.raises(TooManyRuns):
            await manager.start("desk", ASKED)
        assert (manager.launcher.running, await manager.waiting()) == (1, 1)
        await manager.cancel("desk", second.run_id)
        waiting = await manager.wait("desk", second.run_id)
        assert waiting.status is RunStatus.CANCELED
        assert (await manager.get("desk", first.run_id)).status is RunStatus.RUNNING


@pytest.mark.parametrize("grace", [5.0, 0.0], ids=["asked", "insisted"])
async def test_a_shutdown_leaves_runs_that_the_next_start_picks_up(
    tmp_path: Path, grace: float
) -> None:
    address = f"sqlite:///{tmp_path / 'runs.db'}"
    limits = ServiceLimits(lease_seconds=5.0, grace_seconds=grace)
    app = toy_app(tmp_path, seconds=0.03)
    async with manager_of(tmp_path, app, store=await open_store(address), limits=limits) as one:
        run = (await one.start("toy")).run_id
        while (await one.get("toy", run)).current_round < 1:  # noqa: ASYNC110 - in the store
            await asyncio.sleep(0.01)
    store = await open_store(address)
    left = await store.get("toy", run)
    assert (left.status, left.owner) == (RunStatus.QUEUED, "")
    async with manager_of(tmp_path, toy_app(tmp_path, seconds=0.03), store=store) as two:
        ended = await two.wait("toy", run)
        numbers = [e.round for e in await two.events("toy", run) if e.kind == "trial_recorded"]
        assert two.launcher.counts["recovered"] == 1
    assert ended.status is RunStatus.SUCCEEDED
    assert numbers == list(range(len(numbers))), "trials are told once each, in order"
    paid = calls(tmp_path)
    in_flight = 16 if grace == 0.0 else 0
    assert len(paid) - len(set(paid)) <= in_flight


async def test_runs_that_cannot_go_on_here_are_left_with_the_reason(tmp_path: Path) -> None:
    store = MemoryRunStore()
    far = Where(host="elsewhere", folder="/nowhere/runs/x")
    await store.create("desk", "far", request=ASKED, where=far)
    await store.create("gone", "unserved", request={})
    await store.create("toy", "unfit", request={"settings": {"max_trials": 0}})
    await store.create("desk", "fresh", request=ASKED)
    async with manager_of(tmp_path, store=store) as manager:
        ended = await manager.wait("desk", "fresh")
        left = {run: why for (_, run), why in manager.left.items()}
    assert ended.status is RunStatus.SUCCEEDED, "nobody had begun it"
    assert "on elsewhere, which this machine cannot see" in left["far"]
    assert 'no app "gone"' in left["unserved"]
    assert "cannot be rebuilt" in left["unfit"]


async def test_two_managers_drive_each_run_once_and_cancel_for_each_other(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'runs.db'}"
    limits = ServiceLimits(running=1, lease_seconds=20.0)  # any of them may take either run
    doors = [Door(), Door()]
    one, two = [
        manager_of(
            tmp_path, desk_app(tmp_path / str(n), doors[n]), store=await open_store(address),
            limits=limits,
        )
        for n in (0, 1)
    ]  # fmt: skip
    async with one, two:
        await one.start("desk", ASKED, run_id="a")
        await two.start("desk", ASKED, run_id="b")
        await asyncio.gather(*map(knocked, doors))
        owners = {(await one.get("desk", run)).owner for run in "ab"}
        assert owners == {one.launcher.owner, two.launcher.owner}
        by_one = (await one.get("desk", "b")).owner == one.launcher.owner
        await two.cancel("desk", "a")
        assert (await until(one, "desk", "a", RunStatus.CANCELED)).error == "run canceled"
        await two.recover()
        for door in doors:
            door.open.set()
        ended = await one.wait("desk", "b")
    assert ended.status is RunStatus.SUCCEEDED
    asked = doors[0 if by_one else 1].asked
    assert len(asked) == len(set(asked)), "b was driven twice"


class Losing(MemoryRunStore):
    """A store in which another process takes a run as soon as `taken` is set."""

    taken = False

    async def renew(self, lease: Lease, *, seconds: float, progress: Json = None) -> Lease:
        if self.taken:
            raise LeaseLost(lease.app_name, lease.run_id, lease.owner)
        return await super().renew(lease, seconds=seconds, progress=progress)


async def told_all(manager: RunManager, run: str) -> int:
    """How many events there are once those on their way to the store have arrived."""
    count, same = -1, 0
    while same < 100:
        found = (await manager.get("desk", run)).events
        count, same = found, same + 1 if found == count else 0
        await asyncio.sleep(0.01)
    return count


async def test_a_run_whose_lease_is_lost_is_given_up_at_once(tmp_path: Path) -> None:
    door, store = Door(), Losing()
    limits = ServiceLimits(lease_seconds=3.0)
    app = desk_app(tmp_path, door)
    async with manager_of(tmp_path, app, store=store, limits=limits) as manager:
        run = (await manager.start("desk", ASKED)).run_id
        await knocked(door)
        before = await told_all(manager, run)
        store.taken = True
        async with asyncio.timeout(120):
            while manager.launcher.running:  # noqa: ASYNC110 - another object's state
                await asyncio.sleep(0.01)
        after = await manager.get("desk", run)
    assert (after.status, after.events) == (RunStatus.RUNNING, before), "it said something"
