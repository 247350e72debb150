"""Excerpts: values as a reason quotes them, on one line and never long."""

import json

from burnish.core.content import Json

WIDTH = 80
"""Longer texts are cut when a reason quotes them."""
_BEFORE = 20
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), 127)} | {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
}


def quoted(text: str, width: int = WIDTH) -> str:
    """The text in quotes, cut at `width`, line ends shown as signs."""
    return f"'{cut(text, width)}'"


def cut(text: str, width: int = WIDTH) -> str:
    """The text on one line, at most about `width` long."""
    kept = text if len(text) <= width else f"{text[: width - 1]}…"
    return kept.translate(_CONTROLS)


def without_middle(text: str, most: int) -> str:
    """A text of many lines as it is; of a longer one, the beginning and the end."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} […] {text[-half:]}"


def quoted_at(text: str, place: int, width: int = WIDTH) -> str:
    """The part of a long text that a place is in, quoted."""
    start = max(0, place - _BEFORE)
    return f"'{'…' if start else ''}{cut(text[start:], width)}'"


def shown(value: Json, width: int = WIDTH) -> str:
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
