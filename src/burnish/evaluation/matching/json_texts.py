"""JSON in texts: reading it, and saying what keeps a text from being JSON."""

import json
import math
from dataclasses import dataclass
from typing import cast

from burnish.core.content import Json
from burnish.evaluation.matching.excerpts import quoted

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
    told = f"found {quoted(text)}, which is no JSON"
    if error.msg == "Extra data":
        return f"{told}: there is more after its end, ask for JSON with nothing around it"
    if text[error.pos :] == text:
        return f"{told}: ask for JSON with nothing around it"
    place = quoted(text[max(0, error.pos - 10) : error.pos + 10])
    words = f"{error.msg[:1].lower()}{error.msg[1:]}"
    return f"{told}: {words} at line {error.lineno}, column {error.colno}, near {place}"


def _refuse(constant: str) -> Json:
    raise ValueError(f"{constant} has no JSON form")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"the number {digits} is too large")
    return value
