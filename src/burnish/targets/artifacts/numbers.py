"""The numbers that a scorer prints: one JSON object, checked."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from burnish.targets.artifacts.task import Scoring

RUNTIME = "runtime_seconds"
_FEEDBACK = "feedback"
_BEGINNING = re.compile(r"^[^\S\n]*(\{)\s*[\"}]", re.MULTILINE)
_MOST_BROKEN = 500
"""Beginnings of objects that are none; each costs time that grows with the output."""


class NoNumbers(ValueError):
    """What a scorer printed cannot be used, and why."""


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """What a scorer said."""

    measures: Mapping[str, float]
    feedback: str = ""
    """Words for the editor, where the scorer has some."""


def read_numbers(printed: str, scoring: Scoring, primary: str) -> Numbers:
    """The numbers in what a scorer printed; lines before the JSON are left aside."""
    objects = _objects(printed, scoring.score_field)
    found = [each for each in objects if scoring.score_field in each] or objects[-1:]
    if not found:
        raise NoNumbers("the scorer printed no JSON object")
    if len(found) > 1:
        raise NoNumbers(
            f"the scorer printed {len(found)} objects with '{scoring.score_field}': of two scores "
            "none is the score; what the files print must not reach the scorer's output"
        )
    return numbers_of(found[0], scoring, primary)


def numbers_of(given: Any, scoring: Scoring, primary: str) -> Numbers:
    """The numbers of one object: the score, and the metrics beside it; a number is the score."""
    if isinstance(given, int | float):
        given = {scoring.score_field: given}
    if not isinstance(given, Mapping):
        raise NoNumbers("the scorer's answer is neither a number nor an object")
    told = cast("Mapping[str, Any]", given)
    if scoring.score_field not in told:
        raise NoNumbers(f"the scorer's JSON has no '{scoring.score_field}'")
    score = _number(scoring.score_field, told[scoring.score_field])
    metrics = _metrics(told.get(scoring.metrics_field, {}), scoring)
    if metrics.get(scoring.score_field, score) != score:
        raise NoNumbers(
            f"the scorer's JSON gives '{scoring.score_field}' twice: {score:g}, and "
            f"{metrics[scoring.score_field]:g} in '{scoring.metrics_field}'"
        )
    feedback = told.get(_FEEDBACK, "")
    return Numbers(
        measures={primary: score, **metrics, scoring.score_field: score},
        feedback=feedback if isinstance(feedback, str) else json.dumps(feedback),
    )


def _metrics(given: Any, scoring: Scoring) -> dict[str, float]:
    if not isinstance(given, Mapping):
        raise NoNumbers(f"'{scoring.metrics_field}' of the scorer's JSON is not an object")
    named = cast("Mapping[Any, Any]", given)
    return {str(name): _number(str(name), value) for name, value in named.items()}


def _objects(printed: str, score_field: str) -> list[dict[str, Any]]:
    """Every JSON object that stands at the beginning of a line."""

    def made(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if sum(name == score_field for name, _ in pairs) > 1:
            raise NoNumbers(f"the scorer's JSON gives '{score_field}' twice")
        return dict(pairs)

    decoder = json.JSONDecoder(object_pairs_hook=made)
    found: list[dict[str, Any]] = []
    place = broken = 0
    while start := _BEGINNING.search(printed, place):
        try:
            value, place = decoder.raw_decode(printed, start.start(1))
            found.append(cast("dict[str, Any]", value))
        except NoNumbers:
            raise
        except (ValueError, RecursionError):
            place, broken = start.end(1), broken + 1
        if broken > _MOST_BROKEN:
            raise NoNumbers("the scorer's output is full of JSON that is broken")
    return found


def _number(name: str, value: Any) -> float:
    try:
        if isinstance(value, int | float) and math.isfinite(value):
            return float(value)
    except OverflowError:
        pass  # a whole number that is larger than any float
    told = repr(value) if len(repr(value)) < 80 else f"{repr(value)[:80]}…"
    remedy = "; words for the editor go into 'feedback'" if isinstance(value, str) else ""
    raise NoNumbers(f"'{name}' of the scorer's JSON is {told}, not a finite number{remedy}")
