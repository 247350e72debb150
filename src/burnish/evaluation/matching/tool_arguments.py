"""Comparing the arguments of tools: a value, `{fuzzy: text}` or `{regex: pattern}`."""

import re
from collections.abc import Iterator, Mapping
from typing import cast

from burnish.core.content import Json
from burnish.evaluation.matching.excerpts import quoted, shown, spelled
from burnish.evaluation.matching.json_differences import differences
from burnish.evaluation.matching.match import HELD, Match
from burnish.evaluation.matching.numbers import NumberRule
from burnish.evaluation.matching.texts import levelled, pattern_problem

_AS_WRITTEN = NumberRule(
    absolute_tolerance=1e-9, accept_percent=True, accept_thousands_separators=True
)
_SEPARATORS = re.compile(r"[,_\u202f]")
_BETWEEN_DIGITS = re.compile(r"(?<=[0-9])[,_\u202f](?=[0-9])")


def compare_arguments(expected: Mapping[str, Json], found: Mapping[str, Json]) -> list[str]:
    """What is wrong with the arguments of a call; arguments not spoken of do not count."""
    return list(_wrong(expected, found))


def _wrong(expected: Mapping[str, Json], found: Mapping[str, Json]) -> Iterator[str]:
    for name, wanted in expected.items():
        if name not in found:
            yield f"argument '{name}' is missing, expected {_matcher_words(wanted)}"
            continue
        match = compare_argument(wanted, found[name])
        if not match.held:
            yield f"argument '{name}': {match.reason}"


def compare_argument(expected: Json, found: Json) -> Match:
    """Whether one argument is as expected."""
    kind, wanted = _matcher(expected)
    if kind == "fuzzy":
        held = _fuzzily_same(wanted, _as_text(found))
        return HELD if held else _missed(expected, found)
    if kind == "regex":
        problem = pattern_problem(wanted)
        if problem:
            return Match.missed(f"{problem}: mend the case")
        held = re.fullmatch(wanted, _as_text(found)) is not None
        return HELD if held else _missed(expected, found)
    same = next(differences(expected, found, tolerance=0.0), None) is None
    return HELD if same else _missed(expected, found)


def _matcher(expected: Json) -> tuple[str, str]:
    """Which way to compare, and with which text."""
    if isinstance(expected, Mapping) and len(expected) == 1:
        kind, wanted = next(iter(expected.items()))
        if kind in ("fuzzy", "regex"):
            return kind, spelled(wanted)
    return "literal", ""


def _matcher_words(expected: Json) -> str:
    kind, wanted = _matcher(expected)
    if kind == "fuzzy":
        return f"about {quoted(wanted)}"
    return f"what matches {quoted(wanted)}" if kind == "regex" else shown(expected)


def _missed(expected: Json, found: Json) -> Match:
    return Match.missed(f"expected {_matcher_words(expected)}, found {shown(found)}")


def _as_text(value: Json) -> str:
    """As Python writes it, which is what patterns in existing files are written for."""
    return value if isinstance(value, str) else str(cast("object", value))


def _fuzzily_same(expected: str, found: str) -> bool:
    wanted, given = _AS_WRITTEN.read(expected).value, _AS_WRITTEN.read(found).value
    if wanted is not None and given is not None:
        return _AS_WRITTEN.near(wanted, given)
    return _loosened(expected) == _loosened(found)


def _loosened(text: str) -> str:
    """Without letter case, commas and underscores, any space as one space.

    Between digits a comma becomes a space: 1,2 is not 12.
    """
    spaced = _BETWEEN_DIGITS.sub(" ", levelled(text, fold=True))
    return " ".join(_SEPARATORS.sub("", spaced).split())
