"""A text taken apart into sentences, list items and table rows, to be judged one by one."""

import re
from collections.abc import Iterator

_FENCE = re.compile(
    r"^[ \t]*(```|~~~)[^`~\n]*\n.*?(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE
)
_MARKER = re.compile(r"\s*(?:[-*+•‣]|\d{1,3}[.)]|[A-Za-z][.)])\s+(?=\S)")
_END = re.compile(r"[.!?…]+[\"'”’)\]*_]*(?=\s)|[。！？]+[」』”’）]*")
_SHORT = re.compile(
    r"(?:al|approx|ca|cf|corp|dr|e\.g|eds?|eq|fig|i\.e|inc|jr|ltd|mrs?|ms|nos|pp|prof|resp|sr|st"
    r"|vol|vs|[^\W\d_])\."
)
"""Words whose full stop does not end a sentence, single letters among them."""


def sentences(text: str) -> tuple[str, ...]:
    """The parts in order. A code block is one part; a part without a letter or digit is none.

    A text that says anything at all has at least one part.
    """
    found = tuple(part for block in _blocks(text) for part in _parts(block) if _speaks(part))
    whole = text.strip()
    return found or ((whole,) if whole else ())


def _blocks(text: str) -> Iterator[str]:
    at = 0
    for fence in _FENCE.finditer(text):
        yield from text[at : fence.start()].splitlines()
        yield fence[0]
        at = fence.end()
    yield from text[at:].splitlines()


def _parts(block: str) -> Iterator[str]:
    if "\n" in block:
        yield block.strip()
        return
    marker = _MARKER.match(block)
    start, after = 0, marker.end() if marker else 0
    for end in _END.finditer(block, after):
        if _closes(block[start : end.end()]):
            yield block[start : end.end()].strip()
            start = end.end()
    yield block[start:].strip()


def _closes(part: str) -> bool:
    """Whether the stop at the end of a part ends a sentence: not after 'e.g.' or an initial."""
    last = part.split()[-1].lstrip("\"'“‘([*_").lower()
    return _SHORT.fullmatch(last) is None


def _speaks(part: str) -> bool:
    return any(each.isalnum() for each in part)
