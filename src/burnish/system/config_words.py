"""What is wrong with a value, in plain words."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence

from pydantic_core import ErrorDetails

MISSING = "required, but missing"
_BOUNDS = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "multiple_of": "a multiple of {multiple_of}",
    "enum": "{expected}",
    "literal_error": "{expected}",
    "string_pattern_mismatch": "text that matches {pattern}",
    "union_tag_invalid": "one of {expected_tags}",
}
_LENGTHS = {
    "string_too_short": ("at least", "min_length", "character"),
    "string_too_long": ("at most", "max_length", "character"),
    "too_short": ("at least", "min_length", "item"),
    "too_long": ("at most", "max_length", "item"),
}
_KINDS = (
    ("int", "a whole number"),
    ("float", "a number"),
    ("decimal", "a number"),
    ("finite", "a finite number"),
    ("bool", "true or false"),
    ("string", "text"),
    ("bytes", "text"),
    ("list", "a list"),
    ("tuple", "a list"),
    ("set", "a list"),
    ("frozen_set", "a list"),
    ("iterable", "a list"),
    ("dict", "a mapping"),
    ("mapping", "a mapping"),
    ("model", "a mapping"),
    ("dataclass", "a mapping"),
    ("none", "nothing"),
    ("path", "a path"),
    ("datetime", "a date with a time, such as 2026-01-31T12:00:00"),
    ("date", "a date, such as 2026-01-31"),
    ("time_delta", "a length of time"),
    ("time", "a time, such as 12:00:00"),
    ("url", "a URL"),
    ("uuid", "a UUID"),
)
_LONGEST = 60
_LISTED = 12
"""Names that are listed where none is near."""


def complaint(errors: Sequence[ErrorDetails]) -> str:
    """One sentence for all that is said about one value."""
    expected = [expectation(error) for error in errors]
    if all(expected):
        phrase = " or ".join(dict.fromkeys(filter(None, expected)))
        return f"expected {phrase}, found {_found_by(errors[0])}"
    return "; or ".join(dict.fromkeys(map(_own_words, errors)))


def expectation(error: ErrorDetails) -> str | None:
    """What may stand there, to follow the word 'expected'; None when it cannot be said so."""
    kind, context = error["type"], error.get("ctx", {})
    if kind in _BOUNDS:
        return _BOUNDS[kind].format_map(context)
    if kind in _LENGTHS:
        bound, key, unit = _LENGTHS[kind]
        return f"{bound} {context[key]} {unit}{'' if context[key] == 1 else 's'}"
    return next((words for start, words in _KINDS if kind.startswith(f"{start}_")), None)


def shown(value: object) -> str:
    """A value as a person would call it: the text or the number, but never a whole structure."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return repr(value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…")
    if isinstance(value, Mapping):
        return "a mapping"
    return str(value) if isinstance(value, int | float) else "a list"


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The known word that was probably meant."""
    spelled = {name.lower().replace("-", "_"): name for name in known}
    close = difflib.get_close_matches(word.lower().replace("-", "_"), list(spelled), n=1)
    return spelled[close[0]] if close else None


def choices(error: ErrorDetails) -> list[str]:
    """The texts that a choice allows; none when the error is not about a choice."""
    context = error.get("ctx", {})
    return re.findall(r"'([^']*)'", str(context.get("expected", context.get("expected_tags", ""))))


def _found_by(error: ErrorDetails) -> str:
    if error["type"] in ("too_short", "too_long"):
        return str(error.get("ctx", {}).get("actual_length"))
    if error["type"] == "union_tag_invalid":
        return repr(error.get("ctx", {}).get("tag"))
    return shown(error["input"])


def _own_words(error: ErrorDetails) -> str:
    if error["type"] in ("missing", "union_tag_not_found"):
        return MISSING
    raised = error.get("ctx", {}).get("error")
    if isinstance(raised, Exception):
        return str(raised) or "not valid"
    message = re.sub(r"^Input should be( a valid)?", "expected", error["msg"])
    return message[:1].lower() + message[1:]


def near(name: str, known: Sequence[str]) -> str:
    """What was probably meant, else all there is, as far as it can be listed."""
    meant = next(iter(_ending(name, known)), None) or nearest(name, known)
    if meant is not None:
        return f"did you mean '{meant}'?"
    shown = ", ".join(known[:_LISTED]) or "none"
    return f"there are: {shown}{', …' if len(known) > _LISTED else ''}"


def _ending(name: str, known: Iterable[str]) -> Iterable[str]:
    """Most often what stands before a slash is left out."""
    return (each for each in known if each.endswith(f"/{name}"))
