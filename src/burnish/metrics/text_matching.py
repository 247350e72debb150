"""Comparing texts and numbers as they are written, with reasons."""

import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Literal

from burnish.core.content import Json

_WIDTH = 80
"""Longer texts are cut when a reason quotes them."""
_BEFORE = 20
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), 127)} | {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
}


def quoted(text: str, width: int = _WIDTH) -> str:
    """The text in quotes, cut at `width`, line ends shown as signs."""
    return f"'{cut(text, width)}'"


def cut(text: str, width: int = _WIDTH) -> str:
    """The text on one line, at most about `width` long."""
    shortened = text if len(text) <= width else f"{text[: width - 1]}…"
    return shortened.translate(_CONTROLS)


def without_middle(text: str, most: int) -> str:
    """A text of many lines as it is; of a longer one, the beginning and the end."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} […] {text[-half:]}"


def _quoted_at(text: str, place: int, width: int = _WIDTH) -> str:
    """The part of a long text that a place is in, quoted."""
    start = max(0, place - _BEFORE)
    return f"'{'…' if start else ''}{cut(text[start:], width)}'"


def shown(value: Json, width: int = _WIDTH) -> str:
    """A JSON value as a reason quotes it: text in quotes, all else as JSON."""
    if isinstance(value, str):
        return quoted(value, width)
    return cut(spelled(value), width)


def spelled(value: Json) -> str:
    """A JSON value as text: a text as it is, all else as JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return f"{a_kind(value)}, deeply nested"


def a_kind(value: Json) -> str:
    """What sort of JSON value it is, in words."""
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


# -- Matches --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Match:
    """Whether a rule holds; where it does not, what was expected and what was found."""

    held: bool
    reason: str = ""

    @classmethod
    def missed(cls, reason: str) -> "Match":
        """A rule that does not hold, and why."""
        return cls(held=False, reason=reason)


HELD = Match(held=True)


def all_of(matches: Iterable[Match]) -> Match:
    """Holds where every match does; the reasons of the others stand side by side."""
    reasons = [match.reason for match in matches if not match.held]
    return Match.missed("; ".join(reasons)) if reasons else HELD


# -- Rules for how long a text may be -------------------------------------------------------------


Unit = Literal["characters", "words"]


@dataclass(frozen=True, kw_only=True)
class LengthRule:
    """How long a text may be, both ends included; space around it does not count."""

    min: int | None = None
    max: int | None = None
    unit: Unit = "characters"
    """Characters are Unicode code points; words are what stands between spaces."""

    def allows(self, length: int) -> bool:
        """Whether a length is within the rule."""
        return (self.min is None or length >= self.min) and (self.max is None or length <= self.max)

    def __str__(self) -> str:
        if self.min is not None and self.max is not None:
            return f"{self.min} to {self.max}"
        if self.max is not None:
            return f"at most {self.max}"
        return "any number of" if self.min is None else f"at least {self.min}"


def length_of(text: str, unit: Unit = "characters") -> int:
    """How long a text is, without the space around it."""
    return len(text.split()) if unit == "words" else len(text.strip())


def check_length(text: str, rule: LengthRule) -> Match:
    """Whether a text is as long as the rule asks; else by how much it is not."""
    length = length_of(text, rule.unit)
    return HELD if rule.allows(length) else Match.missed(off_length(length, rule))


def off_length(length: int, rule: LengthRule) -> str:
    """What a length that the rule does not allow is, should be, and needs."""
    thing = rule.unit.removesuffix("s")
    comparison = f"{counted(length, thing)}, expected {rule}"
    if rule.max is not None and length > rule.max:
        return f"too long: {comparison}; cut {counted(length - rule.max, thing)}"
    return f"too short: {comparison}; add {counted((rule.min or 0) - length, thing)}"


# -- Numbers in texts -----------------------------------------------------------------------------


_ARITHMETIC = Context(prec=60, traps=[])
"""For all that is computed here: no setting of the user's may change what a number is."""
_HUNDREDTH = Decimal("0.01")

_PLAIN = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,6})?"
_GROUPED = r"[0-9]{1,3}(?P<by>[,_'’ \u00a0\u2009\u202f])(?:[0-9]{2,3}(?P=by))*[0-9]{3}(?:\.[0-9]*)?"
"""One sign throughout, three digits at the end: `1,5` is no 15, and `12,34,567` is a number."""
_NUMBER = re.compile(
    rf"(?P<sign>[+-]?)(?:(?P<grouped>{_GROUPED})|(?P<plain>{_PLAIN}))\s*(?P<percent>%?)"
)
_WITHIN = re.compile(rf"[+-]?(?:[0-9]{{1,3}}(?:,[0-9]{{3}})+(?:\.[0-9]+)?|{_PLAIN})%?")
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_SIGNS = str.maketrans({"\u2212": "-", "\uff0b": "+", "\uff05": "%"})
"""What people and models write for minus, plus and percent."""


@dataclass(frozen=True, kw_only=True)
class _NumberReading:
    """A number that a text holds, or what keeps the text from being one."""

    value: Decimal | None = None
    percent: bool = False
    """It was written with a percent sign."""
    problem: str = ""


def _read_number(text: str, *, percent: bool = False, separators: bool = False) -> _NumberReading:
    """The number that the whole text is, with a percent sign or separators where allowed."""
    stripped = text.strip().translate(_SIGNS)
    written = _NUMBER.fullmatch(stripped)
    if written is None:
        return _NumberReading(problem=_why_not(stripped))
    if written["grouped"] and not separators:
        return _refused(stripped, "thousands separators are", "accept_thousands_separators")
    if written["percent"] and not percent:
        return _refused(stripped, "a percent sign is", "accept_percent")
    digits = written["plain"] or written["grouped"].replace(written["by"], "")
    value = Decimal(f"{written['sign']}{digits}")
    if not written["percent"]:
        return _NumberReading(value=value)
    return _NumberReading(value=_ARITHMETIC.multiply(value, _HUNDREDTH), percent=True)


def _refused(text: str, what: str, option: str) -> _NumberReading:
    problem = f"found {quoted(text)}: {what} not accepted"
    return _NumberReading(problem=f"{problem}; set {option} or ask for a bare number")


def _why_not(text: str) -> str:
    if not text:
        return "found nothing"
    quote = f"found {quoted(text)}"
    if _NOT_FINITE.fullmatch(text):
        return f"{quote}, which equals no number"
    inside = _WITHIN.findall(text)
    if len(inside) == 1:
        return f"{quote}: ask for a bare number, with nothing around the {cut(inside[0], 40)}"
    if inside:
        return f"{quote}, which holds {len(inside)} numbers: ask for one bare number"
    return f"{quote}, which holds no number: ask for a bare number"


# -- Comparing numbers as they are written --------------------------------------------------------


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

    def read(self, text: str) -> _NumberReading:
        """The number that a text is, written as this rule allows."""
        return _read_number(
            text, percent=self.accept_percent, separators=self.accept_thousands_separators
        )

    def near(self, expected: Decimal, actual: Decimal) -> bool:
        """Whether two finite numbers are near enough, the bounds included."""
        if expected == actual:
            return True
        share = _ARITHMETIC.multiply(_ARITHMETIC.abs(expected), _decimal(self.relative_tolerance))
        off = _apart(expected, actual)
        return off <= _decimal(self.absolute_tolerance) or off <= share

    def __str__(self) -> str:
        share = f" or {self.relative_tolerance:g} of it" if self.relative_tolerance else ""
        return f"{self.absolute_tolerance:g}{share}"


EXACT = NumberRule()


def compare_numbers(expected: str, actual: str, rule: NumberRule = EXACT) -> Match:
    """Whether two texts are the same number, as near as the rule asks."""
    reference, answer = rule.read(expected), rule.read(actual)
    if reference.value is None:
        message = f"the expected answer is no number ({reference.problem})"
        return Match.missed(f"{message}: mend the case, or compare with equality")
    if answer.value is None:
        return Match.missed(f"expected the number {quoted(expected.strip(), 40)}, {answer.problem}")
    if rule.near(reference.value, answer.value):
        return HELD
    message = f"expected {quoted(expected.strip(), 40)}, found {quoted(actual.strip(), 40)}"
    off = (
        f"off by {_apart(reference.value, answer.value):.4g}, more than the {rule} that is allowed"
    )
    hint = _slip(reference.value, answer.value, rule, mixed=reference.percent != answer.percent)
    return Match.missed(f"{message}: {off}{f' ({hint})' if hint else ''}")


def same_number(expected: float, actual: float, tolerance: float) -> bool:
    """Whether two numbers are at most `tolerance` apart; NaN and infinity are near nothing."""
    one, other = _decimal(expected), _decimal(actual)
    if not (one.is_finite() and other.is_finite()):
        return False
    return one == other or _apart(one, other) <= _decimal(tolerance)


def _decimal(number: float) -> Decimal:
    """The number as it is written, not as binary holds it."""
    return Decimal(number) if isinstance(number, int) else Decimal(repr(number))


def _apart(one: Decimal, other: Decimal) -> Decimal:
    return _ARITHMETIC.abs(_ARITHMETIC.subtract(one, other))


def _slip(expected: Decimal, actual: Decimal, rule: NumberRule, *, mixed: bool) -> str:
    """The usual mistake that would explain the difference, if one does."""
    if mixed and any(
        rule.near(expected, _ARITHMETIC.multiply(actual, scale))
        for scale in (Decimal(100), _HUNDREDTH)
    ):
        return "one is a percentage and the other is not"
    if rule.near(expected, _ARITHMETIC.minus(actual)):
        return "the sign is wrong"
    for power in _UNITS:
        if expected and rule.near(expected, _ARITHMETIC.scaleb(actual, Decimal(-power))):
            return f"10^{power} times the expected: check the unit"
    return ""


# -- Comparing texts ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TextRule:
    """How a text should agree with the expected one."""

    match: Literal["exact", "contains", "regex", "skip"] = "exact"
    """`regex` takes the expected text as a pattern, found anywhere in the other.

    A pattern with nested repeats can take forever on some texts: Python sets no limit.
    """
    case_insensitive: bool = False
    length: LengthRule | None = None
    ignore: bool = False
    """Holds whatever is there."""

    @property
    def needs_reference(self) -> bool:
        """Whether there must be an expected text."""
        return not self.ignore and self.match != "skip"


EXACT_TEXT = TextRule()


def compare_texts(expected: str | None, actual: str, rule: TextRule = EXACT_TEXT) -> Match:
    """Whether a text is as the rule asks."""
    if rule.ignore:
        return HELD
    checks = [] if rule.length is None else [check_length(actual, rule.length)]
    if rule.match != "skip":
        checks.append(_compare(expected, actual, rule))
    return all_of(checks)


def levelled(text: str, *, fold: bool = False) -> str:
    """Text in one Unicode spelling, and in one letter case where `fold` says so."""
    one = unicodedata.normalize("NFC", text)
    return unicodedata.normalize("NFC", one.casefold()) if fold else one


def pattern_problem(pattern: str) -> str:
    """Why a pattern is no regular expression; empty where it is one."""
    try:
        re.compile(pattern)
    except RecursionError:
        reason = "it is nested too deeply"
    except (re.error, OverflowError) as error:
        reason = str(error)
    else:
        return ""
    return f"the pattern {quoted(pattern)} is not a valid regular expression ({reason})"


def difference(expected: str, actual: str) -> str:
    """What was expected and found, where two texts part, and what is the same in them."""
    if not actual:
        return f"expected {quoted(expected)}, found nothing"
    if len(expected) <= _WIDTH and len(actual) <= _WIDTH:
        comparison = f"expected {quoted(expected)}, found {quoted(actual)}"
    else:
        place = _parting(expected, actual)
        comparison = (
            f"expected {_quoted_at(expected, place)}, found {_quoted_at(actual, place)} "
            f"(they part at character {place + 1})"
        )
    nearly = _likeness(expected, actual)
    return f"{comparison}: {nearly}" if nearly else comparison


def _compare(expected: str | None, actual: str, rule: TextRule) -> Match:
    if expected is None:
        return Match.missed("there is no expected text to compare with: add one to the case")
    if rule.match == "regex":
        return _search(expected.strip(), actual.strip(), fold=rule.case_insensitive)
    reference = levelled(expected.strip(), fold=rule.case_insensitive)
    text = levelled(actual.strip(), fold=rule.case_insensitive)
    if rule.match == "contains":
        if reference in text:
            return HELD
        comparison = f"expected text that contains {quoted(reference)}, found {quoted(text)}"
        only_case = reference.casefold() in text.casefold()
        return Match.missed(
            f"{comparison}: only the letter case differs" if only_case else comparison
        )
    return HELD if reference == text else Match.missed(difference(reference, text))


def _search(pattern: str, text: str, *, fold: bool) -> Match:
    problem = pattern_problem(pattern)
    if problem:
        return Match.missed(f"{problem}: mend the case")
    # The flag, rather than lower case on both sides: a \D must not become a \d.
    if re.search(pattern, text, re.IGNORECASE if fold else re.NOFLAG):
        return HELD
    expectation = f"expected text that matches the pattern {quoted(pattern)}"
    return Match.missed(f"{expectation}, found {quoted(text) if text else 'nothing'}")


def _parting(expected: str, actual: str) -> int:
    pairs = enumerate(zip(expected, actual, strict=False))
    alike = min(len(expected), len(actual))
    return next((place for place, (one, other) in pairs if one != other), alike)


def _likeness(expected: str, actual: str) -> str:
    if expected.casefold() == actual.casefold():
        return "only the letter case differs"
    if expected.split() == actual.split():
        return "only the spacing differs"
    if expected and expected in actual:
        return "the expected text is there with more around it, ask for it alone"
    return ""
