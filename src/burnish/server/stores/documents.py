"""The JSON documents of a store: as compressed bytes, and without their large parts.

Python's JSON codec is one call that lets no other thread run before it ends: in a worker thread,
too, a large document would stop the event loop. So documents are taken apart level by level, and
only what lies deeper, in small pieces, is left to that codec.
"""

import json
import zlib
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

from burnish.core.content import Json
from burnish.core.errors import NotJournalable
from burnish.server.stores.records import StoreTrouble

_LEVELS = 8
"""Down to one case of one evaluation of one round of a result."""
_CHUNK = 256 * 1024
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_DECODER = json.JSONDecoder()


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
    mapping: dict[str, Json] = {}
    while text[at] != "}":
        key, at = cast("tuple[str, int]", _DECODER.raw_decode(text, at + 1))
        mapping[key], at = _value(text, at + 1, levels)
    return mapping, at + 1


def _list(text: str, at: int, levels: int) -> tuple[Json, int]:
    items: list[Json] = []
    while text[at] != "]":
        inner, at = _value(text, at + 1, levels)
        items.append(inner)
    return items, at + 1


# -- slim results ------------------------------------------------------------------------


_EVALUATIONS = ("Train", "Validation")


@dataclass(frozen=True, kw_only=True)
class Slimming:
    """What to leave out of a result."""

    evaluation_cases: bool = False
    """OmitEvaluationCases: the cases of every evaluation; the scores of the sets stay."""
    backward: bool = False
    """OmitBackward."""
    aggregation: bool = False
    """OmitAggregation."""
    patches: bool = False
    """OmitPatches."""
    profiles: bool = False
    """OmitProfiles: those of the rounds. The accepted one is what the run was for, and stays."""
    losses: bool = False
    """OmitLosses."""

    @property
    def _fields(self) -> tuple[str, ...]:
        omissions = (
            (self.backward, ("Backward",)),
            (self.aggregation, ("Aggregation",)),
            (self.patches, ("Patches",)),
            (self.profiles, ("InputProfile", "OutputProfile")),
            (self.losses, ("Losses",)),
        )
        return tuple(name for omit, names in omissions if omit for name in names)

    def round(self, value: Json) -> Json:
        """One round without what is left out."""
        if not isinstance(value, dict):
            return value
        slim = value | {name: None for name in self._fields if name in value}
        return self._without_cases(slim, _EVALUATIONS)

    def result(self, value: Json) -> Json:
        """A result without what is left out; what was given stays as it is."""
        if not isinstance(value, dict):
            return value
        slim = dict(value)
        if isinstance(rounds := slim.get("Rounds"), list):
            slim["Rounds"] = [self.round(each) for each in rounds]
        return self._without_cases(slim, ("BaselineValidation",))

    def _without_cases(self, value: dict[str, Json], names: tuple[str, ...]) -> dict[str, Json]:
        if not self.evaluation_cases:
            return value
        return value | {name: _scores(value[name]) for name in names if name in value}


_FULL = Slimming()


def slimmed(result: Json, omit: Slimming) -> Json:
    """A RunResult without the parts that `omit` names; nothing is copied that stays."""
    return result if omit == _FULL else omit.result(result)


def _scores(evaluation: Json) -> Json:
    """An evaluation without its cases."""
    return _changed(evaluation, "EvalSets", lambda sets: [_caseless(each) for each in sets])


def _caseless(eval_set: Json) -> Json:
    return _changed(eval_set, "Cases", lambda _: None)


def _changed(value: Json, name: str, change: Callable[[list[Json]], Json]) -> Json:
    if not isinstance(value, dict) or not isinstance(value.get(name), list):
        return value
    return {**value, name: change(cast("list[Json]", value[name]))}
