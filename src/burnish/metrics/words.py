"""The words of a text, as metrics of overlap count them, and what two texts differ in."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Literal, TypeAlias

from burnish.metrics.text_matching import counted

Script: TypeAlias = Literal["auto", "latin", "unicode"]
"""How words are found; see `words_by`."""

_LATIN = re.compile("[a-z0-9]+")
_RECENT = 64
"""Texts whose words are remembered: scoring and giving the reason look at the same two."""
_SHOWN = 6
"""More words than these are counted, not listed."""
_LITTLE = frozenset(
    re.findall(
        r"\w+",
        """a an and are as at be been but by can could did do does for from had has have he her
        his how i if in into is it its me my of on or our she so than that the their them
        then there these they this to too us was we were what when which who will with would you
        your""",
    )
)
_ONE_BY_ONE = (
    (0x2E80, 0x2FDF),  # radicals
    (0x3005, 0x3007),  # signs that stand for a character
    (0x3040, 0x30FF),  # hiragana, katakana
    (0x31F0, 0x31FF),  # small katakana
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)
"""Characters that are written without spaces between words."""


@lru_cache(maxsize=_RECENT)
def latin_words(text: str) -> tuple[str, ...]:
    """Runs of a-z and 0-9 in small letters: what ROUGE tools call words; all else is dropped."""
    return tuple(_LATIN.findall(text.lower()))


@lru_cache(maxsize=_RECENT)
def unicode_words(text: str) -> tuple[str, ...]:
    """Runs of letters, marks and digits of any script; Chinese and Japanese sign by sign."""
    if text.isascii():
        return latin_words(text)
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return tuple(word for kind, run in groupby(folded, _kind) for word in _parted(kind, run))


def words_by(reference: str, script: Script = "auto") -> Callable[[str], tuple[str, ...]]:
    """How to find words in a reference and in what is compared with it.

    `auto` takes Latin words as ROUGE tools do, unless the reference has none of those: then
    those of all scripts count, since nothing would be left to compare.
    """
    if script == "auto":
        script = "latin" if latin_words(reference) else "unicode"
    return latin_words if script == "latin" else unicode_words


@lru_cache(maxsize=1 << 14)
def _kind(sign: str) -> str:
    """`word`, `alone` for a sign that is a word of its own, or nothing."""
    if any(first <= ord(sign) <= last for first, last in _ONE_BY_ONE):
        return "alone"
    return "word" if unicodedata.category(sign)[0] in "LMN" else ""


def _parted(kind: str, run: Iterator[str]) -> Iterator[str]:
    if kind == "alone":
        yield from run
    elif kind == "word":
        yield "".join(run)


def difference_in_words(
    expected: Sequence[str], actual: Sequence[str], same: Callable[[str], str] = str
) -> str:
    """Which expected words are missing and which came beside them, the telling ones first.

    Words count as equal where `same` makes them so.
    """
    keys, other_keys = list(map(same, expected)), list(map(same, actual))
    missing, extra = _without(expected, keys, other_keys), _without(actual, other_keys, keys)
    if not actual:
        return f"none of the {counted(len(expected), 'expected word')} is there: the reply has none"
    if not missing and not extra:
        return "every expected word is there, but in another order"
    parts = [
        f"of {counted(len(expected), 'expected word')} {_are(len(missing))} missing: "
        f"{_listed(missing)}"
        if missing
        else f"every one of the {counted(len(expected), 'expected word')} is there"
    ]
    if extra:
        parts.append(f"{counted(len(extra), 'word')} not expected: {_listed(extra)}")
    return "; ".join(parts)


def _without(words: Sequence[str], keys: Sequence[str], others: Sequence[str]) -> list[str]:
    """The words whose key has no partner on the other side."""
    left = Counter(others)
    alone: list[str] = []
    for word, key in zip(words, keys, strict=True):
        if left.get(key, 0) > 0:
            left[key] -= 1
        else:
            alone.append(word)
    return alone


def _are(count: int) -> str:
    return f"{count} is" if count == 1 else f"{count} are"


def _listed(words: Sequence[str]) -> str:
    """The telling words in their order: numbers and long ones, if there must be a choice."""
    distinct = list(dict.fromkeys(words))
    telling = [word for word in distinct if word not in _LITTLE] or distinct
    chosen = sorted(telling, key=_plainness)[:_SHOWN]
    more = len(distinct) - len(chosen)
    shown = ", ".join(word for word in telling if word in chosen)
    return f"{shown} and {more} more" if more else shown


def _plainness(word: str) -> tuple[bool, int]:
    return word.isalpha(), -len(word)
