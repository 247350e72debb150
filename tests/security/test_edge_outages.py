"""A store that is away is a 503 on every route, says nothing about itself, and comes back."""

import resource
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from burnish.server import Datasets, RunManager, create_app, open_store
from tests.journal.databases import SERVERS, tables_on
from tests.security.edge_world import Proxy, body_of, filled, leaks_of, operations
from tests.server.processes import serving
from tests.server.world import QUICK, desk_app, listening, toy_app

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("toy_plugin")]
WITHOUT_STORE = ("/health", "/metrics", "/datasets", "/api/experiments", "/structure", "openapi")


def _needs_store(path: str) -> bool:
    is_app = path.endswith(("/apps", "/apps/{app}"))
    return not is_app and not any(part in path for part in WITHOUT_STORE)


async def _walk(client: httpx.AsyncClient, *secrets: str) -> dict[str, int]:
    """Ask for everything once; the status of each operation."""
    document: dict[str, Any] = (await client.get("/api/v1/openapi.json")).json()
    statuses: dict[str, int] = {}
    for method, path, _ in operations(document):
        target = filled(path, {})
        body = None if method == "GET" else body_of(path)
        answer = await client.request(method, target, json=body)
        statuses[f"{method} {path}"] = answer.status_code
        found = leaks_of(f"{answer.text}{answer.headers}", *secrets)
        assert not found, (method, path, found, answer.text)
    assert len(statuses) > 30
    return statuses


def _check_outage(statuses: dict[str, int]) -> None:
    wrong = {name: status for name, status in statuses.items() if status >= 500 and status != 503}
    assert not wrong
    # What a request lacks is said before the store is asked.
    planned = ("POST /api/v1/evaluations", "POST /api/v1/grids", "}/runs", "async-runs")
    asked = {name for name in statuses if _needs_store(name) and not name.endswith(planned)}
    assert {name: statuses[name] for name in asked if statuses[name] != 503} == {}
    assert len(asked) > 12


async def _manager(tmp_path: Path, address: str, prefix: str = "burnish_") -> RunManager:
    store = await open_store(address, table_prefix=prefix)
    apps = (desk_app(tmp_path), toy_app(tmp_path))
    manager = RunManager(apps, data=tmp_path / "data", store=store, limits=QUICK)
    Datasets(folder=manager.places.datasets).write("known.jsonl", b'{"input": "a"}\n')
    await store.create("toy", "known", strategy="measure")
    await store.request_cancel("toy", "known")
    return manager


@pytest.mark.parametrize("server", SERVERS)
async def test_a_database_that_dies(tmp_path: Path, server: str) -> None:
    with tables_on(server) as (address, prefix):
        proxy = Proxy(address)
        await proxy.mend()
        manager = await _manager(tmp_path, proxy.through, prefix)
        async with listening(create_app(manager)) as client:
            run = "/api/v1/apps/toy/runs/known"
            assert (await client.get(run)).status_code == 200
            await proxy.cut()
            _check_outage(await _walk(client, str(tmp_path), str(proxy.port), prefix))
            assert (await client.get("/api/v1/health")).status_code == 200
            await proxy.mend()
            assert (await client.get(run)).status_code == 200
        await proxy.cut()


async def test_a_file_that_is_removed_and_put_back(tmp_path: Path) -> None:
    file = tmp_path / "secret-place" / "runs.db"
    file.parent.mkdir()
    manager = await _manager(tmp_path, f"sqlite:///{file}")
    async with listening(create_app(manager)) as client:
        run = "/api/v1/apps/toy/runs/known"
        assert (await client.get(run)).status_code == 200
        aside = file.rename(tmp_path / "aside.db")
        _check_outage(await _walk(client, str(tmp_path), "secret-place"))
        assert not file.exists(), "no empty store takes the place of the lost one"
        aside.rename(file)
        assert (await client.get(run)).status_code == 200


async def test_a_file_that_someone_else_locks(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    manager = await _manager(tmp_path, f"sqlite:///{file}?timeout=0.05")
    new = {"id": "new", "settings": {"max_trials": 1}}
    async with listening(create_app(manager)) as client:
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            locked = await client.post("/api/v1/apps/toy/runs", json=new)
            assert (await client.get("/api/v1/runs")).status_code == 200, "readers do not wait"
            other.execute("ROLLBACK")
        after = await client.post("/api/v1/apps/toy/runs", json=new)
        await client.get(f"{after.headers['location']}/stream")
    assert (locked.status_code, locked.json()["error"]["code"]) == (503, "store_trouble")
    assert not leaks_of(locked.text, str(tmp_path), "locked")
    assert after.status_code == 201


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    with serving(tmp_path, "--app", f"toy={toy_app(tmp_path).path}") as service:
        pid, limit = service.process.pid, resource.RLIMIT_FSIZE
        _, hard = resource.prlimit(pid, limit)
        resource.prlimit(pid, limit, (0, hard))  # no file of the service grows any more
        run = service.client.post("/apps/toy/runs", json={"id": "new"})
        cases = service.client.put("/datasets/a.jsonl", content=b'{"input": "a"}\n')
        alive = service.client.get("/health")
        resource.prlimit(pid, limit, (hard, hard))
        after = service.client.put("/datasets/a.jsonl", content=b'{"input": "a"}\n')
        ready = service.client.get("/ready")
    assert (run.status_code, run.json()["error"]["code"]) == (503, "store_trouble")
    assert (cases.status_code, cases.json()["error"]["code"]) == (503, "file_trouble")
    assert not leaks_of(run.text + cases.text, str(tmp_path), "disk")
    assert (alive.status_code, after.status_code, ready.status_code) == (200, 201, 200)
