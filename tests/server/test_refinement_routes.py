"""Refinement over HTTP: codes, ids and what is listed."""

import asyncio
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from httpx import ASGITransport, AsyncClient

from burnish.core.errors import ConfigError
from burnish.delegation.refine.plugin import OpenRefinement, RefineOptions
from burnish.projects.clients import AllowedNames, NotAllowed
from burnish.runs.directory import NAME as HEADER
from burnish.runs.directory import known_runs, remember_run
from burnish.server.application import create_app
from burnish.server.manager import RunManager
from burnish.server.routes.refinement import Refinements, refinement_router
from burnish.server.stores import RunStatus
from burnish.server.stores.records import FINISHED, REFINEMENTS
from burnish.server.tokens import Client, ClientLimits, TokenScope
from tests.delegation.refine.refining_world import Place
from tests.delegation.refine.run_folders import plain_run, run_id_of
from tests.server.world import QUICK, manager_of, toy_app, until

pytestmark = pytest.mark.slow


class Service:
    """The routes in an app of their own; sessions run when the test says so."""

    def __init__(self, folder: Path) -> None:
        self.place = Place(folder=folder)
        self.opened: list[OpenRefinement] = []
        wishes = RefineOptions(models=self.place.world.models)
        allowance = AllowedNames.parse(["openai:x"])
        refinements = Refinements(allowance=allowance, options=wishes, run=self.opened.append)
        router = refinement_router(folder, refinements=refinements)
        app = FastAPI()
        app.include_router(router)
        self.client = TestClient(app, raise_server_exceptions=False)

    def refine(self, run_id: str, body: Any) -> Any:
        return self.client.post(f"/api/experiments/{run_id}/refine", json=body)

    def sessions(self, run_id: str) -> Any:
        return self.client.get(f"/api/experiments/{run_id}/refinement_sessions")

    def run(self) -> None:
        for each in self.opened:
            asyncio.run(each.run())
        self.opened.clear()


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return Service(tmp_path)


def test_a_session_from_its_start_to_its_list(service: Service) -> None:
    seed = service.place.make_seed()
    run_id = json.loads((seed / "run_completion.json").read_text())["run_id"]
    assert service.sessions(run_id).json() == {"sessions": [], "best": None}
    tier = {"manager": "openai:x", "worker": ""}
    answer = service.refine(run_id, {"iterations": 1, "tier_high": tier, "model": "no such model"})
    assert answer.status_code == 202
    assert answer.json()["status"] == "running"
    assert service.refine(run_id, {}).status_code == 409
    service.run()
    said = service.sessions(run_id).json()
    assert [each["session_id"] for each in said["sessions"]] == [answer.json()["session_id"]]
    assert said["sessions"][0]["iterations"][0]["model_manager"] == "openai:x"
    assert said["best"]["session_id"] == answer.json()["session_id"]
    # An iteration is a run like any other, and is found as one.
    inner = said["best"]["best_run_id"]
    assert service.sessions(inner).json() == {"sessions": [], "best": None}


@pytest.mark.parametrize(
    "body",
    [
        {"iterations": 0},
        {"iterations": 11},
        {"iterations": "abc"},
        {"iterations": True},
        {"iterations": 1.5},
        [],
        "text",
        {"tier_low": "openai:x"},
    ],
)
def test_bodies_that_make_no_sense(service: Service, body: Any) -> None:
    plain_run(service.place.folder / "seed")
    assert service.refine("seed", body).status_code == 422
    assert service.opened == []


def test_runs_that_are_not_there_or_not_ready(service: Service) -> None:
    folder = service.place.folder
    plain_run(folder / "failed", status="failed")
    plain_run(folder / "empty", files={})
    (folder / "torn").mkdir()
    (folder / "torn" / "run_completion.json").write_text("{")
    (folder / "unfinished").mkdir()
    codes = {
        name: service.refine(name, {}).status_code
        for name in ("failed", "empty", "torn", "unfinished", "nowhere", "..%2Fseed")
    }
    assert codes == {
        "failed": 409,
        "empty": 409,
        "torn": 409,
        "unfinished": 404,
        "nowhere": 404,
        "..%2Fseed": 404,
    }
    assert service.sessions("nowhere").status_code == 404


def test_a_session_runs_beside_the_service(tmp_path: Path) -> None:
    plain_run(tmp_path / "seed", defects=())
    app = FastAPI()
    app.include_router(refinement_router(tmp_path))
    client = TestClient(app)
    assert client.post("/api/experiments/seed/refine").status_code == 202
    limit = time.monotonic() + 120
    while True:
        (session,) = client.get("/api/experiments/seed/refinement_sessions").json()["sessions"]
        if session["stop_reason"] == "empty_gradient":
            break
        assert time.monotonic() < limit
        time.sleep(0.01)


def test_clients_reach_only_the_folders_of_the_service(tmp_path: Path) -> None:
    data, served, private = (tmp_path / name for name in ("data", "app", "app-private"))
    for folder in (data / "near", served / "results" / "own", private / "other"):
        plain_run(folder)
        (folder / HEADER).touch()
        remember_run(folder)
    # What looks like an iteration of a run that is served, and leads out of its folder.
    (served / "results" / "own" / "iter_1").mkdir()
    (served / "results" / "own" / "iter_1" / "run").symlink_to(plain_run(private / "linked"))
    app = FastAPI()
    app.include_router(refinement_router(data, [served]))
    client = TestClient(app)
    codes = {
        name: client.get(f"/api/experiments/{name}/refinement_sessions").status_code
        for name in ("near", "own", "other", "linked", run_id_of(private / "linked"))
    }
    assert codes == {
        "near": 200,
        "own": 200,
        "other": 404,
        "linked": 404,
        run_id_of(private / "linked"): 404,
    }
    assert client.post("/api/experiments/other/refine", json={}).status_code == 404
    assert not (private / "other" / "refinement_sessions").exists()


# -- The history of the service -------------------------------------------------------------------


def over(app: FastAPI) -> AsyncClient:
    return AsyncClient(transport=ASGITransport(app), base_url="http://127.0.0.1")


def started_by(manager: RunManager, place: Place) -> Refinements:
    options = RefineOptions(models=place.world.models)
    return Refinements(manager=manager, options=options, allowance=AllowedNames.parse(["openai:x"]))


async def test_a_refinement_is_a_run_in_the_history_of_the_service(tmp_path: Path) -> None:
    place = Place(folder=tmp_path)
    seed = await asyncio.to_thread(place.make_seed)
    async with manager_of(tmp_path, toy_app(tmp_path)) as manager:
        routes = FastAPI()
        routes.include_router(refinement_router(tmp_path, refinements=started_by(manager, place)))
        async with over(routes) as client, over(create_app(manager)) as api:
            path = f"/api/experiments/{run_id_of(seed)}"
            body = {"iterations": 1, "model": "openai:x"}
            answer = await client.post(f"{path}/refine", json=body)
            assert answer.status_code == 202
            session = answer.json()["session_id"]
            await until(manager, REFINEMENTS, session, RunStatus.SUCCEEDED)
            (row,) = (await api.get("/api/v1/runs")).json()["runs"]
            assert (row["app"], row["id"]) == (REFINEMENTS, session)
            assert (row["strategy"], row["status"]) == ("refine", "succeeded")
            run = f"/api/v1/apps/{REFINEMENTS}/runs/{session}"
            whole = (await api.get(run)).json()
            (listed,) = (await client.get(f"{path}/refinement_sessions")).json()["sessions"]
            assert whole["result"] == listed
            assert whole["request"]["seed_run_id"] == listed["seed_run_id"]
            assert (await api.get(f"{run}/trials")).json()["total"] > 1
            kinds = {each["kind"] for each in (await api.get(f"{run}/events")).json()["events"]}
            assert {"status", "trial_recorded"} <= kinds
    # The index of this machine, which `burnish runs list` shows, has it too.
    assert [folder for folder in known_runs() if folder.name == session]


async def test_limits_and_owners_hold_for_refinements_and_a_dead_one_has_failed(
    tmp_path: Path,
) -> None:
    place = Place(folder=tmp_path)
    seed = await asyncio.to_thread(place.make_seed)
    poor = Client(scope=TokenScope.RUN, account="poor", limits=ClientLimits(max_calls=1))
    async with manager_of(tmp_path, toy_app(tmp_path)) as manager:
        session = await started_by(manager, place).start(lambda: seed, None, poor)
        record = await until(manager, REFINEMENTS, session, *FINISHED)
        assert record.status is RunStatus.FAILED
        assert record.error.startswith("max_calls: ")
        charge = await manager.store.accounts.charge((REFINEMENTS, session))
        assert charge is not None
        assert charge.account == "poor"
        other = Client(scope=TokenScope.RUN, account="other")
        with pytest.raises(NotAllowed, match="belongs to another token"):
            await manager.delete(REFINEMENTS, session, client=other)
        await manager.delete(REFINEMENTS, session, client=poor)
        assert (await manager.list_runs()).runs == ()

        await manager.store.create(REFINEMENTS, "gone", strategy="refine")
        await manager.recover()
        assert (await manager.get(REFINEMENTS, "gone")).status is RunStatus.QUEUED, "it may begin"
    old = replace(QUICK, lease_seconds=0.0)
    async with manager_of(tmp_path, toy_app(tmp_path), limits=old) as manager:
        await manager.store.create(REFINEMENTS, "gone", strategy="refine")
        await manager.recover()
        record = await manager.get(REFINEMENTS, "gone")
        assert record.status is RunStatus.FAILED
        assert "burnish refine --resume" in record.error


def test_no_app_can_have_the_name_of_the_refinements(tmp_path: Path) -> None:
    app = replace(toy_app(tmp_path), name=REFINEMENTS)
    with pytest.raises(ConfigError, match="names the refinements of all apps"):
        manager_of(tmp_path, app)
