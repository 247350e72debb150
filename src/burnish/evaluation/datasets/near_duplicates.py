"""Near-duplicates: cases that ask nearly the same, found by the words they share.

Cases that ask the same (equal `question_id`) are always together. Others are near-duplicates
when all of this holds:

- Numbers and operators are the same, in the same order. `The total of 12 and 5` and `the total
  of 12 and 6` come from one template and are two questions; C is not C++, nor 3 + 4 3 - 4.
- The same files go with both.
- Both have four words or more: less than that must be equal.
- Their words are the same in the same order; or of their words and pairs of neighbouring words,
  all put together, a share of `near` or more is in both (Jaccard). What more than a quarter of
  all questions have is left out of that share: it is the text of a template, not of a question.

It holds across several steps: if a is near b and b is near c, all three are one group.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import TypeAlias

from burnish.core.cases import Case, squeeze
from burnish.evaluation.metrics.overlap_words import unicode_words

NEAR = 0.8
"""The share of words and pairs from which on two questions are nearly the same."""
_FEW_WORDS = 4
_TEMPLATE_SHARE = 0.25
_TEMPLATE_AT_LEAST = 4
"""In small sets a handful of questions may well be near-duplicates of each other."""
_EXACT = re.compile(r"\d+(?:[.,]\d+)*|[+=<>^%|~#@&/\\$€£¥×÷±]|(?<=[\d\s])[-−*](?=[\d\s])")
"""Numbers, and signs that change a question; a hyphen inside a word does not."""

Group: TypeAlias = tuple[int, ...]
"""Places in the list of cases, in order."""


def groups(
    cases: Sequence[Case], *, near: float = NEAR, together: Sequence[str | None] = ()
) -> tuple[Group, ...]:
    """Every case's place, in groups of near-duplicates; most groups are of one.

    `together` has a word for each case, or None: equal words make one group as well. Groups
    come in the order of their first case.
    """
    union = _Union(len(cases))
    places = union.join_equal([case.question_id for case in cases])
    union.join_equal(together)
    asked = {place: _Asked.of(cases[place]) for place in places}
    _join_equal_words(union, asked)
    _join_alike(union, asked, near)
    return union.groups()


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What of a case is compared."""

    fixed: tuple[object, ...]
    """What must be equal: numbers, operators, files."""
    words: tuple[str, ...]
    shingles: frozenset[str]
    """Words and pairs of neighbours; none where there are few words."""

    @classmethod
    def of(cls, case: Case) -> "_Asked":
        text = squeeze("\n".join(_said(case)))
        words = unicode_words(text)
        pairs = (f"{one} {other}" for one, other in pairwise(words))
        files = [(a.path, a.url, a.data) for turn in case.turns for a in turn.attachments]
        return cls(
            fixed=(*_EXACT.findall(text), *files),
            words=tuple(words),
            shingles=frozenset([*words, *pairs]) if len(words) >= _FEW_WORDS else frozenset(),
        )


def _said(case: Case) -> Iterator[str]:
    yield from (message.content for message in case.history)
    yield from (turn.input for turn in case.turns)
    if case.scenario is not None:
        yield case.scenario.plan


def _join_equal_words(union: "_Union", asked: Mapping[int, _Asked]) -> None:
    firsts: dict[tuple[object, ...], int] = {}
    for place, each in asked.items():
        if each.shingles:
            union.join(firsts.setdefault((each.fixed, each.words), place), place)


def _join_alike(union: "_Union", asked: Mapping[int, _Asked], near: float) -> None:
    """Join the places that are near each other, without comparing each with each.

    Two sets that share so much must share one of their rarest members: only those are looked
    up (prefix filtering), so that common words cost nothing.
    """
    counts = Counter(shingle for each in asked.values() for shingle in each.shingles)
    usual = max(_TEMPLATE_AT_LEAST, _TEMPLATE_SHARE * len(asked))
    telling = {
        place: frozenset(shingle for shingle in each.shingles if counts[shingle] <= usual)
        for place, each in asked.items()
    }
    seen: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for place, shingles in telling.items():
        candidates: set[int] = set()
        for shingle in _rarest(shingles, counts, near):
            bucket = seen[asked[place].fixed, shingle]
            candidates.update(bucket)
            bucket.append(place)
        for other in sorted(candidates):
            if not union.joined(place, other) and _shared(shingles, telling[other]) >= near:
                union.join(place, other)


def _rarest(shingles: Iterable[str], counts: Mapping[str, int], near: float) -> list[str]:
    ranked = sorted(shingles, key=lambda shingle: (counts[shingle], shingle))
    return ranked[: len(ranked) - ceil(near * len(ranked) - 1e-9) + 1]


def _shared(one: frozenset[str], other: frozenset[str]) -> float:
    both = len(one & other)
    return both / (len(one) + len(other) - both)


class _Union:
    """Places that belong together, step by step."""

    def __init__(self, size: int) -> None:
        self._above = list(range(size))

    def joined(self, one: int, other: int) -> bool:
        return self._top(one) == self._top(other)

    def join(self, one: int, other: int) -> None:
        first, second = sorted((self._top(one), self._top(other)))
        self._above[second] = first

    def join_equal(self, words: Sequence[str | None]) -> list[int]:
        """Join places with the same word; the first place of each word."""
        firsts: dict[str, int] = {}
        for place, word in enumerate(words):
            if word is not None:
                self.join(firsts.setdefault(word, place), place)
        return list(firsts.values())

    def groups(self) -> tuple[Group, ...]:
        found: defaultdict[int, list[int]] = defaultdict(list)
        for place in range(len(self._above)):
            found[self._top(place)].append(place)
        return tuple(map(tuple, found.values()))

    def _top(self, place: int) -> int:
        while self._above[place] != place:
            self._above[place] = place = self._above[self._above[place]]
        return place
