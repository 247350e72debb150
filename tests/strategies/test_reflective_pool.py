"""The frontier and the pool: who is best at what, and whom each selection builds on."""

import random
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.strategies.reflective.attempts import (
    EPSILON_GREEDY,
    TOP_K,
    FrontierType,
    Fronts,
    ParentSelection,
    Pool,
    Standards,
    presence,
    standards,
    without_dominated,
)
from tests.strategies.reflective_parts import (
    ONE,
    TWO,
    both,
    candidate,
    evaluated,
    pool_of,
)

lawful = settings(max_examples=50, deadline=None, derandomize=True)
tables = st.integers(1, 6).flatmap(
    lambda width: st.lists(
        st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=width, max_size=width),
        min_size=1,
        max_size=7,
    )
)


def fronts_of(members: Sequence[Standards]) -> Mapping[Hashable, frozenset[int]]:
    fronts = Fronts()
    for number, scores in enumerate(members):
        fronts.add(number, scores)
    return fronts.now


def drawn(pool: Pool, selection: ParentSelection, times: int = 2000) -> Counter[int]:
    """Whom a selection takes how often."""
    place = {member.candidate.id: n for n, member in enumerate(pool.members)}
    rng = random.Random(7)
    return Counter(place[pool.parent(selection, rng).candidate.id] for _ in range(times))


@pytest.mark.parametrize(
    ("kind", "things"),
    [
        ("instance", {("case", "a"): 0.5, ("case", "b"): 0.75}),
        ("objective", {("metric", "m"): 0.5, ("metric", "n"): 0.75}),
        (
            "hybrid",
            {
                ("case", "a"): 0.5,
                ("case", "b"): 0.75,
                ("metric", "m"): 0.5,
                ("metric", "n"): 0.75,
            },
        ),
        (
            "cartesian",
            {("a", "m"): 0.0, ("a", "n"): 1.0, ("b", "m"): 1.0, ("b", "n"): 0.5},
        ),
    ],
)
def test_each_type_of_frontier_looks_at_its_own_things(
    kind: FrontierType, things: dict[tuple[str, str], float]
) -> None:
    found = both({"a": (0.0, 1.0), "b": (1.0, 0.5)})
    assert dict(standards(found, TWO, kind)) == things


def test_what_is_missing_is_nobodys_best() -> None:
    pool, _ = pool_of([1.0, None], [0.0, 0.0])
    assert pool.frontier() == {("case", "c0"): frozenset({0}), ("case", "c1"): frozenset({1})}


def test_ties_stand_side_by_side() -> None:
    fronts = fronts_of([{"a": 1.0, "b": 0.0}, {"a": 1.0 - 1e-12, "b": 1.0}])
    assert fronts == {"a": frozenset({0, 1}), "b": frozenset({1})}


@lawful
@given(rows=tables)
def test_candidates_that_come_one_by_one_stand_where_all_at_once_would(
    rows: list[list[float]],
) -> None:
    fronts = fronts_of([dict(enumerate(row)) for row in rows])
    for n, column in enumerate(zip(*rows, strict=True)):
        best = max(column)
        assert fronts[n] == {number for number, score in enumerate(column) if score == best}


@lawful
@given(rows=tables)
def test_leaving_out_the_dominated_leaves_a_best_one_for_everything(
    rows: list[list[float]],
) -> None:
    members: list[Standards] = [{f"t{n}": score for n, score in enumerate(row)} for row in rows]
    scores = [sum(row) for row in rows]
    fronts = fronts_of(members)
    kept = without_dominated(fronts, scores)
    assert kept.keys() == fronts.keys()
    assert all(kept[thing] and kept[thing] <= fronts[thing] for thing in fronts)
    left = {number for front in kept.values() for number in front}
    # Each that is left is alone the best at something.
    assert all(any(front == {number} for front in kept.values()) for number in left)
    assert sum(presence(kept).values()) == sum(map(len, kept.values()))


def test_of_two_that_are_alike_the_later_is_left_out() -> None:
    fronts = fronts_of([{"a": 1.0}, {"a": 1.0}])
    assert without_dominated(fronts, [0.5, 0.5]) == {"a": frozenset({0})}


def test_pareto_takes_the_frontier_by_how_much_each_is_best_at() -> None:
    pool, _ = pool_of([0, 0, 0, 0], [1, 1, 1, 0], [0, 0, 0, 1])
    taken = drawn(pool, "pareto")
    assert set(taken) == {1, 2}
    assert taken[1] / 2000 == pytest.approx(0.75, abs=0.04)


def test_the_best_is_whoever_leads_not_whoever_scores_most() -> None:
    pool = Pool(ONE, "instance")
    pool.add(candidate(text="start"), evaluated([0.5, 0.5]), leads=True)
    lucky = pool.add(candidate(text="lucky"), evaluated([1.0, 1.0]), leads=False)
    assert pool.incumbent is not lucky
    assert set(drawn(pool, "current_best")) == {0}
    assert set(drawn(pool, "trail")) == {0}


def test_epsilon_greedy_takes_anyone_now_and_then() -> None:
    pool, _ = pool_of([0, 0], [1, 1], [0, 1], [0, 0])
    taken = drawn(pool, "epsilon_greedy", 4000)
    assert set(taken) == {0, 1, 2, 3}
    assert taken[1] / 4000 == pytest.approx(1 - EPSILON_GREEDY * 3 / 4, abs=0.02)


def test_top_k_pareto_takes_only_the_best_of_the_frontier() -> None:
    # Each is alone the best at a case of its own; the later, the more other cases it has.
    width = TOP_K + 3
    rows = [[1.0 if n == own else 0.01 * own for n in range(width)] for own in range(width)]
    pool, _ = pool_of(*rows)
    assert set(drawn(pool, "pareto")) == set(range(width))
    assert set(drawn(pool, "top_k_pareto")) == set(range(width - TOP_K, width))


def test_a_seeded_choice_is_the_same_again() -> None:
    pool, _ = pool_of([1, 0, 0], [0, 1, 0], [0, 0, 1])
    chosen = [pool.parent("pareto", random.Random(n)).candidate.id for n in range(20)]
    again = [pool.parent("pareto", random.Random(n)).candidate.id for n in range(20)]
    assert chosen == again
    assert len(set(chosen)) == 3


def test_a_pool_in_which_everything_is_missing_still_has_a_parent() -> None:
    pool, members = pool_of([None, None])
    assert pool.parent("pareto", random.Random(1)) is members[0]
    assert members[0].score == 0.0


def test_ancestors_are_members_whatever_lies_between() -> None:
    pool = Pool(ONE, "instance")
    start = candidate(text="start")
    between = candidate([start.id], text="built on, never run over holdout")
    child = candidate([between.id], text="child")
    pool.add(start, evaluated([0.0]), leads=True)
    pool.remember(between)
    member = pool.add(child, evaluated([1.0]), leads=True)
    assert [each.candidate for each in pool.ancestors(member)] == [start]
    assert pool.holds(child)
    assert not pool.holds(between)
