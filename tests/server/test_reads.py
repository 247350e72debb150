"""Frequent reads: the short way answers like the usual one, and nothing is shown as it was."""

import asyncio
import math
import socket
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from burnish.runs.spec import TAGS
from burnish.server import RunManager, create_app, open_store
from burnish.server import runs as server_runs
from burnish.server.application import Shortcut
from burnish.server.runs import Tails
from burnish.server.security import Security
from burnish.server.stores import MemoryRunStore, NewEvent, RunChanges, RunStatus, Where
from burnish.server.tokens import TokenBook

API = "/api/v1"
TOKEN = "a-token-of-this-test"
REQUESTS = (
    "/apps/a/runs/one",
    "/apps/a/runs/one?result=false",
    "/apps/a/runs/one?result=maybe",
    "/apps/a/runs/none",
    "/apps/b/runs/one",
    "/apps/a/runs/-one",
    "/apps/a/runs/one%0A",
    "/apps/a/runs/..",
    "/runs",
    "/runs?app=a",
    "/runs?app=a&app=b",
    "/runs?limit=1",
    "/runs?limit=1&cursor=before-2",
    "/runs?limit=1&cursor=nonsense",
    "/runs?limit=0",
    "/runs?limit=many",
    "/runs?app=-a",
    "/runs?app=%00",
    "/runs?status=failed&n=1",
    "/runs?status=",
    "/runs?status=lost&limit=0",
    "/runs?tag=x",
    f"/runs?tag={'x' * 51}",
    "/evaluations",
)


@asynccontextmanager
async def manager_in(folder: Path) -> AsyncGenerator[RunManager]:
    store = await open_store(f"sqlite:///{folder / 'runs.db'}")
    manager = RunManager([], data=folder, store=store)
    try:
        for app, run in (("a", "one"), ("b", "two")):
            await store.create(app, run, request={"settings": {}, "spec": {"secret": 1}})
        await store.update("a", "one", RunChanges(error=f"no file {folder / 'x'}", best_score=0.5))
        yield manager
    finally:
        await manager.close()


def client_of(app: FastAPI, **headers: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers)


def without_shortcuts(app: FastAPI) -> FastAPI:
    app.router.routes[:] = [each for each in app.router.routes if not isinstance(each, Shortcut)]
    return app


@pytest.mark.parametrize("token", ["", "wrong", TOKEN])
async def test_the_short_way_answers_like_the_usual_one(tmp_path: Path, token: str) -> None:
    book = TokenBook((TOKEN,), tmp_path / "tokens.json")
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with manager_in(tmp_path) as manager:
        short = create_app(manager, security=Security(tokens=book))
        usual = without_shortcuts(create_app(manager, security=Security(tokens=book)))
        assert len(short.router.routes) == len(usual.router.routes) + 2
        async with client_of(short, **headers) as one, client_of(usual, **headers) as other:
            for path in REQUESTS:
                for method in ("GET", "HEAD", "POST"):
                    answer = await one.request(method, API + path)
                    expected = await other.request(method, API + path)
                    assert answer.status_code == expected.status_code, (method, path)
                    assert answer.headers == expected.headers, (method, path)
                    assert answer.content == expected.content, (method, path)
                    assert str(tmp_path) not in answer.text
                    assert token == TOKEN or answer.status_code in (401, 429)


async def test_what_another_process_writes_is_shown_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_runs, "RECENT", 0.0)  # but tags in lists: a second later
    async with manager_in(tmp_path) as manager, client_of(create_app(manager)) as client:

        async def shown() -> list[tuple[str, str, list[str]]]:
            single = (await client.get(f"{API}/apps/a/runs/one")).json()
            listed = (await client.get(f"{API}/runs", params={"app": "a"})).json()["runs"]
            assert listed == [{**single, "request": None}]
            return [(each["status"], each["error"], each["tags"]) for each in listed]

        folder = tmp_path / "run"
        await manager.store.update("a", "one", RunChanges(where=Where(folder=str(folder))))
        before = [await shown(), await shown()]
        with closing(sqlite3.connect(tmp_path / "runs.db")) as db:
            # Not even updated_at tells that something has changed.
            db.execute("UPDATE burnish_runs SET status = 'failed', error = 'e' WHERE id = 1")
            db.commit()
        written = await shown()
        folder.mkdir()
        (folder / "run.json").write_text("{}")
        (folder / TAGS).write_text('["t"]')
        tagged = await shown()
        (folder / TAGS).write_text('["other"]')
        again = await shown()
    assert before[0] == before[1] == [("queued", "no file x", [])]
    assert written == [("failed", "e", [])]
    assert (tagged, again) == ([("failed", "e", ["t"])], [("failed", "e", ["other"])])


async def test_lists_look_for_tags_once_a_second_and_after_they_were_set_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_runs, "RECENT", math.inf)
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text("{}")
    async with manager_in(tmp_path) as manager, client_of(create_app(manager)) as client:
        where = Where(folder=str(folder), host=socket.gethostname())
        await manager.store.update("a", "one", RunChanges(where=where))

        async def tags(**query: str) -> list[list[str]]:
            listed = await client.get(f"{API}/runs", params={"app": "a", **query})
            return [run["tags"] for run in listed.json()["runs"]]

        assert await tags() == [[]]
        (folder / TAGS).write_text('["theirs"]')
        assert (await client.get(f"{API}/apps/a/runs/one")).json()["tags"] == ["theirs"]
        assert await tags() == [[]]
        assert await tags(tag="theirs") == [["theirs"]]  # a question about tags is not guessed at
        ours = await client.put(f"{API}/apps/a/runs/one/tags", json={"tags": ["ours"]})
        assert ours.json()["tags"] == ["ours"]
        assert await tags() == [["ours"]]


async def test_runs_of_two_stores_with_the_same_names_are_not_mistaken(tmp_path: Path) -> None:
    for name, status in (("x", RunStatus.FAILED), ("y", RunStatus.SUCCEEDED)):
        (tmp_path / name).mkdir()
        async with manager_in(tmp_path / name) as manager:
            await manager.store.update("a", "one", RunChanges(status=status, error=name))
            async with client_of(create_app(manager)) as client:
                runs = (await client.get(f"{API}/runs?app=a")).json()["runs"]
        assert [(run["status"], run["error"]) for run in runs] == [(status.value, name)]


async def test_a_silent_stream_has_heartbeats_and_ends_with_its_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_runs, "_HEARTBEAT_SECONDS", 0.05)
    monkeypatch.setattr(server_runs, "_LOOK_SECONDS", 0.05)
    store = MemoryRunStore()
    await store.create("a", "one")
    tails = Tails(store)

    async def listen(heard: list[bytes]) -> None:
        async for frame in tails.listen("a", "one", after=0, newest=0):
            heard.append(frame)  # noqa: PERF401 - it is looked at meanwhile

    first, second = list[bytes](), list[bytes]()
    listeners = [asyncio.create_task(listen(each)) for each in (first, second)]
    async with asyncio.timeout(20):
        while min(len(first), len(second)) < 2:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.01)
    for number in range(300):  # more than are read at once, and than are kept
        await store.append_event("a", "one", NewEvent(kind=f"k{number}"))
    tails.announce("a", "one")
    await asyncio.sleep(0.3)
    await store.delete("a", "one")
    await asyncio.wait_for(asyncio.gather(*listeners), 20)
    await store.close()
    frames = [frame for frame in first if frame.startswith(b"id:")]
    assert [int(frame[4:].split(b"\n")[0]) for frame in frames] == [*range(1, 301)]
    assert frames == [frame for frame in second if frame.startswith(b"id:")]
    assert first[:2] == second[:2] == [b": still here\n\n"] * 2
    assert first[-1] == second[-1] == b'event: end\ndata: {"status":"canceled"}\n\n'
