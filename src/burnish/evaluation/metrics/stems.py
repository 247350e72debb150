"""Stems of English words, by Porter's algorithm with the refinements that ROUGE tools use.

M. F. Porter, "An algorithm for suffix stripping", Program 14.3 (1980), 130-137. The published
steps are followed, except where the ROUGE packages in use go another way: short words and a
few irregular ones are left alone, `y` becomes `i` after any consonant, and some endings are
taken off that the paper forgot. A test holds every stem against theirs.
"""

from collections.abc import Mapping
from functools import lru_cache

_IRREGULAR = {
    "skies": "sky", "sky": "sky", "dying": "die", "lying": "lie", "tying": "tie", "news": "news",
    "inning": "inning", "innings": "inning", "outing": "outing", "outings": "outing",
    "canning": "canning", "cannings": "canning", "howe": "howe",
    "proceed": "proceed", "exceed": "exceed", "succeed": "succeed",
}  # fmt: skip

_DOUBLE_ENDINGS = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize",
    "bli": "ble", "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate",
    "ator": "ate", "alism": "al", "iveness": "ive", "fulness": "ful", "ousness": "ous",
    "aliti": "al", "iviti": "ive", "biliti": "ble", "fulli": "ful",
}  # fmt: skip
"""Step 2."""

_MIDDLE_ENDINGS = {
    "icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": "",
}  # fmt: skip
"""Step 3."""

_LAST_ENDINGS: Mapping[str, str] = dict.fromkeys(
    ["al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou",
     "ism", "ate", "iti", "ous", "ive", "ize"],
    "",
)  # fmt: skip
"""Step 4."""


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """What is left of a word when its endings are taken off: `connections` gives `connect`."""
    word = word.lower()
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 2:
        return word
    word = _y_to_i(_without_past(_without_plural(word)))
    word = _without_middle(_without_double(word))
    return _tidied(_without_last(word))


def _shape(word: str) -> str:
    """The word as consonants and vowels, `c` and `v`; `y` is a vowel after a consonant."""
    shape = "v"
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape[-1] == "c")
        shape += "v" if vowel else "c"
    return shape[1:]


def _measure(word: str) -> int:
    """How often a vowel is followed by a consonant: the paper's m."""
    return _shape(word).count("vc")


def _ends_short(word: str) -> bool:
    """The paper's *o: consonant, vowel, consonant other than w, x, y; or the two letters `vc`."""
    shape = _shape(word)
    if len(word) == 2:
        return shape == "vc"
    return shape.endswith("cvc") and word[-1] not in "wxy"


def _ending(word: str, endings: Mapping[str, str]) -> str:
    """The longest of these endings that the word has, or nothing."""
    for length in range(min(7, len(word)), 1, -1):
        if word[-length:] in endings:
            return word[-length:]
    return ""


def _without_plural(word: str) -> str:
    if word.endswith("ies"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("sses"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _without_past(word: str) -> str:
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        rest = word.removesuffix(ending)
        if rest != word and "v" in _shape(rest):
            return _mended(rest)
    return word


def _mended(rest: str) -> str:
    """What stood before -ed or -ing as a word: `hopp` is hop, `fil` is file."""
    if rest.endswith(("at", "bl", "iz")):
        return rest + "e"
    if len(rest) >= 2 and rest[-1] == rest[-2] and _shape(rest)[-1] == "c":
        return rest if rest[-1] in "lsz" else rest[:-1]
    return rest + "e" if _measure(rest) == 1 and _ends_short(rest) else rest


def _y_to_i(word: str) -> str:
    if word.endswith("y") and len(word) > 2 and _shape(word[:-1])[-1] == "c":
        return word[:-1] + "i"
    return word


def _without_double(word: str) -> str:
    if word.endswith("alli"):
        return _without_double(word[:-2]) if _measure(word[:-4]) > 0 else word
    if word.endswith("logi"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    return _replaced(word, _DOUBLE_ENDINGS, at_least=1)


def _without_middle(word: str) -> str:
    return _replaced(word, _MIDDLE_ENDINGS, at_least=1)


def _without_last(word: str) -> str:
    if word.endswith("ion") and word[-4:-3] not in ("s", "t"):
        return word
    return _replaced(word, _LAST_ENDINGS, at_least=2)


def _replaced(word: str, endings: Mapping[str, str], *, at_least: int) -> str:
    ending = _ending(word, endings)
    if not ending:
        return word
    rest = word[: -len(ending)]
    return rest + endings[ending] if _measure(rest) >= at_least else word


def _tidied(word: str) -> str:
    """Step 5: a last e, and one l of two."""
    if word.endswith("e"):
        rest = word[:-1]
        measure = _measure(rest)
        if measure > 1 or (measure == 1 and not _ends_short(rest)):
            word = rest
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word
