"""Placing groups of cases in splits, so that sizes and labels come out as near as they can."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from burnish.core.cases import Split
from burnish.core.randomness import stream

_RANK = {name: rank for rank, name in enumerate(Split)}


def largest_remainder(total: int, shares: Mapping[Split, float]) -> dict[Split, int]:
    """Whole numbers in these proportions that add up to the total; train gets one at least."""
    wanted = {name: total * shares.get(name, 0.0) for name in Split}
    sizes = {name: math.floor(number + 1e-9) for name, number in wanted.items()}
    by_rest = sorted(Split, key=lambda name: (round(sizes[name] - wanted[name], 9), _RANK[name]))
    for name in by_rest[: total - sum(sizes.values())]:
        sizes[name] += 1
    if total and not sizes[Split.TRAIN]:
        sizes[max(sizes, key=lambda name: sizes[name])] -= 1
        sizes[Split.TRAIN] = 1
    return sizes


def place_groups(
    found: Sequence[Sequence[int]],
    strata: Mapping[int, str],
    *,
    shares: Mapping[Split, float],
    seed: int,
) -> list[Split]:
    """A split for each group: large groups first, then label by label, chance inside a label.

    `strata` says for each case what it is told apart by; a group counts for what most of its
    cases have.
    """
    rng = stream(seed, "split")
    of_group = [_most_common([strata[place] for place in group]) for group in found]
    order = sorted(range(len(found)), key=lambda _: rng.random())
    order.sort(key=lambda index: (-len(found[index]), of_group[index]))
    room = _Room(shares=shares, sizes=largest_remainder(len(strata), shares))
    homes = dict.fromkeys(range(len(found)), Split.TRAIN)
    for index in order:
        homes[index] = room.take(of_group[index], len(found[index]))
    if order and Split.TRAIN not in homes.values():
        homes[order[-1]] = Split.TRAIN
    return [homes[index] for index in range(len(found))]


class _Room:
    """How many cases each split has taken, in all and of each label."""

    def __init__(self, *, shares: Mapping[Split, float], sizes: Mapping[Split, int]) -> None:
        self._shares, self._left = shares, dict(sizes)
        self._taken: Counter[tuple[str | None, Split]] = Counter()
        self._seen: Counter[str | None] = Counter()

    def take(self, stratum: str, size: int) -> Split:
        """The split that lacks cases most, in all and of this label, among those with room."""
        fitting = [name for name in Split if self._left[name] >= size]
        most = max(self._left.values())
        choice = fitting or [name for name in Split if self._left[name] == most]
        self._seen.update({stratum: size, None: size})
        home = max(choice, key=lambda name: (self._lack(name, stratum), -_RANK[name]))
        self._left[home] -= size
        self._taken.update({(stratum, home): size, (None, home): size})
        return home

    def _lack(self, name: Split, stratum: str) -> float:
        share = self._shares.get(name, 0.0)
        lacks = [share * self._seen[key] - self._taken[key, name] for key in (stratum, None)]
        return round(math.fsum(lacks), 9)


def _most_common(words: Sequence[str]) -> str:
    return min(Counter(words).items(), key=lambda item: (-item[1], item[0]))[0]
