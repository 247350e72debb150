"""Heats: how a challenger stands part way, and when nothing may be told before the end."""

from dataclasses import replace

import pytest

from burnish.core.cases import Split
from burnish.core.evaluations import Evaluation
from burnish.strategies.races import Course, RaceSoFar, adds_up, lost_by
from tests.strategies.reflective_parts import (
    ONE,
    TWO,
    both,
    evaluated,
    holdout,
    race_so_far,
    result,
)


def course(incumbent: list[float | None], earlier: Evaluation | None = None) -> Course:
    return Course(
        order=holdout(len(incumbent)),
        incumbent=evaluated(incumbent),
        repeats=1,
        block=2,
        early=True,
        earlier=earlier,
    )


def test_gains_are_of_what_both_have_and_the_room_is_what_is_left_above_the_incumbent() -> None:
    race = race_so_far(evaluated([1.0, None, 0.0]), course([0.5, 0.5, None, 0.25, None]), ONE)
    assert race.gains == (0.5,)
    assert race.room == (0.75, 1.0)
    assert race.promised == 0.0


def test_in_a_second_run_half_of_each_case_is_known() -> None:
    first = evaluated([1.0, 1.0, 0.0, None])
    again = evaluated([0.0, 1.0], draw=1)
    race = race_so_far(again, course([0.5, 0.5, 0.5, 0.5], earlier=first), ONE)
    assert race.gains == (0.0, 0.5)
    assert race.room == (0.0, 0.5)
    assert race.promised == pytest.approx(-0.25)


@pytest.mark.parametrize("earlier", [None, evaluated([0.0, 1.0, None, 0.5, 1.0])])
def test_a_race_stands_the_same_whether_it_is_looked_at_at_once_or_block_by_block(
    earlier: Evaluation | None,
) -> None:
    over = course([0.5, None, 0.5, 0.25, 1.0], earlier=earlier)
    done = evaluated([1.0, 0.5, 0.0, None], draw=1)
    so_far = RaceSoFar(over, ONE)
    for case in done.cases:
        so_far.add(done.only({case}))
    assert so_far.race == race_so_far(done, over, ONE)


def test_where_a_metric_is_silent_on_some_cases_the_cases_do_not_add_up() -> None:
    whole = both({"c0": (1.0, 0.0), "c1": (0.0, 1.0)})
    assert adds_up(whole, TWO)
    partly = replace(whole, results=(*whole.results, result("c2", m=1.0)))
    assert not adds_up(partly, TWO)
    assert adds_up(partly, ONE)


def test_a_race_is_not_lost_before_a_case_was_compared() -> None:
    nothing = Evaluation(candidate="x", split=Split.HOLDOUT, results=())
    assert lost_by(race_so_far(nothing, course([1.0, 1.0]), ONE)) is None
    missing = evaluated([None, None])
    assert lost_by(race_so_far(missing, course([1.0, 1.0, 1.0]), ONE)) is None


def test_why_a_race_is_lost_is_said_with_its_numbers() -> None:
    told = lost_by(race_so_far(evaluated([0.0, 0.0]), course([1.0, 1.0, 0.5, 1.0]), ONE))
    assert told is not None
    assert told.code == "hopeless"
    assert told.reason == "after 2 cases -2.00, and the 2 left can add no more than 0.50"
    assert told.numbers == {"gain_so_far": -2.0, "cases": 2.0, "cases_left": 2.0}
