"""What travels back through a trace, values as roles read them, schemas of answers."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from pydantic import BaseModel

from burnish.core.content import Json
from burnish.core.surfaces import (
    ChoiceSurface,
    Demonstration,
    DemosSurface,
    FileSurface,
    NumberSurface,
    Surface,
    TextSurface,
    Value,
)


class Severity(StrEnum):
    """How bad it is; P0 first."""

    P0 = "P0"
    P1 = "P1"
    P2 = "P2"
    P3 = "P3"


_RANKS = {severity.value: place for place, severity in enumerate(Severity)}


def rank(severity: str) -> int:
    """The place of a severity; what is none of them comes last."""
    return _RANKS.get(severity, len(_RANKS))


@dataclass(frozen=True, kw_only=True)
class TerminalLoss:
    """A failed metric, at the step where its way back begins."""

    case: str
    draw: int
    metric: str
    step: str
    severity: str
    text: str

    @property
    def order(self) -> tuple[int, str, str, str]:
        """The worst first, then by name."""
        return rank(self.severity), self.metric, self.step, self.text


@dataclass(frozen=True, kw_only=True)
class CaseLoss:
    """The losses of one run of a case."""

    case: str
    draw: int
    losses: tuple[TerminalLoss, ...]


@dataclass(frozen=True, kw_only=True)
class Packet:
    """What a step is told by those after it."""

    source: str
    """The step that sent it; the step itself for a loss."""
    severity: str
    text: str

    @property
    def order(self) -> tuple[int, str, str]:
        """The worst first, then by sender."""
        return rank(self.severity), self.source, self.text


@dataclass(frozen=True, kw_only=True)
class SurfaceGradient:
    """What one run of a case says should change about a surface."""

    case: str
    draw: int
    step: str
    node: str
    surface: str
    severity: str
    text: str

    @property
    def order(self) -> tuple[int, str, int, str, str]:
        """The worst first, then by where it came from."""
        return rank(self.severity), self.case, self.draw, self.step, self.text


@dataclass(frozen=True, kw_only=True)
class MergedGradient:
    """One thing that should change about a surface, and all that says so."""

    surface: str
    severity: str
    text: str
    sources: tuple[SurfaceGradient, ...]


@dataclass(frozen=True, kw_only=True)
class Lost:
    """A question to a role that brought nothing: it costs its packet, not the run."""

    role: str
    where: str
    """The case and step, or the surface."""
    why: str


# -- Values of surfaces as roles read and write them ----------------------------------------------


class BadValue(ValueError):
    """Something that is no value of its surface."""


def shown_value(value: Value) -> Json:
    """A value as a role reads it."""
    if isinstance(value, tuple):
        return [{"input": demo.input, "output": demo.output} for demo in value]
    return value


def value_from(data: Json, surface: Surface) -> Value:
    """What a role wrote, as a value. Raises BadValue where it is none."""
    if isinstance(surface, DemosSurface):
        return _demonstrations(data)
    if isinstance(surface, TextSurface | FileSurface) and not isinstance(data, str):
        raise BadValue("the value must be a text")
    if isinstance(surface, NumberSurface):
        return _number(data, surface)
    if isinstance(data, str | int | float | bool):
        return data
    raise BadValue(f"the value must be {surface.accepts}")


def value_schema(surface: Surface) -> dict[str, Json]:
    """The JSON schema of a value."""
    if isinstance(surface, NumberSurface):
        kind = "integer" if surface.integer else "number"
        return {"type": kind, "minimum": surface.low, "maximum": surface.high}
    if isinstance(surface, ChoiceSurface):
        return {"enum": [*surface.choices]}
    if isinstance(surface, DemosSurface):
        text: dict[str, Json] = {"type": "string"}
        pair: dict[str, Json] = {
            "type": "object",
            "properties": {"input": text, "output": text},
            "required": ["input", "output"],
            "additionalProperties": False,
        }
        return {"type": "array", "items": pair, "maxItems": surface.max_demos}
    return {"type": "string"}


def bounds_of(surface: Surface) -> str:
    """What a new value must keep to, in words."""
    if isinstance(surface, NumberSurface):
        step = f", in steps of {surface.step:g}" if surface.step else ""
        return f"a number from {surface.low:g} to {surface.high:g}{step}"
    if isinstance(surface, ChoiceSurface):
        return f"one of: {', '.join(map(str, surface.choices))}"
    if isinstance(surface, DemosSurface):
        return f"at most {surface.max_demos} worked examples"
    most = f"at most {surface.max_chars} characters" if surface.max_chars else "a text"
    pieces = [*surface.placeholders, *surface.frozen] if isinstance(surface, TextSurface) else []
    return f"{most}; keep word for word: {', '.join(pieces)}" if pieces else most


def _number(data: Json, surface: NumberSurface) -> Value:
    if isinstance(data, bool) or not isinstance(data, int | float):
        raise BadValue("the value must be a number")
    return int(data) if surface.integer and float(data).is_integer() else data


def _demonstrations(data: Json) -> tuple[Demonstration, ...]:
    rows = cast("list[Any]", data) if isinstance(data, list) else None
    if rows is None:
        raise BadValue("the value must be a list of worked examples")
    return tuple(_demonstration(row) for row in rows)


def _demonstration(row: object) -> Demonstration:
    pair = cast("Mapping[str, object]", row) if isinstance(row, Mapping) else None
    question, answered = (pair.get("input"), pair.get("output")) if pair else (None, None)
    if not isinstance(question, str) or not isinstance(answered, str):
        raise BadValue("a worked example has an input and an output, both texts")
    return Demonstration(input=question, output=answered)


# -- Schemas of answers, narrowed to the names that one request shows -----------------------------


def only_these(
    answer: type[BaseModel], *, surfaces: Sequence[str], steps: Sequence[str]
) -> dict[str, Json]:
    """The schema of a backwarder's answer that names nothing but these."""
    schema = _schema(answer)
    definitions = schema["$defs"]
    _only(definitions["SurfaceRemark"], "surface", surfaces)
    _only(definitions["Upstream"], "predecessor", steps)
    definitions["Upstream"]["properties"]["gradients"]["minItems"] = 1
    for key, names in (("gradients", surfaces), ("upstream", steps)):
        if not names:
            schema["properties"][key]["maxItems"] = 0
    if steps and not surfaces:
        schema["properties"]["upstream"]["minItems"] = 1
    return schema


def citing(answer: type[BaseModel], count: int) -> dict[str, Json]:
    """The schema of an aggregator's answer: not empty, and it cites numbers up to this one."""
    schema = _schema(answer)
    schema["properties"]["gradients"]["minItems"] = 1
    cited = schema["$defs"]["MergedRemark"]["properties"]["sources"]
    cited["items"] = {"type": "integer", "minimum": 1, "maximum": count}
    return schema


def with_value(answer: type[BaseModel], limits: Surface) -> dict[str, Json]:
    """The schema of a patcher's answer whose value fits the surface."""
    schema = _schema(answer)
    schema["properties"]["value"] = value_schema(limits)
    return schema


def _schema(answer: type[BaseModel]) -> dict[str, Any]:
    return copy.deepcopy(answer.model_json_schema())


def _only(definition: dict[str, Any], key: str, names: Sequence[str]) -> None:
    field = definition["properties"][key]
    field.pop("default", None)
    if names:
        field["enum"] = list(names)
    required = definition.setdefault("required", [])
    if key not in required:
        required.append(key)
