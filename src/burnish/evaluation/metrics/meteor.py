"""METEOR: words that are equal, share a stem or mean the same, and how scattered they stand.

A. Lavie and A. Agarwal, "Meteor: an automatic metric for MT evaluation with high levels of
correlation with human judgments" (2007), with its usual parameters. A surprise that comes with
the formula: the penalty for scattering never vanishes, so that an equal text of n words scores
1 - 0.5/n³ (0.5 for one word, 0.996 for five).
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from typing import Protocol, TypeAlias

from burnish.evaluation.metrics.alignment import Pairs, align, count_runs
from burnish.evaluation.metrics.overlap_words import unicode_words
from burnish.evaluation.metrics.stems import stem

ALPHA, BETA, GAMMA = 0.9, 3.0, 0.5
"""How much recall counts, how fast the penalty grows, and how great it can be."""

Synonyms: TypeAlias = Callable[[str], Collection[str]]
"""Words that mean the same as a word."""


@dataclass(frozen=True, kw_only=True)
class MeteorScore:
    """The score and what it was made of."""

    value: float
    matches: int
    chunks: int
    """Stretches of matched words that stand side by side in both texts."""


def meteor_score(reference: str, reply: str, *, synonyms: Synonyms | None = None) -> MeteorScore:
    """Compare a reply with a reference: all words by their stems, the rest by `synonyms`.

    Words are runs of letters and digits of any script, in small letters; punctuation is left
    out. Equal words share a stem, so both stages are one alignment, the one in fewest chunks.
    """
    wanted, given = unicode_words(reference), unicode_words(reply)
    pairs = align([stem(word) for word in wanted], [stem(word) for word in given])
    if synonyms is not None:
        pairs = _with_synonyms(pairs, wanted, given, synonyms)
    chunks = count_runs(pairs)
    value = _value(len(pairs), chunks, len(wanted), len(given))
    return MeteorScore(value=value, matches=len(pairs), chunks=chunks)


def _value(matches: int, chunks: int, wanted: int, given: int) -> float:
    if not matches:
        return 0.0
    precision, recall = matches / given, matches / wanted
    mean = precision * recall / (ALPHA * precision + (1 - ALPHA) * recall)
    return (1 - GAMMA * (chunks / matches) ** BETA) * mean


def _with_synonyms(
    pairs: Pairs, wanted: Sequence[str], given: Sequence[str], synonyms: Synonyms
) -> Pairs:
    """The pairs, and for words without one the first synonym that is free, a neighbour first."""
    found = dict(pairs)
    free = sorted(set(range(len(wanted))) - set(pairs.values()))
    for i in (i for i in range(len(given)) if i not in pairs):
        same = {given[i], *synonyms(given[i])}
        fitting = [j for j in free if wanted[j] in same]
        if fitting:
            beside = {found.get(i - 1, -2) + 1, found.get(i + 1, -2) - 1}
            found[i] = next((j for j in fitting if j in beside), fitting[0])
            free.remove(found[i])
    return dict(sorted(found.items()))


class _Lemma(Protocol):
    def name(self) -> str: ...


class _Synset(Protocol):
    def lemmas(self) -> Iterable[_Lemma]: ...


class WordNet(Protocol):
    """What is used of nltk's reader of the wordnet corpus."""

    def synsets(self, word: str, /) -> Iterable[_Synset]:
        """The meanings of a word, each with the words that share it."""
        ...


def synonyms_in(wordnet: WordNet) -> Synonyms:
    """Synonyms as a wordnet has them; those of several words are left out."""

    @lru_cache(maxsize=1 << 14)
    def synonyms(word: str) -> frozenset[str]:
        lemmas = (lemma.name() for synset in wordnet.synsets(word) for lemma in synset.lemmas())
        return frozenset(name.lower() for name in lemmas if "_" not in name)

    return synonyms


@cache
def installed_synonyms() -> Synonyms | None:
    """Synonyms from nltk's wordnet corpus, where the user has both; else nothing."""
    try:
        wordnet: WordNet = import_module("nltk.corpus").wordnet
        wordnet.synsets("word")
    except (ImportError, LookupError):  # no nltk; no corpus
        return None
    return synonyms_in(wordnet)
