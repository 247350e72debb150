"""Comparing JSON: paths, texts, schemas, and differences between trees."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Literal, Protocol, cast

from burnish.core.content import Json, canonical
from burnish.core.errors import ConfigError, Problem
from burnish.metrics.text_matching import (
    HELD,
    Match,
    a_kind,
    all_of,
    cut,
    levelled,
    quoted,
    same_number,
    shown,
)

FENCE = "```"


@dataclass(frozen=True, kw_only=True)
class JsonReading:
    """A JSON value, or what kept it from being read."""

    value: Json = None
    problem: str = ""


def parse_json(text: str) -> JsonReading:
    """The JSON that the whole text is. NaN, infinity and a fence around it are not JSON."""
    stripped = text.strip()
    if not stripped:
        return JsonReading(problem="found nothing where JSON should be")
    if stripped.startswith(FENCE):
        return JsonReading(problem=f"the answer is inside a {FENCE} fence: ask for bare JSON")
    try:
        value = json.loads(stripped, parse_constant=_refuse, parse_float=_finite)
    except json.JSONDecodeError as error:
        return JsonReading(problem=_where_it_breaks(stripped, error))
    except ValueError as error:
        return JsonReading(problem=f"found {quoted(stripped)}, which is no JSON ({error})")
    except RecursionError:
        return JsonReading(problem=f"found {quoted(stripped)}, which is nested too deeply")
    return JsonReading(value=cast("Json", value))


def _where_it_breaks(text: str, error: json.JSONDecodeError) -> str:
    problem = f"found {quoted(text)}, which is no JSON"
    if error.msg == "Extra data":
        return f"{problem}: there is more after its end, ask for JSON with nothing around it"
    if text[error.pos :] == text:
        return f"{problem}: ask for JSON with nothing around it"
    place = quoted(text[max(0, error.pos - 10) : error.pos + 10])
    words = f"{error.msg[:1].lower()}{error.msg[1:]}"
    return f"{problem}: {words} at line {error.lineno}, column {error.colno}, near {place}"


def _refuse(constant: str) -> Json:
    raise ValueError(f"{constant} has no JSON form")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"the number {digits} is too large")
    return value


# -- Paths into JSON ------------------------------------------------------------------------------


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
        value, here = inner[0], _extended(here, key)
    return JsonReading(value=value)


def path_problem(path: str) -> str:
    """Why a text is no path; empty where it is one."""
    if not path.strip() or _STEP.sub("", _body(path)) or ".." in path or path.endswith("."):
        return f"'{cut(path)}' is no path: write it like a.b[0].c"
    return ""


def _extended(path: str, key: str | int) -> str:
    """The path of what is at `key` inside of what is at `path`."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    name = cut(key, 40)
    return f"{path}.{name}" if _NAME.fullmatch(key) else f"{path}['{name}']"


def _body(path: str) -> str:
    return path.strip().removeprefix("$")


def _steps(path: str) -> list[str | int]:
    matches = _STEP.finditer(_body(path))
    return [int(step[1]) if step[1] else (step[2] or step[3] or step[4] or "") for step in matches]


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
        contents = f"whose keys are {keys}{more}" if value else "without any key"
        return f"{here} is an object {contents}; '{cut(str(key), 40)}' is not among them"
    if isinstance(value, list):
        return f"{here} is {a_kind(value)} and has no item '{cut(str(key), 40)}'"
    return f"{here} is {a_kind(value)}, which has nothing inside"


# -- What differs between two JSON trees, path by path --------------------------------------------


_TOLERANCE = 1e-6
"""How far apart two numbers may be where nobody says."""
_WIDTH = 60

_Tree = Mapping[str, Json]
"""Keys that are spoken of: each is true, for all of it, or has a tree of its own."""


@dataclass(frozen=True, kw_only=True)
class _Place:
    """A place of both trees, and what is to be left out from there on."""

    path: str = "$"
    expected: Json
    actual: Json
    tree: Json
    only: bool

    def sees(self, key: str) -> bool:
        """Whether a key is compared at all."""
        if not isinstance(self.tree, Mapping):
            return True
        branch = self.tree.get(key)
        chosen = branch is True or isinstance(branch, Mapping)
        return chosen if self.only else branch is not True

    def inside(self, key: str | int, expected: Json, actual: Json) -> "_Place":
        """The place one step further in; a list hands its tree on to every item."""
        tree = self.tree
        if isinstance(key, str):
            branch = tree.get(key) if isinstance(tree, Mapping) else None
            tree = dict(branch) if isinstance(branch, Mapping) else None
        path = _extended(self.path, key)
        return _Place(path=path, expected=expected, actual=actual, tree=tree, only=self.only)


def differences(
    expected: Json,
    actual: Json,
    *,
    ignored: _Tree | None = None,
    only: _Tree | None = None,
    tolerance: float = _TOLERANCE,
) -> Iterator[str]:
    """Every difference that is not left out, in the order of the expected value.

    1 is 1.0, but neither true nor the text '1'.
    """
    tree: Json = dict(only or ignored or {}) or None
    stack = [_Place(expected=expected, actual=actual, tree=tree, only=bool(only))]
    while stack:
        place = stack.pop()
        one, other = place.expected, place.actual
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from _unpaired(place, one, other)
            both = [key for key in one if key in other and place.sees(key)]
            stack += [place.inside(key, one[key], other[key]) for key in reversed(both)]
        elif isinstance(one, list) and isinstance(other, list):
            if len(one) != len(other):
                yield f"{place.path}: expected {a_kind(one)}, found {a_kind(other)}"
            pairs = list(enumerate(zip(one, other, strict=False)))
            stack += [place.inside(index, a, b) for index, (a, b) in reversed(pairs)]
        elif not _same(one, other, tolerance):
            yield f"{place.path}: expected {_described(one, other)}, found {_described(other, one)}"


def _unpaired(place: _Place, one: Mapping[str, Json], other: Mapping[str, Json]) -> Iterator[str]:
    for key, value in one.items():
        if key not in other and place.sees(key):
            yield f"{_extended(place.path, key)}: missing, expected {shown(value, _WIDTH)}"
    for key, value in other.items():
        if key not in one and place.sees(key):
            yield f"{_extended(place.path, key)}: unexpected, found {shown(value, _WIDTH)}"


def _same(one: Json, other: Json, tolerance: float) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return same_number(one, other, tolerance)
    if isinstance(one, str) and isinstance(other, str):
        return levelled(one) == levelled(other)
    return one is None and other is None


def _described(value: Json, beside: Json) -> str:
    """The value, and that it is a text where the other is none: '5' is no 5."""
    words = shown(value, _WIDTH)
    text_alone = isinstance(value, str) and not isinstance(beside, str)
    return f"the text {words}" if text_alone else words


# -- JSON values against a JSON Schema ------------------------------------------------------------


_Schema = Mapping[str, Json] | bool
"""True takes anything, false nothing."""
# -- Comparing JSON -------------------------------------------------------------------------------


_SHOWN = 5
_SCHEMA_WIDTH = 120


class _Fault(Protocol):
    """What is used of a jsonschema error."""

    message: str
    absolute_path: Any


def _check_schema(value: Json, schema: _Schema) -> Match:
    """Whether a value keeps to a schema; else where it does not, place by place.

    References to other files are never fetched.
    """
    from referencing.exceptions import Unresolvable

    problem = _schema_problem(schema)
    if problem:
        return Match.missed(problem)
    try:
        faults = cast("list[_Fault]", list(_validator(_spelled(schema)).iter_errors(value)))
    except Unresolvable as error:
        return Match.missed(
            f"the schema refers to what is not in it ({cut(str(error), _SCHEMA_WIDTH)})"
        )
    except RecursionError:
        return Match.missed("the value is nested too deeply to be held against the schema")
    messages = [f"{_path(fault)}: {cut(fault.message, _SCHEMA_WIDTH)}" for fault in faults[:_SHOWN]]
    more = ["and more"] if len(faults) > _SHOWN else []
    return (
        Match.missed("against the schema: " + "; ".join([*messages, *more])) if messages else HELD
    )


def _schema_problem(schema: _Schema) -> str:
    """What is wrong with a schema itself; empty where nothing is."""
    from jsonschema.exceptions import SchemaError

    try:
        _validator(_spelled(schema))
    except SchemaError as error:
        where = _path(cast("_Fault", error))
        return (
            f"the schema is wrong at {where} ({cut(error.message, _SCHEMA_WIDTH)}): mend the metric"
        )
    return ""


@lru_cache(maxsize=64)
def _validator(spelled: bytes) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from jsonschema_specifications import REGISTRY

    schema = json.loads(spelled)
    kind: Any = validator_for(schema, default=Draft202012Validator)
    kind.check_schema(schema)
    # Its own registry, since the usual one fetches what a schema refers to from the network.
    return kind(schema, registry=REGISTRY)


def _spelled(schema: _Schema) -> bytes:
    return canonical(schema if isinstance(schema, bool) else dict(schema))


def _path(fault: _Fault) -> str:
    path = "$"
    for key in cast("list[str | int]", list(fault.absolute_path)):
        path = _extended(path, key)
    return path


@dataclass(frozen=True, kw_only=True)
class JsonRule:
    """How a JSON value should agree with the expected one."""

    match: Literal["exact", "skip"] = "exact"
    ignore_tree: _Tree | None = None
    """What is left out of the comparison; inside a list it holds for each item."""
    only_tree: _Tree | None = None
    """What alone is compared. Not beside `ignore_tree`; empty is as if not given."""
    number_tolerance: float | None = None
    """How far apart two numbers may be; None for a millionth."""
    valid: bool = False
    """It must be JSON, also where nothing is compared."""
    schema: _Schema | None = None
    """A JSON Schema that it must keep to; of 2020-12 unless it says otherwise."""
    ignore: bool = False
    """Holds whatever is there."""

    def __post_init__(self) -> None:
        if self.ignore_tree and self.only_tree:
            message = "a JSON rule has an ignore tree and an only tree: each undoes the other"
            raise ConfigError([Problem(message=message, remedy="keep one of them")])

    @property
    def needs_reference(self) -> bool:
        """Whether there must be an expected value."""
        return not self.ignore and self.match != "skip"

    @property
    def reads(self) -> bool:
        """Whether the rule looks at the value at all."""
        asks = self.match != "skip" or self.valid or self.schema is not None
        return asks and not self.ignore


EXACT = JsonRule()


def compare_json_texts(
    expected: str | None, reply: str | JsonReading, rule: JsonRule = EXACT
) -> Match:
    """Whether a text holds JSON as the rule asks. What is no JSON matches nothing."""
    if not rule.reads:
        return HELD
    reference = parse_json(expected or "") if rule.needs_reference else JsonReading()
    if reference.problem:
        return Match.missed(f"the expected answer is no JSON ({reference.problem}): mend the case")
    answer = parse_json(reply) if isinstance(reply, str) else reply
    if answer.problem:
        return Match.missed(answer.problem)
    return compare_json(reference.value, answer.value, rule)


def compare_json(expected: Json, actual: Json, rule: JsonRule = EXACT) -> Match:
    """Whether a JSON value is as the rule asks."""
    if rule.ignore:
        return HELD
    checks = [] if rule.schema is None else [_check_schema(actual, rule.schema)]
    if rule.match != "skip":
        checks.append(_compare(expected, actual, rule))
    return all_of(checks)


def _compare(expected: Json, actual: Json, rule: JsonRule) -> Match:
    tolerance = _TOLERANCE if rule.number_tolerance is None else rule.number_tolerance
    every = differences(
        expected, actual, ignored=rule.ignore_tree, only=rule.only_tree, tolerance=tolerance
    )
    lines = list(islice(every, _SHOWN + 1))
    if not lines:
        return HELD
    more = ["and more"] if len(lines) > _SHOWN else []
    return Match.missed("; ".join([*lines[:_SHOWN], *more]))
