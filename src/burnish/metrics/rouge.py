"""ROUGE, the Porter stemmer that it uses, and a rule for minimum scores."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Literal, TypeAlias

from burnish.core.errors import ConfigError, Problem
from burnish.metrics.text_matching import counted, joined
from burnish.metrics.turns import EPSILON

Script: TypeAlias = Literal["auto", "latin", "unicode"]

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
"""Characters of scripts without spaces between words."""


@lru_cache(maxsize=64)
def latin_words(text: str) -> tuple[str, ...]:
    """Runs of a-z and 0-9 in lower case, which ROUGE tools call words."""
    return tuple(re.findall("[a-z0-9]+", text.lower()))


@lru_cache(maxsize=64)
def unicode_words(text: str) -> tuple[str, ...]:
    """Runs of letters, marks and digits of any script; Chinese and Japanese by character."""
    if text.isascii():
        return latin_words(text)
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    words: list[str] = []
    for kind, run in groupby(folded, _kind):
        if kind == "alone":
            words += run
        elif kind == "word":
            words.append("".join(run))
    return tuple(words)


def words_by(reference: str, script: Script = "auto") -> Callable[[str], tuple[str, ...]]:
    """How to find words in a reference and in the text that is compared with it.

    `auto` takes Latin words, as ROUGE tools do, unless the reference has none.
    """
    if script == "auto":
        script = "latin" if latin_words(reference) else "unicode"
    return latin_words if script == "latin" else unicode_words


@lru_cache(maxsize=1 << 14)
def _kind(sign: str) -> str:
    """`word`, `alone` for a character that is a word by itself, or nothing."""
    if any(first <= ord(sign) <= last for first, last in _ONE_BY_ONE):
        return "alone"
    return "word" if unicodedata.category(sign)[0] in "LMN" else ""


def difference_in_words(
    expected: Sequence[str], actual: Sequence[str], same: Callable[[str], str] = str
) -> str:
    """Which words are missing and which are extra; words are equal if `same` maps them alike."""
    keys, other_keys = list(map(same, expected)), list(map(same, actual))
    missing, extra = _without(expected, keys, other_keys), _without(actual, other_keys, keys)
    if not actual:
        words = counted(len(expected), "expected word")
        return f"none of the {words} is there: the reply has no words"
    if not missing and not extra:
        return "every expected word is there, but in another order"
    words = counted(len(expected), "expected word")
    are = "is" if len(missing) == 1 else "are"
    first = (
        f"of {words} {len(missing)} {are} missing: {_listed(missing)}"
        if missing
        else f"every one of the {words} is there"
    )
    rest = f"{counted(len(extra), 'word')} not expected: {_listed(extra)}" if extra else ""
    return joined([first, rest])


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


def _listed(words: Sequence[str]) -> str:
    """The most informative words in their order: numbers and long words first."""
    distinct = list(dict.fromkeys(words))
    telling = [word for word in distinct if word not in _LITTLE] or distinct
    chosen = sorted(telling, key=lambda word: (word.isalpha(), -len(word)))[:6]
    more = len(distinct) - len(chosen)
    shown = ", ".join(word for word in telling if word in chosen)
    return f"{shown} and {more} more" if more else shown


# -- Overlap ---------------------------------------------------------------------------------------


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
    """The Porter stem of a word: `connections` gives `connect`."""
    word = word.lower()
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 2:
        return word
    word = _without_past(_without_plural(word))
    if word.endswith("y") and len(word) > 2 and _shape(word[:-1])[-1] == "c":
        word = word[:-1] + "i"
    word = _replaced(_without_double(word), _MIDDLE_ENDINGS, at_least=1)
    if not word.endswith("ion") or word[-4:-3] in ("s", "t"):
        word = _replaced(word, _LAST_ENDINGS, at_least=2)
    return _tidied(word)


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
    """The word before -ed or -ing: `hopp` is hop, `fil` is file."""
    if rest.endswith(("at", "bl", "iz")):
        return rest + "e"
    if len(rest) >= 2 and rest[-1] == rest[-2] and _shape(rest)[-1] == "c":
        return rest if rest[-1] in "lsz" else rest[:-1]
    return rest + "e" if _measure(rest) == 1 and _ends_short(rest) else rest


def _without_double(word: str) -> str:
    if word.endswith("alli"):
        return _without_double(word[:-2]) if _measure(word[:-4]) > 0 else word
    if word.endswith("logi"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    return _replaced(word, _DOUBLE_ENDINGS, at_least=1)


def _replaced(word: str, endings: Mapping[str, str], *, at_least: int) -> str:
    """The word with its longest ending replaced, if enough remains."""
    for length in range(min(7, len(word)), 1, -1):
        rest, ending = word[:-length], word[-length:]
        if ending in endings:
            return rest + endings[ending] if _measure(rest) >= at_least else word
    return word


def _tidied(word: str) -> str:
    """Step 5: a last e, and one l of two."""
    if word.endswith("e"):
        rest = word[:-1]
        measure = _measure(rest)
        if measure > 1 or (measure == 1 and not _ends_short(rest)):
            word = rest
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


_KIND = re.compile(r"rouge(?:[1-9]\d*|L|Lsum)")
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n")


@dataclass(frozen=True, kw_only=True)
class Rouge:
    """Precision, recall and F1."""

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

    `rouge1`, `rouge2`, … count runs of words, `rougeL` takes the longest common subsequence, and
    `rougeLsum` does so by sentence: by line, and with `split_summaries` by full stop too.
    """
    check_kind(kind)
    find = words_by(reference, script)

    def words(text: str) -> Sequence[str]:
        return [long_stem(word) for word in find(text)] if stem else find(text)

    if kind == "rougeLsum":
        end = _SENTENCE_END if split_summaries else "\n"
        expected, actual = (
            [words(sentence) for sentence in re.split(end, text) if sentence]
            for text in (reference, reply)
        )
        sizes = sum(map(len, expected)), sum(map(len, actual))
        return _rouge(_union_hits(expected, actual), *sizes)
    expected, actual = words(reference), words(reply)
    if kind == "rougeL":
        *_, last = _lcs_rows(expected, actual)
        return _rouge(_increments(last, len(expected)), len(expected), len(actual))
    length = int(kind.removeprefix("rouge"))
    ours, theirs = (
        Counter(zip(*(text[start:] for start in range(length)), strict=False))
        for text in (expected, actual)
    )
    return _rouge((ours & theirs).total(), ours.total(), theirs.total())


def check_kind(kind: str) -> None:
    """Reject an unknown kind of ROUGE."""
    if not _KIND.fullmatch(kind):
        remedy = "use rouge1, rouge2, …, rougeL or rougeLsum"
        raise ConfigError([Problem(message=f"unknown kind of ROUGE: '{kind}'", remedy=remedy)])


def long_stem(word: str) -> str:
    """The stem of a word, or the word itself if it is short."""
    return stem(word) if len(word) >= 4 else word


def _rouge(hits: int, expected: int, actual: int) -> Rouge:
    precision, recall = hits / max(actual, 1), hits / max(expected, 1)
    both = precision + recall
    return Rouge(
        precision=precision, recall=recall, f1=2 * precision * recall / both if both else 0.0
    )


def _lcs_rows(expected: Sequence[str], actual: Sequence[str]) -> Iterator[int]:
    """The table of longest common subsequences: a row before the first word, and one per word.

    Bit i of a row is 0 if word i of `expected` extends the subsequence, so that a whole row is
    computed at once (Hyyrö 2004).
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


def _lcs_places(expected: Sequence[str], actual: Sequence[str]) -> set[int]:
    """The positions of one longest common subsequence: the one that rouge-score takes."""
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
    """Words of the reference that a sentence of the reply has in order, each counted once."""
    left = Counter(word for sentence in actual for word in sentence)
    hits = 0
    for sentence in expected:
        places = sorted(set[int]().union(*(_lcs_places(sentence, other) for other in actual)))
        for place in places:
            if left[sentence[place]] > 0:
                left[sentence[place]] -= 1
                hits += 1
    return hits


_Measure = Literal["f1", "precision", "recall"]
_ADVICE: dict[_Measure, str] = {
    "precision": "too many words that the expected text does not have",
    "recall": "words of the expected text are missing",
    "f1": "too few words in common with the expected text",
}


@dataclass(frozen=True, kw_only=True)
class RougeRule:
    """The minimum ROUGE scores of a text."""

    kind: str = "rouge1"
    measure: _Measure = "f1"
    """The number to report."""
    min_precision: float = 0.0
    min_recall: float = 0.0
    min_f1: float = 0.0
    stem: bool = False
    split_summaries: bool = False
    ignore: bool = False

    @property
    def needs_reference(self) -> bool:
        return not self.ignore


def compare_rouge(expected: str, reply: str, rule: RougeRule) -> tuple[str, float]:
    """The bounds that a text misses, and the number to report."""
    score = rouge_score(
        expected, reply, kind=rule.kind, stem=rule.stem, split_summaries=rule.split_summaries
    )
    values: dict[_Measure, tuple[float, float]] = {
        "precision": (score.precision, rule.min_precision),
        "recall": (score.recall, rule.min_recall),
        "f1": (score.f1, rule.min_f1),
    }
    short = [
        f"{rule.kind} {name} {value:.3f}, at least {bound:g} expected ({_ADVICE[name]})"
        for name, (value, bound) in values.items()
        if value < bound - EPSILON
    ]
    return "; ".join(short), values[rule.measure][0]
