"""How much of an endpoint's answer is read, and which answers no endpoint can mean.

The size counts after unpacking, because a few packed kilobytes can become gigabytes. Reading ends
at the limit, also in the middle of a stream.
"""

import json
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import cast

from httpx2 import AsyncByteStream, Response, TransportError

from burnish.core.content import MOST
from burnish.models.http_calls import note_bytes, note_response, note_usage

ENCODINGS = "gzip, deflate"
"""The value of Accept-Encoding: what can be unpacked here."""
_PIECE = 256 * 1024
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


class AnswerUnusable(TransportError):
    """An answer is packed in an unknown way, damaged, or claims what cannot be."""


class AnswerTooLarge(AnswerUnusable):
    """An answer was larger than its limit; the rest of it was not read."""

    def __init__(self, most: int) -> None:
        super().__init__(f"it has more than {most:,} bytes, and was not read further")


def reads_at_most(most: int) -> Callable[[Response], Awaitable[None]]:
    """A response hook for an HTTP client."""

    async def limit(response: Response) -> None:
        note_response(response.status_code)
        length = response.headers.get("content-length", "")
        if length.isdecimal() and int(length[:20]) > most:
            await response.aclose()
            raise AnswerTooLarge(most)
        packed = _is_packed(response)
        assert isinstance(response.stream, AsyncByteStream)
        response.stream = _Limited(response.stream, most, packed=packed)
        if packed:
            # The stream unpacks it; the client would try again.
            del response.headers["content-encoding"]

    return limit


def _is_packed(response: Response) -> bool:
    names = response.headers.get("content-encoding", "").lower().split(",")
    packings = [name.strip() for name in names if name.strip() not in ("", "identity")]
    if packings and packings not in (["gzip"], ["x-gzip"], ["deflate"]):
        raise AnswerUnusable(f"it is packed with {', '.join(packings)[:40]}")
    return bool(packings)


class _Limited(AsyncByteStream):
    """The bytes of an answer, unpacked, up to a number of them."""

    def __init__(self, inner: AsyncByteStream, most: int, *, packed: bool) -> None:
        self._inner = inner
        self._left = self._most = most
        self._unzip = zlib.decompressobj(_GZIP_OR_ZLIB) if packed else None

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        async for raw in self._inner:
            piece, rest = self._unpacked(raw)
            while piece:
                self._left -= len(piece)
                note_bytes(len(piece))
                if self._left < 0:
                    raise AnswerTooLarge(self._most)
                yield piece
                piece, rest = self._unpacked(rest) if rest else (b"", b"")

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _unpacked(self, raw: bytes) -> tuple[bytes, bytes]:
        """The first piece, and what is still packed."""
        if self._unzip is None:
            return raw, b""
        try:
            piece = self._unzip.decompress(raw, _PIECE)
        except zlib.error as error:
            raise AnswerUnusable(f"it cannot be unpacked: {error}") from None
        return piece, self._unzip.unconsumed_tail


async def require_possible_usage(response: Response) -> None:
    """A response hook: refuses numbers of tokens that cannot be, which SDKs read as none."""
    kind = response.headers.get("content-type", "")
    if "event-stream" in kind:
        assert isinstance(response.stream, AsyncByteStream)
        response.stream = _CheckedEvents(response.stream)
    elif "json" in kind:
        await response.aread()
        _check_usage(response.content)


class _CheckedEvents(AsyncByteStream):
    """Server-sent events, each of them checked before it is passed on."""

    def __init__(self, inner: AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        begun = bytearray()
        async for piece in self._inner:
            begun += piece
            whole, newline, rest = bytes(begun).rpartition(b"\n")
            if newline:
                begun = bytearray(rest)
                for line in whole.split(b"\n"):
                    _check_usage(line.removeprefix(b"data:"))
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


def _check_usage(content: bytes) -> None:
    document: object = None
    if b"oken" in content:
        with suppress(ValueError, RecursionError):  # the SDK says what is wrong with it
            document = json.loads(content)
    fields = _mapping(document)
    for block in (fields, _mapping(fields.get("message"))):
        note_usage(block)
        if not all(_is_possible(_mapping(block.get(name))) for name in ("usage", "usageMetadata")):
            raise AnswerUnusable("it claims an impossible number of tokens")


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _is_possible(usage: Mapping[str, object]) -> bool:
    """Whether every number of tokens in a block of usage can be one."""
    return all(
        _is_count(count) if not isinstance(count, Mapping) else _is_possible(_mapping(count))  # pyright: ignore[reportUnknownArgumentType]
        for name, count in usage.items()
        if "token" in name.lower()
    )


def _is_count(value: object) -> bool:
    # Some servers write 7.0, and lists of details; NaN is not between any two numbers.
    if isinstance(value, int | float):
        return 0 <= value <= MOST
    return value is None or isinstance(value, list)
