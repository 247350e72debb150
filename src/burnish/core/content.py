"""Canonical JSON, hashes and codecs; random streams; bounds of numbers; quick records."""

import hashlib
import json
import random
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    NoReturn,
    TypeAlias,
    TypeVar,
    cast,
    dataclass_transform,
)

from pydantic import AfterValidator, Field, JsonValue, TypeAdapter, ValidationError
from pydantic_core import from_json as from_json_bytes

from burnish.core.errors import NotJournalable

MOST = 1_000_000_000
MOST_REPEATS = 1_000
MOST_PLACES = 10_000

AtLeastOne: TypeAlias = Annotated[int, Field(ge=1, le=MOST)]
NoneOrMore: TypeAlias = Annotated[int, Field(ge=0, le=MOST)]
AboveZero: TypeAlias = Annotated[float, Field(gt=0, le=MOST)]
NotNegative: TypeAlias = Annotated[float, Field(ge=0, le=MOST)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Repeats: TypeAlias = Annotated[int, Field(ge=1, le=MOST_REPEATS)]
"""A number of repeats, each of which is held in memory until the end."""
Places: TypeAlias = Annotated[int, Field(ge=1, le=MOST_PLACES)]
"""A number of things that run at once, each of which takes memory."""


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("expected text, found nothing but blanks")
    return text


NotBlank: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(_not_blank)]
"""A text with more than blanks in it."""


Json = JsonValue

_ENCODER = json.JSONEncoder(
    sort_keys=True,
    separators=(",", ":"),
    ensure_ascii=False,
    allow_nan=False,
    check_circular=False,  # A circle is too deep, which is found without looking for circles.
)


def _speller() -> Callable[[Json], Iterable[str]]:
    """What `_ENCODER` does, in C and made only once: it makes another one for every value."""
    make = cast("Any", json.encoder).c_make_encoder
    if make is None:  # an interpreter without it
        return _ENCODER.iterencode
    marks = (json.encoder.encode_basestring, None, ":", ",")
    sort_keys, skip_keys, allow_nan = True, False, False
    spell = make(None, _ENCODER.default, *marks, sort_keys, skip_keys, allow_nan)
    return lambda value: spell(value, 0)


_spelled = _speller()


def canonical(value: Json) -> bytes:
    """The one JSON spelling of a value: sorted keys, no spaces, UTF-8, no NaN or Infinity."""
    try:
        return "".join(_spelled(value)).encode("utf-8")
    except (ValueError, TypeError, RecursionError) as error:
        raise NotJournalable(
            f"this value cannot be kept as JSON: {error}",
            remedy="give plain text, numbers, lists and mappings; "
            "NaN, Infinity and half a surrogate pair have no JSON form",
        ) from error


MOST_KEYS = 1_000
"""Keys of one block of settings, of which no model has half as many; cases and other data of users
have no such bound."""
DEEPEST = 100
"""Levels of lists and mappings in a file; readers and writers recurse over them."""
TOO_DEEP = "its values are nested too deeply"


MOST_BITS = 1_024
"""Of a whole number in a file: one with more is larger than any float."""
TOO_LONG = "a number has too many digits"


def whole_number(digits: str) -> int:
    """The number with these digits; ValueError if it is larger than any float."""
    if len(digits) > 310 or (number := int(digits)).bit_length() > MOST_BITS:
        raise ValueError(TOO_LONG)
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} has no JSON form")


def from_json(text: str | bytes, *, finite: bool = False) -> Json:
    """The value of a JSON text; ValueError if it is none, or too deep to work with.

    `finite` refuses NaN and Infinity, which are no JSON but which Python reads.
    """
    try:
        constant = _refuse_constant if finite else None
        value: Json = json.loads(text, parse_int=whole_number, parse_constant=constant)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    if is_deeper(value, DEEPEST):
        raise ValueError(TOO_DEEP)
    return value


def is_deeper(value: Json, levels: int) -> bool:
    """Whether a value is nested more than so many levels deep."""
    layer = [value] if isinstance(value, (dict, list)) else []
    for _ in range(levels):  # layer by layer: files of results have many values, few are nested
        layer = [
            inner
            for outer in layer
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not layer:
            break
    return bool(layer)


def of_canonical(spelled: bytes) -> Json:
    """The value that `canonical` spelled, faster than any JSON text is read."""
    try:
        return from_json_bytes(spelled)
    except ValueError:  # nested more deeply than this reader follows, or damaged
        return json.loads(spelled)


def digest(value: Json) -> str:
    """The SHA-256 of a value's canonical JSON, in hex."""
    return hashlib.sha256(canonical(value)).hexdigest()


def short_id(value: Json) -> str:
    """A digest short enough to read and long enough to be unique in a project."""
    return digest(value)[:16]


class DigestSet:
    """A set of SHA-256 digests, of which it keeps eight bytes: a tenth of what a set takes.

    Among a million digests, two have the same eight bytes once in thirty-seven million times.
    """

    _LATE = 30_000
    """So many are looked up in a set, which is quicker, before they are sorted in."""

    def __init__(self, digests: Iterable[bytes] = ()) -> None:
        self._sorted = array("Q", sorted({int.from_bytes(each[:8], "big") for each in digests}))
        self._late: set[int] = set()

    def __len__(self) -> int:
        return len(self._sorted) + len(self._late)

    def __contains__(self, digest: bytes) -> bool:
        number = int.from_bytes(digest[:8], "big")
        return number in self._late or self._place(number) is not None

    def add(self, digest: bytes) -> bool:
        """Add a digest; whether it was not in it."""
        number = int.from_bytes(digest[:8], "big")
        if number in self._late or self._place(number) is not None:
            return False
        self._late.add(number)
        # A share of all, so that sorting them in costs every digest the same.
        if len(self._late) > max(self._LATE, len(self._sorted) // 8):
            self._sorted = array("Q", sorted([*self._sorted, *self._late]))
            self._late = set()
        return True

    def discard(self, digest: bytes) -> None:
        """Remove a digest if it is in it."""
        number = int.from_bytes(digest[:8], "big")
        self._late.discard(number)
        if (place := self._place(number)) is not None:
            del self._sorted[place]

    def _place(self, number: int) -> int | None:
        ordered = self._sorted
        place = bisect_left(ordered, number)
        return place if place < len(ordered) and ordered[place] == number else None


T = TypeVar("T")


class JsonFields:
    """A base of dataclasses that are stored as JSON objects."""

    optional: ClassVar[frozenset[str]] = frozenset()
    """Fields that are left out of the JSON if they are None."""

    def to_json(self) -> dict[str, Json]:
        """The fields as the journal stores them."""
        data = codec(type(self)).encode(self)
        assert isinstance(data, dict)
        return {k: v for k, v in data.items() if v is not None or k not in self.optional}


class Codec(Generic[T]):
    """Encodes and decodes one type; decoding checks what it reads."""

    def __init__(self, kind: type[T]) -> None:
        adapter = TypeAdapter(kind)
        self._serializer, self._validator = adapter.serializer, adapter.validator

    def encode(self, value: T) -> Json:
        """The value as plain JSON data."""
        return cast("Json", self._serializer.to_python(value, mode="json"))

    def decode(self, data: Json) -> T:
        """The value that was encoded."""
        return cast("T", self._validator.validate_python(data))

    def read(self, spelled: bytes) -> T:
        """The value that was encoded and spelled by `canonical`."""
        try:
            return cast("T", self._validator.validate_json(spelled))
        except ValidationError:  # nested more deeply than this reader follows, or damaged
            return self.decode(of_canonical(spelled))


def codec(kind: type[T]) -> Codec[T]:
    """The codec of a type, built once."""
    return _cached_codec(kind)


@cache
def _cached_codec(kind: Any) -> Codec[Any]:
    return Codec(kind)


def stream(seed: int, *names: str | int) -> random.Random:
    """A random generator that depends on the seed and the names only."""
    material = "\0".join(map(str, (seed, *names))).encode()
    return random.Random(int.from_bytes(hashlib.sha256(material).digest(), "big"))  # noqa: S311


# -- Quick variants of frozen dataclasses and cached properties, for what every case makes --------


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def record(kind: type[T]) -> type[T]:
    """A dataclass that is frozen for type checkers only.

    One that Python freezes takes four times as long to make.
    """
    return dataclass(kw_only=True)(kind)


class computed_once(Generic[T]):  # noqa: N801 - a decorator
    """`functools.cached_property` without the lock that Python 3.11 takes for every value."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> T:
        # Called only as long as the instance has nothing of this name.
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
