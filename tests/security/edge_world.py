"""What the tests of the edge share: raw requests, every route of the document, leaks, a proxy."""

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx

VALUES = {"grid": "g", "app": "toy", "run_id": "known", "name": "known.jsonl", "path": "report.md"}
LEAKS = ("Traceback", "sqlalchemy", "psycopg", "pymysql", "sqlite3", "://127.0.0.1:", 'File "/')


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield method.upper(), path, operation


def filled(path: str, values: dict[str, str]) -> str:
    """A path with values for its parameters; PromptIter's app is the desk."""
    values = values | ({"app": "desk"} if "promptiter/v1" in path and "app" not in values else {})
    return path.format(**{**VALUES, **values})


def body_of(path: str) -> dict[str, Any]:
    bodies: dict[str, dict[str, Any]] = {
        "evaluations": {"app": "toy"},
        "grids": {"app": "toy", "models": ["current"]},
        "tags": {"tags": ["nightly"]},
    }
    if body := bodies.get(path.rpartition("/")[2]):
        return body
    return {"run": {}} if "promptiter/v1" in path else {}


@dataclass(frozen=True)
class Answer:
    """A status and everything that was sent."""

    status: int
    text: str

    @property
    def code(self) -> str:
        return json.loads(self.text.partition("\r\n\r\n")[2])["error"]["code"]


async def send(client: httpx.AsyncClient, content: bytes) -> Answer:
    """Send bytes as they are, and read until the service closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
    try:
        with suppress(ConnectionError):
            writer.write(content)
            await writer.drain()
        return await read(reader)
    finally:
        writer.close()


async def read(reader: asyncio.StreamReader) -> Answer:
    content = b""
    with suppress(ConnectionError):
        content = await reader.read()
    text = content.decode("utf-8", "replace")
    return Answer(int(text.split()[1]) if text.startswith("HTTP/1.1 ") else 0, text)


def request(method: str, target: str, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: 127.0.0.1", "Connection: close", *headers]
    if body:
        lines += [f"Content-Length: {len(body)}", "Content-Type: application/json"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def leaks_of(text: str, *secrets: str) -> list[str]:
    return [each for each in (*LEAKS, *secrets) if each in text]


@dataclass
class Proxy:
    """A way to a database that can be cut, and mended."""

    address: str
    _server: asyncio.Server | None = None
    _open: set[asyncio.StreamWriter] = field(default_factory=set[asyncio.StreamWriter])
    port: int = 0

    async def mend(self) -> None:
        sock = socket.create_server(("127.0.0.1", self.port))
        self.port = sock.getsockname()[1]
        self._server = await asyncio.start_server(self._pass, sock=sock)

    async def cut(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._open):
            writer.transport.abort()

    @property
    def through(self) -> str:
        """The address of the database through the proxy."""
        parts = urlsplit(self.address)
        user = parts.netloc.rpartition("@")[0]
        netloc = f"{user}@127.0.0.1:{self.port}" if user else f"127.0.0.1:{self.port}"
        return parts._replace(netloc=netloc).geturl()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parts = urlsplit(self.address)
        there = await asyncio.open_connection(parts.hostname, parts.port)
        self._open |= {writer, there[1]}
        await asyncio.gather(self._copy(reader, there[1]), self._copy(there[0], writer))
        self._open -= {writer, there[1]}

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()
