"""The part of JSONPath that names one place: `$`, `.field` and `[index]`."""

import json
import re
from typing import cast

from burnish.core.content import Json

_PATH = re.compile(r"\$(?:\.[A-Za-z_][\w-]*|\[\d+\])*")
_STEP = re.compile(r"\.([A-Za-z_][\w-]*)|\[(\d+)\]")


class NoSuchPlace(ValueError):
    """A value has nothing at a path; the message says where the way ends."""


def is_path(text: str) -> bool:
    """Whether this is a path that can be followed here; an empty one leads to all of it."""
    return not text or _PATH.fullmatch(text) is not None


def at_path(value: Json, path: str) -> Json:
    """What stands at a path. A text is read as JSON where the path leads into it.

    Raises NoSuchPlace.
    """
    place, way = value, "$"
    for step in _STEP.finditer(path):
        place = _into(place, step, way)
        way += step[0]
    return place


def _into(place: Json, step: re.Match[str], way: str) -> Json:
    if isinstance(place, str):
        place = _parsed(place, way)
    name, index = step[1], step[2]
    if name is not None and isinstance(place, dict):
        if name in place:
            return place[name]
        known = ", ".join(place) or "none"
        raise NoSuchPlace(f"{way} has no field '{name}'; its fields: {known}")
    if index is not None and isinstance(place, list):
        if int(index) < len(place):
            return place[int(index)]
        raise NoSuchPlace(f"{way} has {len(place)} items, so no [{index}]")
    wanted = "fields" if name is not None else "items"
    raise NoSuchPlace(f"{way} has no {wanted}, so {step[0]} leads nowhere")


def _parsed(text: str, way: str) -> Json:
    try:
        return cast("Json", json.loads(text))
    except ValueError:
        raise NoSuchPlace(f"{way} is a text that is not JSON") from None
