"""What is wrong with a configuration: where in the file, in plain words, and what to do."""

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import ErrorDetails

from burnish.core.errors import Problem
from burnish.system.redaction import Redactor
from burnish.system.settings import SchemaPosition
from burnish.system.yaml import TreePath, YamlTree

MISSING = "required, but missing"
_BOUNDS = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "multiple_of": "a multiple of {multiple_of}",
    "enum": "{expected}",
    "literal_error": "{expected}",
    "string_pattern_mismatch": "text that matches {pattern}",
    "union_tag_invalid": "one of {expected_tags}",
}
_LENGTHS = {
    "string_too_short": ("at least", "min_length", "character"),
    "string_too_long": ("at most", "max_length", "character"),
    "too_short": ("at least", "min_length", "item"),
    "too_long": ("at most", "max_length", "item"),
}
_KINDS = (
    ("int", "a whole number"),
    ("float", "a number"),
    ("decimal", "a number"),
    ("finite", "a finite number"),
    ("bool", "true or false"),
    ("string", "text"),
    ("bytes", "text"),
    ("list", "a list"),
    ("tuple", "a list"),
    ("set", "a list"),
    ("frozen_set", "a list"),
    ("iterable", "a list"),
    ("dict", "a mapping"),
    ("mapping", "a mapping"),
    ("model", "a mapping"),
    ("dataclass", "a mapping"),
    ("none", "nothing"),
    ("path", "a path"),
    ("datetime", "a date with a time, such as 2026-01-31T12:00:00"),
    ("date", "a date, such as 2026-01-31"),
    ("time_delta", "a length of time"),
    ("time", "a time, such as 12:00:00"),
    ("url", "a URL"),
    ("uuid", "a UUID"),
)
_LONGEST = 60
_LISTED = 12
"""Names that are listed where none is near."""

_Union: TypeAlias = tuple[TreePath, str | int]


def _complaint(errors: Sequence[ErrorDetails]) -> str:
    """One sentence for all that is said about one value."""
    expected = [_expectation(error) for error in errors]
    if all(expected):
        phrase = " or ".join(dict.fromkeys(filter(None, expected)))
        return f"expected {phrase}, found {_shown_input(errors[0])}"
    return "; or ".join(dict.fromkeys(map(_own_words, errors)))


def _expectation(error: ErrorDetails) -> str | None:
    """What may stand there, to follow the word 'expected'; None when it cannot be said so."""
    kind, context = error["type"], error.get("ctx", {})
    if kind in _BOUNDS:
        return _BOUNDS[kind].format_map(context)
    if kind in _LENGTHS:
        bound, key, unit = _LENGTHS[kind]
        return f"{bound} {context[key]} {unit}{'' if context[key] == 1 else 's'}"
    return next((words for start, words in _KINDS if kind.startswith(f"{start}_")), None)


def shown(value: object) -> str:
    """A value as a person would call it: the text or the number, but never a whole structure."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return repr(value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…")
    if isinstance(value, Mapping):
        return "a mapping"
    return str(value) if isinstance(value, int | float) else "a list"


def nearest(word: str, names: Sequence[str]) -> str | None:
    """The known word that was probably meant."""
    spelled = {name.lower().replace("-", "_"): name for name in names}
    close = difflib.get_close_matches(word.lower().replace("-", "_"), list(spelled), n=1)
    return spelled[close[0]] if close else None


def _choices(error: ErrorDetails) -> list[str]:
    """The texts that a choice allows; none when the error is not about a choice."""
    context = error.get("ctx", {})
    return re.findall(r"'([^']*)'", str(context.get("expected", context.get("expected_tags", ""))))


def _shown_input(error: ErrorDetails) -> str:
    if error["type"] in ("too_short", "too_long"):
        return str(error.get("ctx", {}).get("actual_length"))
    if error["type"] == "union_tag_invalid":
        return repr(error.get("ctx", {}).get("tag"))
    return shown(error["input"])


def _own_words(error: ErrorDetails) -> str:
    if error["type"] in ("missing", "union_tag_not_found"):
        return MISSING
    raised = error.get("ctx", {}).get("error")
    if isinstance(raised, Exception):
        return str(raised) or "not valid"
    message = re.sub(r"^Input should be( a valid)?", "expected", error["msg"])
    return message[:1].lower() + message[1:]


def near(name: str, names: Sequence[str]) -> str:
    """What was probably meant, else all there is, as far as it can be listed."""
    likely = next(iter(_ending(name, names)), None) or nearest(name, names)
    if likely is not None:
        return f"did you mean '{likely}'?"
    shown = ", ".join(names[:_LISTED]) or "none"
    return f"there are: {shown}{', …' if len(names) > _LISTED else ''}"


def _ending(name: str, names: Iterable[str]) -> Iterable[str]:
    """Most often what stands before a slash is left out."""
    return (each for each in names if each.endswith(f"/{name}"))


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One place that is wrong, with what each type it may have says of it."""

    path: TreePath
    errors: tuple[ErrorDetails, ...]
    known_keys: tuple[str, ...] = ()
    """The keys of the mapping around `path`."""
    unions: tuple[_Union, ...] = ()
    """The unions on the way: where each stands, and the branch that was tried."""


def faults_in(error: ValidationError, data: object, model: type[BaseModel]) -> list[Fault]:
    """Every fault once; of a union only the branch that was meant, as far as one can tell."""
    details = error.errors(include_url=False)
    return _settle([_locate(one, data, model) for one in details])


def _locate(error: ErrorDetails, data: object, model: type[BaseModel]) -> Fault:
    place, around, value = SchemaPosition.of(model), SchemaPosition.of(model), data
    path: TreePath = ()
    unions: list[_Union] = []
    for step in error["loc"]:
        if _is_key(step, value, place, error):
            value = _value_below(value, step)
            around, place = place, place.below(step).chosen_by(value)
            path = (*path, step)
        elif step != "[key]":
            place = place.narrowed(step)
            unions.append((path, step))
    path = (*path, *_discriminator(error))
    return Fault(path=path, errors=(error,), known_keys=around.keys, unions=tuple(unions))


def _is_key(step: str | int, value: object, place: SchemaPosition, error: ErrorDetails) -> bool:
    """Whether a step leads into the data; otherwise it names a branch of a union."""
    if place.is_branch(step):
        return False
    if isinstance(value, Mapping):
        return step in value or step in place.keys
    if isinstance(value, list | tuple):
        return isinstance(step, int)
    return error["type"] == "missing" and step == error["loc"][-1]


def _value_below(value: object, step: str | int) -> object:
    if isinstance(value, Mapping):
        return cast("Mapping[object, object]", value).get(step)
    items = cast("Sequence[object]", value)
    return items[step] if isinstance(step, int) and step < len(items) else None


def _discriminator(error: ErrorDetails) -> TreePath:
    if not error["type"].startswith("union_tag"):
        return ()
    name = str(error.get("ctx", {}).get("discriminator", "")).strip("'")
    return (name,) if name.isidentifier() else ()


def _settle(faults: Iterable[Fault], level: int = 0) -> list[Fault]:
    settled: list[Fault] = []
    branches: dict[TreePath, dict[str | int, list[Fault]]] = {}
    for fault in faults:
        if len(fault.unions) <= level:
            settled.append(fault)
        else:
            where, label = fault.unions[level]
            branches.setdefault(where, {}).setdefault(label, []).append(fault)
    for where, labels in branches.items():
        settled.extend(_choose(where, list(labels.values()), level + 1))
    return settled


def _choose(where: TreePath, branches: list[list[Fault]], level: int) -> list[Fault]:
    """The branch with the fewest faults among those whose shape fits, or all of them as one."""
    fitting = [
        branch for branch in branches if not any(_is_misfit(fault, where) for fault in branch)
    ]
    if fitting:
        return _settle(min(fitting, key=_distance), level)
    first = branches[0][0]
    misfits = [fault for branch in branches for fault in branch if _is_misfit(fault, where)]
    return [replace(first, path=where, errors=tuple(fault.errors[0] for fault in misfits))]


def _is_misfit(fault: Fault, where: TreePath) -> bool:
    return fault.path == where and fault.errors[0]["type"] not in ("value_error", "assertion_error")


def _distance(branch: list[Fault]) -> tuple[int, int]:
    other_kind = sum(fault.errors[0]["type"] == "literal_error" for fault in branch)
    return other_kind, len(branch)


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
        message = _complaint([_without_secret(one, fault.path, redactor) for one in fault.errors])
        value = error.get("ctx", {}).get("tag", error["input"])
        likely = nearest(str(value), _choices(error))
        remedy = "add it" if message == MISSING else _did_you_mean(likely)
    return Problem(message=redactor.text(message), where=redactor.text(where), remedy=remedy)


def _unknown_key(fault: Fault) -> tuple[str, str]:
    key, names = str(fault.path[-1]), fault.known_keys
    remedy = f"known keys: {', '.join(names)}" if names else "remove it"
    return f"unknown key {key!r}", _did_you_mean(nearest(key, names)) or remedy


def _did_you_mean(likely: str | None) -> str:
    return f"did you mean {likely!r}?" if likely else ""


def _without_secret(error: ErrorDetails, path: TreePath, redactor: Redactor) -> ErrorDetails:
    """The error with a text input as a reader may see it, judged by the key it stands under."""
    value = error["input"]
    if not isinstance(value, str):
        return error
    key = next((step for step in reversed(path) if isinstance(step, str)), "")
    redacted = cast("dict[str, JsonValue]", redactor.json({key: value}))
    safe = error.copy()
    safe["input"] = next(iter(redacted.values()))
    return safe
