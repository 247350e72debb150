"""As much of HTTP/1.1 as a scripted server needs, within bounds."""

import asyncio
import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

LONGEST_BODY = 16 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class HttpRequest:
    """A request as it came in."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    """By their names in lower case."""
    json: Any
    """The body; None when it is empty or not JSON."""


class NotHttp(Exception):
    """What came in is nothing this server reads."""


async def read_request(reader: asyncio.StreamReader) -> HttpRequest | None:
    """The next request of a connection; None when the client has gone."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    except asyncio.LimitOverrunError as error:
        raise NotHttp from error
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, value in _fields(lines)}
    method, target = _request_line(first)
    path, _, query = target.partition("?")
    body = await reader.readexactly(_length(headers))
    return HttpRequest(method=method, path=path, query=query, headers=headers, json=_document(body))


def _fields(lines: list[str]) -> list[tuple[str, str]]:
    return [(name, value) for name, _, value in (line.partition(":") for line in lines if line)]


def _request_line(line: str) -> tuple[str, str]:
    words = line.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise NotHttp
    return words[0], words[1]


def _length(headers: dict[str, str]) -> int:
    length = headers.get("content-length", "0")
    if not length.isdigit() or int(length) > LONGEST_BODY or "transfer-encoding" in headers:
        raise NotHttp
    return int(length)


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
