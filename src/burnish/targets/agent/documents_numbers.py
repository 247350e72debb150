"""Numbers in cells as a person sees them: dates are numbers with a format that says so."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta

_DATE, _TIME, _BOTH, _LENGTH = "yyyy-mm-dd", "hh:mm:ss", "yyyy-mm-dd hh:mm:ss", "[h]:mm:ss"
BUILT_IN: Mapping[int, str] = {
    **dict.fromkeys([*range(14, 18), *range(27, 32), 36, *range(50, 55), 57, 58], _DATE),
    **dict.fromkeys([*range(18, 22), *range(32, 36), 45, 47, 55, 56], _TIME),
    22: _BOTH,
    46: _LENGTH,
}
"""The formats of dates and times that Excel knows by number, in plain spelling."""

_LITERAL = re.compile(r'"[^"]*"|\\.|_.|\*.|\[[^\]]*\]')
_IS_A_LENGTH = re.compile(r"\[(h+|m+|s+)\]", re.IGNORECASE)
_LEAP_DAY_THAT_NEVER_WAS = 60
"""Excel counts a 29 February 1900, so that days before it are one off."""


def number_shown(value: str, format_code: str = "", *, from_1904: bool = False) -> str:
    """A number as text, or the date, time or length of time that its format makes of it."""
    try:
        number = float(value)
    except ValueError:
        return value
    pattern = format_code.partition(";")[0]
    try:
        if _IS_A_LENGTH.search(pattern):
            return _length(number)
        moment = _moment(number, _LITERAL.sub("", pattern).lower(), from_1904=from_1904)
    except (OverflowError, ValueError):
        moment = ""
    # Fifteen digits are what Excel keeps: 0.1 + 0.2 is 0.3 there.
    return moment or f"{number:.15g}"


def _moment(number: float, pattern: str, *, from_1904: bool) -> str:
    """What a format shows of a point in time; empty where it is no format of dates or times."""
    if "general" in pattern:
        return ""
    has_time = any(letter in pattern for letter in "hs")
    has_date = any(letter in pattern for letter in "yd") or ("m" in pattern and not has_time)
    if not (has_date or has_time) or number < 0:
        return ""
    shift = number if from_1904 or number >= _LEAP_DAY_THAT_NEVER_WAS else number + 1
    start = datetime(1904, 1, 1) if from_1904 else datetime(1899, 12, 30)
    when = start + timedelta(seconds=round(shift * 86_400))
    if has_date and has_time:
        return f"{when:%Y-%m-%d %H:%M:%S}"
    return f"{when:%Y-%m-%d}" if has_date else f"{when:%H:%M:%S}"


def _length(number: float) -> str:
    seconds = round(abs(number) * 86_400)
    sign = "-" if number < 0 else ""
    return f"{sign}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
