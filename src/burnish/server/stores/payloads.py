"""Large JSON as compressed bytes and back, without keeping the event loop waiting.

Python's JSON codec is one call that lets no other thread run before it ends: in a worker thread,
too, a large document would stop the loop. So documents are taken apart level by level, and only
what lies deeper, in small pieces, is left to that codec.
"""

import asyncio
import json
import zlib
from codecs import getincrementaldecoder
from collections.abc import Iterator
from typing import cast

from burnish.core.content import Json
from burnish.core.errors import NotJournalable
from burnish.server.stores.errors import StoreTrouble

_LEVELS = 8
"""Down to one case of one evaluation of one round of a result."""
_CHUNK = 256 * 1024
_AT_ONCE = 2 * 1024
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_DECODER = json.JSONDecoder()


async def packed(value: Json) -> bytes:
    """The value as bytes, made in a worker thread."""
    return await asyncio.to_thread(pack, value)


async def unpacked(content: bytes) -> Json:
    """The value that `packed` was given; what is small is read on the spot."""
    if len(content) <= _AT_ONCE:
        return unpack(content)
    return await asyncio.to_thread(unpack, content)


def pack(value: Json) -> bytes:
    """The value as bytes; the order of keys stays."""
    zipper = zlib.compressobj(1)
    try:
        parts = [zipper.compress(chunk.encode()) for chunk in _chunks(value)]
    except (ValueError, TypeError, RecursionError) as error:
        raise NotJournalable(
            f"this value cannot be kept as JSON: {error}",
            remedy="give plain text, numbers, lists and mappings; "
            "NaN, Infinity and half a surrogate pair have no JSON form",
        ) from error
    return b"".join([*parts, zipper.flush()])


def unpack(content: bytes) -> Json:
    """The value that `pack` was given."""
    try:
        return _value(_text(content), 0, _LEVELS)[0]
    except (zlib.error, ValueError, IndexError) as error:
        raise StoreTrouble(
            f"a document in the store is damaged: {error}", remedy="restore it from a backup"
        ) from error


def _chunks(value: Json) -> Iterator[str]:
    held: list[str] = []
    size = 0
    for piece in _pieces(value, _LEVELS):
        held.append(piece)
        size += len(piece)
        if size >= _CHUNK:
            yield "".join(held)
            held, size = [], 0
    yield "".join(held)


def _pieces(value: Json, levels: int) -> Iterator[str]:
    if levels and value and isinstance(value, dict):
        for before, (key, inner) in zip(_before("{"), value.items(), strict=False):
            if not isinstance(cast("object", key), str):
                raise TypeError(f"the key {key!r} is no text")
            yield f"{before}{_ENCODER.encode(key)}:"
            yield from _pieces(inner, levels - 1)
        yield "}"
    elif levels and value and isinstance(value, list):
        for before, inner in zip(_before("["), value, strict=False):
            yield before
            yield from _pieces(inner, levels - 1)
        yield "]"
    else:
        yield _ENCODER.encode(value)


def _before(bracket: str) -> Iterator[str]:
    yield bracket
    while True:
        yield ","


def _text(content: bytes) -> str:
    unzip, decoder = zlib.decompressobj(), getincrementaldecoder("utf-8")()
    parts: list[str] = []
    while content and not unzip.eof:
        parts.append(decoder.decode(unzip.decompress(content, _CHUNK)))
        content = unzip.unconsumed_tail
    parts.append(decoder.decode(unzip.flush(), final=True))
    return "".join(parts)


def _value(text: str, at: int, levels: int) -> tuple[Json, int]:
    """The value that begins at a place, and where it ends; there are no spaces."""
    if levels and text[at] == "{" and text[at + 1] != "}":
        return _mapping(text, at, levels - 1)
    if levels and text[at] == "[" and text[at + 1] != "]":
        return _list(text, at, levels - 1)
    return cast("tuple[Json, int]", _DECODER.raw_decode(text, at))


def _mapping(text: str, at: int, levels: int) -> tuple[Json, int]:
    found: dict[str, Json] = {}
    while text[at] != "}":
        key, at = cast("tuple[str, int]", _DECODER.raw_decode(text, at + 1))
        found[key], at = _value(text, at + 1, levels)
    return found, at + 1


def _list(text: str, at: int, levels: int) -> tuple[Json, int]:
    found: list[Json] = []
    while text[at] != "]":
        inner, at = _value(text, at + 1, levels)
        found.append(inner)
    return found, at + 1
