"""Numbers and choices inside configuration files, as surfaces of their own: `config.yaml#a.b.0`."""

from collections.abc import Mapping
from typing import TypeAlias

from burnish.core.surfaces import ChoiceSurface, NumberSurface, Value
from burnish.system.yaml import with_values

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
        texts[file] = with_values(file, texts[file], places)
    return texts


def file_and_place(name: str) -> tuple[str, str]:
    """The two parts of an axis' id."""
    file, _, place = name.rpartition(MARK)
    return file, place


def _split(name: str, values: Mapping[str, Value]) -> tuple[str, str] | None:
    """The file and the place in it; None where the name is that of a file."""
    file, place = file_and_place(name)
    return (file, place) if file in values else None
