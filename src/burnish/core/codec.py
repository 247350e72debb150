"""Typed data to JSON and back, for whatever is kept in a file."""

from functools import cache
from typing import Any, Generic, TypeVar, cast

from pydantic import TypeAdapter

from burnish.core.content import Json

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
