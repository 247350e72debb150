"""Aligning the words of two texts: as many pairs as there can be, in as few runs as possible."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

_BEAM = 64
"""Partial alignments kept at each word; texts that repeat themselves would have millions."""
_STARTS = 16
"""Places looked at where a run may start."""
_NOWHERE = -2

Pairs: TypeAlias = dict[int, int]
"""Places in the reply in order, each with its partner's place in the reference."""


def align(reference: Sequence[str], reply: Sequence[str]) -> Pairs:
    """Pair equal words, each at most once, so that neighbours stay neighbours.

    The number of pairs is always the greatest there is. The number of runs is the smallest,
    as long as no more than 64 partial alignments compete at a word: only words that occur more
    than once leave a choice, so that takes a text that repeats itself a lot.
    """
    crossing = _Crossing(reference, reply)
    chosen = _best_runs(crossing)
    return dict(sorted({**chosen, **_the_rest(crossing, chosen)}.items()))


def count_runs(pairs: Pairs) -> int:
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


def _best_runs(crossing: _Crossing) -> Pairs:
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
        known = best.get(key)
        if known is None or partial.joins > known.joins:
            best[key] = partial
    return sorted(best.values(), key=lambda partial: -partial.joins)[:_BEAM]


def _unrolled(partial: _Partial, length: int) -> Pairs:
    found: Pairs = {}
    for i in range(length - 1, -1, -1):
        if partial.partner >= 0:
            found[i] = partial.partner
        assert partial.before is not None
        partial = partial.before
    return found


def _the_rest(crossing: _Crossing, chosen: Pairs) -> Pairs:
    """Partners for the words that are still without one, first to first."""
    taken = set(chosen.values())
    free = {
        word: iter([j for j in places if j not in taken])
        for word, places in crossing.places.items()
    }
    left = [i for i, word in enumerate(crossing.reply) if i not in chosen and word in free]
    partners = ((i, next(free[crossing.reply[i]], None)) for i in left)
    return {i: j for i, j in partners if j is not None}
