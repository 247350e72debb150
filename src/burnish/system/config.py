"""Configuration files as pydantic models, with all problems reported at once, each where it is."""

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar, cast

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import ErrorDetails

from burnish.core.errors import ConfigError, Problem, first_problems
from burnish.system.redaction import Redactor
from burnish.system.removed import way_out
from burnish.system.settings import SchemaPosition
from burnish.system.yaml import TreePath, YamlTree, read_tree

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
_KINDS = {
    "int_": "a whole number",
    ("float_", "decimal_"): "a number",
    "finite_": "a finite number",
    "bool_": "true or false",
    ("string_", "bytes_"): "text",
    ("list_", "tuple_", "set_", "frozen_set_", "iterable_"): "a list",
    ("dict_", "mapping_", "model_", "dataclass_"): "a mapping",
    "none_": "nothing",
    "path_": "a path",
    "datetime_": "a date with a time, such as 2026-01-31T12:00:00",
    "date_": "a date, such as 2026-01-31",
    "time_delta_": "a length of time",
    "time_": "a time, such as 12:00:00",
    "url_": "a URL",
    "uuid_": "a UUID",
}
_LONGEST = 60
_LISTED = 12
"""How many names are listed if none is similar."""


def _complaint(errors: Sequence[ErrorDetails]) -> str:
    expected = [_expectation(error) for error in errors]
    if all(expected):
        phrase = " or ".join(dict.fromkeys(filter(None, expected)))
        return f"expected {phrase}, found {_shown_input(errors[0])}"
    return "; or ".join(dict.fromkeys(map(_own_words, errors)))


def _expectation(error: ErrorDetails) -> str | None:
    """What is allowed there, to follow the word 'expected'; None if that cannot be expressed."""
    kind, context = error["type"], error.get("ctx", {})
    if kind in _BOUNDS:
        return _BOUNDS[kind].format_map(context)
    if kind in _LENGTHS:
        bound, key, unit = _LENGTHS[kind]
        return f"{bound} {context[key]} {unit}{'' if context[key] == 1 else 's'}"
    return next((words for starts, words in _KINDS.items() if kind.startswith(starts)), None)


def shown(value: object) -> str:
    """A value for a message: the text or the number, but never a whole structure."""
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
    if len(word) > _LONGEST:
        return None
    spelled = {name.lower().replace("-", "_"): name for name in names}
    close = difflib.get_close_matches(word.lower().replace("-", "_"), list(spelled), n=1)
    return spelled[close[0]] if close else None


def _choices(error: ErrorDetails) -> list[str]:
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
    """What was probably meant, otherwise the available names, up to a limit."""
    # Most often what stands before a slash is left out.
    likely = next((each for each in names if each.endswith(f"/{name}")), nearest(name, names))
    if likely is not None:
        return f"did you mean '{likely}'?"
    shown = ", ".join(names[:_LISTED]) or "none"
    return f"there are: {shown}{', …' if len(names) > _LISTED else ''}"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One invalid place, with the errors of each type that is possible there."""

    path: TreePath
    errors: tuple[ErrorDetails, ...]
    known_keys: tuple[str, ...] = ()
    """The keys of the mapping around `path`."""
    unions: tuple[tuple[TreePath, str | int], ...] = ()
    """The unions on the way: the path of each, and the branch that was tried."""


def faults_in(error: ValidationError, data: object, model: type[BaseModel]) -> list[Fault]:
    """Every fault once; of a union only the branch that was probably meant."""
    top = SchemaPosition.of(model)
    return _settle([_locate(one, data, top) for one in error.errors(include_url=False)])


def _locate(error: ErrorDetails, data: object, top: SchemaPosition) -> Fault:
    place, around, value = top, top, data
    path: TreePath = ()
    unions: list[tuple[TreePath, str | int]] = []
    for step in error["loc"]:
        if _is_key(step, value, place, error):
            value = _value_below(value, step)
            around, place = place, place.below(step).chosen_by(value)
            path = (*path, step)
        elif step != "[key]":
            place = place.narrowed(step)
            unions.append((path, step))
    if error["type"].startswith("union_tag"):
        name = str(error.get("ctx", {}).get("discriminator", "")).strip("'")
        path = (*path, name) if name.isidentifier() else path
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

    def distance(branch: list[Fault]) -> tuple[int, int]:
        other_kind = sum(fault.errors[0]["type"] == "literal_error" for fault in branch)
        return other_kind, len(branch)

    misfits = [[fault for fault in branch if _is_misfit(fault, where)] for branch in branches]
    fitting = [branch for branch, wrong in zip(branches, misfits, strict=True) if not wrong]
    if fitting:
        return _settle(min(fitting, key=distance), level)
    errors = tuple(fault.errors[0] for wrong in misfits for fault in wrong)
    return [replace(branches[0][0], path=where, errors=errors)]


def _is_misfit(fault: Fault, where: TreePath) -> bool:
    return fault.path == where and fault.errors[0]["type"] not in ("value_error", "assertion_error")


def problems_of(faults: Sequence[Fault], *, source: str, tree: YamlTree | None) -> list[Problem]:
    """The problems of the first faults in the order of the file, without secrets."""
    placed = [(_line(tree, fault.path), fault) for fault in faults]
    placed.sort(key=lambda pair: pair[0] or 0)

    def problem(pair: tuple[int | None, Fault]) -> Problem:
        line, fault = pair
        where = f"{source}{f':{line}' if line else ''} {dotted(fault.path)}".strip()
        return problem_of(fault, where)

    return first_problems(placed, problem)


def dotted(path: TreePath) -> str:
    """The path in its usual notation: `phases[0].name`."""
    return "".join(map(_step, path)).removeprefix(".")


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    step = step if len(step) <= _LONGEST else f"{step[:_LONGEST]}…"
    plain = re.fullmatch(r"[\w-]+", step)
    return f".{step}" if plain else f"[{json.dumps(step, ensure_ascii=False)}]"


def _line(tree: YamlTree | None, path: TreePath) -> int | None:
    """The line of the value, or of the nearest enclosing one if it is missing."""
    if tree is None or not path:
        return None
    return tree.line_of(path) or _line(tree, path[:-1])


def problem_of(fault: Fault, where: str) -> Problem:
    """The problem to show for a fault, without secrets."""
    redactor, error = Redactor.from_environment(), fault.errors[0]
    if error["type"] == "extra_forbidden":
        message, remedy = unknown_key(str(fault.path[-1]), fault.known_keys)
    else:
        message = _complaint([_without_secret(one, fault.path, redactor) for one in fault.errors])
        value = error.get("ctx", {}).get("tag", error["input"])
        likely = nearest(str(value), _choices(error))
        remedy = "add it" if message == MISSING else _did_you_mean(likely)
    return Problem(message=redactor.text(message), where=redactor.text(where), remedy=remedy)


def unknown_key(key: str, names: Sequence[str]) -> tuple[str, str]:
    """What is wrong with a key that is not among `names`, and the remedy."""
    if gone := way_out(key):
        return f"{shown(key)} no longer exists", gone
    likely = _did_you_mean(nearest(key, names))
    known = f"known keys: {', '.join(names)}" if names else "remove it"
    return f"unknown key {shown(key)}", likely or known


def _did_you_mean(likely: str | None) -> str:
    return f"did you mean {likely!r}?" if likely else ""


def _without_secret(error: ErrorDetails, path: TreePath, redactor: Redactor) -> ErrorDetails:
    """The error with its text input redacted, judged by the key."""
    value = error["input"]
    if not isinstance(value, str):
        return error
    key = next((step for step in reversed(path) if isinstance(step, str)), "")
    redacted = cast("dict[str, JsonValue]", redactor.json({key: value}))
    safe = error.copy()
    safe["input"] = next(iter(redacted.values()))
    return safe


# -- Reading ---------------------------------------------------------------------------------------


M = TypeVar("M", bound=BaseModel)


def load_config(path: Path, model: type[M]) -> M:
    """Read a YAML or JSON file into `model`, or raise one ConfigError with every problem."""
    tree = read_tree(path)
    return validate_config(tree.data, model, source=path.name, tree=tree)


def validate_config(
    data: object, model: type[M], *, source: str, tree: YamlTree | None = None
) -> M:
    """Validate `data` as a `model`; `source` and `tree` locate each problem."""
    if not isinstance(data, Mapping) and not model.__pydantic_root_model__:
        remedy = f"known keys: {', '.join(SchemaPosition.of(model).keys)}"
        kind = "text" if isinstance(data, str) else shown(data)
        message = f"expected keys with values at the top level, found {kind}"
        if data is None:
            message = "it is empty" if tree is None else "the file is empty"
        raise ConfigError.of(source, message, remedy)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        faults = faults_in(error, cast("object", data), model)
    # Raised out here, since pydantic's error would bring the input along, secrets included.
    raise ConfigError(problems_of(faults, source=source, tree=tree))
