"""Comparing JSON and XML documents: paths, texts, schemas, and where two trees differ."""

import importlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Annotated, Any, Literal, Protocol, TypeAlias, cast
from xml.parsers import expat

from pydantic import AfterValidator

from burnish.core.content import Json, canonical
from burnish.core.errors import ConfigError, MissingExtra, Problem
from burnish.metrics.text_matching import (
    a_kind,
    cut,
    joined,
    levelled,
    quoted,
    same_number,
    shown,
)
from burnish.system.extras import install_command
from burnish.system.user_code import BadPattern, search

_FENCE = "```"


@dataclass(frozen=True, kw_only=True)
class JsonReading:
    """A JSON value, or the reason why there is none."""

    value: Json = None
    problem: str = ""


def parse_json(text: str) -> JsonReading:
    """Parse the whole text as strict JSON, without a fence, NaN or infinity."""
    stripped = text.strip()
    if not stripped:
        return JsonReading(problem="expected JSON, found nothing")
    if stripped.startswith(_FENCE):
        return JsonReading(problem=f"the answer is inside a {_FENCE} fence: ask for bare JSON")
    try:
        value = json.loads(stripped, parse_constant=_refuse, parse_float=_finite)
    except json.JSONDecodeError as error:
        return JsonReading(problem=_where_it_breaks(stripped, error))
    except ValueError as error:
        return JsonReading(problem=f"found {quoted(stripped)}, which is not JSON ({error})")
    except RecursionError:
        return JsonReading(problem=f"found {quoted(stripped)}, which is nested too deeply")
    return JsonReading(value=cast("Json", value))


def _where_it_breaks(text: str, error: json.JSONDecodeError) -> str:
    problem = f"found {quoted(text)}, which is not JSON"
    if error.msg == "Extra data":
        return f"{problem}: there is more text after it, ask for JSON with nothing around it"
    if text[error.pos :] == text:
        return f"{problem}: ask for JSON with nothing around it"
    place = quoted(text[max(0, error.pos - 10) : error.pos + 10])
    words = f"{error.msg[:1].lower()}{error.msg[1:]}"
    return f"{problem}: {words} at line {error.lineno}, column {error.colno}, near {place}"


def _refuse(constant: str) -> Json:
    raise ValueError(f"{constant} is not valid JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"the number {digits} is too large")
    return value


_STEP = re.compile(r"""\[\s*(?:(-?[0-9]+)|'([^']*)'|"([^"]*)")\s*\]|\.?([^.\[\]'"]+)""")
_FOREIGN = re.compile(r"[*\s]")


def read_path(value: Json, path: str, *, into_texts: bool = False) -> JsonReading:
    """The value at a path; with `into_texts`, a text on the way is parsed as JSON."""
    problem = path_problem(path)
    if problem:
        return JsonReading(problem=problem)
    here = "$"
    for step in _STEP.finditer(_body(path)):
        key = int(step[1]) if step[1] else (step[2] or step[3] or step[4] or "")
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
    """Why a text is not a path; empty if it is one.

    A JSON pointer, a wildcard or a key with a blank would be read as a key that no answer has; such
    a key is quoted.
    """
    body = _body(path)
    steps = [step for step in _STEP.finditer(body) if step[4]]
    foreign = body.startswith("/") or any(_FOREIGN.search(step[4]) for step in steps)
    broken = not path.strip() or _STEP.sub("", body) or ".." in path or path.endswith(".")
    glued = any(step.start() and not step[0].startswith(".") for step in steps)  # a[0]b
    broken = broken or path.startswith(".") or glued
    return f"'{cut(path)}' is not a path: write it like a.b[0].c" if foreign or broken else ""


def _checked(path: str) -> str:
    if path and (problem := path_problem(path)):
        raise ValueError(problem)
    return path


JsonPath: TypeAlias = Annotated[str, AfterValidator(_checked)]
"""A place in a JSON answer as files write it; empty for all of it."""


def _extended(path: str, key: str | int) -> str:
    if isinstance(key, int):
        return f"{path}[{key}]"
    name = cut(key, 40)
    return f"{path}.{name}" if re.fullmatch(r"[^\W\d]\w*", key) else f"{path}['{name}']"


def _body(path: str) -> str:
    return path.strip().removeprefix("$")


def _inside(value: Json, key: str | int) -> tuple[Json] | None:
    if isinstance(value, Mapping):
        return (value[str(key)],) if str(key) in value else None
    if isinstance(value, list):
        place = int(key) if re.fullmatch(r"-?[0-9]{1,9}", str(key)) else len(value)
        return (value[place],) if -len(value) <= place < len(value) else None
    return None


def _what_is(value: Json, here: str, key: str | int) -> str:
    if isinstance(value, Mapping):
        keys = ", ".join(cut(name, 40) for name in list(value)[:6])
        more = ", …" if len(value) > 6 else ""
        contents = f"with the keys {keys}{more}" if value else "without keys"
        return f"{here} is an object {contents}; '{cut(str(key), 40)}' is not among them"
    if isinstance(value, list):
        return f"{here} is {a_kind(value)} and has no item '{cut(str(key), 40)}'"
    return f"{here} is {a_kind(value)}, which has no keys or items"


_TOLERANCE = 1e-6
_WIDTH = 60

_Tree = Mapping[str, Json]
"""Selected keys: each is true, or has a tree of its own."""


@dataclass(frozen=True, kw_only=True)
class _Place:
    """A place in both values, and the selection below it."""

    path: str = "$"
    expected: Json
    actual: Json
    tree: Json
    only: bool

    def sees(self, key: str) -> bool:
        if not isinstance(self.tree, Mapping):
            return True
        branch = self.tree.get(key)
        chosen = branch is True or isinstance(branch, Mapping)
        return chosen if self.only else branch is not True

    def inside(self, key: str | int, expected: Json, actual: Json) -> "_Place":
        """The place one step down; a list passes its tree on to every item."""
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
    """All differences in order; 1 equals 1.0, but neither true nor the text "1"."""
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
    """The value, marked as text if the other one is not."""
    words = shown(value, _WIDTH)
    text_alone = isinstance(value, str) and not isinstance(beside, str)
    return f"the text {words}" if text_alone else words


_Schema = Mapping[str, Json] | bool
"""True accepts anything, false nothing."""
_SHOWN = 5
"""The number of differences in a reason."""
_SCHEMA_WIDTH = 120


class _Fault(Protocol):
    """The part of a jsonschema error that is used."""

    message: str
    absolute_path: Any


def require_schema_library() -> None:
    """Refuse a schema where nothing can check it, before anything is paid for."""
    try:
        importlib.import_module("jsonschema")
    except ImportError:
        message = "a JSON Schema is checked with jsonschema, which is not installed"
        raise MissingExtra(message, remedy=install_command("schema")) from None


def check_schema(value: Json, schema: Json | Mapping[str, Json]) -> str:
    """Where a value violates a schema; references to other files are never fetched."""
    require_schema_library()
    from jsonschema.exceptions import SchemaError
    from referencing.exceptions import Unresolvable

    spelling = canonical(dict(schema) if isinstance(schema, Mapping) else schema)
    try:
        faults = cast("list[_Fault]", list(_validator(spelling).iter_errors(value)))
    except SchemaError as error:
        where, problem = _path(cast("_Fault", error)), cut(error.message, _SCHEMA_WIDTH)
        return f"the schema is invalid at {where} ({problem}): fix the metric"
    except Unresolvable as error:
        return (
            f"the schema has a reference that cannot be resolved ({cut(str(error), _SCHEMA_WIDTH)})"
        )
    except BadPattern as error:
        return f"the schema has a pattern that cannot be used ({error}): fix the metric"
    except RecursionError:
        return "the value is nested too deeply to be checked against the schema"
    messages = [f"{_path(fault)}: {cut(fault.message, _SCHEMA_WIDTH)}" for fault in faults]
    return f"violates the schema: {_first(messages)}" if messages else ""


def _first(lines: Sequence[str]) -> str:
    return "; ".join([*lines[:_SHOWN], *(["and more"] if len(lines) > _SHOWN else [])])


@lru_cache(maxsize=64)
def _validator(spelling: bytes) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from jsonschema_specifications import REGISTRY

    schema = json.loads(spelling)
    kind: Any = validator_for(schema, default=Draft202012Validator)
    kind.check_schema(schema)
    # Its own registry, since the usual one fetches what a schema refers to from the network.
    return _with_limited_patterns(kind)(schema, registry=REGISTRY)


@lru_cache(maxsize=8)
def _with_limited_patterns(kind: Any) -> Any:
    """A kind of validator whose patterns have a time limit, as all that users write."""
    from jsonschema import validators

    return cast("Any", validators).extend(kind, _KEYWORDS)


def _pattern(validator: Any, pattern: str, value: Any, _: Any) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if validator.is_type(value, "string") and not search(pattern, value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Any, value: Any, _: Any) -> Iterator[Any]:
    for pattern, schema in patterns.items() if validator.is_type(value, "object") else ():
        for name, item in value.items():
            if search(pattern, name):
                yield from validator.descend(item, schema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, allowed: Any, value: Any, schema: Any) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if not validator.is_type(value, "object"):
        return
    patterns, named = schema.get("patternProperties", {}), schema.get("properties", {})
    extras = [n for n in value if n not in named and not any(search(p, n) for p in patterns)]
    if validator.is_type(allowed, "object"):
        for name in extras:
            yield from validator.descend(value[name], allowed, path=name)
    elif not allowed and extras:
        listed = ", ".join(map(repr, sorted(extras)))
        verb = "was" if len(extras) == 1 else "were"
        yield ValidationError(f"Additional properties are not allowed ({listed} {verb} unexpected)")


# `unevaluatedProperties` looks at patterns too, after these: the keys of a schema are sorted.
_KEYWORDS = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
}


def _path(fault: _Fault) -> str:
    path = "$"
    for key in cast("list[str | int]", list(fault.absolute_path)):
        path = _extended(path, key)
    return path


@dataclass(frozen=True, kw_only=True)
class JsonRule:
    """How a JSON value must match the expected one."""

    match: Literal["exact", "skip"] = "exact"
    ignore_tree: _Tree | None = None
    """Keys to ignore; in a list, this applies to every item."""
    only_tree: _Tree | None = None
    """Keys to compare; excludes `ignore_tree`."""
    number_tolerance: float | None = None
    """The largest difference between two equal numbers; None for 1e-6."""
    valid: bool = False
    """Require JSON even if nothing is compared."""
    schema: _Schema | None = None
    """A JSON Schema, 2020-12 unless it says otherwise."""
    ignore: bool = False

    def __post_init__(self) -> None:
        if self.ignore_tree and self.only_tree:
            message = "a JSON rule cannot have both an ignore tree and an only tree"
            raise ConfigError([Problem(message=message, remedy="keep one of them")])
        if self.schema is not None and self.reads:
            require_schema_library()

    @property
    def needs_reference(self) -> bool:
        return not self.ignore and self.match != "skip"

    @property
    def reads(self) -> bool:
        """Whether the rule looks at the value at all."""
        asks = self.match != "skip" or self.valid or self.schema is not None
        return asks and not self.ignore


EXACT = JsonRule()


def compare_json_texts(
    expected: str | None, reply: str, rule: JsonRule = EXACT, *, data: Json = None
) -> str:
    """Why a text, or the data next to it, breaks the rule."""
    if not rule.reads:
        return ""
    reference = parse_json(expected or "") if rule.needs_reference else JsonReading()
    if reference.problem:
        return f"the expected answer is not JSON ({reference.problem}): fix the case"
    answer = parse_json(reply) if data is None else JsonReading(value=data)
    return answer.problem or compare_json(reference.value, answer.value, rule)


def compare_json(expected: Json, actual: Json, rule: JsonRule = EXACT) -> str:
    """Why a JSON value breaks the rule."""
    if rule.ignore:
        return ""
    schema = "" if rule.schema is None else check_schema(actual, rule.schema)
    if rule.match == "skip":
        return schema
    tolerance = _TOLERANCE if rule.number_tolerance is None else rule.number_tolerance
    lines = differences(
        expected, actual, ignored=rule.ignore_tree, only=rule.only_tree, tolerance=tolerance
    )
    return joined([schema, _first(list(islice(lines, _SHOWN + 1)))])


@dataclass(frozen=True, kw_only=True)
class _XmlMark:
    """A start tag, an end tag or a text."""

    kind: Literal["start", "end", "text"]
    name: str
    """The tag with its namespace, or the stripped text."""
    attributes: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        if self.kind == "text":
            return f"the text {quoted(self.name)}"
        attributes = "".join(f" {name}={quoted(value, 40)}" for name, value in self.attributes)
        return f"</{self.name}>" if self.kind == "end" else f"<{self.name}{attributes}>"


class _NotXml(ValueError):
    """The text is not acceptable XML; the message says why."""


def _parse_xml(text: str) -> list[_XmlMark]:
    """Parse the whole text as one document; raises _NotXml."""
    stripped = text.strip()
    if not stripped:
        raise _NotXml("expected XML, found nothing")
    if stripped.startswith(_FENCE):
        raise _NotXml(f"the answer is inside a {_FENCE} fence: ask for bare XML")
    marks: list[_XmlMark] = []
    texts: list[str] = []

    def end_text() -> None:
        inner = "".join(texts).strip()
        texts.clear()
        if inner:
            marks.append(_XmlMark(kind="text", name=inner))

    def start(name: str, attributes: dict[str, str]) -> None:
        end_text()
        pairs = tuple(sorted(attributes.items()))
        marks.append(_XmlMark(kind="start", name=name, attributes=pairs))

    def end(name: str) -> None:
        end_text()
        marks.append(_XmlMark(kind="end", name=name))

    def doctype(*_: object) -> None:
        raise _NotXml("it declares a DOCTYPE, which is not accepted: ask for XML without one")

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = texts.append
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(stripped, True)  # noqa: FBT003 - expat takes it by place only
    except (expat.ExpatError, UnicodeEncodeError) as error:
        problem = f"found {quoted(stripped)}, which is not well-formed XML ({error})"
        raise _NotXml(f"{problem}: ask for one root with nothing around it") from error
    return marks


def _xml_path(marks: Sequence[_XmlMark]) -> str:
    """The path of the last mark: `/order/item[2]`."""
    steps: list[str] = []
    seen = [Counter[str]()]
    for mark in marks:
        if mark.kind == "start":
            seen[-1][mark.name] += 1
            nth = seen[-1][mark.name]
            steps.append(f"{mark.name}[{nth}]" if nth > 1 else mark.name)
            seen.append(Counter())
        elif mark.kind == "end" and mark is not marks[-1]:
            steps.pop()
            seen.pop()
    return f"/{'/'.join(steps)}"


@dataclass(frozen=True, kw_only=True)
class XmlRule:
    """Whether an answer must be well-formed XML, and match the expected document."""

    match: Literal["exact", "skip"] = "skip"
    valid: bool = True
    """Require well-formed XML even if nothing is compared."""
    ignore: bool = False

    @property
    def needs_reference(self) -> bool:
        return not self.ignore and self.match != "skip"


def compare_xml(expected: str | None, actual: str, rule: XmlRule) -> str:
    """Why a text breaks the rule; comments, prefixes and surrounding space are ignored."""
    if rule.ignore or not (rule.valid or rule.needs_reference):
        return ""
    try:
        reference = _parse_xml(expected or "") if rule.needs_reference else []
    except _NotXml as error:
        return f"the expected answer is not XML ({error}): fix the case"
    try:
        answer = _parse_xml(actual)
    except _NotXml as error:
        return str(error)
    # Neither document can be the beginning of the other: each ends with its root.
    for index, (one, other) in enumerate(zip(reference, answer, strict=False)):
        if one != other:
            path = cut(_xml_path(reference[: index + 1]))
            return f"at {path}: expected {one}, found {other}"
    return ""
