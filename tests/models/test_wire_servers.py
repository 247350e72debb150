"""The scripted servers themselves, as a user's test would see them."""

import asyncio
import json

import pytest

from burnish.testing.servers import Answer, HttpRequest, ScriptedServer, Status


async def exchange(server: ScriptedServer, request: bytes) -> bytes:
    """Send bytes, read until the server closes or a whole response is there."""
    host, port = server.address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    writer.write_eof()
    found = await reader.read()
    writer.close()
    await writer.wait_closed()
    return found


def post(path: str, body: object) -> bytes:
    data = json.dumps(body).encode()
    return f"POST {path} HTTP/1.1\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


async def test_answers_come_in_order_and_the_last_one_stays() -> None:
    async with ScriptedServer(answers=["one", "two"]) as server:
        found = [await exchange(server, post("/v1/chat/completions", {})) for _ in range(3)]
    assert [b'"two"' in each for each in found] == [False, True, True]


async def test_a_function_sees_the_request() -> None:
    def respond(asked: HttpRequest) -> Answer:
        return asked.json["messages"][-1]["content"].upper()

    async with ScriptedServer(answers=respond) as server:
        body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
        assert b'"HELLO"' in await exchange(server, post("/v1/chat/completions", body))
        assert server.requests[-1].method == "POST"


async def test_what_ollama_lists() -> None:
    async with ScriptedServer(protocol="ollama", models=["a", "b"]) as server:
        found = await exchange(server, b"GET /api/tags HTTP/1.1\r\n\r\n")
    names = [each["name"] for each in json.loads(found.partition(b"\r\n\r\n")[2])["models"]]
    assert names == ["a", "b"]


async def test_a_path_that_the_protocol_does_not_know() -> None:
    async with ScriptedServer() as server:
        assert b" 404 " in await exchange(server, post("/other", {}))


async def test_a_status_of_ones_own() -> None:
    async with ScriptedServer(answers=[Status(599, retry_after=2)]) as server:
        found = await exchange(server, post("/v1/chat/completions", {}))
    assert found.startswith(b"HTTP/1.1 599 ")
    assert b"Retry-After: 2\r\n" in found


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: many\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 10\r\n\r\nfour",
        b"POST / HTTP/1.1\r\nx: " + b"y" * 100_000,
        b"",
    ],
    ids=["words", "length", "huge", "short", "headers", "nothing"],
)
async def test_what_is_not_a_request_is_closed(request_bytes: bytes) -> None:
    async with ScriptedServer() as server:
        assert await exchange(server, request_bytes) == b""
        assert not server.requests


def test_a_server_without_answers_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one answer"):
        ScriptedServer(answers=[])
