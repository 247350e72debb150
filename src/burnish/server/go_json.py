"""JSON as Go's encoder writes it, which PromptIter's clients may rely on."""

import json
from collections.abc import Iterator

from burnish.core.content import Json

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_ESCAPED = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)
_LEVELS = 7
"""Down to one case of one evaluation of one round: deeper parts are small."""


def go_json(value: Json) -> bytes:
    """The value as bytes: HTML characters escaped, a newline at the end.

    In pieces: the codec lets no other thread run while it works, and results may be large.
    """
    return "".join([*_pieces(value, _LEVELS), "\n"]).encode("utf-8", "replace")


def _pieces(value: Json, levels: int) -> Iterator[str]:
    if levels and value and isinstance(value, dict):
        before = "{"
        for key, inner in value.items():
            yield f"{before}{_text(key)}:"
            yield from _pieces(inner, levels - 1)
            before = ","
        yield "}"
    elif levels and value and isinstance(value, list):
        before = "["
        for inner in value:
            yield before
            yield from _pieces(inner, levels - 1)
            before = ","
        yield "]"
    else:
        yield _text(value)


def _text(value: Json) -> str:
    # These characters stand only inside strings, so escaping them afterwards is safe.
    return _ENCODER.encode(value).translate(_ESCAPED)
