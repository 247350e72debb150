"""Requests that are slow, large, strange or from elsewhere, on real sockets."""

import asyncio
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from burnish.server import Datasets, RunManager, Security, TokenBook, create_app
from burnish.server.launcher import ConnectionLimits, ServiceLimits
from burnish.server.security import is_plain, public
from burnish.server.stores.records import NewEvent
from burnish.server.tokens import TokenFile
from tests.security.edge_world import (
    VALUES,
    body_of,
    filled,
    leaks_of,
    operations,
    request,
    send,
)
from tests.server.world import RUN, listening, manager_of, toy_app

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("toy_plugin")]
API = "/api/v1"
QUICK = ConnectionLimits(
    head_seconds=0.3, body_seconds=0.3, write_seconds=0.3, idle_seconds=1, linger_seconds=0.3
)
BAD_NAMES = {
    "NUL": "\0",
    "control": "a\x1b[2Jb",
    "newline": "known\n",
    "long": "a" * 5000,
    "parent": "..",
    "path": "../known",
    "absolute": "/etc/passwd",
    "backslash": "..\\known",
    "drive": "C:known",
    "double": "%2e%2e%2fknown",
    "space": " known",
    "unicode": "knöwn",
    "dot": ".known",
    "empty percent": "%00",
}


def service(tmp_path: Path, **limits: Any) -> RunManager:
    manager = manager_of(tmp_path, limits=ServiceLimits(grace_seconds=1.0, **limits))
    Datasets(folder=manager.places.datasets).write("known.jsonl", b'{"input": "a"}\n')
    return manager


async def test_no_name_in_a_path_is_more_than_a_name(tmp_path: Path) -> None:
    async with listening(create_app(service(tmp_path))) as client:
        document = (await client.get(f"{API}/openapi.json")).json()
        asked = 0
        for method, path, _ in operations(document):
            for parameter in VALUES:
                if f"{{{parameter}}}" not in path or (method == "POST" and path.endswith("/runs")):
                    continue
                for kind, name in BAD_NAMES.items():
                    target = filled(path, {parameter: quote(name, safe="").replace(".", "%2E")})
                    body = None if method == "GET" else body_of(path)
                    answer = await client.request(method, target, json=body)
                    own = path.startswith(API) and parameter != "path" and "/" not in name
                    expected = (400,) if own else (400, 404)
                    assert answer.status_code in expected, (method, path, kind, answer.text)
                    assert not leaks_of(answer.text, str(tmp_path)), (path, kind, answer.text)
                    asked += 1
        surrogate = await client.get(f"{API}/apps/%ED%A0%80")
        queries = [
            await client.get(f"{API}/runs", params={name: value})
            for name in ("app", "strategy")
            for value in ("\0", "../x", "a" * 5000)
        ]
    assert asked > 300
    assert surrogate.status_code == 400
    assert {answer.status_code for answer in queries} == {400}


async def test_no_name_in_a_body_is_more_than_a_name(tmp_path: Path) -> None:
    names = [*BAD_NAMES.values(), "\ud800", "a\udfff"]
    async with listening(create_app(service(tmp_path))) as client:
        for name in names:
            bodies: list[tuple[str, Any, tuple[int, ...]]] = [
                (f"{API}/apps/toy/runs", {"id": name}, (400,)),
                (f"{API}/evaluations", {"app": name}, (400,)),
                (f"{API}/evaluations", {"app": "toy", "id": name}, (400,)),
                (f"{API}/apps/toy/runs", {"settings": {"train": name}}, (422,)),
                (f"{API}/apps/toy/runs", {name: 1}, (400, 422)),
                (
                    "/promptiter/v1/apps/desk/async-runs",
                    {"run": {**RUN, "train": [{"evalSetId": name}]}},
                    (400,),
                ),
                ("/promptiter/v1/apps/desk/async-runs", {"run": {**RUN, name: 1}, name: 1}, (201,)),
                (f"/api/experiments/{quote('known')}/refine", {"model": name}, (404, 409, 422)),
            ]
            for target, body, statuses in bodies:
                content = json.dumps(body).encode()
                headers = {"content-type": "application/json"}
                answer = await client.post(target, content=content, headers=headers)
                ok = (*statuses, 429) if 201 in statuses else statuses
                assert answer.status_code in ok, (target, name[:20], answer.text[:300])
                assert not leaks_of(answer.text, str(tmp_path)), (target, name[:20], answer.text)


def test_names() -> None:
    assert all(map(is_plain, ("a", "_a", "a.b-c_d", "a" * 128)))
    assert not any(is_plain(name) for name in [*BAD_NAMES.values(), "", "\ud800", "a" * 129])


def test_what_clients_read_of_messages() -> None:
    assert public("no /tmp/a/b.yaml: 3, GET /api/v1/apps") == "no b.yaml: 3, GET /api/v1/apps"
    assert public("store postgresql://me:x@db/y gone") == "store the database gone"
    assert public("'/usr/lib/x y'") == "'x y'"
    assert public(f"in {Path.home()}/x") == "in x"
    assert public("24/7 and a/b, https://host/tmp/x") == "24/7 and a/b, https://host/tmp/x"


async def test_slow_heads_and_bodies_end(tmp_path: Path) -> None:
    async with listening(create_app(service(tmp_path, connection=QUICK))) as client:
        target = f"{API}/apps/toy/runs"
        heads = [b"", b"GET", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"]
        silent = [await send(client, head) for head in heads]
        head = f"POST {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n".encode()
        body = await send(client, head + b"{")
        chunked = await send(
            client,
            f"PUT {API}/datasets/a.jsonl HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n".encode(),
        )
        second = await send(client, request("GET", f"{API}/health")[:-4].replace(
            b"Connection: close", b"X: y") + b"\r\n\r\nGET ")  # fmt: skip
    assert [answer.status for answer in silent] == [408] * 3
    assert silent[0].code == "request_timeout"
    assert (body.status, body.code) == (408, "request_timeout")
    assert chunked.status == 408
    assert second.text.startswith("HTTP/1.1 200")
    assert "HTTP/1.1 408" in second.text


async def test_a_request_with_two_lengths_is_answered_and_the_connection_closed(
    tmp_path: Path,
) -> None:
    async with listening(create_app(service(tmp_path))) as client:
        head = f"GET {API}/health HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        both = f"{head}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        # What follows could be part of the body for a proxy that reads the other length.
        answer = await send(client, f"{both}{head}\r\n".encode())
    assert answer.status == 200
    assert answer.text.count("HTTP/1.1 ") == 1
    assert "connection: close" in answer.text


async def test_large_heads_and_bodies_are_refused_while_they_arrive(tmp_path: Path) -> None:
    patient = replace(QUICK, head_seconds=60, body_seconds=60)
    limits = {"connection": patient, "body_bytes": 100_000}
    async with listening(create_app(service(tmp_path, **limits))) as client:
        head = await send(client, b"GET / HTTP/1.1\r\nX: " + b"a" * 40_000)
        target = f"PUT {API}/datasets/a.jsonl HTTP/1.1\r\nHost: 127.0.0.1\r\n".encode()
        pieces = b"ffff\r\n" + b"a" * 65_535 + b"\r\n"
        streamed = await send(client, target + b"Transfer-Encoding: chunked\r\n\r\n" + pieces * 2)
        said = await send(client, target + b"Content-Length: 99999999999999999999999\r\n\r\n")
        garbage = await send(client, b"\x16\x03\x01\x02\x00\r\n\r\n")
        broken = await send(client, target + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n")
    assert (head.status, head.code) == (431, "head_too_large")
    assert streamed.status == 413
    assert said.status in (400, 413)
    assert garbage.status == 400
    assert broken.status == 400


async def _stream(client: httpx.AsyncClient, run: str, *headers: str) -> tuple[Any, Any]:
    reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
    writer.write(request("GET", f"{API}/apps/toy/runs/{run}/stream", b"", *headers))
    return reader, writer


async def _crowd(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, listeners: int, bodies: int
) -> list[float]:
    """Open streams and slow bodies; the seconds that health takes meanwhile."""
    connection = replace(QUICK, head_seconds=60, body_seconds=60, write_seconds=60)
    manager = service(tmp_path, listeners=listeners, connection=connection)
    clock, seconds = asyncio.get_running_loop().time, list[float]()
    with caplog.at_level(logging.ERROR):
        async with listening(create_app(manager)) as client:
            await manager.store.create("toy", "run")
            await manager.store.append_event("toy", "run", NewEvent(kind="hello"))
            await manager.store.claim("toy", "run", owner="test", seconds=600)
            streams = [await _stream(client, "run") for _ in range(listeners)]
            for reader, _ in streams:
                await reader.readuntil(b"event: hello")
            one_more = await send(client, request("GET", f"{API}/apps/toy/runs/run/stream"))
            slow = [
                await asyncio.open_connection("127.0.0.1", client.base_url.port)
                for _ in range(bodies)
            ]
            for _, writer in slow:
                writer.write(request("PUT", f"{API}/datasets/a.jsonl", b"x" * 50)[:-40])
            for _ in range(5):
                began = clock()
                assert (await client.get(f"{API}/health")).status_code == 200
                seconds.append(clock() - began)
            assert manager.tails.listeners == listeners
            for _, writer in (*streams, *slow):
                writer.close()
            async with asyncio.timeout(60):
                while manager.tails.listeners:  # noqa: ASYNC110 - when the service notices
                    await asyncio.sleep(0.01)
    assert (one_more.status, one_more.code) == (429, "too_many_listeners")
    assert "'listeners'" in one_more.text
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]
    return seconds


async def test_a_crowd(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert await _crowd(tmp_path, caplog, listeners=30, bodies=20)


@pytest.mark.crowd
async def test_a_large_crowd(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    seconds = await _crowd(tmp_path, caplog, listeners=1500, bodies=400)
    assert max(seconds) < 1.0, seconds


async def test_listeners_of_one_token(tmp_path: Path) -> None:
    tokens = TokenFile(path=tmp_path / "tokens.json")
    one, two = (f"Authorization: Bearer {tokens.add(name)}" for name in ("one", "two"))
    book = TokenBook(path=tokens.path)
    manager = service(tmp_path, listeners=5, listeners_per_token=1)
    app = create_app(manager, security=Security(tokens=book))
    async with listening(app) as client:
        await manager.store.create("toy", "run")
        await manager.store.append_event("toy", "run", NewEvent(kind="hello"))
        first, writer = await _stream(client, "run", one)
        await first.readuntil(b"event: hello")
        stream = request("GET", f"{API}/apps/toy/runs/run/stream", b"", one)
        refused = await send(client, stream)
        other, other_writer = await _stream(client, "run", two)
        await other.readuntil(b"event: hello")
        writer.close()
        other_writer.close()
    assert (refused.status, refused.code) == (429, "too_many_listeners")
    assert "'listeners_per_token'" in refused.text


async def test_what_browsers_are_told(tmp_path: Path) -> None:
    security = Security(tokens=TokenBook(("a-long-secret-of-the-operator",)))
    async with listening(create_app(service(tmp_path), security=security)) as client:
        page = await client.get("/docs")
        style = await client.get("/docs/style.css")
        document = await client.get(f"{API}/openapi.json")
        closed = await client.get(f"{API}/runs")
        image = await client.get(
            f"{API}/health", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
        )
        link = await client.get(
            "/docs", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        )
    assert [page.status_code, style.status_code, document.status_code] == [200] * 3
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "<script" not in page.text
    assert "style=" not in page.text
    assert "http://" not in page.text
    assert "https://" not in page.text
    for answer in (page, style, document, closed):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-frame-options"] == "DENY"
        assert "access-control-allow-origin" not in answer.headers
    assert "frame-ancestors 'none'" in closed.headers["content-security-policy"]
    assert (image.status_code, image.json()["error"]["code"]) == (403, "foreign_site")
    assert link.status_code == 200


async def test_the_document_has_every_dialect(tmp_path: Path) -> None:
    security = Security(tokens=TokenBook(("a-long-secret-of-the-operator",)))
    async with listening(create_app(service(tmp_path), security=security)) as client:
        document = (await client.get(f"{API}/openapi.json")).json()
        page = (await client.get("/docs")).text
    found = {f"{method} {path}": operation for method, path, operation in operations(document)}
    base = "/promptiter/v1/apps/{app}"
    for name in (
        f"GET {base}/structure",
        f"POST {base}/runs",
        f"POST {base}/async-runs",
        f"GET {base}/async-runs/{{run_id}}",
        f"POST {base}/async-runs/{{run_id}}/cancel",
        "POST /api/experiments/{run_id}/refine",
        "GET /api/experiments/{run_id}/refinement_sessions",
    ):
        operation = found[name]
        assert operation["security"], name
        assert {"401", "404", "503"} <= set(operation["responses"]), name
        assert name.split()[1].replace("/", "/<wbr>") in page
    shape = document["components"]["schemas"]["PromptIterRunRequest"]
    assert {"train", "TargetSurfaceIDs", "MaxRounds"} <= set(shape["properties"])


async def test_nothing_of_the_machine_is_in_an_answer_but_files(tmp_path: Path) -> None:
    manager = service(tmp_path)
    broken = tmp_path / "broken.yaml"
    broken.write_text("kind: nothing\n")
    app = create_app(RunManager(
        [*manager.apps.values(), replace(toy_app(tmp_path / "b"), name="broken", path=broken)],
        data=tmp_path / "data", limits=manager.limits))  # fmt: skip
    async with listening(app) as client:
        new = {"id": "known", "settings": {"max_trials": 1}}
        place = (await client.post(f"{API}/apps/toy/runs", json=new)).headers["location"]
        stream = await client.get(f"{place}/stream")
        texts = [stream.text]
        document = (await client.get(f"{API}/openapi.json")).json()
        for method, path, _ in operations(document):
            if method == "GET" and not path.endswith(("/stream", "files/{path}")):
                texts.append((await client.get(filled(path, {}))).text)
        for app_name in ("broken", "desk"):
            texts.append((await client.post(f"{API}/apps/{app_name}/runs", json={})).text)
            texts.append((await client.get(f"{API}/apps/{app_name}/structure")).text)
        missing = {"run": {**RUN, "train": [{"evalSetId": "missing"}]}}
        texts.append((await client.post("/promptiter/v1/apps/desk/runs", json=missing)).text)
    for text in texts:
        found = leaks_of(text, str(tmp_path))
        assert not found, text[max(0, text.find(found[0]) - 200) :][:500]
