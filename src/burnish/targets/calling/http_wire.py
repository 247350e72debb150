"""One exchange over HTTP, within bounds: no redirects, no retries, no endless answers."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from burnish.models.endpoints import Endpoint

if TYPE_CHECKING:
    import ssl

    from httpx2 import AsyncClient, Response

LONGEST_BODY = 8 * 1024 * 1024
CONNECTING = 15.0
"""Seconds for opening a connection; the whole exchange is under the agent's own limit."""


async def exchanged(
    client: "AsyncClient", method: str, url: str, content: bytes, headers: Mapping[str, str]
) -> tuple[int, str | None, str]:
    """Status, body (None where it is too long) and where a redirect leads."""
    async with client.stream(method, url, content=content, headers=headers) as response:
        text = await _text(response)
        return response.status_code, text, response.headers.get("location", "")


async def _text(response: "Response") -> str | None:
    read = bytearray()
    async for part in response.aiter_bytes():
        read += part
        if len(read) > LONGEST_BODY:
            return None
    return read.decode(response.charset_encoding or "utf-8", errors="replace")


def transport_errors() -> tuple[type[Exception], ...]:
    """What is raised when nobody answers, or not to the end."""
    import httpx2

    return (httpx2.TransportError, OSError)


def client_for(url: str) -> "AsyncClient":
    """No redirects, no retries, no proxy to this machine; the time limit is ours."""
    import httpx2

    place = Endpoint(address=url, key="")
    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(None, connect=CONNECTING),
        trust_env=not place.is_local,
        verify=_trust(),
    )


@cache
def _trust() -> "ssl.SSLContext":
    """Reading the certificates of the world takes a while: once is enough."""
    import httpx2

    return httpx2.create_ssl_context()
