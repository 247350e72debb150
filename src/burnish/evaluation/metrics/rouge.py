"""ROUGE: how many of a reference's words, word pairs or word sequences a reply has.

The numbers equal those of the rouge-score package wherever the reference has words of a-z and
0-9, which is all that package sees; a test holds the two together. For references of other
scripts, where it gives 0, words of all scripts are compared.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from burnish.core.errors import ConfigError, Problem
from burnish.evaluation.metrics.overlap_words import Script, words_by
from burnish.evaluation.metrics.stems import stem as stem_of

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
        wanted, given = (
            [words(sentence) for sentence in _sentences(text, by_stops=split_summaries)]
            for text in (reference, reply)
        )
        sizes = sum(map(len, wanted)), sum(map(len, given))
        return _rouge(_union_hits(wanted, given), *sizes)
    if kind == "rougeL":
        wanted, given = words(reference), words(reply)
        return _rouge(_lcs_length(wanted, given), len(wanted), len(given))
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
    return stem_of(word) if len(word) >= _STEMMED_FROM else word


def _rouge(hits: int, wanted: int, given: int) -> Rouge:
    precision, recall = hits / max(given, 1), hits / max(wanted, 1)
    both = precision + recall
    return Rouge(
        precision=precision, recall=recall, f1=2 * precision * recall / both if both else 0.0
    )


def _of_runs(wanted: Sequence[str], given: Sequence[str], length: int) -> Rouge:
    ours, theirs = (Counter(_runs(words, length)) for words in (wanted, given))
    hits = sum(min(count, theirs[run]) for run, count in ours.items() if run in theirs)
    return _rouge(hits, ours.total(), theirs.total())


def _runs(words: Sequence[str], length: int) -> Iterator[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(length)), strict=False)


def _sentences(text: str, *, by_stops: bool) -> list[str]:
    return [part for part in (_SENTENCE_END.split(text) if by_stops else text.split("\n")) if part]


def _lcs_rows(wanted: Sequence[str], given: Sequence[str]) -> Iterator[int]:
    """The table of longest common subsequences, one row for each word given and one before.

    Bit i of a row is 0 where the word i of `wanted` makes the subsequence longer by one: a
    whole row is computed at once, as integers as long as the reference (Hyyrö 2004).
    """
    places: dict[str, int] = {}
    for index, word in enumerate(wanted):
        places[word] = places.get(word, 0) | (1 << index)
    row = whole = (1 << len(wanted)) - 1
    yield row
    for word in given:
        hit = row & places.get(word, 0)
        row = ((row + hit) | (row - hit)) & whole
        yield row


def _increments(row: int, upto: int) -> int:
    """The length of the common subsequence with the first words of the reference."""
    return upto - (row & ((1 << upto) - 1)).bit_count()


def _lcs_length(wanted: Sequence[str], given: Sequence[str]) -> int:
    last = 0
    for row in _lcs_rows(wanted, given):
        last = row
    return _increments(last, len(wanted))


def _lcs_places(wanted: Sequence[str], given: Sequence[str]) -> set[int]:
    """The places in the reference of one longest common subsequence: the one rouge-score takes."""
    rows = list(_lcs_rows(wanted, given))
    i, j = len(wanted), len(given)
    found: set[int] = set()
    while i and j:
        if wanted[i - 1] == given[j - 1]:
            i, j = i - 1, j - 1
            found.add(i)
        elif _increments(rows[j - 1], i) > _increments(rows[j], i - 1):
            j -= 1
        else:
            i -= 1
    return found


def _union_hits(wanted: Sequence[Sequence[str]], given: Sequence[Sequence[str]]) -> int:
    """Words of the reference that some sentence of the reply has in order, each counted once."""
    left = Counter(word for sentence in given for word in sentence)
    hits = 0
    for sentence in wanted:
        places = sorted(set[int]().union(*(_lcs_places(sentence, other) for other in given)))
        for place in places:
            if left[sentence[place]] > 0:
                left[sentence[place]] -= 1
                hits += 1
    return hits
