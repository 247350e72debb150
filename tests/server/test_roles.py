"""Roles of processes, priorities of runs, and what others see of a run."""

import asyncio
from pathlib import Path

from burnish.server.application import create_app
from burnish.server.library import ServiceLibrary
from burnish.server.manager import RunManager, ServiceLimits
from burnish.server.security import Security
from burnish.server.service import Serving
from burnish.server.stores import MemoryRunStore, RunStatus, RunStore
from burnish.server.tokens import (
    WORKER_RULES,
    Client,
    ServiceRole,
    ServiceRules,
    TokenBook,
    TokenScope,
)
from tests.server.gated import gated_app
from tests.server.world import Door, knocked, listening, toy_app, until

LIMITS = ServiceLimits(running=1, lease_seconds=6.0, grace_seconds=0.0)
TEAM = Client(account="team", scope=TokenScope.RUN)


class Shared(MemoryRunStore):
    """A store of two managers, which is closed when the test has ended."""

    async def close(self) -> None:
        """Not yet."""


def process(
    folder: Path, store: RunStore, role: ServiceRole, door: Door | None = None
) -> RunManager:
    """One process of a service, in this one."""
    folder.mkdir(exist_ok=True)
    app = toy_app(folder) if door is None else gated_app(folder, door)
    return RunManager([app], data=folder / "data", store=store, limits=LIMITS, role=role)


async def test_a_worker_drives_what_an_api_accepts_and_tells_how_far_it_is(tmp_path: Path) -> None:
    store, door = Shared(), Door(after=3)
    api = process(tmp_path, store, ServiceRole.API)
    worker = process(tmp_path, store, ServiceRole.WORKER, door)
    async with api:
        run = (await api.start("toy")).run_id
        assert (api.launcher.free, await api.recover(), await api.waiting()) == (0, 0, 1)
        async with worker:
            await knocked(door)
            record = await until(api, "toy", run, RunStatus.RUNNING)
            library = ServiceLibrary(api, asyncio.get_running_loop())
            async with asyncio.timeout(120):
                while (tick := await asyncio.to_thread(library.reported, record)) is None:  # noqa: ASYNC110 - in the store
                    await asyncio.sleep(0.05)
            assert tick.done < tick.total
            assert record.owner == worker.launcher.owner
            await api.cancel("toy", run)
            ended = await api.wait("toy", run)
            assert ended.status is RunStatus.CANCELED
            assert await asyncio.to_thread(library.reported, ended) is None
        assert [each.role for each in await api.launcher.processes()] == [ServiceRole.API]
    await MemoryRunStore.close(store)


async def test_a_worker_answers_only_about_itself(tmp_path: Path) -> None:
    book = TokenBook(("a-token-of-the-operator",))
    worker = process(tmp_path, MemoryRunStore(), ServiceRole.WORKER)
    app = create_app(worker, security=Security(tokens=book), open_metrics=True)
    async with listening(app) as client:
        bearer = {"Authorization": "Bearer a-token-of-the-operator"}
        metrics = await client.get("/metrics")
        ready = await client.get("/api/v1/ready", headers=bearer)
        runs = await client.get("/api/v1/runs", headers=bearer)
    assert 'burnish_worker_places{state="idle"} 1' in metrics.text
    assert [each["role"] for each in ready.json()["processes"]] == ["worker"]
    assert (metrics.status_code, runs.status_code) == (200, 404)


async def test_metrics_ask_for_a_token_unless_the_operator_says_otherwise(tmp_path: Path) -> None:
    book = TokenBook(("a-token-of-the-operator",))
    api = process(tmp_path, MemoryRunStore(), ServiceRole.API)
    async with listening(create_app(api, security=Security(tokens=book))) as client:
        answers = [await client.get(path) for path in ("/metrics", "/api/v1/metrics")]
    assert [each.status_code for each in answers] == [401, 401]


def test_a_worker_listens_only_with_a_port_and_leaves_its_role_for_doctor(tmp_path: Path) -> None:
    silent = Serving(apps={}, data=tmp_path, role=ServiceRole.WORKER, host="0.0.0.0")
    assert not silent.listens
    assert silent.security().tokens is not None, "others could ask without a token"
    assert Serving(apps={}, data=tmp_path, role=ServiceRole.WORKER, port=0).listens
    assert Serving(apps={}, data=tmp_path, role=ServiceRole.API).listens
    silent.rules().write(tmp_path)
    rules = ServiceRules.read(tmp_path, WORKER_RULES)
    assert rules is not None
    assert rules.lines() == ["role: worker, 4 runs at once"]
