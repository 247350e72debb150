"""Comparing texts and numbers as they are written.

A comparison returns the reason why two values do not match, and an empty text where they do.
"""

import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Literal

from burnish.core.content import Json
from burnish.system.user_code import BadPattern, require_pattern, search

_WIDTH = 80
"""Longer texts are cut when a reason quotes them."""
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), 127)} | {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
}


def quoted(text: str, width: int = _WIDTH) -> str:
    """The text in quotes, shortened, with control characters escaped."""
    return f"'{cut(text, width)}'"


def cut(text: str, width: int = _WIDTH) -> str:
    """The text on one line, at most `width` characters before escaping."""
    shortened = text if len(text) <= width else f"{text[: width - 1]}…"
    return shortened.translate(_CONTROLS)


def without_middle(text: str, most: int) -> str:
    """The text; if it is too long, its beginning and its end."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} […] {text[-half:]}"


def _quoted_at(text: str, place: int, width: int = _WIDTH) -> str:
    """The part of a long text around a position, quoted."""
    start = max(0, place - 20)
    return f"'{'…' if start else ''}{cut(text[start:], width)}'"


def shown(value: Json, width: int = _WIDTH) -> str:
    """A JSON value in a reason: text in quotes, anything else as JSON."""
    if isinstance(value, str):
        return quoted(value, width)
    return cut(spelled(value), width)


def spelled(value: Json) -> str:
    """A JSON value as text: a string as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return f"{a_kind(value)}, deeply nested"


def a_kind(value: Json) -> str:
    """The type of a JSON value, in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a text"
    return f"a list of {len(value)}" if isinstance(value, list) else "an object"


def counted(number: int, thing: str) -> str:
    """`1 character`, `2 characters`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def joined(reasons: Iterable[str]) -> str:
    """The reasons that are not empty, on one line."""
    return "; ".join(filter(None, reasons))


Unit = Literal["characters", "words"]


@dataclass(frozen=True, kw_only=True)
class LengthRule:
    """Bounds for the length of a text, surrounding space ignored."""

    min: int | None = None
    max: int | None = None
    unit: Unit = "characters"
    """Characters are Unicode code points; words are separated by space."""

    def allows(self, length: int) -> bool:
        return (self.min is None or length >= self.min) and (self.max is None or length <= self.max)

    def __str__(self) -> str:
        if self.min is not None and self.max is not None:
            return f"{self.min} to {self.max}"
        if self.max is not None:
            return f"at most {self.max}"
        return "any number of" if self.min is None else f"at least {self.min}"


def length_of(text: str, unit: Unit = "characters") -> int:
    """The length of a text, surrounding space ignored."""
    return len(text.split()) if unit == "words" else len(text.strip())


def check_length(length: int, rule: LengthRule) -> str:
    """By how much a length breaks the rule."""
    if rule.allows(length):
        return ""
    thing = rule.unit.removesuffix("s")
    comparison = f"{counted(length, thing)}, expected {rule}"
    if rule.max is not None and length > rule.max:
        return f"too long: {comparison}; cut {counted(length - rule.max, thing)}"
    return f"too short: {comparison}; add {counted((rule.min or 0) - length, thing)}"


_ARITHMETIC = Context(prec=60, traps=[])
"""A context of our own, so that the user's cannot change results."""
_HUNDREDTH = Decimal("0.01")

_PLAIN = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,6})?"
_GROUPED = r"[0-9]{1,3}(?P<by>[,_'’ \u00a0\u2009\u202f])(?:[0-9]{2,3}(?P=by))*[0-9]{3}(?:\.[0-9]*)?"
"""The same separator throughout and three digits at the end: `12,34,567`, but not `1,5`."""
_NUMBER = re.compile(
    rf"(?P<sign>[+-]?)(?:(?P<grouped>{_GROUPED})|(?P<plain>{_PLAIN}))\s*(?P<percent>%?)"
)
_WITHIN = re.compile(rf"[+-]?(?:[0-9]{{1,3}}(?:,[0-9]{{3}})+(?:\.[0-9]+)?|{_PLAIN})%?")
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_SIGNS = str.maketrans({"\u2212": "-", "\uff0b": "+", "\uff05": "%"})
"""Variants of minus, plus and percent."""


@dataclass(frozen=True, kw_only=True)
class _NumberReading:
    """A number, or the reason why a text is not one."""

    value: Decimal | None = None
    percent: bool = False
    problem: str = ""


def _why_not(text: str) -> str:
    if not text:
        return "found nothing"
    quote = f"found {quoted(text)}"
    if _NOT_FINITE.fullmatch(text):
        return f"{quote}, which is not a finite number"
    inside = _WITHIN.findall(text)
    if len(inside) == 1:
        return f"{quote}: ask for a bare number, with nothing around the {cut(inside[0], 40)}"
    if inside:
        return f"{quote}, which contains {len(inside)} numbers: ask for one bare number"
    return f"{quote}, which contains no number: ask for a bare number"


@dataclass(frozen=True, kw_only=True)
class NumberRule:
    """How close a number must be to the expected one, and how it may be written."""

    absolute_tolerance: float = 1e-6
    """The largest allowed difference; either tolerance is enough."""
    relative_tolerance: float = 0.0
    """The same, as a share of the expected number."""
    accept_percent: bool = False
    """`12%` is 0.12."""
    accept_thousands_separators: bool = False

    def read(self, text: str) -> _NumberReading:
        """Parse the whole text as a number."""
        stripped = text.strip().translate(_SIGNS)
        written = _NUMBER.fullmatch(stripped)
        if written is None:
            return _NumberReading(problem=_why_not(stripped))
        refused = ""
        if written["grouped"] and not self.accept_thousands_separators:
            refused = "thousands separators are not accepted; set accept_thousands_separators"
        elif written["percent"] and not self.accept_percent:
            refused = "a percent sign is not accepted; set accept_percent"
        if refused:
            problem = f"found {quoted(stripped)}: {refused} or ask for a bare number"
            return _NumberReading(problem=problem)
        digits = written["plain"] or written["grouped"].replace(written["by"], "")
        value = Decimal(f"{written['sign']}{digits}")
        if not written["percent"]:
            return _NumberReading(value=value)
        return _NumberReading(value=_ARITHMETIC.multiply(value, _HUNDREDTH), percent=True)

    def near(self, expected: Decimal, actual: Decimal) -> bool:
        """Whether two finite numbers are close enough."""
        if expected == actual:
            return True
        share = _ARITHMETIC.multiply(_ARITHMETIC.abs(expected), _decimal(self.relative_tolerance))
        off = _apart(expected, actual)
        return off <= _decimal(self.absolute_tolerance) or off <= share

    def __str__(self) -> str:
        share = f" or {self.relative_tolerance:g} of it" if self.relative_tolerance else ""
        return f"{self.absolute_tolerance:g}{share}"


def compare_numbers(expected: str, actual: str, rule: NumberRule) -> str:
    """Why two texts are not the same number under the rule."""
    reference, answer = rule.read(expected), rule.read(actual)
    if reference.value is None:
        message = f"the expected answer is not a number ({reference.problem})"
        return f"{message}: fix the case, or compare with equality"
    if answer.value is None:
        return f"expected the number {quoted(expected.strip(), 40)}, {answer.problem}"
    if rule.near(reference.value, answer.value):
        return ""
    message = f"expected {quoted(expected.strip(), 40)}, found {quoted(actual.strip(), 40)}"
    off = f"off by {_apart(reference.value, answer.value):.4g}"
    hint = _slip(reference.value, answer.value, rule, mixed=reference.percent != answer.percent)
    end = f" ({hint})" if hint else ""
    return f"{message}: {off}, more than the allowed {rule}{end}"


def same_number(expected: float, actual: float, tolerance: float) -> bool:
    """Whether two finite numbers differ by at most `tolerance`."""
    one, other = _decimal(expected), _decimal(actual)
    if not (one.is_finite() and other.is_finite()):
        return False
    return one == other or _apart(one, other) <= _decimal(tolerance)


def _decimal(number: float) -> Decimal:
    """The number as it is written, not its binary value."""
    return Decimal(number) if isinstance(number, int) else Decimal(repr(number))


def _apart(one: Decimal, other: Decimal) -> Decimal:
    return _ARITHMETIC.abs(_ARITHMETIC.subtract(one, other))


def _slip(expected: Decimal, actual: Decimal, rule: NumberRule, *, mixed: bool) -> str:
    """A common mistake that explains the difference, if any."""
    if mixed and any(
        rule.near(expected, _ARITHMETIC.multiply(actual, scale))
        for scale in (Decimal(100), _HUNDREDTH)
    ):
        return "one is a percentage and the other is not"
    if rule.near(expected, _ARITHMETIC.minus(actual)):
        return "the sign is wrong"
    for power in (2, 3, 6, 9, -2, -3, -6, -9):  # what a wrong unit makes
        if expected and rule.near(expected, _ARITHMETIC.scaleb(actual, Decimal(-power))):
            return f"10^{power} times the expected: check the unit"
    return ""


@dataclass(frozen=True, kw_only=True)
class TextRule:
    """How a text must match the expected one."""

    match: Literal["exact", "contains", "regex", "skip"] = "exact"
    """`regex` searches for the expected text as a pattern; if that takes longer than a second,
    there is no score."""
    case_insensitive: bool = False
    length: LengthRule | None = None
    ignore: bool = False

    @property
    def needs_reference(self) -> bool:
        return not self.ignore and self.match != "skip"


EXACT_TEXT = TextRule()


def compare_texts(expected: str | None, actual: str, rule: TextRule = EXACT_TEXT) -> str:
    """Why a text breaks the rule."""
    if rule.ignore:
        return ""
    length = rule.length
    off = check_length(length_of(actual, length.unit), length) if length else ""
    return joined([off, "" if rule.match == "skip" else _compare(expected, actual, rule)])


def levelled(text: str, *, fold: bool = False) -> str:
    """The text in one Unicode normal form, and case-folded if `fold` is set."""
    one = unicodedata.normalize("NFC", text)
    return unicodedata.normalize("NFC", one.casefold()) if fold else one


def pattern_problem(pattern: str) -> str:
    """Why a pattern is not a regular expression; empty if it is one."""
    try:
        require_pattern(pattern)
    except BadPattern as error:
        return f"the pattern {quoted(pattern)} is not a valid regular expression ({error})"
    return ""


def difference(expected: str, actual: str) -> str:
    """How two texts differ, and where."""
    if not actual:
        return f"expected {quoted(expected)}, found nothing"
    if len(expected) <= _WIDTH and len(actual) <= _WIDTH:
        comparison = f"expected {quoted(expected)}, found {quoted(actual)}"
    else:
        pairs = enumerate(zip(expected, actual, strict=False))
        alike = min(len(expected), len(actual))
        place = next((place for place, (one, other) in pairs if one != other), alike)
        comparison = (
            f"expected {_quoted_at(expected, place)}, found {_quoted_at(actual, place)} "
            f"(they differ from character {place + 1})"
        )
    if expected.casefold() == actual.casefold():
        return f"{comparison}: only the letter case differs"
    if expected.split() == actual.split():
        return f"{comparison}: only the spacing differs"
    if expected and expected in actual:
        return f"{comparison}: the expected text is there with more around it, ask for it alone"
    return comparison


def _compare(expected: str | None, actual: str, rule: TextRule) -> str:
    if expected is None:
        return "there is no expected text to compare with: add one to the case"
    if rule.match == "regex":
        return _search(expected.strip(), actual.strip(), fold=rule.case_insensitive)
    reference = levelled(expected.strip(), fold=rule.case_insensitive)
    text = levelled(actual.strip(), fold=rule.case_insensitive)
    if rule.match == "exact":
        return "" if reference == text else difference(reference, text)
    if reference in text:
        return ""
    comparison = f"expected text that contains {quoted(reference)}, found {quoted(text)}"
    only_case = reference.casefold() in text.casefold()
    return f"{comparison}: only the letter case differs" if only_case else comparison


def _search(pattern: str, text: str, *, fold: bool) -> str:
    problem = pattern_problem(pattern)
    if problem:
        return f"{problem}: fix the case"
    # The flag, rather than lower case on both sides: a \D must not become a \d.
    if search(pattern, text, fold=fold):
        return ""
    expectation = f"expected text that matches the pattern {quoted(pattern)}"
    return f"{expectation}, found {quoted(text) if text else 'nothing'}"
