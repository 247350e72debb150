"""Keys that a user wrote out in a file: a kept description names their place, never their value.

`${VAR}` is kept as it stands. What looks like a secret and is no variable is replaced by the file
and the keys where it stands, and read again when the run is built on this machine. It is refused
where others build the run: over HTTP, and to workers.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from burnish.core.errors import ConfigError, Problem, ResumeRefused
from burnish.runs.draft import FilePlace, Places
from burnish.system import Redactor, read_tree
from burnish.system.yaml import TreePath

LITERAL = "$written_in"
"""The key under which the place of a literal stands."""


def without_literals(
    data: Mapping[str, JsonValue], places: Places, redactor: Redactor
) -> dict[str, JsonValue]:
    """A description as it may be kept: secrets are replaced by their places."""
    return cast("dict[str, JsonValue]", _replaced(dict(data), (), places, redactor))


def _replaced(value: JsonValue, path: TreePath, places: Places, redactor: Redactor) -> JsonValue:
    def kept(key: str | int, item: JsonValue, seen: JsonValue) -> JsonValue:
        if isinstance(item, str) and seen != item:
            return _place((*path, key), places)
        return _replaced(item, (*path, key), places, redactor)

    seen = redactor.json(value)
    if isinstance(value, dict) and isinstance(seen, dict):
        return {key: kept(key, item, seen.get(key)) for key, item in value.items()}
    if isinstance(value, list) and isinstance(seen, list):
        pairs = zip(value, seen, strict=True)
        return [kept(number, item, shown) for number, (item, shown) in enumerate(pairs)]
    return value


def _place(path: TreePath, places: Places) -> JsonValue:
    place = places.place(path)
    if not isinstance(place, FilePlace):
        return {LITERAL: None}
    return {LITERAL: {"file": str(place.tree.path.resolve()), "at": list(place.keys)}}


def with_literals(value: JsonValue) -> JsonValue:
    """A kept description with what stands in its files put back."""
    if isinstance(value, dict):
        if LITERAL in value:
            return _read(value[LITERAL])
        return {key: with_literals(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_literals(item) for item in value]
    return value


def _read(place: JsonValue) -> JsonValue:
    if not isinstance(place, dict):
        raise ResumeRefused(
            "a key of this run was given by hand and is not kept",
            remedy="name a variable instead, such as ${TEAM_KEY}, and start a new run",
        )
    path, value = Path(str(place["file"])), read_tree(Path(str(place["file"]))).data
    for step in cast("list[str | int]", place["at"]):
        if isinstance(value, dict):
            value = value.get(str(step))
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            value = None
    if value is None:
        steps = ".".join(map(str, cast("list[str | int]", place["at"])))
        raise ResumeRefused(
            f"the key that stood in {path} at {steps} is gone",
            remedy="put it back, or name a variable there and start a new run",
        )
    return value


def refuse_literals(data: Mapping[str, JsonValue]) -> None:
    """Refuse a description that only the machine with its files can build."""
    problems = [
        Problem(
            where=".".join(map(str, path)),
            message="a key is written out here, and it would have to be passed on",
            remedy="name a variable instead, such as ${TEAM_KEY}",
        )
        for path in _literals(dict(data), ())
    ]
    if problems:
        raise ConfigError(problems)


def _literals(value: JsonValue, path: TreePath) -> Iterator[TreePath]:
    if isinstance(value, dict):
        if LITERAL in value:
            yield path
            return
        for key, item in value.items():
            yield from _literals(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _literals(item, (*path, number))
