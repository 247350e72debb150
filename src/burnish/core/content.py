"""Content as canonical JSON, its hashes and codecs; random streams; bounds of numbers."""

import hashlib
import json
import random
from functools import cache
from typing import Annotated, Any, Generic, TypeAlias, TypeVar, cast

from pydantic import Field, JsonValue, TypeAdapter

from burnish.core.errors import NotJournalable

MOST = 1_000_000_000
MOST_REPEATS = 1_000
MOST_PLACES = 10_000

AtLeastOne: TypeAlias = Annotated[int, Field(ge=1, le=MOST)]
"""A count of things that happen one after the other: trials, calls, tokens."""
NoneOrMore: TypeAlias = Annotated[int, Field(ge=0, le=MOST)]
"""The same where nothing at all makes sense too."""
AboveZero: TypeAlias = Annotated[float, Field(gt=0, le=MOST)]
"""An amount: seconds, minutes, US dollars."""
NotNegative: TypeAlias = Annotated[float, Field(ge=0, le=MOST)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Repeats: TypeAlias = Annotated[int, Field(ge=1, le=MOST_REPEATS)]
"""How often something is done over; every time is held in memory until the end."""
Places: TypeAlias = Annotated[int, Field(ge=1, le=MOST_PLACES)]
"""How many things may run at once; each place costs memory."""


# -- Content as canonical JSON --------------------------------------------------------------------


Json = JsonValue

_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


def canonical(value: Json) -> bytes:
    """One spelling for one value: keys sorted, no spaces, UTF-8.

    NaN, Infinity and lone surrogates have no such spelling and are refused.
    """
    try:
        return _ENCODER.encode(value).encode("utf-8")
    except (ValueError, TypeError) as error:
        raise NotJournalable(
            f"this value cannot be kept as JSON: {error}",
            remedy="give plain text, numbers, lists and mappings; "
            "NaN, Infinity and half a surrogate pair have no JSON form",
        ) from error


def digest(value: Json) -> str:
    """The SHA-256 of a value's canonical JSON, in hex."""
    return hashlib.sha256(canonical(value)).hexdigest()


def short_id(value: Json) -> str:
    """A digest short enough to read aloud and long enough never to clash in one project."""
    return digest(value)[:16]


# -- Typed data to JSON and back ------------------------------------------------------------------


T = TypeVar("T")


class Codec(Generic[T]):
    """Encodes and decodes one type; decoding checks what it reads."""

    def __init__(self, kind: type[T]) -> None:
        self._adapter = TypeAdapter(kind)

    def encode(self, value: T) -> Json:
        """The value as plain JSON data."""
        return cast("Json", self._adapter.dump_python(value, mode="json"))

    def decode(self, data: Json) -> T:
        """The value that `encode` was given."""
        return self._adapter.validate_python(data)


def codec(kind: type[T]) -> Codec[T]:
    """The codec of a type, made once."""
    return _made(kind)


@cache
def _made(kind: Any) -> Codec[Any]:
    return Codec(kind)


# -- Randomness from named streams of the run's seed ----------------------------------------------


def stream(seed: int, *names: str | int) -> random.Random:
    """A generator that depends on the seed and the names, on nothing else."""
    material = "\0".join(map(str, (seed, *names))).encode()
    return random.Random(int.from_bytes(hashlib.sha256(material).digest(), "big"))  # noqa: S311
