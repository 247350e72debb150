"""Values of a user's program as JSON that the journal can keep."""

from collections.abc import Iterable, Mapping
from typing import cast

from pydantic_core import PydanticSerializationError, to_jsonable_python

from burnish.core.content import Json, canonical
from burnish.core.errors import NotJournalable

_DEEPEST = 20
"""Further down, a value that has no form as JSON is named only."""


def plain(value: object) -> Json:
    """The value as JSON; things that have no such form by what they say of themselves."""
    return _plain(value, ())


def plain_mapping(values: Mapping[str, object]) -> dict[str, Json]:
    """The same for values that have names."""
    return {_sound(_told(name)): plain(value) for name, value in values.items()}


def error_text(error: BaseException) -> str:
    """The error on one line: its type and what it says."""
    said = _sound(_told(error))
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _plain(value: object, inside: tuple[int, ...]) -> Json:
    if isinstance(value, str):
        return _sound(value)
    try:
        found = cast("Json", to_jsonable_python(value, fallback=_told, inf_nan_mode="strings"))
        canonical(found)
    except (PydanticSerializationError, NotJournalable, ValueError, RecursionError):
        return _piece_by_piece(value, inside)
    return found


def _piece_by_piece(value: object, inside: tuple[int, ...]) -> Json:
    """Most of a value of which some part has no form as JSON."""
    if id(value) in inside or len(inside) > _DEEPEST:  # it contains itself
        return f"<{type(value).__name__}>"
    inside = (*inside, id(value))
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return {_sound(_told(name)): _plain(part, inside) for name, part in pairs}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(part, inside) for part in cast("Iterable[object]", value)]
    return _sound(_told(value))


def _told(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - the user's own __str__ may raise anything
        return f"<{type(value).__name__}>"


def _sound(text: str) -> str:
    """Without halves of surrogate pairs, which no file can hold."""
    return text.encode("utf-8", "replace").decode()
