"""Comparing JSON: with numbers that may be a little off, parts left out, and schemas."""

from dataclasses import dataclass
from itertools import islice
from typing import Literal

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.evaluation.matching.json_differences import TOLERANCE, Tree, differences
from burnish.evaluation.matching.json_schemas import Schema, check_schema
from burnish.evaluation.matching.json_texts import JsonReading, parse_json
from burnish.evaluation.matching.match import HELD, Match, all_of

_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class JsonRule:
    """How a JSON value should agree with the expected one."""

    match: Literal["exact", "skip"] = "exact"
    ignore_tree: Tree | None = None
    """What is left out of the comparison; inside a list it holds for each item."""
    only_tree: Tree | None = None
    """What alone is compared. Not beside `ignore_tree`; empty is as if not given."""
    number_tolerance: float | None = None
    """How far apart two numbers may be; None for a millionth."""
    valid: bool = False
    """It must be JSON, also where nothing is compared."""
    schema: Schema | None = None
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
    expected: str | None, found: str | JsonReading, rule: JsonRule = EXACT
) -> Match:
    """Whether a text holds JSON as the rule asks. What is no JSON matches nothing."""
    if not rule.reads:
        return HELD
    wanted = parse_json(expected or "") if rule.needs_reference else JsonReading()
    if wanted.problem:
        return Match.missed(f"the expected answer is no JSON ({wanted.problem}): mend the case")
    given = parse_json(found) if isinstance(found, str) else found
    if given.problem:
        return Match.missed(given.problem)
    return compare_json(wanted.value, given.value, rule)


def compare_json(expected: Json, found: Json, rule: JsonRule = EXACT) -> Match:
    """Whether a JSON value is as the rule asks."""
    if rule.ignore:
        return HELD
    checks = [] if rule.schema is None else [check_schema(found, rule.schema)]
    if rule.match != "skip":
        checks.append(_compare(expected, found, rule))
    return all_of(checks)


def _compare(expected: Json, found: Json, rule: JsonRule) -> Match:
    tolerance = TOLERANCE if rule.number_tolerance is None else rule.number_tolerance
    every = differences(
        expected, found, ignored=rule.ignore_tree, only=rule.only_tree, tolerance=tolerance
    )
    told = list(islice(every, _SHOWN + 1))
    if not told:
        return HELD
    more = ["and more"] if len(told) > _SHOWN else []
    return Match.missed("; ".join([*told[:_SHOWN], *more]))
