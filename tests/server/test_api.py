"""The product's own API: runs, their details and events, datasets, evaluations."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest

from burnish.server import Datasets, FileApp, create_app
from burnish.server.stores import RunStatus
from burnish.testing.servers import ScriptedServer
from tests.server.world import (
    RUN,
    Door,
    calls,
    desk_app,
    knocked,
    listening,
    manager_of,
    toy_app,
    until,
)

pytestmark = pytest.mark.slow
API = "/api/v1"
CASES = '{"input": "two and two", "ground_truth": "4"}\n{"input": "one", "ground_truth": "1"}\n'


async def ended(client: httpx.AsyncClient, place: str) -> dict[str, Any]:
    """A run once its stream has ended."""
    async with client.stream("GET", f"{place}/stream") as stream:
        text = (await stream.aread()).decode()
    assert 'event: end\ndata: {"status":' in text
    return (await client.get(place)).json()


async def test_a_run_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    async with listening(create_app(manager_of(tmp_path))) as client:
        new = {"id": "mine", "settings": {"max_trials": 2, "tags": ["nightly"]}}
        made = await client.post(f"{API}/apps/toy/runs", json=new)
        assert made.status_code == 201, made.text
        place = made.headers["location"]
        twice = await client.post(f"{API}/apps/toy/runs", json=new)
        run = await ended(client, place)
        trials = (await client.get(f"{place}/trials", params={"offset": 1, "limit": 1})).json()
        candidates = (await client.get(f"{place}/candidates")).json()["candidates"]
        files = (await client.get(f"{place}/files")).json()["files"]
        header = await client.get(f"{place}/files/run.json")
        report = await client.get(f"{place}/report")
        tagged = await client.put(f"{place}/tags", json={"tags": ["b", "a b", "b"]})
        bad = await client.put(f"{place}/tags", json={"tags": ["<b>"]})
        lists = [
            (await client.get(f"{API}/runs", params={"tag": tag})).json()["runs"]
            for tag in ("a b", "nightly")
        ]
        gone = await client.delete(place)
        after = await client.get(place)
    assert (made.status_code, place) == (201, f"{API}/apps/toy/runs/mine")
    assert (twice.status_code, twice.json()["error"]["code"]) == (409, "run_exists")
    assert (run["status"], run["result"]["ended"], run["current_round"]) == (
        "succeeded", "max_trials", 2,
    )  # fmt: skip
    assert (trials["total"], [row["trial_id"] for row in trials["trials"]]) == (3, [1])
    assert candidates[0]["trial"] == 0
    assert "trials.jsonl" in {each["path"] for each in files}
    assert not [each for each in files if each["path"].startswith(("journal", "run.lock"))]
    assert header.json()["id"] == "mine"
    assert header.headers["content-disposition"] == "attachment"
    assert report.text.startswith("# mine")
    assert run["tags"] == ["nightly"]
    assert (tagged.json()["tags"], bad.status_code) == (["a b", "b"], 422)
    assert [[each["id"] for each in runs] for runs in lists] == [["mine"], []]
    assert (gone.status_code, after.status_code) == (204, 404)


async def test_lists_are_filtered_and_paged(tmp_path: Path) -> None:
    async with listening(create_app(manager_of(tmp_path))) as client:
        for number in range(3):
            new = {"id": f"t{number}", "settings": {"max_trials": 1}}
            await client.post(f"{API}/apps/toy/runs", json=new)
        made = await client.post(
            f"{API}/apps/desk/runs", json={"id": "d", "kind": "promptiter", "promptiter": RUN}
        )
        assert made.status_code == 201, made.text
        place = made.headers["location"]
        await ended(client, place)

        async def listed(**which: Any) -> tuple[list[str], str]:
            page = (await client.get(f"{API}/runs", params=which)).json()
            return [run["id"] for run in page["runs"]], page["cursor"]

        first, cursor = await listed(limit=3)
        second, last = await listed(limit=3, cursor=cursor)
        assert first + second == ["d", "t2", "t1", "t0"]
        assert last == ""
        assert await listed(strategy="climb", app="toy", limit=1) == (["t2"], cursor) or cursor
        assert (await listed(status="succeeded", app="desk"))[0] == ["d"]
        assert (await listed(status="failed"))[0] == []
        seed = (await client.get(f"{place}/promptiter")).json()["result"]
        wrong = await client.get(f"{API}/runs", params={"cursor": "nonsense", "limit": 2})
    assert seed["Status"] == "succeeded"
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (422, "invalid_request")


async def test_events_can_be_taken_up_again_by_their_number(tmp_path: Path) -> None:
    door = Door(after=3)
    app = create_app(manager_of(tmp_path, desk_app(tmp_path, door)))
    async with listening(app) as client:
        new = {"kind": "promptiter", "promptiter": RUN}
        place = (await client.post(f"{API}/apps/desk/runs", json=new)).headers["location"]
        await knocked(door)
        async with client.stream("GET", f"{place}/stream") as stream:
            seen = [line async for line in _first(stream, 3)]
        door.open.set()
        rest = await client.get(f"{place}/stream", headers={"Last-Event-ID": "3"})
        every = (await client.get(f"{place}/events", params={"limit": 200})).json()["events"]
        number = every[-1]["number"]
        over = await client.get(f"{place}/stream", headers={"Last-Event-ID": str(number)})
    assert seen == ["id: 1", "id: 2", "id: 3"]
    told = [line[4:] for line in rest.text.splitlines() if line.startswith("id: ")]
    assert told == [str(each["number"]) for each in every[3:]]
    data = [json.loads(line[6:]) for line in rest.text.splitlines() if line.startswith("data: {")]
    assert data[0] == every[3]
    assert rest.text.endswith('event: end\ndata: {"status":"succeeded"}\n\n')
    assert over.status_code == 204


async def _first(stream: httpx.Response, count: int) -> AsyncGenerator[str, None]:
    async for line in stream.aiter_lines():
        if line.startswith("id: "):
            yield line
            count -= 1
            if not count:
                return


async def test_listeners_hear_what_another_process_drives(tmp_path: Path) -> None:
    """The second manager drives nothing here: it looks into the store."""
    app = toy_app(tmp_path)
    one = manager_of(tmp_path, app)
    other = create_app(manager_of(tmp_path, toy_app(tmp_path), store=one.store))
    async with one, listening(other) as client:
        await one.start("toy", {"settings": {"max_trials": 1}}, run_id="x")
        heard = await client.get(f"{API}/apps/toy/runs/x/stream")
    assert heard.text.endswith('event: end\ndata: {"status":"succeeded"}\n\n')
    assert "event: run_finished" in heard.text


async def test_cancel_and_resume(tmp_path: Path) -> None:
    door = Door(after=2)
    app = create_app(manager_of(tmp_path, desk_app(tmp_path, door)))
    async with listening(app) as client:
        new = {"id": "r", "kind": "promptiter", "promptiter": RUN}
        place = (await client.post(f"{API}/apps/desk/runs", json=new)).headers["location"]
        await knocked(door)
        locked = await client.delete(place)
        canceled = await client.post(f"{place}/cancel")
        await until(app.state.manager, "desk", "r", RunStatus.CANCELED)
        again = await client.post(f"{place}/cancel")
        door.open.set()
        resumed = await client.post(f"{place}/resume")
        run = await ended(client, place)
    assert (locked.status_code, locked.json()["error"]["code"]) == (409, "run_locked")
    assert (canceled.status_code, resumed.status_code) == (202, 202)
    assert (again.status_code, again.json()["error"]["code"]) == (409, "run_not_running")
    assert run["status"] == "succeeded"


async def test_a_run_whose_file_says_something_else_is_not_resumed(tmp_path: Path) -> None:
    app = toy_app(tmp_path, seconds=0.05)
    async with listening(create_app(manager_of(tmp_path, app))) as client:
        made = await client.post(f"{API}/apps/toy/runs", json={"id": "r"})
        place = made.headers["location"]
        async with asyncio.timeout(120):
            while not calls(tmp_path):  # noqa: ASYNC110 - a file
                await asyncio.sleep(0.01)
        await client.post(f"{place}/cancel")
        await ended(client, place)
        before = app.path.read_text()
        app.path.write_text(f"{before}seed: 99\n")
        refused = await client.post(f"{place}/resume")
        app.path.write_text(f"{before}# as it was\n")
        resumed = await client.post(f"{place}/resume")
        await ended(client, place)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "resume_refused")
    assert "seed: not set → 99" in refused.text
    assert resumed.status_code == 202, resumed.text


async def test_a_run_is_resumed_while_its_last_files_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door, closing, may_close = Door(after=2), asyncio.Event(), asyncio.Event()
    manager = manager_of(tmp_path, desk_app(tmp_path, door))
    settle, get = manager.accounting.settle, manager.store.get

    async def settle_late(*args: Any) -> None:
        closing.set()
        await may_close.wait()
        await settle(*args)

    async def seen(*args: Any, **more: Any) -> Any:
        record = await get(*args, **more)
        asyncio.get_running_loop().call_soon(may_close.set)  # after the next step of who asked
        return record

    monkeypatch.setattr(manager.accounting, "settle", settle_late)
    async with listening(create_app(manager)) as client:
        new = {"id": "r", "kind": "promptiter", "promptiter": RUN}
        place = (await client.post(f"{API}/apps/desk/runs", json=new)).headers["location"]
        await knocked(door)
        await client.post(f"{place}/cancel")
        await closing.wait()
        door.open.set()
        monkeypatch.setattr(manager.store, "get", seen)
        resumed = await client.post(f"{place}/resume")
        run = await ended(client, place)
    assert resumed.status_code == 202
    assert run["status"] == "succeeded"


async def test_datasets_and_evaluations(tmp_path: Path) -> None:
    async with listening(create_app(manager_of(tmp_path))) as client:
        place = f"{API}/datasets/sums.jsonl"
        kept = await client.put(place, content=CASES.encode())
        bad = await client.put(f"{API}/datasets/bad.jsonl", content=b"{nonsense")
        names = (await client.get(f"{API}/datasets")).json()
        page = (await client.get(place, params={"offset": 1})).json()
        used = {"settings": {"train": "missing.jsonl"}}
        missing = await client.post(f"{API}/apps/toy/runs", json=used)
        gone = await client.delete(place)
        after = await client.get(place)
        none = await client.get(f"{API}/evaluations")
        unfit = await client.post(f"{API}/evaluations", json={"app": "desk"})
    assert (kept.status_code, kept.json()["cases"]) == (201, 2)
    assert bad.status_code == 422
    assert bad.json()["error"]["problems"][0]["where"].startswith("bad.jsonl")
    assert names == {"datasets": ["sums.jsonl"]}
    assert (page["cases"], len(page["page"])) == (2, 1)
    # The toy world brings its own cases.
    assert missing.status_code == 422
    assert "does not use it" in missing.text
    assert (gone.status_code, after.status_code) == (204, 404)
    assert none.json() == {"runs": [], "cursor": ""}
    assert unfit.status_code == 422


async def test_a_table_with_columns_of_its_own(tmp_path: Path) -> None:
    table = b"Ticket No,Message body,Queue\n0,Where is my parcel?,delivery\n1,I paid twice,bill\n"
    odd = b"Body,Note\nWhere is my parcel?,x\nI paid twice,y\n"
    async with listening(create_app(manager_of(tmp_path))) as client:
        place = f"{API}/datasets/tickets.csv"
        kept = await client.put(place, content=table)
        page = (await client.get(place)).json()
        named = await client.put(
            f"{API}/datasets/odd.csv", content=odd, params={"input": "Note", "expected": "Body"}
        )
        setting = await client.put(
            f"{API}/datasets/more.csv", content=table.replace(b"\n", b",path\n")
        )
        numbers = await client.put(f"{API}/datasets/n.csv", content=b"Nr,Day\n0,2026-01-01\n")
    assert kept.status_code == 201
    assert kept.json()["columns"] == {
        "input": {"column": "Message body", "sample": "Where is my parcel?"},
        "expected": {"column": "Queue", "sample": "delivery"},
        "name": {"column": "Ticket No", "sample": "0"},
    }
    assert page["columns"] == {}, "it is stored under the usual names"
    assert [case["name"] for case in page["page"]] == ["0", "1"]
    assert named.json()["columns"]["input"] == {"column": "Note", "sample": "x"}
    assert setting.status_code == 422
    assert "cases[0].path: the service does not read its own files" in setting.text
    assert numbers.status_code == 422
    assert "no column is plainly the question" in numbers.text


async def test_an_evaluation_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "served_echo_agent.py").write_text(
        "async def answer(question: str) -> str:\n    return question\n"
    )
    file = tmp_path / "echo.yaml"
    file.write_text(
        "kind: python\ntarget: {call: 'served_echo_agent:answer', usd_per_call: 0}\n"
        "cases: cases.jsonl\nmetrics: [{type: standard, metric: equality}]\n"
    )
    (tmp_path / "cases.jsonl").write_text(CASES)
    datasets = Datasets(folder=tmp_path / "data" / "datasets")
    datasets.write("echo.jsonl", b'{"input": "a", "ground_truth": "a"}\n')
    app = FileApp(name="echo", path=file, datasets=datasets)
    async with listening(create_app(manager_of(tmp_path, app))) as client:
        new = {"app": "echo", "id": "e", "settings": {"cases": "echo.jsonl"}}
        made = await client.post(f"{API}/evaluations", json=new)
        assert made.status_code == 201, made.text
        run = await ended(client, f"{API}/apps/echo/runs/e")
        report = (await client.get(made.headers["location"])).json()
        listed = (await client.get(f"{API}/evaluations", params={"app": "echo"})).json()
    assert (run["status"], run["strategy"]) == ("succeeded", "measure"), run["error"]
    assert report["summary"]["total_tests"] == 1
    assert [each["id"] for each in listed["runs"]] == ["e"]


async def test_a_file_that_names_its_strategy_is_measured(tmp_path: Path) -> None:
    """Also as a grid, whose columns are measurements."""
    (tmp_path / "named_strategy_agent.py").write_text("def answer(question):\n    return 'b'\n")
    (tmp_path / "s.md").write_text("Say it.\n")
    (tmp_path / "cases.jsonl").write_text(CASES)
    file = tmp_path / "echo.yaml"
    file.write_text(
        "kind: prompts\ntarget: {python: {call: 'named_strategy_agent:answer', usd_per_call: 0}}\n"
        "prompts: {system: s.md}\nisolation: isolated\ntrain: cases.jsonl\n"
        "metrics: [{type: standard, metric: equality}]\n"
        "strategy: backprop\nbackprop: {max_rounds: 2}\n"
    )
    app = FileApp(name="echo", path=file, datasets=Datasets(folder=tmp_path / "data" / "datasets"))
    async with listening(create_app(manager_of(tmp_path, app))) as client:
        one = await client.post(f"{API}/evaluations", json={"app": "echo", "id": "e"})
        grid: dict[str, Any] = {"app": "echo", "id": "g", "values": {"system": ["A.", "B."]}}
        columns = await client.post(f"{API}/grids", json=grid)
        assert (one.status_code, columns.status_code) == (201, 201), one.text + columns.text
        for name in ("e", "g-1", "g-2"):
            run = await ended(client, f"{API}/apps/echo/runs/{name}")
            assert (run["status"], run["strategy"]) == ("succeeded", "measure"), run["error"]


@pytest.mark.parametrize(
    ("settings", "status", "words"),
    [
        ({"max_calls": 1}, 201, "it looked further than its limit"),
        ({"metrics": ["equalty"]}, 422, "no such metric — did you mean 'equality'?"),
        ({"judge": "openai:gpt-4o"}, 403, "judge: 'openai:gpt-4o' is not allowed here"),
        ({"repeats": 0}, 422, "body.settings.repeats"),
        ({"max_trials": 3}, 422, "body.settings.max_trials"),
        ({"train": "cases.jsonl"}, 422, "body.settings.train"),
        ({"strategy": "reflective"}, 422, "body.settings.strategy"),
    ],
)
async def test_settings_of_an_evaluation_are_those_of_a_measurement(
    tmp_path: Path, settings: dict[str, Any], status: int, words: str
) -> None:
    (tmp_path / "limited_echo_agent.py").write_text("def answer(question):\n    return question\n")
    file = tmp_path / "echo.yaml"
    file.write_text(
        "kind: python\ntarget: {call: 'limited_echo_agent:answer', usd_per_call: 0}\n"
        "cases: cases.jsonl\nmetrics: [{type: standard, metric: equality}]\n"
    )
    (tmp_path / "cases.jsonl").write_text(CASES)
    app = FileApp(name="echo", path=file, datasets=Datasets(folder=tmp_path / "data" / "datasets"))
    manager = manager_of(tmp_path, app)
    async with listening(create_app(manager)) as client:
        new = {"app": "echo", "id": "e", "settings": settings}
        made = await client.post(f"{API}/evaluations", json=new)
        assert made.status_code == status, made.text
        if status != 201:
            assert words in made.text
            return
        await ended(client, f"{API}/apps/echo/runs/e")
        none = await client.get(made.headers["location"])
        assert none.status_code == 404, words
        kept = (await manager.get("echo", "e")).request
    assert isinstance(kept, dict)
    spec = kept["spec"]
    assert isinstance(spec, dict)
    assert spec["budget"] == {"max_calls": 1}
    assert spec["strategy"] == {"name": "measure", "settings": {}}


async def test_limits_under_which_no_round_could_end_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nobody-is-asked")
    (tmp_path / "rounds_echo_agent.py").write_text("def answer(question):\n    return question\n")
    (tmp_path / "system.md").write_text("Answer.")
    file = tmp_path / "echo.yaml"
    file.write_text(
        "kind: prompts\ntarget: {python: 'rounds_echo_agent:answer'}\n"
        "prompts: {system: system.md}\ntrain: train.jsonl\nholdout: held.jsonl\n"
        "metrics: [{type: standard, metric: equality}]\nreflector: openai:gpt-4o\n"
    )
    for name, words in (("train", "abcd"), ("held", "efg")):
        rows = (f'{{"input": "say {each}", "expected": "{each}"}}\n' for each in words)
        (tmp_path / f"{name}.jsonl").write_text("".join(rows))
    app = FileApp(name="echo", path=file, datasets=Datasets(folder=tmp_path / "data" / "datasets"))
    manager = manager_of(tmp_path, app)
    async with listening(create_app(manager)) as client:
        new = {"id": "e", "settings": {"max_calls": 5}}
        answer = await client.post(f"{API}/apps/echo/runs", json=new)
        assert (await manager.list_runs()).runs == ()
    assert answer.status_code == 422, answer.text
    (problem,) = answer.json()["error"]["problems"]
    assert "5 calls cannot finish one round" in problem["message"]
    assert problem["remedy"].startswith("allow 23 or more")


async def test_unknown_fields_and_strange_requests_are_refused(tmp_path: Path) -> None:
    wrong: list[tuple[dict[str, Any], int, str]] = [
        ({"json": {"more": 1}}, 422, "body.more"),
        ({"json": {"settings": {"max_trials": "3"}}}, 422, "body.settings.max_trials"),
        ({"json": {"settings": {"in_place": True}}}, 422, "body.settings.in_place"),
        ({"json": {"kind": "promptiter", "promptiter": RUN | {"Odd": 1}}}, 422, "run"),
        ({"content": b"{"}, 422, "body"),
        ({"json": {"settings": {"agent": "os:system"}}}, 422, "settings.agent"),
    ]
    async with listening(create_app(manager_of(tmp_path))) as client:
        for more, status, where in wrong:
            answer = await client.post(f"{API}/apps/toy/runs", **more)
            assert answer.status_code == status, (more, answer.text)
            if where:
                assert answer.json()["error"]["problems"][0]["where"].startswith(where)
        nowhere = await client.get("/api/v1/nowhere")
        method = await client.delete(f"{API}/runs")
        ready = (await client.get(f"{API}/ready")).json()
        metrics = (await client.get(f"{API}/metrics")).text
    assert nowhere.json()["error"]["code"] == "not_found"
    assert (method.status_code, method.json()["error"]["code"]) == (405, "method_not_allowed")
    assert "allow" in method.headers
    assert (ready["apps"], ready["left"]) == (["desk", "toy"], [])
    assert 'burnish_http_requests_total{method="POST",status="422"} 6' in metrics


async def test_open_streams_do_not_hold_up_a_shutdown(tmp_path: Path) -> None:
    door = Door()
    app = create_app(manager_of(tmp_path, desk_app(tmp_path, door)))
    manager = app.state.manager
    async with listening(app) as client:
        await manager.start("desk", {"kind": "promptiter", "promptiter": RUN}, run_id="x")
        await knocked(door)
        listener = asyncio.create_task(client.get(f"{API}/apps/desk/runs/x/stream"))
        async with asyncio.timeout(120):
            while not manager.tails.listeners:  # noqa: ASYNC110 - another object's state
                await asyncio.sleep(0.01)
        manager.ask_to_stop()
        door.open.set()
        heard = await listener
    assert "event: end" not in heard.text, "it has not ended: it goes on later"


async def test_a_stream_that_begins_while_the_service_closes_ends(tmp_path: Path) -> None:
    door = Door()
    async with manager_of(tmp_path, desk_app(tmp_path, door)) as manager:
        await manager.start("desk", {"kind": "promptiter", "promptiter": RUN}, run_id="x")
        await knocked(door)
        leave = manager.tails.admit("")
        manager.ask_to_stop()
        async with asyncio.timeout(120):
            frames = [frame async for frame in manager.tails.listen("desk", "x", after=0, newest=0)]
        leave()
        door.open.set()
    assert frames == []


PROMPTS = """\
kind: prompts
target: {python: "agent:call_agent"}
prompts: {system: system.md}
train: train.jsonl
holdout: holdout.jsonl
metrics: [{type: standard, metric: equality}]
reflector: {ref: "openai:m", base_url: "%s"}
budget: {max_trials: 1}
wait_minutes: 0
"""


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            "raise ConnectionError('connection refused')",
            "the baseline could not be measured: of 3 cases of holdout, 3 are missing; "
            "in 3 cases: ConnectionError: connection refused",
        ),
        ("return 'no idea'", "the reflector never gave a usable answer: reflector answered twice"),
    ],
)
async def test_a_run_that_is_no_result_has_failed(tmp_path: Path, body: str, words: str) -> None:
    (tmp_path / "agent.py").write_text(f"async def call_agent(query):\n    {body}\n")
    (tmp_path / "system.md").write_text("Answer the question that you are asked.\n")
    for name, first in (("train", 0), ("holdout", 3)):
        rows = [{"input": f"say {n}", "ground_truth": f"{n}"} for n in range(first, first + 3)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    async with ScriptedServer(answers=["This is no JSON."]) as server:
        (tmp_path / "prompts.yaml").write_text(PROMPTS % server.base_url)
        datasets = Datasets(folder=tmp_path / "data" / "datasets")
        app = FileApp(name="prompts", path=tmp_path / "prompts.yaml", datasets=datasets)
        async with listening(create_app(manager_of(tmp_path, app))) as client:
            made = await client.post(f"{API}/apps/prompts/runs", json={"id": "mine"})
            run = await ended(client, made.headers["location"])
    assert run["status"] == "failed"
    assert words in run["error"]
