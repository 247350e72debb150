"""The subset of HTTP/1.1 that a scripted server needs."""

import asyncio
import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

_LONGEST_BODY = 16 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class HttpRequest:
    """An HTTP request."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    """By lower-case name."""
    json: Any
    """The body; None if it is empty or not JSON."""


class NotHttp(Exception):
    """The server cannot read the request."""


async def read_request(reader: asyncio.StreamReader) -> HttpRequest | None:
    """The next request of a connection; None if the client has disconnected."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    except asyncio.LimitOverrunError as error:
        raise NotHttp from error
    first, *lines = head.decode("latin-1").split("\r\n")
    fields = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in fields}
    match first.split(" "):
        case [method, target, version] if version.startswith("HTTP/1."):
            path, _, query = target.partition("?")
        case _:
            raise NotHttp
    length = headers.get("content-length", "0")
    if not length.isdigit() or int(length) > _LONGEST_BODY or "transfer-encoding" in headers:
        raise NotHttp
    body = await reader.readexactly(int(length))
    return HttpRequest(method=method, path=path, query=query, headers=headers, json=_document(body))


def _document(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def head(
    status: int, length: int, *, kind: str = "application/json", more: dict[str, str] | None = None
) -> bytes:
    """The status line and headers of a response."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Scripted"
    fields = {"Content-Type": kind, "Content-Length": str(length), **(more or {})}
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in fields.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
