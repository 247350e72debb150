"""The densities that explain a suggestion, and what they say is still to be gained."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.core.surfaces import ChoiceSurface, NumberSurface, Scalar, at_unit
from burnish.strategies.coordinate.numeric import (
    Axis,
    Densities,
    Observation,
    Point,
    SearchSpace,
    best_expected_improvement,
    ratio,
)
from burnish.strategies.coordinate.trials import CoordinateSettings

LINE = NumberSurface(id="x", low=0.0, high=1.0)
LOG = NumberSurface(id="x", low=0.001, high=10.0, log=True)
WORDS = ChoiceSurface(id="x", choices=("a", "b", "c"))
PAIR = SearchSpace(axes=(ChoiceSurface(id="x", choices=("a", "b")),))

shares = st.lists(st.floats(0, 1), min_size=1, max_size=30)


def observed(points: list[Point], losses: list[float]) -> list[Observation]:
    return [Observation(point=p, loss=loss) for p, loss in zip(points, losses, strict=True)]


@pytest.mark.parametrize("axis", [LINE, LOG])
@settings(max_examples=25, deadline=None)
@given(shares)
def test_the_densities_of_a_range_integrate_to_one(axis: NumberSurface, at: list[float]) -> None:
    points: list[Point] = [{"x": at_unit(axis, share)} for share in at]
    densities = Densities.of(SearchSpace(axes=(axis,)), observed(points, at))
    steps = 400
    around = [
        densities.marginals({"x": at_unit(axis, (step + 0.5) / steps)})["x"]
        for step in range(steps)
    ]
    assert math.fsum(m.good_density for m in around) / steps == pytest.approx(1, abs=2e-3)
    assert math.fsum(m.bad_density for m in around) / steps == pytest.approx(1, abs=2e-3)


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=20))
def test_the_densities_of_choices_sum_to_one(chosen: list[str]) -> None:
    points: list[Point] = [{"x": word} for word in chosen]
    losses = [number / 20 for number in range(len(chosen))]
    densities = Densities.of(SearchSpace(axes=(WORDS,)), observed(points, losses))
    around = [densities.marginals({"x": word})["x"] for word in WORDS.choices]
    assert math.fsum(m.good_density / 3 for m in around) == pytest.approx(1)
    assert math.fsum(m.bad_density / 3 for m in around) == pytest.approx(1)


def test_the_best_quarter_counts_as_good() -> None:
    known = observed([{"x": n / 10} for n in range(9)], [n / 10 for n in range(9)])
    densities = Densities.of(SearchSpace(axes=(LINE,)), known)
    assert [each.loss for each in densities.good] == [0.0, 0.1, 0.2]
    assert len(densities.bad) == 6


def test_good_points_are_dense_where_the_loss_is_low() -> None:
    densities = Densities.of(SearchSpace(axes=(LINE,)), quadratic(20, width=0.5))
    assert densities.ratio({"x": 0.3}) > 1.5
    assert densities.ratio({"x": 0.8}) < 0.7


def test_before_anything_is_known_every_point_is_alike() -> None:
    marginals = Densities.of(SearchSpace(axes=(LINE, WORDS)), []).marginals({"x": "a"} | {"x": 0.4})
    assert ratio({"x": marginals["x"]}) == 1.0


def test_what_is_expected_is_the_formula_of_the_paper() -> None:
    known = observed([{"x": w} for w in "aabb"], [0.1, 0.2, 0.5, 0.6])
    densities = Densities.of(PAIR, known)
    # Good: a. Others: a, b, b. Densities with the flat part: a 1.5 and 0.75, b 0.5 and 1.25.
    assert densities.ratio({"x": "a"}) == pytest.approx(2.0)
    assert densities.ratio({"x": "b"}) == pytest.approx(0.4)
    # Below the bar of 0.2 lies 0.1 of one point in four.
    assert densities.expected_improvement({"x": "a"}) == pytest.approx(0.025 / (0.25 + 0.75 / 2))
    assert densities.expected_improvement({"x": "b"}) == pytest.approx(0.025 / (0.25 + 0.75 / 0.4))
    assert best_expected_improvement(PAIR, known, random.Random(1)) == pytest.approx(0.04)


def test_on_a_known_surface_less_is_expected_the_closer_the_points_are() -> None:
    expected = [hoped(quadratic(20, width=width)) for width in (0.5, 0.1, 0.02, 0.004)]
    assert expected == sorted(expected, reverse=True)
    assert expected[0] > CoordinateSettings().numeric_convergence_eps > expected[-1]


def test_on_a_known_surface_more_is_expected_the_fewer_the_points_are() -> None:
    assert hoped(quadratic(4, width=0.3)) > 3 * hoped(quadratic(40, width=0.3))


def test_the_expectation_is_in_units_of_the_loss() -> None:
    known = quadratic(20, width=0.5)
    halved = [Observation(point=each.point, loss=each.loss / 2) for each in known]
    assert hoped(halved) == pytest.approx(hoped(known) / 2)


@pytest.mark.parametrize(
    ("losses", "low", "high"),
    [
        ([], math.inf, math.inf),
        ([0.5], math.inf, math.inf),
        ([0.5] * 12, 0.0, 0.0),
        ([0.2] * 6 + [0.5] * 6, 0.05, 0.3),
    ],
    ids=["nothing known", "one point", "all the same", "ties at the top say nothing"],
)
def test_the_ends_of_what_can_be_known(losses: list[float], low: float, high: float) -> None:
    points: list[Point] = [{"x": n / 12} for n in range(len(losses))]
    assert low <= hoped(observed(points, losses)) <= high


def hoped(known: list[Observation]) -> float:
    return best_expected_improvement(SearchSpace(axes=(LINE,)), known, random.Random(1))


def quadratic(points: int, *, width: float) -> list[Observation]:
    """Points evenly around 0.3, as far as `width` from it."""
    places = [0.3 + width * (2 * n / (points - 1) - 1) for n in range(points)]
    inside = [min(1.0, max(0.0, place)) for place in places]
    return [Observation(point={"x": place}, loss=(place - 0.3) ** 2) for place in inside]


def test_a_marginal_says_the_value_it_is_about() -> None:
    axes: tuple[Axis, ...] = (LINE, ChoiceSurface(id="word", choices=("a", "b")))
    point: dict[str, Scalar] = {"x": 0.25, "word": "b"}
    marginals = Densities.of(
        SearchSpace(axes=axes), [Observation(point=point, loss=0.5)]
    ).marginals(point)
    assert {name: m.value for name, m in marginals.items()} == point
