"""Splitting cases into train, holdout and test, near-duplicates kept together."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from burnish.core.cases import Case, Dataset, Split
from burnish.core.content import canonical
from burnish.core.errors import ConfigError, Problem
from burnish.evaluation.datasets.near_duplicates import NEAR, groups
from burnish.evaluation.datasets.placing import largest_remainder, place_groups
from burnish.evaluation.datasets.split_notes import Placed, notes

SHARES: Mapping[Split, float] = {Split.TRAIN: 0.5, Split.HOLDOUT: 0.3, Split.TEST: 0.2}
_ENOUGH = 5
"""Combinations of labels that fewer cases have are told apart by their first label only."""


@dataclass(frozen=True, kw_only=True)
class SplitCases:
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
) -> SplitCases:
    """Divide cases by these shares, so that no question is in two splits.

    The seed decides where a case goes, never its place in the list; inside a split the order
    of the list is kept. Labels are spread as evenly as they can be. Near-duplicates stay
    together, and so do cases with the same value under `group_by` in their extras; sizes are as
    near to the shares as that allows. Train is never empty.
    """
    _refuse(cases, shares, near)
    kept = _distinct(cases)
    ordered = [cases[place] for place in kept]
    found = [
        tuple(sorted(kept[index] for index in group))
        for group in groups(ordered, near=near, together=_together(ordered, group_by))
    ]
    strata = dict(zip(kept, _strata(ordered), strict=True))
    homes = place_groups(found, strata, shares=shares, seed=seed)
    dataset = _dataset(cases, zip(found, homes, strict=True))
    placed = Placed(
        dataset=dataset,
        sizes=largest_remainder(len(kept), shares),
        groups=tuple(tuple(cases[place] for place in group) for group in found),
        repeated=tuple(cases[place] for place in sorted(set(range(len(cases))) - set(kept))),
    )
    return SplitCases(dataset=dataset, notes=notes(placed))


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
    known = sorted({key for case in cases for key in case.extras})
    have = f"they have: {', '.join(known)}" if known else "they have no extras at all"
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
