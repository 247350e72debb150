"""Races: stopping early never loses a winner, and rarely anything else."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.core.statistics import FUTILE, Race, spread_of
from burnish.core.surfaces import EPSILON

lawful = settings(max_examples=50, deadline=None, derandomize=True)
score = st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 1.0])
pairs = st.lists(st.tuples(score, score), max_size=12)


@lawful
@given(run=pairs, left=pairs)
def test_hopeless_is_said_exactly_when_no_end_of_the_race_wins(
    run: list[tuple[float, float]], left: list[tuple[float, float]]
) -> None:
    gains = tuple(new - old for new, old in run)
    race = Race(gains=gains, room=tuple(1 - old for _, old in left))
    best = math.fsum(gains) + math.fsum(1.0 - old for _, old in left)
    assert (race.hope() == "hopeless") == (best <= EPSILON)
    really = math.fsum(gains) + math.fsum(new - old for new, old in left)
    if really > EPSILON:
        assert race.hope() != "hopeless"


@lawful
@given(run=pairs, left=pairs)
def test_a_challenger_who_is_not_behind_is_never_given_up(
    run: list[tuple[float, float]], left: list[tuple[float, float]]
) -> None:
    gains = tuple(new - old for new, old in run)
    race = Race(gains=gains, room=tuple(1 - old for _, old in left))
    if race.ahead >= 0 and race.best_end > EPSILON:
        assert race.hope() == "open"
    assert not (race.ahead >= 0 and race.far_behind)


def test_what_is_not_likely_to_be_made_up_is_futile_and_a_little_less_is_not() -> None:
    def behind(cases: int) -> str:
        return Race(gains=(-1.0,) * cases, room=(1.0,) * 16).hope()

    assert [behind(n) for n in range(9)] == ["open"] * 6 + ["futile"] * 3
    spread = spread_of((-1.0,) * 6)
    assert 5 < FUTILE * spread * math.sqrt(16) < 6


def test_nothing_left_and_not_ahead_is_hopeless_a_tie_too() -> None:
    assert Race(gains=(1.0, -1.0), room=()).hope() == "hopeless"
    assert Race(gains=(1.0, 0.0), room=()).hope() == "open"
    assert Race(gains=(), room=()).hope() == "hopeless"


def test_what_the_first_run_promises_counts_in_a_second() -> None:
    losing = Race(gains=(-1.0,) * 6, room=(1.0,) * 10)
    assert losing.hope() == "futile"
    assert Race(gains=losing.gains, room=losing.room, promised=3.0).hope() == "open"


def test_far_behind_is_more_than_the_gains_own_spread() -> None:
    assert not Race(gains=(-1.0,), room=()).far_behind
    assert Race(gains=(-1.0, -1.0), room=()).far_behind
    assert not Race(gains=(-1.0, -1.0, 1.0), room=()).far_behind
    assert not Race(gains=(0.0,) * 5, room=()).far_behind


def test_the_spread_of_few_gains_is_held_up_by_what_is_usual() -> None:
    assert spread_of(()) == pytest.approx(0.5)
    assert 0 < spread_of((0.0,) * 10) < spread_of((0.0,) * 2) < 0.5
    assert spread_of((1.0, -1.0) * 50) == pytest.approx(1.0, abs=0.01)
