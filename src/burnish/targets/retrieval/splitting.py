"""Cutting a text into pieces of a size, where it reads best."""

import re
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from burnish.targets.retrieval.words import UNSPACED

_WORD = re.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]{{1,32}}")
_A_WORD, _A_CHARACTER = 4 / 3, 1 / 4
_LATE = 0.75
"""A cut is moved back to a better place within the last quarter of a piece."""


class _Word(NamedTuple):
    start: int
    end: int
    tokens: float


def count_tokens(text: str) -> int:
    """About how many tokens a text is: no tokenizer is asked.

    A word is 4/3 of a token, or a quarter of its characters where it is long; a sign of a
    script without spaces is one.
    """
    return round(sum(word.tokens for word in _words(text)))


def pieces(text: str, *, most: int, overlap: int) -> Iterator[str]:
    """Consecutive pieces of at most `most` tokens; each repeats the end of the one before."""
    repeated = min(overlap, most / 2)
    held: deque[_Word] = deque()
    size, fresh = 0.0, 0
    for word in _words(text):
        if held and size + word.tokens > most:
            kept = _cut(text, held, size)
            yield text[held[0].start : held[kept - 1].end]
            fresh = len(held) - kept
            size = _forget(held, fresh, repeated)
        held.append(word)
        size += word.tokens
        fresh += 1
    if fresh:
        yield text[held[0].start : held[-1].end]


def _words(text: str) -> Iterator[_Word]:
    for found in _WORD.finditer(text):
        length = found.end() - found.start()
        alone = length == 1 and found[0] >= "\u0e00"
        tokens = 1.0 if alone else max(_A_WORD, length * _A_CHARACTER)
        yield _Word(found.start(), found.end(), tokens)


def _cut(text: str, held: deque[_Word], size: float) -> int:
    """How many of the words to give out: up to the end of a paragraph, line or sentence."""
    best, rank, left = len(held), 0, size
    for count in range(len(held), 0, -1):
        if left < size * _LATE:
            break
        after = held[count].start if count < len(held) else None
        found = _ending(text, held[count - 1].end, after)
        if found > rank:
            best, rank = count, found
        left -= held[count - 1].tokens
    return best


def _ending(text: str, end: int, after: int | None) -> int:
    """How good it is to stop here: 3 a paragraph, 2 a line, 1 a sentence, 0 in the middle."""
    gap = text[end : end + 8 if after is None else after]
    blank = gap[: len(gap) - len(gap.lstrip())]
    if "\n" in blank:
        return 3 if blank.count("\n") > 1 else 2
    return int(text[end - 1] in ".!?。！？…")


def _forget(held: deque[_Word], fresh: int, repeated: float) -> float:
    """Let go of what was given out, but for the last words that the next piece repeats."""
    keep, tokens = fresh, 0.0
    while keep < len(held):
        tokens += held[len(held) - 1 - keep].tokens
        if tokens > repeated:
            break
        keep += 1
    while len(held) > keep:
        held.popleft()
    return sum(word.tokens for word in held)
