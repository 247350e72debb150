"""Faults of a configuration as problems to show: where, what, and what to do."""

import json
import re
from collections.abc import Sequence
from typing import cast

from pydantic import JsonValue
from pydantic_core import ErrorDetails

from burnish.core.errors import Problem
from burnish.system.config_faults import Fault
from burnish.system.config_words import MISSING, choices, complaint, nearest
from burnish.system.plain_data import TreePath
from burnish.system.redaction import Redactor
from burnish.system.yaml_tree import YamlTree


def problems_of(faults: Sequence[Fault], *, source: str, tree: YamlTree | None) -> list[Problem]:
    """A problem for each fault, in the order of the file, with no secret in any."""
    placed = [(_line(tree, fault.path), fault) for fault in faults]
    placed.sort(key=lambda pair: pair[0] or 0)
    return [problem_of(fault, _where(source, line, fault.path)) for line, fault in placed]


def dotted(path: TreePath) -> str:
    """The path as one writes it: `phases[0].name`."""
    return "".join(map(_step, path)).removeprefix(".")


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    plain = re.fullmatch(r"[\w-]+", step)
    return f".{step}" if plain else f"[{json.dumps(step, ensure_ascii=False)}]"


def _line(tree: YamlTree | None, path: TreePath) -> int | None:
    """The line of the value, or of the nearest one around it when it is missing."""
    if tree is None or not path:
        return None
    return tree.line_of(path) or _line(tree, path[:-1])


def _where(source: str, line: int | None, path: TreePath) -> str:
    place = f"{source}:{line}" if line else source
    return f"{place} {dotted(path)}".strip()


def problem_of(fault: Fault, where: str) -> Problem:
    """What to show of a fault, with no secret in it."""
    redactor, error = Redactor.from_environment(), fault.errors[0]
    if error["type"] == "extra_forbidden":
        message, remedy = _unknown_key(fault)
    else:
        message = complaint([_without_secret(one, fault.path, redactor) for one in fault.errors])
        given = error.get("ctx", {}).get("tag", error["input"])
        likely = nearest(str(given), choices(error))
        remedy = "add it" if message == MISSING else _did_you_mean(likely)
    return Problem(message=redactor.text(message), where=redactor.text(where), remedy=remedy)


def _unknown_key(fault: Fault) -> tuple[str, str]:
    key, known = str(fault.path[-1]), fault.known_keys
    remedy = f"known keys: {', '.join(known)}" if known else "remove it"
    return f"unknown key {key!r}", _did_you_mean(nearest(key, known)) or remedy


def _did_you_mean(likely: str | None) -> str:
    return f"did you mean {likely!r}?" if likely else ""


def _without_secret(error: ErrorDetails, path: TreePath, redactor: Redactor) -> ErrorDetails:
    """The error with a text input as a reader may see it, judged by the key it stands under."""
    given = error["input"]
    if not isinstance(given, str):
        return error
    key = next((step for step in reversed(path) if isinstance(step, str)), "")
    seen = cast("dict[str, JsonValue]", redactor.json({key: given}))
    safe = error.copy()
    safe["input"] = next(iter(seen.values()))
    return safe
