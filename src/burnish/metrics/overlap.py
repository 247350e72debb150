"""Metrics of shared words: BLEU, chrF, METEOR, ROUGE and how words are aligned."""

from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

from burnish.core.cases import squeeze
from burnish.core.content import Json, short_id
from burnish.metrics.computed import answer_text
from burnish.metrics.rouge import check_kind, long_stem, rouge_score, stem
from burnish.metrics.text_matching import quoted
from burnish.metrics.turns import EPSILON, ComputedMetric, Exchange, Verdict
from burnish.metrics.words import Script, difference_in_words, unicode_words, words_by

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF


_BEAM = 64
"""Partial alignments kept at each word; texts that repeat themselves would have millions."""
_STARTS = 16
"""Places looked at where a run may start."""
_NOWHERE = -2

_Pairs: TypeAlias = dict[int, int]
"""Places in the reply in order, each with its partner's place in the reference."""


def align(reference: Sequence[str], reply: Sequence[str]) -> _Pairs:
    """Pair equal words, each at most once, so that neighbours stay neighbours.

    The number of pairs is always the greatest there is. The number of runs is the smallest,
    as long as no more than 64 partial alignments compete at a word: only words that occur more
    than once leave a choice, so that takes a text that repeats itself a lot.
    """
    crossing = _Crossing(reference, reply)
    chosen = _best_runs(crossing)
    return dict(sorted({**chosen, **_the_rest(crossing, chosen)}.items()))


def count_runs(pairs: _Pairs) -> int:
    """How many stretches of neighbours the pairs fall into."""
    return sum(1 for i, j in pairs.items() if pairs.get(i - 1, _NOWHERE) != j - 1)


class _Crossing:
    """Which places of the two texts can be paired."""

    def __init__(self, reference: Sequence[str], reply: Sequence[str]) -> None:
        self.reference, self.reply = reference, reply
        self.places: defaultdict[str, list[int]] = defaultdict(list)
        for j, word in enumerate(reference):
            self.places[word].append(j)
        self._replied = Counter(reply)
        self.alive = self._alive()

    def _alive(self) -> list[int]:
        """For each place in the reply, what of the reference later words may make a run of."""
        alive = [0] * (len(self.reply) + 1)
        for i in range(len(self.reply) - 1, -1, -1):
            alive[i] = alive[i + 1]
            for j in self.places.get(self.reply[i], ()):
                if self.fits(i + 1, j + 1) or (i and j and self.fits(i - 1, j - 1)):
                    alive[i] |= 1 << j
        return alive

    def fits(self, i: int, j: int) -> bool:
        inside = i < len(self.reply) and j < len(self.reference)
        return inside and self.reply[i] == self.reference[j]

    def settled(self, i: int) -> bool:
        """Whether the word leaves no choice: it has one partner that nobody else wants, or none."""
        word = self.reply[i]
        return word not in self.places or len(self.places[word]) == self._replied[word] == 1

    def starts(self, i: int) -> list[int]:
        """Places where a run of two or more may start with the word at `i`."""
        return [j for j in self.places[self.reply[i]] if self.fits(i + 1, j + 1)][:_STARTS]


class _Partial(NamedTuple):
    """An alignment up to a word: that word's partner, and how many words continue a run."""

    joins: int
    partner: int
    used: int
    """Places of the reference that are taken and that other words may want, as bits."""
    before: "_Partial | None"


def _best_runs(crossing: _Crossing) -> _Pairs:
    """The pairs that join most neighbours; words of which any partner will do are left out."""
    front = [_Partial(0, _NOWHERE, 0, None)]
    for i in range(len(crossing.reply)):
        if crossing.settled(i):
            place = crossing.places.get(crossing.reply[i], [_NOWHERE])[0]
            front = [_settled(partial, place, crossing.alive[i + 1]) for partial in front]
        else:
            front = list(_branches(front, i, crossing))
        if len(front) > 1:
            front = _fittest(front)
    return _unrolled(max(front, key=lambda partial: partial.joins), len(crossing.reply))


def _settled(partial: _Partial, place: int, alive: int) -> _Partial:
    joins = partial.joins + (partial.partner >= 0 and partial.partner + 1 == place)
    return _Partial(joins, place, partial.used & alive, partial)


def _branches(front: Sequence[_Partial], i: int, crossing: _Crossing) -> Iterator[_Partial]:
    """What may become of the alignments with the word at `i`: joined, a new run, or left out."""
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
    """The best of those that leave the same choices, and of all the best few."""
    best: dict[tuple[int, int], _Partial] = {}
    for partial in partials:
        key = (partial.partner, partial.used)
        rival = best.get(key)
        if rival is None or partial.joins > rival.joins:
            best[key] = partial
    return sorted(best.values(), key=lambda partial: -partial.joins)[:_BEAM]


def _unrolled(partial: _Partial, length: int) -> _Pairs:
    pairs: _Pairs = {}
    for i in range(length - 1, -1, -1):
        if partial.partner >= 0:
            pairs[i] = partial.partner
        assert partial.before is not None
        partial = partial.before
    return pairs


def _the_rest(crossing: _Crossing, chosen: _Pairs) -> _Pairs:
    """Partners for the words that are still without one, first to first."""
    taken = set(chosen.values())
    free = {
        word: iter([j for j in places if j not in taken])
        for word, places in crossing.places.items()
    }
    left = [i for i, word in enumerate(crossing.reply) if i not in chosen and word in free]
    partners = ((i, next(free[crossing.reply[i]], None)) for i in left)
    return {i: j for i, j in partners if j is not None}


# -- BLEU and chrF of one reply, by sacrebleu, as numbers in [0, 1] -------------------------------


Tokenizer: TypeAlias = Literal["auto", "13a", "intl", "zh", "char", "none"]
"""How words are found; see `tokenizer_for`."""

_KANA = range(0x3040, 0x3100)
_HAN = range(0x3400, 0xA000)


def bleu_score(
    reference: str, reply: str, *, tokenize: Tokenizer = "auto", lowercase: bool = False
) -> float:
    """Sentence BLEU: runs of up to four words that the reply shares with the reference.

    Replies shorter than four words are scored by the runs they can have (effective order).
    """
    scorer = _bleu(tokenizer_for(reference) if tokenize == "auto" else tokenize, lowercase)
    return _in_unit(scorer.sentence_score(reply, [reference]).score)


def chrf_score(reference: str, reply: str, *, words: int = 0, lowercase: bool = False) -> float:
    """chrF: runs of up to six letters, and with `words=2` of words too (chrF++)."""
    scorer = _chrf(words, lowercase)
    return _in_unit(scorer.sentence_score(reply, [reference]).score)


def tokenizer_for(reference: str) -> Tokenizer:
    """sacrebleu's usual one; sign by sign where a script has no spaces between words."""
    if reference.isascii():
        return "13a"
    signs = set(map(ord, reference))
    if any(sign in _KANA for sign in signs):
        return "char"
    return "zh" if any(sign in _HAN for sign in signs) else "13a"


def _in_unit(percent: float) -> float:
    """sacrebleu's perfect score is a hair above 100."""
    return min(1.0, max(0.0, percent / 100))


@cache
def _bleu(tokenize: Tokenizer, lowercase: bool) -> "BLEU":  # noqa: FBT001
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize=tokenize, lowercase=lowercase, effective_order=True)


@cache
def _chrf(words: int, lowercase: bool) -> "CHRF":  # noqa: FBT001
    from sacrebleu.metrics.chrf import CHRF

    return CHRF(word_order=words, lowercase=lowercase)


ALPHA, BETA, GAMMA = 0.9, 3.0, 0.5
"""How much recall counts, how fast the penalty grows, and how great it can be."""

# -- METEOR ---------------------------------------------------------------------------------------


_Synonyms: TypeAlias = Callable[[str], Collection[str]]
"""Words that mean the same as a word."""


@dataclass(frozen=True, kw_only=True)
class _MeteorScore:
    """The score and what it was made of."""

    value: float
    matches: int
    chunks: int
    """Stretches of matched words that stand side by side in both texts."""


def meteor_score(reference: str, reply: str, *, synonyms: _Synonyms | None = None) -> _MeteorScore:
    """Compare a reply with a reference: all words by their stems, the rest by `synonyms`.

    Words are runs of letters and digits of any script, in small letters; punctuation is left
    out. Equal words share a stem, so both stages are one alignment, the one in fewest chunks.
    """
    expected, actual = unicode_words(reference), unicode_words(reply)
    pairs = align([stem(word) for word in expected], [stem(word) for word in actual])
    if synonyms is not None:
        pairs = _with_synonyms(pairs, expected, actual, synonyms)
    chunks = count_runs(pairs)
    value = _value(len(pairs), chunks, len(expected), len(actual))
    return _MeteorScore(value=value, matches=len(pairs), chunks=chunks)


def _value(matches: int, chunks: int, expected: int, actual: int) -> float:
    if not matches:
        return 0.0
    precision, recall = matches / actual, matches / expected
    mean = precision * recall / (ALPHA * precision + (1 - ALPHA) * recall)
    return (1 - GAMMA * (chunks / matches) ** BETA) * mean


def _with_synonyms(
    pairs: _Pairs, expected: Sequence[str], actual: Sequence[str], synonyms: _Synonyms
) -> _Pairs:
    """The pairs, and for words without one the first synonym that is free, a neighbour first."""
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


class _Lemma(Protocol):
    def name(self) -> str: ...


class _Synset(Protocol):
    def lemmas(self) -> Iterable[_Lemma]: ...


class _WordNet(Protocol):
    """What is used of nltk's reader of the wordnet corpus."""

    def synsets(self, word: str, /) -> Iterable[_Synset]:
        """The meanings of a word, each with the words that share it."""
        ...


def synonyms_in(wordnet: _WordNet) -> _Synonyms:
    """Synonyms as a wordnet has them; those of several words are left out."""

    @lru_cache(maxsize=1 << 14)
    def synonyms(word: str) -> frozenset[str]:
        lemmas = (lemma.name() for synset in wordnet.synsets(word) for lemma in synset.lemmas())
        return frozenset(name.lower() for name in lemmas if "_" not in name)

    return synonyms


@cache
def installed_synonyms() -> _Synonyms | None:
    """Synonyms from nltk's wordnet corpus, where the user has both; else nothing."""
    try:
        wordnet: _WordNet = import_module("nltk.corpus").wordnet
        wordnet.synsets("word")
    except (ImportError, LookupError):  # no nltk; no corpus
        return None
    return synonyms_in(wordnet)


# -- Metrics that ask how many words a reply shares with the reference answer ---------------------


@dataclass(frozen=True, kw_only=True)
class OverlapMetric(ComputedMetric):
    """Compares a reply with the reference; a turn that expects nothing is not its business.

    A reference without any word, such as a tick or an empty text, has nothing to share: there
    the reply must be the same.
    """

    response_path: str = ""
    """Where in a JSON answer to look; empty for the whole reply."""

    def compute(self, exchange: Exchange) -> Verdict | None:
        """The share, and in words what keeps it from being whole."""
        if exchange.expected is None:
            return None
        answer = answer_text(exchange, self.response_path)
        if answer.problem:
            return Verdict.of(held=False, reason=answer.problem)
        expected, reply = exchange.expected, answer.text
        comparison = f"expected {quoted(expected)}, found {quoted(reply)}"
        if not unicode_words(expected):
            return Verdict.of(held=squeeze(expected) == squeeze(reply), reason=comparison)
        value, details = self.measured(expected, reply)
        gap = "" if value >= 1 - EPSILON else self.gap(expected, reply, value)
        return Verdict(value=value, reason=f"{gap} ({comparison})" if gap else "", details=details)

    @abstractmethod
    def measured(self, expected: str, reply: str) -> tuple[float, Mapping[str, Json]]:
        """The score, and what it was made of."""

    def gap(self, expected: str, reply: str, value: float) -> str:
        """What the reply lacks, in words."""
        del value
        expected_words, reply_words = unicode_words(expected), unicode_words(reply)
        if expected_words == reply_words:
            return "the words are the same, but capital letters, punctuation or spacing differ"
        return difference_in_words(expected_words, reply_words)


@dataclass(frozen=True, kw_only=True)
class Bleu(OverlapMetric):
    """Sentence BLEU: runs of up to four words, capital letters and punctuation included."""

    name: str = "bleu"
    tokenize: Tokenizer = "auto"
    lowercase: bool = False

    def measured(self, expected: str, reply: str) -> tuple[float, Mapping[str, Json]]:
        """BLEU, and how words were found."""
        tokenize = tokenizer_for(expected) if self.tokenize == "auto" else self.tokenize
        value = bleu_score(expected, reply, tokenize=tokenize, lowercase=self.lowercase)
        return value, {"tokenize": tokenize}


@dataclass(frozen=True, kw_only=True)
class Chrf(OverlapMetric):
    """chrF: runs of up to six letters, kind to endings and to every script."""

    name: str = "chrf"
    words: int = 0
    """2 counts words and pairs of words too, which is called chrF++."""
    lowercase: bool = False

    def measured(self, expected: str, reply: str) -> tuple[float, Mapping[str, Json]]:
        """chrF."""
        return chrf_score(expected, reply, words=self.words, lowercase=self.lowercase), {}


@dataclass(frozen=True, kw_only=True)
class RougeMetric(OverlapMetric):
    """ROUGE: words, runs of words, or the longest common subsequence.

    The defaults are those of HoloDeck: the F1 of ROUGE-L, words as they stand.
    """

    name: str = "rouge"
    kind: str = "rougeL"
    measure: Literal["f1", "precision", "recall"] = "f1"
    stem: bool = False
    """Compare words by their stems: `totals` is as good as `total`."""
    split_summaries: bool = False
    """For rougeLsum: sentences end at full stops too, not only at line ends."""
    script: Script = "auto"
    """`auto` sees Latin letters and digits alone, unless the reference has none of them."""

    def __post_init__(self) -> None:
        check_kind(self.kind)

    def measured(self, expected: str, reply: str) -> tuple[float, Mapping[str, Json]]:
        """One of the three numbers, and all of them."""
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
        """What the reply lacks, counted as ROUGE counts words."""
        del value
        find = words_by(expected, self.script)
        expected_words, reply_words = find(expected), find(reply)
        same = long_stem if self.stem else str
        if list(map(same, expected_words)) != list(map(same, reply_words)):
            return difference_in_words(expected_words, reply_words, same)
        if self.kind == "rougeLsum":
            return "the words are the same, but their sentences are divided otherwise"
        return f"{self.kind} counts longer runs of words than the reference has: take rouge1"


@dataclass(frozen=True, kw_only=True)
class ResponseMatch(RougeMetric):
    """`response_match_score`: the F1 of ROUGE-1 by stems."""

    name: str = "response_match_score"
    kind: str = "rouge1"
    stem: bool = True


@dataclass(frozen=True, kw_only=True)
class Meteor(OverlapMetric):
    """METEOR: equal words, then stems, then synonyms where nltk's wordnet corpus is there."""

    name: str = "meteor"
    synonyms: bool = True
    """Use synonyms where the corpus is; without them every machine gives the same score."""

    @property
    def stages(self) -> tuple[str, ...]:
        """What words are matched by, on this machine."""
        with_synonyms = self.synonyms and installed_synonyms() is not None
        return ("exact", "stem", "synonym") if with_synonyms else ("exact", "stem")

    @property
    def fingerprint(self) -> str:
        """The stages count: with synonyms and without are two metrics."""
        return short_id([super().fingerprint, *self.stages])

    def measured(self, expected: str, reply: str) -> tuple[float, Mapping[str, Json]]:
        """METEOR, by which stages, and how the words fell."""
        synonyms = installed_synonyms() if self.synonyms else None
        score = meteor_score(expected, reply, synonyms=synonyms)
        return score.value, {
            "stages": list(self.stages),
            "matches": score.matches,
            "chunks": score.chunks,
        }

    def gap(self, expected: str, reply: str, value: float) -> str:
        """What the reply lacks by stems; an equal text, which never scores 1, lacks nothing."""
        expected_words, reply_words = unicode_words(expected), unicode_words(reply)
        if [stem(word) for word in expected_words] != [stem(word) for word in reply_words]:
            return difference_in_words(expected_words, reply_words, stem)
        if self.threshold is None or value >= self.threshold - EPSILON:
            return ""
        most = f"METEOR gives so short a text {value:.3f} at most"
        return f"the words are the same, but {most}: lower the threshold"
