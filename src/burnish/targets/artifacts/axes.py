"""Numbers and choices inside configuration files, as surfaces of their own: `config.yaml#a.b.0`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

from burnish.core.errors import ConfigError, Problem
from burnish.core.surfaces import ChoiceSurface, NumberSurface, Scalar, Value, value_key
from burnish.system.yaml import YamlTree, parse_tree

MARK = "#"
"""Stands between the file and the place in it."""

Axis: TypeAlias = NumberSurface | ChoiceSurface
"""A surface whose id is a file and a place in it."""


def texts_of(values: Mapping[str, Value]) -> dict[str, str]:
    """The files of a candidate by path, with its other values in their places.

    Comments and order stay; a file whose values are as they were stays as it is, to the byte.
    """
    parts = {name: _split(name, values) for name in values}
    texts = {name: str(values[name]) for name, part in parts.items() if part is None}
    for file in dict.fromkeys(part[0] for part in parts.values() if part is not None):
        places = {part[1]: values[name] for name, part in parts.items() if part and part[0] == file}
        texts[file] = _with_values(file, texts[file], places)
    return texts


def value_in(text: str, file: str, place: str) -> Value:
    """The value at a place of a file, as it stands there."""
    node: Any = parse_tree(Path(file), text).data
    for step in place.split("."):
        node = _below(node, step, file, place)
    if node is None or isinstance(node, list | dict):
        raise _problem(file, place, "this is not a plain value")
    return cast("Value", node)


def file_and_place(name: str) -> tuple[str, str]:
    """The two parts of an axis' id."""
    file, _, place = name.rpartition(MARK)
    return file, place


def _split(name: str, values: Mapping[str, Value]) -> tuple[str, str] | None:
    """The file and the place in it; None where the name is that of a file."""
    file, place = file_and_place(name)
    return (file, place) if file in values else None


def _with_values(file: str, text: str, places: Mapping[str, Value]) -> str:
    old = {place: value_in(text, file, place) for place in places}
    new = {
        place: cast("Scalar", value)
        for place, value in places.items()
        if value_key(value) != value_key(old[place])
    }
    if not new:
        return text
    tree = parse_tree(Path(file), text)
    for place, value in new.items():
        _put(tree, place, value)
    return tree.dump()


def _put(tree: YamlTree, place: str, value: Scalar) -> None:
    *above, last = place.split(".")
    # The plain data is what JSON is written from, the tree what YAML is.
    for root in (tree.data, tree.root):
        if root is None:
            continue
        node: Any = root
        for step in above:
            node = _below(node, step, tree.path.name, place)
        key = _key(node, last)
        node[key] = _like(node[key], value)


def _below(node: Any, step: str, file: str, place: str) -> Any:
    try:
        return node[_key(node, step)]
    except (KeyError, IndexError, TypeError, ValueError):
        raise _problem(file, place, "there is no such value in the file") from None


def _key(node: Any, step: str) -> Any:
    """The step as the node spells it: a place in a list, or a key that may be a number."""
    if isinstance(node, list):
        return int(step)
    if isinstance(node, Mapping):
        return next(key for key in (*cast("Mapping[Any, Any]", node), step) if str(key) == step)
    raise TypeError(step)


def _like(old: object, value: Scalar) -> Scalar:
    """A whole number stays written as one."""
    is_whole = isinstance(value, float) and value.is_integer()
    was_whole = isinstance(old, int) and not isinstance(old, bool)
    return int(value) if is_whole and was_whole else value


def _problem(file: str, place: str, message: str) -> ConfigError:
    remedy = "name a number, a word or true/false by its keys, with dots between them"
    return ConfigError([Problem(where=f"{file}{MARK}{place}", message=message, remedy=remedy)])
