"""Merging: whose texts a merge takes, who may be merged, and on what it must hold its own."""

import random

import pytest

from burnish.core.surfaces import Candidate
from burnish.core.trials import Verdict
from burnish.strategies.reflective.attempts import (
    SUBSAMPLE,
    Lineage,
    Pool,
    as_good_as,
    merge_cases,
    mergeable,
    merged,
)
from tests.strategies.reflective_parts import ONE, candidate, evaluated, holdout

START = candidate(a="a", b="b", c="c")


def lineage(
    one: Candidate, other: Candidate, scores: tuple[list[float], list[float]] | None = None
) -> Lineage:
    """Two children of START, equally good unless told."""
    first, second = scores or ([1.0, 0.0], [0.0, 1.0])
    pool = Pool(ONE, "instance")
    ancestor = pool.add(START, evaluated([0.0] * len(first)), leads=True)
    pair = (
        pool.add(one, evaluated(first), leads=False),
        pool.add(other, evaluated(second), leads=False),
    )
    return Lineage(ancestor, pair)


def child(*parents: Candidate, **texts: str) -> Candidate:
    values = {**START.values, **texts}
    names = [parent.id for parent in parents] or [START.id]
    return candidate(names, **{name: str(value) for name, value in values.items()})


def test_each_text_comes_from_whoever_changed_it() -> None:
    found = merged(lineage(child(a="A"), child(b="B")), random.Random(1))
    assert found.values == {"a": "A", "b": "B", "c": "c"}
    assert found.origin.kind == "merge"


def test_where_both_changed_a_text_it_comes_from_the_better() -> None:
    one, other = child(a="A1", b="B"), child(a="A2", c="C")
    worse, better = [1.0, 0.0, 0.0], [0.0, 1.0, 1.0]
    found = merged(lineage(one, other, (worse, better)), random.Random(1))
    assert found.values == {"a": "A2", "b": "B", "c": "C"}
    assert found.parents == (one.id, other.id)


def test_at_a_tie_the_lot_decides() -> None:
    pair = lineage(child(a="A1", b="B"), child(a="A2"))
    taken = {merged(pair, random.Random(seed)).values["a"] for seed in range(20)}
    assert taken == {"A1", "A2"}


def test_a_text_that_both_changed_alike_is_kept() -> None:
    found = merged(lineage(child(a="A", b="B"), child(a="A", c="C")), random.Random(1))
    assert found.values == {"a": "A", "b": "B", "c": "C"}


def pool_with(*children: tuple[Candidate, list[float]], start: list[float]) -> Pool:
    pool = Pool(ONE, "instance")
    pool.add(START, evaluated(start), leads=True)
    for each, scores in children:
        pool.add(each, evaluated(scores), leads=False)
    return pool


def test_a_pair_of_the_frontier_with_a_common_start_can_be_merged() -> None:
    pool = pool_with((child(a="A"), [1, 0, 1]), (child(b="B"), [0, 1, 1]), start=[0, 0, 0])
    found = mergeable(pool, overlap=3)
    assert [each.ancestor.candidate.id for each in found] == [START.id]
    assert mergeable(pool, overlap=4) == []


def test_nobody_is_merged_with_its_own_descendant() -> None:
    parent = child(a="A")
    pool = pool_with((parent, [1, 0]), (child(parent, a="A", b="B"), [0, 1]), start=[0, 0])
    assert mergeable(pool, overlap=1) == []


def test_nobody_is_merged_who_lost_what_the_start_had() -> None:
    pool = pool_with((child(a="A"), [1, 0, 0]), (child(b="B"), [0, 1, 0]), start=[0.5, 0.5, 0.2])
    assert mergeable(pool, overlap=1) == []


def test_two_that_changed_the_same_texts_have_nothing_to_give() -> None:
    pool = pool_with((child(a="A1"), [1, 0]), (child(a="A2"), [0, 1]), start=[0, 0])
    assert mergeable(pool, overlap=1) == []


def test_telling_cases_are_taken_from_where_the_two_differ_and_where_not() -> None:
    first = [1.0] * 4 + [0.0] * 4 + [0.5] * 4
    second = [0.0] * 4 + [1.0] * 4 + [0.5] * 4
    pair = lineage(child(a="A"), child(b="B"), (first, second))
    for seed in range(10):
        chosen = merge_cases(pair, holdout(12), ONE, random.Random(seed))
        numbers = [int(case.id[1:]) for case in chosen]
        assert len(set(numbers)) == SUBSAMPLE
        groups = [sum(n // 4 == group for n in numbers) for group in range(3)]
        assert groups == [2, 2, 1]


def test_telling_cases_are_filled_up_where_the_two_never_differ() -> None:
    pair = lineage(child(a="A"), child(b="B"), ([1.0] * 9, [1.0] * 9))
    chosen = merge_cases(pair, holdout(9), ONE, random.Random(1))
    assert len({case.id for case in chosen}) == SUBSAMPLE
    few = lineage(child(a="A"), child(b="B"), ([1.0, 0.0], [0.0, 1.0]))
    assert len(merge_cases(few, holdout(2), ONE, random.Random(1))) == 2


@pytest.mark.parametrize(
    ("scores", "verdict"),
    [
        ([1.0, 1.0], Verdict.ACCEPT),
        ([1.0, 0.0], Verdict.ACCEPT),
        ([0.4, 0.0], Verdict.REJECT),
        ([None, None], Verdict.CANNOT_TELL),
    ],
)
def test_a_merge_must_be_as_good_as_its_better_side(
    scores: list[float | None], verdict: Verdict
) -> None:
    sides = [evaluated([0.0, 1.0]), evaluated([0.5, 0.0])]
    found = as_good_as(evaluated(scores), sides, ONE)
    assert found.verdict is verdict
