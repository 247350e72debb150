"""Comparing numbers as they are written: 0.8 and 0.7 are 0.1 apart, and no more."""

from dataclasses import dataclass
from decimal import Decimal

from burnish.evaluation.matching.excerpts import quoted
from burnish.evaluation.matching.match import HELD, Match
from burnish.evaluation.matching.number_texts import (
    ARITHMETIC,
    HUNDREDTH,
    NumberReading,
    read_number,
)

_UNITS = (2, 3, 6, 9, -2, -3, -6, -9)
"""Powers of ten that a wrong unit makes."""


@dataclass(frozen=True, kw_only=True)
class NumberRule:
    """How near a number must be to the expected one, and how it may be written."""

    absolute_tolerance: float = 1e-6
    """This far off is still right; either tolerance is enough."""
    relative_tolerance: float = 0.0
    """The same, as a share of the expected number."""
    accept_percent: bool = False
    """`12%` is 0.12."""
    accept_thousands_separators: bool = False

    def read(self, text: str) -> NumberReading:
        """The number that a text is, written as this rule allows."""
        return read_number(
            text, percent=self.accept_percent, separators=self.accept_thousands_separators
        )

    def near(self, expected: Decimal, found: Decimal) -> bool:
        """Whether two finite numbers are near enough, the bounds included."""
        if expected == found:
            return True
        share = ARITHMETIC.multiply(ARITHMETIC.abs(expected), _decimal(self.relative_tolerance))
        off = _apart(expected, found)
        return off <= _decimal(self.absolute_tolerance) or off <= share

    def __str__(self) -> str:
        share = f" or {self.relative_tolerance:g} of it" if self.relative_tolerance else ""
        return f"{self.absolute_tolerance:g}{share}"


EXACT = NumberRule()


def compare_numbers(expected: str, found: str, rule: NumberRule = EXACT) -> Match:
    """Whether two texts are the same number, as near as the rule asks."""
    wanted, given = rule.read(expected), rule.read(found)
    if wanted.value is None:
        told = f"the expected answer is no number ({wanted.problem})"
        return Match.missed(f"{told}: mend the case, or compare with equality")
    if given.value is None:
        return Match.missed(f"expected the number {quoted(expected.strip(), 40)}, {given.problem}")
    if rule.near(wanted.value, given.value):
        return HELD
    told = f"expected {quoted(expected.strip(), 40)}, found {quoted(found.strip(), 40)}"
    off = f"off by {_apart(wanted.value, given.value):.4g}, more than the {rule} that is allowed"
    hint = _slip(wanted.value, given.value, rule, mixed=wanted.percent != given.percent)
    return Match.missed(f"{told}: {off}{f' ({hint})' if hint else ''}")


def same_number(expected: float, found: float, tolerance: float) -> bool:
    """Whether two numbers are at most `tolerance` apart; NaN and infinity are near nothing."""
    one, other = _decimal(expected), _decimal(found)
    if not (one.is_finite() and other.is_finite()):
        return False
    return one == other or _apart(one, other) <= _decimal(tolerance)


def _decimal(number: float) -> Decimal:
    """The number as it is written, not as binary holds it."""
    return Decimal(number) if isinstance(number, int) else Decimal(repr(number))


def _apart(one: Decimal, other: Decimal) -> Decimal:
    return ARITHMETIC.abs(ARITHMETIC.subtract(one, other))


def _slip(wanted: Decimal, given: Decimal, rule: NumberRule, *, mixed: bool) -> str:
    """The usual mistake that would explain the difference, if one does."""
    if mixed and any(
        rule.near(wanted, ARITHMETIC.multiply(given, scale)) for scale in (Decimal(100), HUNDREDTH)
    ):
        return "one is a percentage and the other is not"
    if rule.near(wanted, ARITHMETIC.minus(given)):
        return "the sign is wrong"
    for power in _UNITS:
        if wanted and rule.near(wanted, ARITHMETIC.scaleb(given, Decimal(-power))):
            return f"10^{power} times the expected: check the unit"
    return ""
