"""PromptIter's five routes, as its own clients expect them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from burnish.compat.promptiter import RunResult, Slimming
from burnish.core.errors import ConfigError
from burnish.server import create_app
from burnish.server.manager import ServiceLimits
from burnish.server.routes.promptiter import SubPaths
from burnish.server.stores import RunStatus
from tests.compat.promptiter.desk import PLANNER, Bench
from tests.server.world import RUN, Door, desk_app, knocked, listening, manager_of, until

pytestmark = pytest.mark.slow
BASE = "/promptiter/v1/apps/desk"


async def test_a_structure_and_a_blocking_run(tmp_path: Path) -> None:
    async with listening(create_app(manager_of(tmp_path))) as client:
        found = await client.get(f"{BASE}/structure")
        unknown = RUN | {"Later": {"x": 1}, "StopPolicy": {"Odd": 1, "targetscore": 1.0}}
        ran = await client.post(f"{BASE}/runs", json={"RUN": unknown, "more": 1})
    assert found.status_code == 200
    assert found.headers["content-type"] == "application/json"
    assert found.content.endswith(b"}\n")
    assert found.json()["structure"]["EntryNodeID"] == PLANNER
    assert ran.status_code == 200, ran.text
    result = RunResult.from_json(ran.json()["result"])
    assert (result.app_name, result.id, result.status) == ("desk", "", "succeeded")
    assert result.rounds


async def test_an_asynchronous_run(tmp_path: Path) -> None:
    door = Door(after=3)
    app = create_app(manager_of(tmp_path, desk_app(tmp_path, door)))
    async with listening(app) as client:
        made = await client.post(f"{BASE}/async-runs", json={"run": RUN})
        told = made.json()["result"]
        place = made.headers["location"]
        await knocked(door)
        running = (await client.get(place)).json()["result"]
        canceled = await client.post(f"{place}/cancel")
        await until(app.state.manager, "desk", told["ID"], RunStatus.CANCELED)
        ended = (await client.get(place)).json()["result"]
        again = await client.post(f"{place}/cancel")
    assert (made.status_code, told["Status"]) == (201, "queued")
    assert told["Rounds"] is None, "as in Go, before the first round"
    assert place == f"{BASE}/async-runs/{told['ID']}"
    assert running["Status"] == "running"
    assert running["BaselineValidation"] is not None
    assert (canceled.status_code, canceled.content) == (202, b"")
    assert (ended["Status"], ended["ErrorMessage"]) == ("canceled", "run canceled")
    assert again.status_code == 404
    assert again.json() == {"error": f'run "{told["ID"]}" is not running: file does not exist'}


TWICE = [{"metricName": name, "nodeId": PLANNER} for name in ("quality", " quality")]
WRONG: list[tuple[str, str, dict[str, Any], int, str]] = [
    ("GET", "/async-runs/x", {}, 404, 'run "x" for app "desk" not found: file does not exist'),
    ("POST", "/async-runs/x/cancel", {}, 404, 'run "x" is not running: file does not exist'),
    ("GET", "/nothing", {}, 404, "not found"),
    ("PUT", "/async-runs/x", {}, 404, "not found"),
    ("GET", "/async-runs/x/cancel", {}, 404, "not found"),
    ("POST", "/structure", {}, 405, "method not allowed"),
    ("GET", "/runs", {}, 405, "method not allowed"),
    ("DELETE", "/async-runs", {}, 405, "method not allowed"),
    ("POST", "/runs", {"content": b"{"}, 400, "invalid request body: "),
    ("POST", "/runs", {"content": b'{"run":{}} {}'}, 400, "invalid request body: "),
    ("POST", "/runs", {"content": b"[]"}, 400, "invalid request body: "),
    ("POST", "/runs", {"json": {}}, 400, "run request is empty"),
    ("POST", "/runs", {"json": {"run": {}}}, 400, "train evaluation sets are empty"),
    ("POST", "/async-runs", {"json": {"run": RUN | {"MaxRounds": "x"}}}, 400, "MaxRounds"),
    ("POST", "/async-runs", {"json": {"run": RUN | {"Judge": {}}}}, 400, "Judge"),
    (
        "POST",
        "/runs",
        {"json": {"run": RUN | {"Burnish": {"MaxCalls": 1}}}},
        400,
        "1 calls cannot measure the baseline: that takes 2",
    ),
    (
        "POST",
        "/async-runs",
        {"json": {"run": RUN | {"Burnish": {"MaxMetricCalls": 1}}}},
        400,
        "allow 2 or more",
    ),
    (
        "POST",
        "/async-runs",
        {"json": {"run": RUN | {"burnish": {"MaxCals": 9}}}},
        400,
        "unknown field 'burnish.MaxCals' — did you mean 'MaxCalls'?",
    ),
    (
        "POST",
        "/async-runs",
        {"json": {"run": RUN | {"Burnish": {"MaxCalls": 9, "maxcalls": 10_000}}}},
        400,
        "Burnish.maxcalls: it is given twice",
    ),
    ("POST", "/runs", {"json": {"run": RUN, "Run": RUN}}, 400, "Run: it is given twice"),
    (
        "POST",
        "/async-runs",
        {"json": {"Run": RUN, "Burnish": {"MaxCalls": 1}}},
        400,
        "Burnish: beside 'Run' it has no effect — put it in 'Run'",
    ),
    ("POST", "/async-runs", {"json": {"run": RUN | {"TargetSurfaceIDs": ["a#b"]}}}, 400, "a#b"),
    (
        "POST",
        "/async-runs",
        {"json": {"run": RUN | {"train": [{"evalSetId": "t", "lossHints": [{}]}]}}},
        400,
        "a loss hint has no",
    ),
    (
        "POST",
        "/async-runs",
        {"json": {"run": RUN | {"train": [{"evalSetId": "t", "lossTargets": TWICE}]}}},
        400,
        "two loss targets for 'quality'",
    ),
]


async def test_what_is_refused(tmp_path: Path) -> None:
    app = create_app(manager_of(tmp_path))
    async with listening(app) as client:
        for method, path, more, status, text in WRONG:
            answer = await client.request(method, BASE + path, **more)
            assert answer.status_code == status, (method, path, answer.text)
            assert text in answer.json()["error"], answer.text
            assert answer.headers["content-type"] == "application/json"
            assert ("allow" in answer.headers) == (status == 405)
        foreign = await client.get("/promptiter/v1/apps/nobody/structure")
        assert (foreign.status_code, foreign.json()) == (404, {"error": "not found"})
        assert (await app.state.manager.list_runs()).runs == ()


async def test_slashes_options_and_other_base_paths(tmp_path: Path) -> None:
    paths = SubPaths.parse(["structure=anatomy", "async-runs=/jobs/"])
    app = create_app(manager_of(tmp_path), base_path="lab/", sub_paths=paths)
    async with listening(app) as client:
        named = await client.get("/lab/desk/anatomy")
        usual = [await client.get(f"/lab/desk/{each}") for each in ("structure", "async-runs")]
        started = await client.get("/lab/desk/jobs")
        moved = await client.get("/lab/desk/structure/?a=1&b=%2F")
        asked = await client.options("/lab/desk/runs", headers={"origin": str(client.base_url)})
        gone = await client.get(f"{BASE}/structure")
    assert (named.status_code, started.status_code) == (200, 405)
    assert [each.status_code for each in usual] == [404, 404]
    assert moved.status_code == 308
    assert moved.headers["location"] == "/lab/desk/structure?a=1&b=%2F"
    assert (asked.status_code, asked.content) == (204, b"")
    assert not [name for name in asked.headers if name.startswith("access-control")]
    assert gone.status_code == 404


@pytest.mark.parametrize("flags", [["reports=x"], ["runs"], ["runs=a/b"], ["runs=async-runs"]])
def test_sub_paths_that_are_refused(flags: list[str]) -> None:
    with pytest.raises(ConfigError, match="--sub-path"):
        SubPaths.parse(flags)


async def test_an_engine_alone_has_no_asynchronous_runs(tmp_path: Path) -> None:
    engine = Bench(folder=tmp_path).engine
    app = create_app(
        app_name="  desk ", engine=engine, slimming=Slimming(omit_evaluation_cases=True)
    )
    async with listening(app) as client:
        absent = await client.post(f"{BASE}/async-runs", json={"run": RUN})
        own = await client.get("/api/v1/runs")
        ran = await client.post(f"{BASE}/runs", json={"run": RUN})
    assert (absent.status_code, absent.json()) == (404, {"error": "not found"})
    assert own.status_code == 404
    assert ran.status_code == 200
    assert '"Cases":null' in ran.text
    assert '"EvalCaseID":"c1","SessionID"' not in ran.text


async def test_a_blocking_run_has_its_time(tmp_path: Path) -> None:
    limits = ServiceLimits(sync_seconds=0.3)
    app = create_app(manager_of(tmp_path, desk_app(tmp_path, Door()), limits=limits))
    async with listening(app) as client:
        late = await client.post(f"{BASE}/runs", json={"run": RUN})
        (run,) = (await app.state.manager.list_runs()).runs
        ended = await app.state.manager.wait("desk", run.run_id)
    assert (late.status_code, late.json()) == (504, {"error": "deadline exceeded"})
    assert ended.status is RunStatus.CANCELED


async def test_a_blocking_run_is_canceled_by_its_client_or_by_another(tmp_path: Path) -> None:
    door = Door()
    app = create_app(manager_of(tmp_path, desk_app(tmp_path, door)))
    manager = app.state.manager
    async with listening(app) as client:
        left = asyncio.create_task(client.post(f"{BASE}/runs", json={"run": RUN}))
        await knocked(door)
        left.cancel()
        waiting = asyncio.create_task(client.post(f"{BASE}/runs", json={"run": RUN}))
        async with asyncio.timeout(120):
            while len(runs := (await manager.list_runs()).runs) < 2:  # noqa: ASYNC110 - in the store
                await asyncio.sleep(0.01)
        await manager.cancel("desk", runs[0].run_id)
        stopped = await waiting
        for run in runs:
            assert (await manager.wait("desk", run.run_id)).status is RunStatus.CANCELED
    assert (stopped.status_code, stopped.json()) == (408, {"error": "run canceled"})


async def test_mounted_in_another_application(tmp_path: Path) -> None:
    manager = manager_of(tmp_path)
    own = FastAPI()
    own.mount("/burnish", create_app(manager))
    async with manager, listening(own) as client:
        made = await client.post(f"/burnish{BASE}/async-runs", json={"run": RUN})
        assert made.headers["location"].startswith(f"/burnish{BASE}/async-runs/")
        found = await client.get(made.headers["location"])
        assert found.status_code == 200
        moved = await client.get(f"/burnish{BASE}/structure/")
        assert moved.headers["location"] == f"/burnish{BASE}/structure"
        assert (await client.get("/burnish/api/v1/health")).json()["status"] == "ok"


async def test_html_in_answers_is_escaped_as_go_does(tmp_path: Path) -> None:
    async with listening(create_app(manager_of(tmp_path))) as client:
        answer = await client.get(f"{BASE}/async-runs/%3Cb%3E&amp")
    assert b"\\u003cb\\u003e\\u0026amp" in answer.content
    assert json.loads(answer.content)["error"].startswith('run "<b>&amp"')
