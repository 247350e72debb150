"""Numbers in texts: reading one, and saying what keeps a text from being one."""

import re
from dataclasses import dataclass
from decimal import Context, Decimal

from burnish.evaluation.matching.excerpts import cut, quoted

ARITHMETIC = Context(prec=60, traps=[])
"""For all that is computed here: no setting of the user's may change what a number is."""
HUNDREDTH = Decimal("0.01")

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
class NumberReading:
    """A number that a text holds, or what keeps the text from being one."""

    value: Decimal | None = None
    percent: bool = False
    """It was written with a percent sign."""
    problem: str = ""


def read_number(text: str, *, percent: bool = False, separators: bool = False) -> NumberReading:
    """The number that the whole text is, with a percent sign or separators where allowed."""
    stripped = text.strip().translate(_SIGNS)
    written = _NUMBER.fullmatch(stripped)
    if written is None:
        return NumberReading(problem=_why_not(stripped))
    if written["grouped"] and not separators:
        return _refused(stripped, "thousands separators are", "accept_thousands_separators")
    if written["percent"] and not percent:
        return _refused(stripped, "a percent sign is", "accept_percent")
    digits = written["plain"] or written["grouped"].replace(written["by"], "")
    value = Decimal(f"{written['sign']}{digits}")
    if not written["percent"]:
        return NumberReading(value=value)
    return NumberReading(value=ARITHMETIC.multiply(value, HUNDREDTH), percent=True)


def _refused(text: str, what: str, option: str) -> NumberReading:
    told = f"found {quoted(text)}: {what} not accepted"
    return NumberReading(problem=f"{told}; set {option} or ask for a bare number")


def _why_not(text: str) -> str:
    if not text:
        return "found nothing"
    found = f"found {quoted(text)}"
    if _NOT_FINITE.fullmatch(text):
        return f"{found}, which equals no number"
    inside = _WITHIN.findall(text)
    if len(inside) == 1:
        return f"{found}: ask for a bare number, with nothing around the {cut(inside[0], 40)}"
    if inside:
        return f"{found}, which holds {len(inside)} numbers: ask for one bare number"
    return f"{found}, which holds no number: ask for a bare number"
