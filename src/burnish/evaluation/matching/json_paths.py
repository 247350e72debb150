"""Paths into JSON: `answer`, `a.b[0].c`, `$['a key'][-1]`."""

import re
from collections.abc import Mapping

from burnish.core.content import Json
from burnish.evaluation.matching.excerpts import a_kind, cut
from burnish.evaluation.matching.json_texts import JsonReading, parse_json

_STEP = re.compile(r"""\[\s*(?:(-?[0-9]+)|'([^']*)'|"([^"]*)")\s*\]|\.?([^.\[\]'"]+)""")
_NAME = re.compile(r"[^\W\d]\w*")
_KEYS_SHOWN = 6


def read_path(value: Json, path: str, *, into_texts: bool = False) -> JsonReading:
    """What stands at a path, or in words where the path ends too early.

    With `into_texts`, a text on the way is read as JSON.
    """
    problem = path_problem(path)
    if problem:
        return JsonReading(problem=problem)
    here = "$"
    for key in _steps(path):
        if into_texts and isinstance(value, str):
            text = parse_json(value)
            if text.problem:
                problem = f"{here} is a text that is not JSON"
                return JsonReading(problem=f"nothing at '{cut(path)}': {problem}")
            value = text.value
        inner = _inside(value, key)
        if inner is None:
            return JsonReading(problem=f"nothing at '{cut(path)}': {_what_is(value, here, key)}")
        value, here = inner[0], extended(here, key)
    return JsonReading(value=value)


def path_problem(path: str) -> str:
    """Why a text is no path; empty where it is one."""
    if not path.strip() or _STEP.sub("", _body(path)) or ".." in path or path.endswith("."):
        return f"'{cut(path)}' is no path: write it like a.b[0].c"
    return ""


def extended(path: str, key: str | int) -> str:
    """The path of what is at `key` inside of what is at `path`."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    name = cut(key, 40)
    return f"{path}.{name}" if _NAME.fullmatch(key) else f"{path}['{name}']"


def _body(path: str) -> str:
    return path.strip().removeprefix("$")


def _steps(path: str) -> list[str | int]:
    found = _STEP.finditer(_body(path))
    return [int(step[1]) if step[1] else (step[2] or step[3] or step[4] or "") for step in found]


def _inside(value: Json, key: str | int) -> tuple[Json] | None:
    if isinstance(value, Mapping):
        return (value[str(key)],) if str(key) in value else None
    if isinstance(value, list):
        place = int(key) if re.fullmatch(r"-?[0-9]{1,9}", str(key)) else len(value)
        return (value[place],) if -len(value) <= place < len(value) else None
    return None


def _what_is(value: Json, here: str, key: str | int) -> str:
    if isinstance(value, Mapping):
        keys = ", ".join(cut(name, 40) for name in list(value)[:_KEYS_SHOWN])
        more = ", …" if len(value) > _KEYS_SHOWN else ""
        told = f"whose keys are {keys}{more}" if value else "without any key"
        return f"{here} is an object {told}; '{cut(str(key), 40)}' is not among them"
    if isinstance(value, list):
        return f"{here} is {a_kind(value)} and has no item '{cut(str(key), 40)}'"
    return f"{here} is {a_kind(value)}, which has nothing inside"
