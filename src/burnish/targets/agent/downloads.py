"""Files at an address: fetched within bounds, and kept where the case asks for it."""

import asyncio
import hashlib
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from burnish.effects.retries import RetryPolicy, retry
from burnish.system import Redactor, expand_variables, read_bytes, write_atomic
from burnish.system.files import Unreadable, file_trouble, state_folder
from burnish.targets.agent.document_limits import require_size

if TYPE_CHECKING:
    import ssl

    from httpx2 import AsyncClient, Response

REDIRECTS = 5
SECONDS = 30.0
PATIENCE = RetryPolicy(attempts=3)
LONGEST_WAIT = 30.0
"""Seconds waited at most when the other side asks for a pause."""
_LATER = {408, 425, 429}


class DownloadFailed(ConnectionError):
    """Nobody answered, or nothing whole came: another time it may."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds the other side asked to wait."""


def full_address(url: str) -> str:
    """The address with its variables; Unreadable where it is none that can be fetched."""
    full = expand_variables(url, os.environ)
    try:
        parts = urlsplit(full)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound:
        remedy = "Give an address that begins with http:// or https://."
        raise Unreadable("it is no address of the web", remedy=remedy)
    return full


async def download(
    url: str, *, patience: RetryPolicy = PATIENCE, seconds: float = SECONDS
) -> bytes:
    """What is at an address; tried again where that may help.

    Raises DownloadFailed when nobody answers, Unreadable when the answer is no.
    """
    address = full_address(url)
    shown = Redactor.from_environment().text(url)

    async def attempt(_: int) -> bytes:
        try:
            async with asyncio.timeout(seconds):
                return await _fetched(address, shown)
        except TimeoutError as error:
            raise DownloadFailed(f"{shown} did not come within {seconds:g} s") from error

    return await retry(
        attempt,
        policy=patience,
        again=lambda error: isinstance(error, DownloadFailed),
        asked=lambda error: getattr(error, "retry_after", None),
    )


async def kept_download(url: str, *, patience: RetryPolicy = PATIENCE) -> bytes:
    """The same, fetched once on this machine and kept for later."""
    name = hashlib.sha256(full_address(url).encode()).hexdigest()
    copy = state_folder() / "downloads" / name
    if copy.is_file():
        return read_bytes(copy)
    content = await download(url, patience=patience)
    _make(copy.parent)
    write_atomic(copy, content, mode=0o600)
    return content


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise file_trouble("make", folder, error) from error


async def _fetched(address: str, shown: str) -> bytes:
    import httpx2

    try:
        async with _client(address) as client, client.stream("GET", address) as response:
            _require_ok(response, shown)
            return await _body(response)
    except httpx2.TooManyRedirects as error:
        cause = f"it leads on more than {REDIRECTS} times"
        raise Unreadable(cause, remedy="Give the address it leads to.") from error
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
        cause = "it is, or leads to, no address of the web"
        raise Unreadable(cause, remedy="Give an http:// or https:// address.") from error
    except (httpx2.HTTPError, OSError) as error:
        cause = " ".join(f"{type(error).__name__}: {error}".split())
        cause = Redactor.from_environment().text(cause)[:300]
        raise DownloadFailed(f"{shown} could not be fetched: {cause}") from error


def _client(address: str) -> "AsyncClient":
    import httpx2

    host = urlsplit(address).hostname or ""
    return httpx2.AsyncClient(
        follow_redirects=True,
        max_redirects=REDIRECTS,
        timeout=None,
        # What is packed can grow without bounds while it is unpacked.
        headers={"Accept-Encoding": "identity"},
        verify=_certificates(),
        # This machine is not reached through a proxy.
        trust_env=not (host in ("localhost", "::1") or host.startswith("127.")),
    )


@cache
def _certificates() -> "ssl.SSLContext":
    """Reading the certificates of the world takes longer than many a download."""
    import httpx2

    return httpx2.create_ssl_context()


def _require_ok(response: "Response", shown: str) -> None:
    status = response.status_code
    if status in _LATER or status >= 500:
        pause = response.headers.get("retry-after", "")
        wait = min(float(pause), LONGEST_WAIT) if pause.isdecimal() else None
        raise DownloadFailed(f"{shown} answered HTTP {status}", retry_after=wait)
    if status != 200:
        remedy = "See that the address is right, and open to whoever asks without logging in."
        raise Unreadable(f"the answer was HTTP {status}", remedy=remedy)


async def _body(response: "Response") -> bytes:
    length = response.headers.get("content-length", "")
    require_size(int(length) if length.isdecimal() else 0)
    pieces: list[bytes] = []
    size = 0
    async for piece in response.aiter_bytes():
        size += len(piece)
        require_size(size)
        pieces.append(piece)
    return b"".join(pieces)
