"""The keys of an EvalSet in every spelling: Python's, JSON's, and any case, as Go reads them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from burnish.core.content import Json
from burnish.system.config_errors import Fault
from burnish.system.settings import Place
from burnish.system.yaml import TreePath

_NEVER_CAMEL = frozenset(
    {"content_parts", "reasoning_content", "tool_id", "tool_name", "tool_calls"}
)
"""Keys of Go's messages, which are in snake_case among all the camelCase."""


def folded(key: str) -> str:
    """The key without what spellings differ in."""
    return key.replace("_", "").lower()


def as_python(value: Json, model: type[BaseModel]) -> Json:
    """The value with the keys that `model` knows in Python's spelling, whatever they were."""
    return _renamed(value, Place.of(model), _python_names)


def as_json(value: Json, model: type[BaseModel]) -> Json:
    """The value with the keys that `model` knows in camelCase."""
    return _renamed(value, Place.of(model), _camel_names)


def spelled_twice(value: Json, model: type[BaseModel]) -> list[tuple[TreePath, str]]:
    """The places where a key stands in two spellings, with the second of them."""
    return _twice(value, Place.of(model), ())


def as_spelled(fault: Fault, value: Json) -> Fault:
    """The fault at the place as the file spells it, with known keys in the file's spelling."""
    path: list[str | int] = []
    spell = _camel if _is_camel(value) else str
    for step in fault.path:
        missing = step if isinstance(step, int) else spell(step)
        path.append(_key_like(value, step) or missing)
        value = _below(value, path[-1])
    known = tuple(map(spell, fault.known_keys))
    return replace(fault, path=tuple(path), known_keys=known)


def _renamed(value: Json, place: Place, names: Callable[[Place], Mapping[str, str]]) -> Json:
    if isinstance(value, list):
        below = _place_below(place, 0)
        return [_renamed(item, below, names) for item in value]
    if not isinstance(value, dict) or not (known := names(place)):
        return value
    return {
        known.get(folded(key), key): _renamed(item, _place_of_key(place, key), names)
        for key, item in value.items()
    }


def _twice(value: Json, place: Place, path: TreePath) -> list[tuple[TreePath, str]]:
    if isinstance(value, list):
        below = _place_below(place, 0)
        return [found for i, item in enumerate(value) for found in _twice(item, below, (*path, i))]
    if not isinstance(value, dict) or not (known := _python_names(place)):
        return []
    seen: set[str] = set()
    found: list[tuple[TreePath, str]] = []
    for key, item in value.items():
        found += [(path, key)] if folded(key) in seen and folded(key) in known else []
        seen.add(folded(key))
        found += _twice(item, _place_of_key(place, key), (*path, key))
    return found


@cache
def _python_names(place: Place) -> Mapping[str, str]:
    return {folded(key): key for key in place.keys}


@cache
def _camel_names(place: Place) -> Mapping[str, str]:
    return {folded(key): _camel(key) for key in place.keys}


@cache
def _place_below(place: Place, step: str | int) -> Place:
    return place.below(step)


def _place_of_key(place: Place, key: str) -> Place:
    return _place_below(place, _python_names(place).get(folded(key), key))


def _camel(key: str) -> str:
    return key if key in _NEVER_CAMEL else to_camel(key)


def _is_camel(value: Json) -> bool:
    return isinstance(value, dict) and any(key != key.lower() for key in value)


def _key_like(value: Json, step: str | int) -> str | None:
    if not isinstance(value, dict) or isinstance(step, int):
        return None
    return next((key for key in value if folded(key) == folded(step)), None)


def _below(value: Json, step: str | int) -> Json:
    if isinstance(value, dict):
        return value.get(str(step))
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return value[step]
    return None
