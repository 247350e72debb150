"""Values of surfaces as roles read and write them."""

from collections.abc import Mapping
from typing import Any, cast

from burnish.core.content import Json
from burnish.core.demonstrations import Demonstration
from burnish.core.surfaces import (
    ChoiceSurface,
    DemosSurface,
    FileSurface,
    NumberSurface,
    Surface,
    TextSurface,
    Value,
)


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
    kept = [*surface.placeholders, *surface.frozen] if isinstance(surface, TextSurface) else []
    return f"{most}; keep word for word: {', '.join(kept)}" if kept else most


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
    asked, answered = (pair.get("input"), pair.get("output")) if pair else (None, None)
    if not isinstance(asked, str) or not isinstance(answered, str):
        raise BadValue("a worked example has an input and an output, both texts")
    return Demonstration(input=asked, output=answered)
