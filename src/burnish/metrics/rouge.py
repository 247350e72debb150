"""ROUGE, the stems it counts, and the rule that asks for enough of it."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from burnish.core.errors import ConfigError, Problem
from burnish.metrics.text_matching import HELD, Match
from burnish.metrics.turns import EPSILON
from burnish.metrics.words import Script, words_by

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
    word = _replaced(_without_double(word), _MIDDLE_ENDINGS, at_least=1)
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


# -- ROUGE ----------------------------------------------------------------------------------------


_KIND = re.compile(r"rouge(?:[1-9]\d*|L|Lsum)")
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n")
_STEMMED_FROM = 4
"""Shorter words are compared as they are."""


@dataclass(frozen=True, kw_only=True)
class Rouge:
    """The share of the reply that is in the reference, the other way round, and their mean."""

    precision: float
    recall: float
    f1: float


def rouge_score(
    reference: str,
    reply: str,
    *,
    kind: str = "rougeL",
    stem: bool = False,
    split_summaries: bool = False,
    script: Script = "auto",
) -> Rouge:
    """Compare a reply with a reference.

    `rouge1`, `rouge2` and so on count words, pairs and longer runs; `rougeL` takes the longest
    common subsequence; `rougeLsum` does so sentence by sentence, one a line, or by full stops
    too where `split_summaries` asks for it. `stem` compares words by their stems.
    """
    check_kind(kind)
    find = words_by(reference, script)

    def words(text: str) -> Sequence[str]:
        return [long_stem(word) for word in find(text)] if stem else find(text)

    if kind == "rougeLsum":
        expected, actual = (
            [words(sentence) for sentence in _sentences(text, by_stops=split_summaries)]
            for text in (reference, reply)
        )
        sizes = sum(map(len, expected)), sum(map(len, actual))
        return _rouge(_union_hits(expected, actual), *sizes)
    if kind == "rougeL":
        expected, actual = words(reference), words(reply)
        return _rouge(_lcs_length(expected, actual), len(expected), len(actual))
    return _of_runs(words(reference), words(reply), int(kind.removeprefix("rouge")))


def check_kind(kind: str) -> None:
    """Refuse a kind of ROUGE that does not exist."""
    if not _KIND.fullmatch(kind):
        raise ConfigError(
            [
                Problem(
                    message=f"there is no ROUGE called '{kind}'",
                    remedy="take rouge1, rouge2, …, rougeL or rougeLsum",
                )
            ]
        )


def long_stem(word: str) -> str:
    """The stem of a word, or the word itself where it is short."""
    return stem(word) if len(word) >= _STEMMED_FROM else word


def _rouge(hits: int, expected: int, actual: int) -> Rouge:
    precision, recall = hits / max(actual, 1), hits / max(expected, 1)
    both = precision + recall
    return Rouge(
        precision=precision, recall=recall, f1=2 * precision * recall / both if both else 0.0
    )


def _of_runs(expected: Sequence[str], actual: Sequence[str], length: int) -> Rouge:
    ours, theirs = (Counter(_runs(words, length)) for words in (expected, actual))
    hits = sum(min(count, theirs[run]) for run, count in ours.items() if run in theirs)
    return _rouge(hits, ours.total(), theirs.total())


def _runs(words: Sequence[str], length: int) -> Iterator[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(length)), strict=False)


def _sentences(text: str, *, by_stops: bool) -> list[str]:
    return [part for part in (_SENTENCE_END.split(text) if by_stops else text.split("\n")) if part]


def _lcs_rows(expected: Sequence[str], actual: Sequence[str]) -> Iterator[int]:
    """The table of longest common subsequences, one row for each word of `actual` and one before.

    Bit i of a row is 0 where the word i of `expected` makes the subsequence longer by one: a
    whole row is computed at once, as integers as long as the reference (Hyyrö 2004).
    """
    places: dict[str, int] = {}
    for index, word in enumerate(expected):
        places[word] = places.get(word, 0) | (1 << index)
    row = whole = (1 << len(expected)) - 1
    yield row
    for word in actual:
        hit = row & places.get(word, 0)
        row = ((row + hit) | (row - hit)) & whole
        yield row


def _increments(row: int, upto: int) -> int:
    """The length of the common subsequence with the first words of the reference."""
    return upto - (row & ((1 << upto) - 1)).bit_count()


def _lcs_length(expected: Sequence[str], actual: Sequence[str]) -> int:
    last = 0
    for row in _lcs_rows(expected, actual):
        last = row
    return _increments(last, len(expected))


def _lcs_places(expected: Sequence[str], actual: Sequence[str]) -> set[int]:
    """The places in the reference of one longest common subsequence: the one rouge-score takes."""
    rows = list(_lcs_rows(expected, actual))
    i, j = len(expected), len(actual)
    places: set[int] = set()
    while i and j:
        if expected[i - 1] == actual[j - 1]:
            i, j = i - 1, j - 1
            places.add(i)
        elif _increments(rows[j - 1], i) > _increments(rows[j], i - 1):
            j -= 1
        else:
            i -= 1
    return places


def _union_hits(expected: Sequence[Sequence[str]], actual: Sequence[Sequence[str]]) -> int:
    """Words of the reference that some sentence of the reply has in order, each counted once."""
    left = Counter(word for sentence in actual for word in sentence)
    hits = 0
    for sentence in expected:
        places = sorted(set[int]().union(*(_lcs_places(sentence, other) for other in actual)))
        for place in places:
            if left[sentence[place]] > 0:
                left[sentence[place]] -= 1
                hits += 1
    return hits


# -- How much of the expected words a text must have ----------------------------------------------


_Measure = Literal["f1", "precision", "recall"]
_ADVICE: dict[_Measure, str] = {
    "precision": "too many words that the expected text does not have",
    "recall": "words of the expected text are missing",
    "f1": "too few words in common with the expected text",
}


@dataclass(frozen=True, kw_only=True)
class RougeRule:
    """How large the ROUGE of a text must be, against the expected one."""

    kind: str = "rouge1"
    measure: _Measure = "f1"
    """The number to report; the bounds below decide."""
    min_precision: float = 0.0
    min_recall: float = 0.0
    min_f1: float = 0.0
    stem: bool = False
    split_summaries: bool = False
    ignore: bool = False
    """Holds whatever is there."""

    @property
    def needs_reference(self) -> bool:
        """Whether there must be an expected text."""
        return not self.ignore


@dataclass(frozen=True, kw_only=True)
class RougeMatch:
    """Whether a text has enough of the expected words, and the number to report."""

    match: Match
    value: float


def compare_rouge(expected: str, reply: str, rule: RougeRule) -> RougeMatch:
    """Whether a text has enough of the expected words; else which bound it misses."""

    score = rouge_score(
        expected, reply, kind=rule.kind, stem=rule.stem, split_summaries=rule.split_summaries
    )
    had: dict[_Measure, tuple[float, float]] = {
        "precision": (score.precision, rule.min_precision),
        "recall": (score.recall, rule.min_recall),
        "f1": (score.f1, rule.min_f1),
    }
    short = [
        f"{rule.kind} {name} {value:.3f}, at least {bound:g} expected ({_ADVICE[name]})"
        for name, (value, bound) in had.items()
        if value < bound - EPSILON
    ]
    match = Match.missed("; ".join(short)) if short and not rule.ignore else HELD
    return RougeMatch(match=match, value=had[rule.measure][0])
