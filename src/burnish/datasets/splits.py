"""Splitting cases into train, holdout and test, near-duplicates kept together."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import TypeAlias

from burnish.core.cases import Case, Dataset, Split, squeeze
from burnish.core.content import canonical, stream
from burnish.core.errors import ConfigError, Problem
from burnish.metrics.words import unicode_words

NEAR = 0.8
"""The share of words and pairs from which on two questions are nearly the same."""
_FEW_WORDS = 4
_TEMPLATE_SHARE = 0.25
_TEMPLATE_AT_LEAST = 4
"""In small sets a handful of questions may well be near-duplicates of each other."""
_EXACT = re.compile(r"\d+(?:[.,]\d+)*|[+=<>^%|~#@&/\\$€£¥×÷±]|(?<=[\d\s])[-−*](?=[\d\s])")
"""Numbers, and signs that change a question; a hyphen inside a word does not."""

_Group: TypeAlias = tuple[int, ...]
"""Places in the list of cases, in order."""


def groups(
    cases: Sequence[Case], *, near: float = NEAR, together: Sequence[str | None] = ()
) -> tuple[_Group, ...]:
    """Every case's place, in groups of near-duplicates; most groups are of one.

    `together` has a word for each case, or None: equal words make one group as well. Groups
    come in the order of their first case.
    """
    union = _Union(len(cases))
    places = union.join_equal([case.question_id for case in cases])
    union.join_equal(together)
    questions = {place: _Question.of(cases[place]) for place in places}
    _join_equal_words(union, questions)
    _join_alike(union, questions, near)
    return union.groups()


@dataclass(frozen=True, kw_only=True)
class _Question:
    """What of a case is compared."""

    fixed: tuple[object, ...]
    """What must be equal: numbers, operators, files."""
    words: tuple[str, ...]
    shingles: frozenset[str]
    """Words and pairs of neighbours; none where there are few words."""

    @classmethod
    def of(cls, case: Case) -> "_Question":
        text = squeeze("\n".join(_texts(case)))
        words = unicode_words(text)
        pairs = (f"{one} {other}" for one, other in pairwise(words))
        files = [(a.path, a.url, a.data) for turn in case.turns for a in turn.attachments]
        return cls(
            fixed=(*_EXACT.findall(text), *files),
            words=tuple(words),
            shingles=frozenset([*words, *pairs]) if len(words) >= _FEW_WORDS else frozenset(),
        )


def _texts(case: Case) -> Iterator[str]:
    yield from (message.content for message in case.history)
    yield from (turn.input for turn in case.turns)
    if case.scenario is not None:
        yield case.scenario.plan


def _join_equal_words(union: "_Union", questions: Mapping[int, _Question]) -> None:
    firsts: dict[tuple[object, ...], int] = {}
    for place, each in questions.items():
        if each.shingles:
            union.join(firsts.setdefault((each.fixed, each.words), place), place)


def _join_alike(union: "_Union", questions: Mapping[int, _Question], near: float) -> None:
    """Join the places that are near each other, without comparing each with each.

    Two sets that share so much must share one of their rarest members: only those are looked
    up (prefix filtering), so that common words cost nothing.
    """
    counts = Counter(shingle for each in questions.values() for shingle in each.shingles)
    usual = max(_TEMPLATE_AT_LEAST, _TEMPLATE_SHARE * len(questions))
    telling = {
        place: frozenset(shingle for shingle in each.shingles if counts[shingle] <= usual)
        for place, each in questions.items()
    }
    seen: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for place, shingles in telling.items():
        candidates: set[int] = set()
        for shingle in _rarest(shingles, counts, near):
            bucket = seen[questions[place].fixed, shingle]
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

    def groups(self) -> tuple[_Group, ...]:
        members: defaultdict[int, list[int]] = defaultdict(list)
        for place in range(len(self._above)):
            members[self._top(place)].append(place)
        return tuple(map(tuple, members.values()))

    def _top(self, place: int) -> int:
        while self._above[place] != place:
            self._above[place] = place = self._above[self._above[place]]
        return place


# -- Placing groups of cases in splits ------------------------------------------------------------


_RANK = {name: rank for rank, name in enumerate(Split)}


def largest_remainder(total: int, shares: Mapping[Split, float]) -> dict[Split, int]:
    """Whole numbers in these proportions that add up to the total; train gets one at least."""
    exact = {name: total * shares.get(name, 0.0) for name in Split}
    sizes = {name: math.floor(number + 1e-9) for name, number in exact.items()}
    by_rest = sorted(Split, key=lambda name: (round(sizes[name] - exact[name], 9), _RANK[name]))
    for name in by_rest[: total - sum(sizes.values())]:
        sizes[name] += 1
    if total and not sizes[Split.TRAIN]:
        sizes[max(sizes, key=lambda name: sizes[name])] -= 1
        sizes[Split.TRAIN] = 1
    return sizes


def _place_groups(
    grouped: Sequence[Sequence[int]],
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
    of_group = [_most_common([strata[place] for place in group]) for group in grouped]
    order = sorted(range(len(grouped)), key=lambda _: rng.random())
    order.sort(key=lambda index: (-len(grouped[index]), of_group[index]))
    room = _Room(shares=shares, sizes=largest_remainder(len(strata), shares))
    homes = dict.fromkeys(range(len(grouped)), Split.TRAIN)
    for index in order:
        homes[index] = room.take(of_group[index], len(grouped[index]))
    if order and Split.TRAIN not in homes.values():
        homes[order[-1]] = Split.TRAIN
    return [homes[index] for index in range(len(grouped))]


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


# -- What is worth knowing about how cases fell into splits, in sentences -------------------------


_NAMED = 5
"""More names than these are counted, not listed."""


@dataclass(frozen=True, kw_only=True)
class _Placed:
    """Cases in their splits, and what led to it."""

    dataset: Dataset
    sizes: Mapping[Split, int]
    """How many each split should have had by its share."""
    groups: tuple[tuple[Case, ...], ...]
    repeated: tuple[Case, ...]
    """Cases that were left out, because they came a second time."""


def _notes(placed: _Placed) -> tuple[str, ...]:
    """Repetitions, groups, sizes that are not as asked, labels that one split alone has."""
    return (*_repeated(placed), *_grouped(placed), *_deviations(placed), *_lonely_labels(placed))


def listed(names: Sequence[str], most: int = _NAMED) -> str:
    """Names beside each other; how many more, where there are many."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _repeated(placed: _Placed) -> Iterator[str]:
    names = [case.id for case in placed.repeated]
    if names:
        yield f"left out, since they came a second time: {listed(names)}"


def _grouped(placed: _Placed) -> Iterator[str]:
    several = [group for group in placed.groups if len(group) > 1]
    if several:
        cases = sum(map(len, several))
        groups = "1 group" if len(several) == 1 else f"{len(several)} groups"
        yield f"{cases} cases in {groups} belong together; each group is whole in one split"


def _deviations(placed: _Placed) -> Iterator[str]:
    largest = max(placed.groups, key=len, default=())
    why = f"the largest group has {len(largest)}: {listed([case.id for case in largest], 3)}"
    for name in Split:
        planned, actual = placed.sizes[name], len(placed.dataset.cases(name))
        if actual != planned:
            yield f"{name} has {actual} cases instead of {planned}, since groups stay whole ({why})"


def _lonely_labels(placed: _Placed) -> Iterator[str]:
    homes: defaultdict[str, list[Split]] = defaultdict(list)
    for name in Split:
        for case in placed.dataset.cases(name):
            for label in dict.fromkeys(case.labels):
                homes[label].append(name)
    used = [name for name in Split if placed.dataset.cases(name)]
    lonely = [
        f"'{label}' ({where[0]}, {len(where)})"
        for label, where in sorted(homes.items())
        if len(set(where)) == 1 and len(used) > 1
    ]
    if lonely:
        yield f"labels that only one split has, with how many cases: {listed(lonely)}"


# -- Splitting ------------------------------------------------------------------------------------


SHARES: Mapping[Split, float] = {Split.TRAIN: 0.5, Split.HOLDOUT: 0.3, Split.TEST: 0.2}
_ENOUGH = 5
"""Combinations of labels that fewer cases have are told apart by their first label only."""


@dataclass(frozen=True, kw_only=True)
class _SplitCases:
    """Cases by split, and what is worth knowing about how they fell."""

    dataset: Dataset
    notes: tuple[str, ...]


def split(
    cases: Sequence[Case],
    *,
    seed: int,
    shares: Mapping[Split, float] = SHARES,
    near: float = NEAR,
    group_by: str | None = None,
) -> _SplitCases:
    """Divide cases by these shares, so that no question is in two splits.

    The seed decides where a case goes, never its place in the list; inside a split the order
    of the list is kept. Labels are spread as evenly as they can be. Near-duplicates stay
    together, and so do cases with the same value under `group_by` in their extras; sizes are as
    near to the shares as that allows. Train is never empty.
    """
    _refuse(cases, shares, near)
    distinct = _distinct(cases)
    ordered = [cases[place] for place in distinct]
    grouped = [
        tuple(sorted(distinct[index] for index in group))
        for group in groups(ordered, near=near, together=_together(ordered, group_by))
    ]
    strata = dict(zip(distinct, _strata(ordered), strict=True))
    homes = _place_groups(grouped, strata, shares=shares, seed=seed)
    dataset = _dataset(cases, zip(grouped, homes, strict=True))
    placed = _Placed(
        dataset=dataset,
        sizes=largest_remainder(len(distinct), shares),
        groups=tuple(tuple(cases[place] for place in group) for group in grouped),
        repeated=tuple(cases[place] for place in sorted(set(range(len(cases))) - set(distinct))),
    )
    return _SplitCases(dataset=dataset, notes=_notes(placed))


def _dataset(cases: Sequence[Case], homes: Iterable[tuple[Sequence[int], Split]]) -> Dataset:
    placed = sorted((place, home) for group, home in homes for place in group)
    train, holdout, test = (
        tuple(cases[place] for place, home in placed if home is name) for name in Split
    )
    return Dataset(train=train, holdout=holdout, test=test)


def _strata(cases: Sequence[Case]) -> list[str]:
    """What each case is told apart by: its labels where enough cases share them all."""
    counts = Counter(case.labels for case in cases)
    used = [case.labels if counts[case.labels] >= _ENOUGH else case.labels[:1] for case in cases]
    return [canonical(list(labels)).decode() for labels in used]


def _identity(case: Case) -> tuple[str, str, str]:
    return case.question_id, case.content_id, case.name


def _distinct(cases: Sequence[Case]) -> list[int]:
    """The places of the cases by their content; what has the same name and content comes once."""
    ranked = sorted(
        range(len(cases)), key=lambda place: (*_identity(cases[place]), cases[place].labels)
    )
    return list({_identity(cases[place]): place for place in reversed(ranked)}.values())[::-1]


def _together(cases: Sequence[Case], group_by: str | None) -> list[str | None]:
    if group_by is None:
        return []
    values = [case.extras.get(group_by) for case in cases]
    if any(value is not None for value in values):
        return [None if value is None else canonical(value).decode() for value in values]
    names = sorted({key for case in cases for key in case.extras})
    have = f"they have: {', '.join(names)}" if names else "they have no extras at all"
    raise ConfigError(
        [Problem(message=f"no case has an extra called '{group_by}' to group by", remedy=have)]
    )


def _refuse(cases: Sequence[Case], shares: Mapping[Split, float], near: float) -> None:
    """Everything that makes a split impossible."""
    problems: list[Problem] = []
    if not cases:
        problems.append(Problem(message="there are no cases to split"))
    values = list(shares.values())
    if min(values, default=-1) < 0 or not math.isclose(math.fsum(values), 1, abs_tol=1e-6):
        shown = ", ".join(f"{name} {share:g}" for name, share in shares.items())
        remedy = "give shares of 0 or more that add up to 1"
        problems.append(Problem(message=f"these shares are no division: {shown}", remedy=remedy))
    if shares.get(Split.TRAIN, 0.0) <= 0:
        problems.append(Problem(message="train gets nothing", remedy="give it a share above 0"))
    if not 0 < near <= 1:
        remedy = "give a share above 0 and up to 1; 1 keeps only equal questions together"
        problems.append(Problem(message=f"'near' is {near:g}", remedy=remedy))
    content = {case.id: case.content_id for case in cases}
    other = {case.id for case in cases if content[case.id] != case.content_id}
    problems += [
        Problem(
            message=f"different cases are called '{name}'",
            remedy="give each case a name of its own",
        )
        for name in sorted(other)
    ]
    if problems:
        raise ConfigError(problems)
