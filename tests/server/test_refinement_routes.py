"""Refinement over HTTP: codes, ids and what is listed."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from burnish.delegation.refine.setup import OpenRefinement, RefineOptions
from burnish.projects.clients import AllowedNames
from burnish.runs.directory import NAME as HEADER
from burnish.runs.directory import remember_run
from burnish.server.routes.refinement import Refinements, refinement_router
from tests.delegation.refine.refining_world import Place
from tests.delegation.refine.run_folders import plain_run, run_id_of

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
