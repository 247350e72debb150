"""Addresses on the web that a user names, and HTTP clients for them."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from burnish.models.endpoints import Endpoint

if TYPE_CHECKING:
    import ssl

    from httpx2 import AsyncClient, Client


def is_web_address(url: str) -> bool:
    """Whether this is an http:// or https:// address with a host."""
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def web_client(url: str, *, most_bytes: int | None = None, **options: Any) -> "AsyncClient":
    """A client without a proxy for this machine.

    With `most_bytes`, an answer that is larger raises AnswerTooLarge, and is read no further.
    """
    import httpx2

    from burnish.models.answer_limits import ENCODINGS, reads_at_most

    if most_bytes is not None:
        options["headers"] = {"Accept-Encoding": ENCODINGS, **options.get("headers", {})}
        options["event_hooks"] = {"response": [reads_at_most(most_bytes)]}
    local = Endpoint(address=url, key="").is_local
    return httpx2.AsyncClient(trust_env=not local, verify=_certificates(), **options)


def blocking_client(url: str, **options: Any) -> "Client":
    """The same for threads, without a limit of bytes."""
    import httpx2

    local = Endpoint(address=url, key="").is_local
    return httpx2.Client(trust_env=not local, verify=_certificates(), **options)


def fetched(url: str, headers: Mapping[str, str], *, most_bytes: int, seconds: float) -> bytes:
    """What an address answers to GET; raises ConnectionError with the reason if nothing."""
    import httpx2

    content = bytearray()
    try:
        with (
            blocking_client(url, timeout=seconds, headers=dict(headers)) as client,
            client.stream("GET", url) as response,
        ):
            for piece in response.iter_bytes():
                content += piece
                if len(content) > most_bytes:
                    raise ConnectionError(f"it answered with more than {most_bytes} bytes")
    except (httpx2.HTTPError, OSError) as error:
        raise ConnectionError(str(error) or type(error).__name__) from None
    if not response.is_success:
        raise ConnectionError(f"it answered HTTP {response.status_code}")
    return bytes(content)


@cache
def _certificates() -> "ssl.SSLContext":
    """Reading the certificates takes longer than many a download."""
    import httpx2

    return httpx2.create_ssl_context()
