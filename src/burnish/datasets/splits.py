"""Splitting cases into train, holdout and test, near-duplicates kept together."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from burnish.core.cases import Case, Dataset, Split, squeeze
from burnish.core.content import canonical, stream
from burnish.core.errors import ConfigError, Problem
from burnish.core.formatting import listed
from burnish.metrics.rouge import unicode_words

NEAR = 0.8
"""Two questions that share at least this much of their words and word pairs are near-duplicates."""
_EXACT = re.compile(r"\d+(?:[.,]\d+)*|[+=<>^%|~#@&/\\$€£¥×÷±]|(?<=[\d\s])[-−*](?=[\d\s])")
"""Numbers, and signs that change a question; a hyphen inside a word does not."""


def groups(cases: Sequence[Case], *, near: float = NEAR) -> tuple[tuple[int, ...], ...]:
    """The positions of the cases in groups of near-duplicates, in the order of their first case."""
    union = _Union(len(cases))
    places: dict[str, int] = {}
    for place, case in enumerate(cases):
        union.join(places.setdefault(case.question_id, place), place)
    questions = {place: _Question.of(cases[place]) for place in places.values()}
    firsts: dict[tuple[object, ...], int] = {}
    for place, each in questions.items():
        if each.shingles:
            union.join(firsts.setdefault((each.fixed, each.words), place), place)
    _join_alike(union, questions, near)
    return union.groups()


@dataclass(frozen=True, kw_only=True)
class _Question:
    """What is compared of a case."""

    fixed: tuple[object, ...]
    """What must be equal: numbers, operators, files."""
    words: tuple[str, ...]
    shingles: frozenset[str]
    """Words and word pairs; empty if there are few words."""

    @classmethod
    def of(cls, case: Case) -> "_Question":
        texts = [
            *(message.content for message in case.history),
            *(turn.input for turn in case.turns),
            *([case.scenario.plan] if case.scenario else []),
        ]
        text = squeeze("\n".join(texts))
        words = unicode_words(text)
        pairs = (f"{one} {other}" for one, other in pairwise(words))
        files = [(a.path, a.url, a.data) for turn in case.turns for a in turn.attachments]
        return cls(
            fixed=(*_EXACT.findall(text), *files),
            words=tuple(words),
            shingles=frozenset([*words, *pairs]) if len(words) >= 4 else frozenset(),
        )


def _join_alike(union: "_Union", questions: Mapping[int, _Question], near: float) -> None:
    """Join similar questions without comparing all pairs.

    Two sets that share so much must share one of their rarest members, so only those are looked
    up (prefix filtering).
    """
    counts = Counter(shingle for each in questions.values() for shingle in each.shingles)
    # What a quarter of the questions share is their template, except in a handful of questions.
    usual = max(4, 0.25 * len(questions))
    telling = {
        place: frozenset(shingle for shingle in each.shingles if counts[shingle] <= usual)
        for place, each in questions.items()
    }
    seen: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for place, shingles in telling.items():
        candidates: set[int] = set()
        ranked = sorted(shingles, key=lambda shingle: (counts[shingle], shingle))
        for shingle in ranked[: len(ranked) - ceil(near * len(ranked) - 1e-9) + 1]:
            bucket = seen[questions[place].fixed, shingle]
            candidates.update(bucket)
            bucket.append(place)
        for other in sorted(candidates):
            if not union.joined(place, other) and _shared(shingles, telling[other]) >= near:
                union.join(place, other)


def _shared(one: frozenset[str], other: frozenset[str]) -> float:
    both = len(one & other)
    return both / (len(one) + len(other) - both)


class _Union:
    """A union-find structure of positions."""

    def __init__(self, size: int) -> None:
        self._above = list(range(size))

    def joined(self, one: int, other: int) -> bool:
        return self._top(one) == self._top(other)

    def join(self, one: int, other: int) -> None:
        first, second = sorted((self._top(one), self._top(other)))
        self._above[second] = first

    def groups(self) -> tuple[tuple[int, ...], ...]:
        members: defaultdict[int, list[int]] = defaultdict(list)
        for place in range(len(self._above)):
            members[self._top(place)].append(place)
        return tuple(map(tuple, members.values()))

    def _top(self, place: int) -> int:
        while self._above[place] != place:
            self._above[place] = place = self._above[self._above[place]]
        return place


_RANK = {name: rank for rank, name in enumerate(Split)}


def largest_remainder(total: int, shares: Mapping[Split, float]) -> dict[Split, int]:
    """Whole numbers in these proportions that add up to the total; train gets at least one."""
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
    """A split for each group: large groups first, then by label, at random within a label.

    `strata` has the label of each case; a group counts as the most common label of its cases.
    """
    rng = stream(seed, "split")
    tallies = [Counter(strata[place] for place in group) for group in grouped]
    of_group = [min(tally, key=lambda stratum: (-tally[stratum], stratum)) for tally in tallies]
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
    """The number of cases in each split, in total and by label."""

    def __init__(self, *, shares: Mapping[Split, float], sizes: Mapping[Split, int]) -> None:
        self._shares, self._left = shares, dict(sizes)
        self._taken: Counter[tuple[str | None, Split]] = Counter()
        self._seen: Counter[str | None] = Counter()

    def take(self, stratum: str, size: int) -> Split:
        """The split that needs cases most, in total and for this label, if it has room."""
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


@dataclass(frozen=True, kw_only=True)
class _Placed:
    """A division of cases, and how it came about."""

    dataset: Dataset
    sizes: Mapping[Split, int]
    """The planned sizes."""
    groups: tuple[tuple[Case, ...], ...]
    repeated: tuple[Case, ...]
    """Cases that were left out as repetitions."""


def _notes(placed: _Placed) -> Iterator[str]:
    """Repetitions, groups, sizes that differ from the plan, and labels in one split only."""
    if placed.repeated:
        names = [case.id for case in placed.repeated]
        yield f"left out as repetitions: {listed(names)}"
    several = [group for group in placed.groups if len(group) > 1]
    if several:
        cases = sum(map(len, several))
        groups = "1 group" if len(several) == 1 else f"{len(several)} groups"
        yield f"{cases} cases in {groups} belong together; each group stays in one split"
    largest = max(placed.groups, key=len, default=())
    why = f"the largest group has {len(largest)}: {listed([case.id for case in largest], 3)}"
    for name in Split:
        planned, actual = placed.sizes[name], len(placed.dataset.cases(name))
        if actual != planned:
            yield f"{name} has {actual} cases instead of {planned}, since groups stay whole ({why})"
    yield from _lonely_labels(placed)


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
        yield f"labels in only one split, with the number of cases: {listed(lonely)}"


SHARES: Mapping[Split, float] = {Split.TRAIN: 0.5, Split.HOLDOUT: 0.3, Split.TEST: 0.2}


@dataclass(frozen=True, kw_only=True)
class _SplitCases:
    """A dataset and notes about the split."""

    dataset: Dataset
    notes: tuple[str, ...]


def split(
    cases: Sequence[Case],
    *,
    seed: int,
    shares: Mapping[Split, float] = SHARES,
    near: float = NEAR,
) -> _SplitCases:
    """Divide cases into splits of these shares, so that no question is in two splits.

    The seed decides where a case goes, not its position; the order within a split is kept. Labels
    are spread evenly. Near-duplicates stay together, so sizes may differ from the shares. Train
    is never empty.
    """
    _refuse(cases, shares, near)
    distinct = _distinct(cases)
    ordered = [cases[place] for place in distinct]
    grouped = [
        tuple(sorted(distinct[index] for index in group)) for group in groups(ordered, near=near)
    ]
    strata = dict(zip(distinct, _strata(ordered), strict=True))
    homes = _place_groups(grouped, strata, shares=shares, seed=seed)
    home_of = {place: home for group, home in zip(grouped, homes, strict=True) for place in group}
    train, holdout, test = (
        tuple(cases[place] for place in sorted(home_of) if home_of[place] is name) for name in Split
    )
    dataset = Dataset(train=train, holdout=holdout, test=test)
    placed = _Placed(
        dataset=dataset,
        sizes=largest_remainder(len(distinct), shares),
        groups=tuple(tuple(cases[place] for place in group) for group in grouped),
        repeated=tuple(cases[place] for place in sorted(set(range(len(cases))) - set(distinct))),
    )
    return _SplitCases(dataset=dataset, notes=tuple(_notes(placed)))


LEAST_FOR_TEST = 40
"""With fewer cases a sealed test is too small to show a gain, and train too small to learn."""
_WITHOUT_TEST: Mapping[Split, float] = {Split.TRAIN: 0.6, Split.HOLDOUT: 0.4}


def divided(cases: Sequence[Case], *, seed: int, source: str = "") -> _SplitCases:
    """Divide cases for a search, with a sealed test if there are enough, and say so."""
    shares = SHARES if len(cases) >= LEAST_FOR_TEST else _WITHOUT_TEST
    made = split(cases, seed=seed, shares=shares)
    if not made.dataset.holdout:
        alike = ", which are alike or repeated," if len(cases) > 3 else ""
        message = f"{len(cases)} cases{alike} are too few to divide into train and holdout"
        remedy = "add cases, or pass train and holdout yourself"
        raise ConfigError([Problem(where=source, message=message, remedy=remedy)])
    sizes = ", ".join(f"{each} {n}" for each in Split if (n := len(made.dataset.cases(each))))
    sealed = "" if made.dataset.test else f": no sealed test with fewer than {LEAST_FOR_TEST} cases"
    note = f"{source or 'the cases'} are divided by content: {sizes}{sealed}"
    return _SplitCases(dataset=made.dataset, notes=(note, *made.notes))


def _strata(cases: Sequence[Case]) -> list[str]:
    """The label of each case: all its labels if five cases share them, else the first."""
    counts = Counter(case.labels for case in cases)
    used = [case.labels if counts[case.labels] >= 5 else case.labels[:1] for case in cases]
    return [canonical(list(labels)).decode() for labels in used]


def _identity(case: Case) -> tuple[str, str, str]:
    return case.question_id, case.content_id, case.name


def _distinct(cases: Sequence[Case]) -> list[int]:
    """The positions of distinct cases, sorted by content."""
    ranked = sorted(
        range(len(cases)), key=lambda place: (*_identity(cases[place]), cases[place].labels)
    )
    return list({_identity(cases[place]): place for place in reversed(ranked)}.values())[::-1]


def _refuse(cases: Sequence[Case], shares: Mapping[Split, float], near: float) -> None:
    problems: list[Problem] = []
    if not cases:
        problems.append(Problem(message="there are no cases to split"))
    values = list(shares.values())
    if min(values, default=-1) < 0 or not math.isclose(math.fsum(values), 1, abs_tol=1e-6):
        shown = ", ".join(f"{name} {share:g}" for name, share in shares.items())
        remedy = "give shares of 0 or more that add up to 1"
        problems.append(Problem(message=f"invalid shares: {shown}", remedy=remedy))
    if shares.get(Split.TRAIN, 0.0) <= 0:
        problems.append(Problem(message="train gets no cases", remedy="give it a share above 0"))
    if not 0 < near <= 1:
        remedy = "set it above 0 and up to 1; 1 keeps only equal questions together"
        problems.append(
            Problem(message=f"'near' is {near:g}, which is out of range", remedy=remedy)
        )
    content = {case.id: case.content_id for case in cases}
    other = {case.id for case in cases if content[case.id] != case.content_id}
    remedy = "give each case its own name"
    problems += [
        Problem(message=f"different cases have the name '{name}'", remedy=remedy)
        for name in sorted(other)
    ]
    if problems:
        raise ConfigError(problems)
