"""Metrics of shared words: BLEU, chrF, METEOR and ROUGE.

BLEU and chrF of a sentence are exactly the numbers of sacrebleu, which would install numpy.
"""

import math
import re
from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias

import regex

from burnish.core.cases import squeeze
from burnish.core.content import Json, short_id
from burnish.metrics.computed import ReferenceMetric
from burnish.metrics.rouge import (
    Script,
    check_kind,
    difference_in_words,
    long_stem,
    rouge_score,
    stem,
    unicode_words,
    words_by,
)
from burnish.metrics.text_matching import quoted
from burnish.metrics.turns import EPSILON, Verdict

Tokenizer: TypeAlias = Literal["auto", "13a", "intl", "zh", "char", "none"]
"""How BLEU finds the words of a text."""

_Ngrams: TypeAlias = Counter[tuple[str, ...]]

_LONGEST_PHRASE = 4
_LONGEST_RUN = 6
_BETA_SQUARED = 4
"""chrF counts recall twice as much as precision."""
_ESCAPES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
_WESTERN = (
    (re.compile(r"([{-~\[-` -&(-+:-@/])"), r" \1 "),  # punctuation and symbols
    (re.compile(r"([^0-9])([.,])"), r"\1 \2 "),  # full stops and commas, except inside numbers
    (re.compile(r"([.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
)
_INTERNATIONAL = (
    (regex.compile(r"(\P{N})(\p{P})"), r"\1 \2 "),
    (regex.compile(r"(\p{P})(\P{N})"), r" \1 \2"),
    (regex.compile(r"(\p{S})"), r" \1 "),
)
# The original writes code points above U+FFFF with `\u`, which takes four digits, so that all of
# U+2001 to U+2A6D counts. Equal scores need the same ranges.
_SIGNS = re.compile(
    "([\u2001-\u2a6d\u2e80-\u2eff\u2f00-\u2fdf\u2ff0-\u303f\u3100-\u312f\u31a0-\u31bf\u31c0-\u31ef"
    "\u3200-\u33ff\u3400-\u4db5\u4e00-\u9fbb\uf900-\ufa2d\ufa30-\ufa6a\ufa70-\ufad9\ufe10-\ufe1f"
    "\ufe30-\ufe4f\uff00-\uffef])"
)
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


def bleu_score(
    reference: str, reply: str, *, tokenize: Tokenizer = "auto", lowercase: bool = False
) -> float:
    """Sentence BLEU with effective order, so that short replies are not scored 0."""
    tokens = _TOKENIZERS[tokenizer_for(reference) if tokenize == "auto" else tokenize]
    expected, actual = (
        tokens((text.lower() if lowercase else text).rstrip()).split()
        for text in (reference, reply)
    )
    matches = [
        _shared(_phrases(actual, size), _phrases(expected, size))
        for size in range(1, _LONGEST_PHRASE + 1)
    ]
    if not any(matches):
        return 0.0
    logarithms = [math.log(each) for each in _precisions(matches, len(actual))]
    brief = len(actual) < len(expected)
    penalty = math.exp(1 - len(expected) / len(actual)) if brief else 1.0
    return _in_unit(penalty * math.exp(sum(logarithms) / len(logarithms)))


def _precisions(matches: Sequence[int], length: int) -> Iterator[float]:
    """In percent, for each size of phrase that the reply is long enough for.

    Instead of 0, a size without matches gets a share that halves each time (NIST smoothing).
    """
    smoothing = 1.0
    for size, count in enumerate(matches, start=1):
        phrases = length - size + 1
        if phrases < 1:
            return
        if count:
            yield 100.0 * count / phrases
        else:
            smoothing *= 2
            yield 100.0 / (smoothing * phrases)


def chrf_score(reference: str, reply: str, *, words: int = 0, lowercase: bool = False) -> float:
    """chrF; `words=2` gives chrF++."""
    if lowercase:
        reference, reply = reference.lower(), reply.lower()
    precision = recall = 0.0
    orders = 0
    for expected, actual in zip(_runs(reference, words), _runs(reply, words), strict=True):
        if expected and actual:
            shared = _shared(actual, expected)
            precision += shared / actual.total()
            recall += shared / expected.total()
            orders += 1
    if not precision + recall:
        return 0.0
    precision, recall = precision / orders, recall / orders
    score = (1 + _BETA_SQUARED) * precision * recall
    return _in_unit(100 * (score / ((_BETA_SQUARED * precision) + recall)))


def tokenizer_for(reference: str) -> Tokenizer:
    """The usual tokenizer, or one by character for scripts without spaces."""
    if reference.isascii():
        return "13a"
    if any("\u3040" <= sign <= "\u30ff" for sign in reference):  # kana
        return "char"
    return "zh" if any("\u3400" <= sign <= "\u9fff" for sign in reference) else "13a"


def _in_unit(percent: float) -> float:
    """A perfect score may be slightly above 100 percent."""
    return min(1.0, max(0.0, percent / 100))


def _shared(one: _Ngrams, other: _Ngrams) -> int:
    return sum(min(count, other[each]) for each, count in one.items() if each in other)


def _phrases(tokens: Sequence[str], size: int) -> _Ngrams:
    return Counter(tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1))


def _runs(text: str, words: int) -> Iterator[_Ngrams]:
    """The runs of one to six characters, and the phrases of up to so many words."""
    signs = "".join(text.split())
    yield from (_phrases(signs, size) for size in range(1, _LONGEST_RUN + 1))
    tokens = list(chain.from_iterable(map(_without_punctuation, text.split() if words else ())))
    yield from (_phrases(tokens, size) for size in range(1, words + 1))


def _without_punctuation(word: str) -> tuple[str, ...]:
    """The word, and a sign at its end or else at its start apart."""
    if len(word) > 1 and word[-1] in _PUNCTUATION:
        return word[:-1], word[-1]
    if len(word) > 1 and word[0] in _PUNCTUATION:
        return word[0], word[1:]
    return (word,)


def _western(text: str) -> str:
    for pattern, replacement in _WESTERN:
        text = pattern.sub(replacement, text)
    return text


@lru_cache(maxsize=1024)
def _mteval(text: str) -> str:
    text = text.replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for escape, sign in _ESCAPES:
        text = text.replace(escape, sign)
    return _western(f" {text} ")


@lru_cache(maxsize=1024)
def _international(text: str) -> str:
    for pattern, replacement in _INTERNATIONAL:
        text = pattern.sub(replacement, text)
    return text


@lru_cache(maxsize=1024)
def _chinese(text: str) -> str:
    return _western(_SIGNS.sub(r" \1 ", text.strip()))


_TOKENIZERS: Mapping[Tokenizer, Callable[[str], str]] = {
    "13a": _mteval,
    "intl": _international,
    "zh": _chinese,
    "char": " ".join,
    "none": str,
}

_BEAM = 64
"""Partial alignments kept per word; repetitive texts would have millions."""
_NOWHERE = -2

_Pairs: TypeAlias = dict[int, int]
"""Positions in the reply, in order, with their positions in the reference."""


def align(reference: Sequence[str], reply: Sequence[str]) -> _Pairs:
    """Pair equal words, each at most once, in as few runs as possible.

    The number of pairs is always maximal. The number of runs is minimal unless more than 64
    partial alignments compete at a word, which takes a very repetitive text.
    """
    crossing = _Crossing(reference, reply)
    pairs = _best_runs(crossing)
    taken = set(pairs.values())
    free = {
        word: iter([j for j in places if j not in taken])
        for word, places in crossing.places.items()
    }
    for i, word in enumerate(reply):
        partner = next(free[word], None) if i not in pairs and word in free else None
        if partner is not None:
            pairs[i] = partner
    return dict(sorted(pairs.items()))


def count_runs(pairs: _Pairs) -> int:
    """The number of runs of neighbours among the pairs."""
    return sum(1 for i, j in pairs.items() if pairs.get(i - 1, _NOWHERE) != j - 1)


class _Crossing:
    """The positions of the two texts that can be paired."""

    def __init__(self, reference: Sequence[str], reply: Sequence[str]) -> None:
        self.reference, self.reply = reference, reply
        self.places: defaultdict[str, list[int]] = defaultdict(list)
        for j, word in enumerate(reference):
            self.places[word].append(j)
        self._replied = Counter(reply)
        self.alive = [0] * (len(reply) + 1)
        """For each place in the reply, what of the reference later words may make a run of."""
        for i in range(len(reply) - 1, -1, -1):
            self.alive[i] = self.alive[i + 1]
            for j in self.places.get(reply[i], ()):
                if self.fits(i + 1, j + 1) or (i and j and self.fits(i - 1, j - 1)):
                    self.alive[i] |= 1 << j

    def fits(self, i: int, j: int) -> bool:
        inside = i < len(self.reply) and j < len(self.reference)
        return inside and self.reply[i] == self.reference[j]

    def settled(self, i: int) -> bool:
        """Whether there is no choice: at most one partner, which no other word can have."""
        word = self.reply[i]
        return word not in self.places or len(self.places[word]) == self._replied[word] == 1

    def starts(self, i: int) -> list[int]:
        """Positions where a run of two or more can start."""
        return [j for j in self.places[self.reply[i]] if self.fits(i + 1, j + 1)][:16]


class _Partial(NamedTuple):
    """An alignment up to a word: its partner, and how many words continue a run."""

    joins: int
    partner: int
    used: int
    """Positions of the reference that are taken and still relevant, as bits."""
    before: "_Partial | None"


def _best_runs(crossing: _Crossing) -> _Pairs:
    """The pairs in the fewest runs; words for which any partner will do are left out."""
    front = [_Partial(0, _NOWHERE, 0, None)]
    for i in range(len(crossing.reply)):
        if crossing.settled(i):
            place = crossing.places.get(crossing.reply[i], [_NOWHERE])[0]
            alive = crossing.alive[i + 1]
            front = [
                _Partial(
                    partial.joins + (partial.partner >= 0 and partial.partner + 1 == place),
                    place,
                    partial.used & alive,
                    partial,
                )
                for partial in front
            ]
        else:
            front = list(_branches(front, i, crossing))
        if len(front) > 1:
            front = _fittest(front)
    partial = max(front, key=lambda partial: partial.joins)
    pairs: _Pairs = {}
    for i in range(len(crossing.reply) - 1, -1, -1):
        if partial.partner >= 0:
            pairs[i] = partial.partner
        assert partial.before is not None
        partial = partial.before
    return pairs


def _branches(front: Sequence[_Partial], i: int, crossing: _Crossing) -> Iterator[_Partial]:
    """The continuations of the alignments: join a run, start one, or leave the word out."""
    starts, alive = crossing.starts(i), crossing.alive[i + 1]
    for partial in front:
        yield _Partial(partial.joins, _NOWHERE, partial.used & alive, partial)
        following = partial.partner + 1
        joined = following > 0 and crossing.fits(i, following)
        for j in {following, *starts} if joined else starts:
            if not partial.used >> j & 1:
                joins = partial.joins + (joined and j == following)
                yield _Partial(joins, j, (partial.used | 1 << j) & alive, partial)


def _fittest(partials: Sequence[_Partial]) -> list[_Partial]:
    """The best alignments, one for each set of remaining choices."""
    best: dict[tuple[int, int], _Partial] = {}
    for partial in partials:
        key = (partial.partner, partial.used)
        rival = best.get(key)
        if rival is None or partial.joins > rival.joins:
            best[key] = partial
    return sorted(best.values(), key=lambda partial: -partial.joins)[:_BEAM]


_Synonyms: TypeAlias = Callable[[str], Collection[str]]


@dataclass(frozen=True, kw_only=True)
class _MeteorScore:
    """The score and its parts."""

    value: float
    matches: int
    chunks: int
    """Runs of matched words that are adjacent in both texts."""


def meteor_score(reference: str, reply: str, *, synonyms: _Synonyms | None = None) -> _MeteorScore:
    """METEOR: words are matched by their stems, the rest by `synonyms`.

    Equal words share a stem, so the exact and the stem stage are one alignment.
    """
    expected, actual = unicode_words(reference), unicode_words(reply)
    pairs = align([stem(word) for word in expected], [stem(word) for word in actual])
    if synonyms is not None:
        pairs = _with_synonyms(pairs, expected, actual, synonyms)
    matches, chunks, value = len(pairs), count_runs(pairs), 0.0
    if matches:
        precision, recall = matches / len(actual), matches / len(expected)
        mean = precision * recall / (0.9 * precision + (1 - 0.9) * recall)
        value = (1 - 0.5 * (chunks / matches) ** 3.0) * mean
    return _MeteorScore(value=value, matches=matches, chunks=chunks)


def _with_synonyms(
    pairs: _Pairs, expected: Sequence[str], actual: Sequence[str], synonyms: _Synonyms
) -> _Pairs:
    """Add the first free synonym for each unmatched word, preferably next to a match."""
    matched = dict(pairs)
    free = sorted(set(range(len(expected))) - set(pairs.values()))
    for i in (i for i in range(len(actual)) if i not in pairs):
        same = {actual[i], *synonyms(actual[i])}
        fitting = [j for j in free if expected[j] in same]
        if fitting:
            beside = {matched.get(i - 1, -2) + 1, matched.get(i + 1, -2) - 1}
            matched[i] = next((j for j in fitting if j in beside), fitting[0])
            free.remove(matched[i])
    return dict(sorted(matched.items()))


def synonyms_in(wordnet: Any) -> _Synonyms:
    """Synonyms from nltk's wordnet reader; those of several words are left out."""

    @lru_cache(maxsize=1 << 14)
    def synonyms(word: str) -> frozenset[str]:
        lemmas = (lemma.name() for synset in wordnet.synsets(word) for lemma in synset.lemmas())
        return frozenset(name.lower() for name in lemmas if "_" not in name)

    return synonyms


@cache
def installed_synonyms() -> _Synonyms | None:
    """Synonyms from nltk's wordnet corpus, or None if it is not installed."""
    try:
        wordnet = import_module("nltk.corpus").wordnet
        wordnet.synsets("word")
    except (ImportError, LookupError):  # no nltk; no corpus
        return None
    return synonyms_in(wordnet)


@dataclass(frozen=True, kw_only=True)
class OverlapMetric(ReferenceMetric):
    """Measures what a reply shares with the reference, which it must equal if that has no words."""

    @property
    def graded(self) -> bool:
        return True

    def compare(self, expected: str, reply: str) -> Verdict:
        comparison = f"expected {quoted(expected)}, found {quoted(reply)}"
        if not unicode_words(expected):
            return Verdict.of(held=squeeze(expected) == squeeze(reply), reason=comparison)
        value, details = self.measured(expected, reply)
        gap = "" if value >= 1 - EPSILON else self.gap(expected, reply, value)
        return Verdict(value=value, reason=f"{gap} ({comparison})" if gap else "", details=details)

    @abstractmethod
    def measured(self, expected: str, reply: str) -> tuple[float, Mapping[str, Json]]:
        """The score and its parts."""

    def gap(self, expected: str, reply: str, value: float) -> str:
        """What is missing from the reply, in words."""
        del value
        expected_words, reply_words = unicode_words(expected), unicode_words(reply)
        if expected_words == reply_words:
            return "the words are the same, but capital letters, punctuation or spacing differ"
        return difference_in_words(expected_words, reply_words)


@dataclass(frozen=True, kw_only=True)
class Bleu(OverlapMetric):
    """Sentence BLEU: phrases of up to four words, with case and punctuation."""

    name: str = "bleu"
    tokenize: Tokenizer = "auto"
    lowercase: bool = False

    def measured(self, expected: str, reply: str) -> tuple[float, Mapping[str, Json]]:
        tokenize = tokenizer_for(expected) if self.tokenize == "auto" else self.tokenize
        value = bleu_score(expected, reply, tokenize=tokenize, lowercase=self.lowercase)
        return value, {"tokenize": tokenize}


@dataclass(frozen=True, kw_only=True)
class Chrf(OverlapMetric):
    """chrF: runs of up to six characters, for any script."""

    name: str = "chrf"
    words: int = 0
    """2 counts words and word pairs too (chrF++)."""
    lowercase: bool = False

    def measured(self, expected: str, reply: str) -> tuple[float, Mapping[str, Json]]:
        return chrf_score(expected, reply, words=self.words, lowercase=self.lowercase), {}


@dataclass(frozen=True, kw_only=True)
class RougeMetric(OverlapMetric):
    """ROUGE; the defaults are those of HoloDeck, the F1 of ROUGE-L without stemming."""

    name: str = "rouge"
    kind: str = "rougeL"
    measure: Literal["f1", "precision", "recall"] = "f1"
    stem: bool = False
    """Compare words by their stems: `totals` matches `total`."""
    split_summaries: bool = False
    """For rougeLsum: split sentences at full stops, not only at line ends."""
    script: Script = "auto"
    """`auto` uses Latin words, unless the reference has none."""

    def __post_init__(self) -> None:
        check_kind(self.kind)

    def measured(self, expected: str, reply: str) -> tuple[float, Mapping[str, Json]]:
        score = rouge_score(
            expected,
            reply,
            kind=self.kind,
            stem=self.stem,
            split_summaries=self.split_summaries,
            script=self.script,
        )
        numbers = {"precision": score.precision, "recall": score.recall, "f1": score.f1}
        return numbers[self.measure], {"kind": self.kind, **numbers}

    def gap(self, expected: str, reply: str, value: float) -> str:
        del value
        find = words_by(expected, self.script)
        expected_words, reply_words = find(expected), find(reply)
        same = long_stem if self.stem else str
        if list(map(same, expected_words)) != list(map(same, reply_words)):
            return difference_in_words(expected_words, reply_words, same)
        if self.kind == "rougeLsum":
            return "the words are the same, but the sentences are divided differently"
        return f"{self.kind} counts longer runs of words than the reference has: use rouge1"


@dataclass(frozen=True, kw_only=True)
class ResponseMatch(RougeMetric):
    """`response_match_score`: the F1 of ROUGE-1 by stems."""

    name: str = "response_match_score"
    kind: str = "rouge1"
    stem: bool = True


@dataclass(frozen=True, kw_only=True)
class Meteor(OverlapMetric):
    """METEOR: equal words, stems, and synonyms if nltk's wordnet corpus is installed."""

    name: str = "meteor"
    synonyms: bool = True
    """Without synonyms, every machine gives the same score."""

    @property
    def stages(self) -> tuple[str, ...]:
        """How words are matched on this machine."""
        with_synonyms = self.synonyms and installed_synonyms() is not None
        return ("exact", "stem", "synonym") if with_synonyms else ("exact", "stem")

    @property
    def fingerprint(self) -> str:
        return short_id([super().fingerprint, *self.stages])

    def measured(self, expected: str, reply: str) -> tuple[float, Mapping[str, Json]]:
        synonyms = installed_synonyms() if self.synonyms else None
        score = meteor_score(expected, reply, synonyms=synonyms)
        return score.value, {
            "stages": list(self.stages),
            "matches": score.matches,
            "chunks": score.chunks,
        }

    def gap(self, expected: str, reply: str, value: float) -> str:
        expected_words, reply_words = unicode_words(expected), unicode_words(reply)
        if [stem(word) for word in expected_words] != [stem(word) for word in reply_words]:
            return difference_in_words(expected_words, reply_words, stem)
        if self.threshold is None or value >= self.threshold - EPSILON:
            return ""
        most = f"METEOR gives such a short text at most {value:.3f}"
        return f"the words are the same, but {most}: lower the threshold"
