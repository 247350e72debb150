"""Points of a space, and the points that TPE suggests."""

import math
import os
import random
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish.core.surfaces import ChoiceSurface, NumberSurface, Scalar, at_unit, unit
from burnish.strategies.coordinate import numeric
from burnish.strategies.coordinate.numeric import Axis, Densities, Observation, SearchSpace

AXES: list[tuple[Axis, float]] = [
    (NumberSurface(id="x", low=0.0, high=1.0), math.inf),
    (NumberSurface(id="x", low=1e-4, high=1.0, log=True), math.inf),
    (NumberSurface(id="x", low=3, high=20, integer=True), 18),
    (NumberSurface(id="x", low=1, high=1000, integer=True, log=True), 1000),
    (NumberSurface(id="x", low=0.0, high=1.0, step=0.1), 11),
    (NumberSurface(id="x", low=0.0, high=1.0, step=0.3), 4),
    (NumberSurface(id="x", low=5, high=50, integer=True, step=5), 10),
    (NumberSurface(id="x", low=0.1, high=2.0, log=True, step=0.1), 20),
    (NumberSurface(id="x", low=0.4, high=0.4), 1),
    (ChoiceSurface(id="x", choices=("small", "large", True, 7)), 4),
]
TWO = SearchSpace(
    axes=(NumberSurface(id="x", low=0.0, high=1.0), NumberSurface(id="y", low=1, high=9, log=True))
)


@pytest.mark.parametrize(("axis", "size"), AXES)
def test_suggestions_lie_within_bounds_and_on_the_grid(axis: Axis, size: float) -> None:
    space, known = SearchSpace(axes=(axis,)), list[Observation]()
    assert space.size == size
    for seed in range(14):
        point = numeric.suggest(space, known, seed=seed, start=4)
        assert space.contains(point), point
        known.append(Observation(point=point, loss=1 / (seed + 1)))
    assert len({space.key(each.point) for each in known}) <= size


def test_values_on_a_grid_are_written_as_a_person_would() -> None:
    axis = NumberSurface(id="x", low=0.0, high=1.0, step=0.1)
    seen = {numeric.suggest(SearchSpace(axes=(axis,)), [], seed=seed)["x"] for seed in range(60)}
    assert seen <= {0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0}
    assert {0.3, 0.6} <= seen, "0.1 + 0.1 + 0.1 is not what stands in the file"


@pytest.mark.parametrize(
    ("one", "other"),
    [({"x": 0.1 + 0.2}, {"x": 0.3}), ({"x": 1}, {"x": 1.0})],
)
def test_one_point_has_one_spelling(one: dict[str, Scalar], other: dict[str, Scalar]) -> None:
    space = SearchSpace(axes=(NumberSurface(id="x", low=0.0, high=1.0, step=0.1),))
    assert space.key(one) == space.key(other)
    assert space.key(one) != space.key({"x": 0.5})


@pytest.mark.parametrize("axis", [axis for axis, _ in AXES if isinstance(axis, NumberSurface)])
@pytest.mark.parametrize("share", [0.0, 0.37, 1.0])
def test_a_share_of_a_range_is_a_value_of_the_axis(axis: NumberSurface, share: float) -> None:
    value = at_unit(axis, share)
    assert not axis.problems(value)
    if not axis.integer and axis.step is None and axis.low < axis.high:
        assert unit(axis, value) == pytest.approx(share)


@pytest.mark.parametrize(("patience", "points"), [(None, 10), (20, 10), (11, 10), (5, 4), (1, 1)])
def test_the_warm_up_leaves_room_for_the_model(patience: int | None, points: int) -> None:
    assert numeric.warm_up(patience) == points


def test_a_suggestion_is_a_function_of_what_is_known_and_the_seed() -> None:
    known = _quadratic(12, seed=1)
    first = numeric.suggest(TWO, known, seed=5, start=4)
    assert numeric.suggest(TWO, known, seed=5, start=4) == first
    assert numeric.suggest(TWO, known, seed=6, start=4) != first
    assert numeric.suggest(TWO, known[:5], seed=5, start=4) != first


@pytest.mark.slow
def test_another_process_suggests_the_same() -> None:
    program = (
        "from tests.strategies.test_coordinate_space import TWO, _quadratic\n"
        "from burnish.strategies.coordinate import numeric\n"
        "print(dict(numeric.suggest(TWO, _quadratic(12, seed=1), seed=5, start=4)))"
    )
    said = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "12345"},
        capture_output=True,
        text=True,
        check=True,
    )
    here = numeric.suggest(TWO, _quadratic(12, seed=1), seed=5, start=4)
    assert said.stdout.strip() == str(dict(here))


def test_contract_with_optuna_what_it_picks_is_dense_in_good_points_by_our_densities_too() -> None:
    known = _quadratic(30, seed=2)
    densities, rng = Densities.of(TWO, known), random.Random(3)
    picked = [numeric.suggest(TWO, known, seed=seed) for seed in range(20)]
    anywhere = [_random_point(rng) for _ in range(200)]
    ours = [math.log(densities.ratio(point)) for point in picked]
    theirs = [math.log(densities.ratio(point)) for point in anywhere]
    assert sum(ours) / len(ours) > sum(theirs) / len(theirs) + 0.5


def test_before_the_warm_up_is_over_nothing_that_is_known_matters() -> None:
    known = _quadratic(5, seed=1)
    better = [Observation(point=each.point, loss=each.loss / 2 + 0.3) for each in known]
    asked = {str(numeric.suggest(TWO, told, seed=9, start=6)) for told in (known, better)}
    assert len(asked) == 1


def _quadratic(points: int, *, seed: int) -> list[Observation]:
    rng = random.Random(seed)
    found = [_random_point(rng) for _ in range(points)]
    return [
        Observation(point=p, loss=(float(p["x"]) - 0.3) ** 2 + (float(p["y"]) / 9 - 0.6) ** 2)
        for p in found
    ]


def _random_point(rng: random.Random) -> dict[str, Scalar]:
    x, y = (at_unit(axis, rng.random()) for axis in TWO.axes if isinstance(axis, NumberSurface))
    return {"x": x, "y": y}


@pytest.mark.parametrize("high", [1.0, 1 / 3, 1e-7, 98765.4321])
def test_suggested_numbers_have_no_bits_that_depend_on_the_processor(high: float) -> None:
    space = SearchSpace(axes=(NumberSurface(id="x", low=0.0, high=high),))
    for seed in range(40):
        number = float(numeric.suggest(space, [], seed=seed)["x"])
        assert number == high or number == float(f"{number:.12g}")
        assert 0 <= number <= high


@pytest.mark.parametrize(
    ("axis", "value", "expected"),
    [
        (NumberSurface(id="x", low=0.0, high=1.0), 0.578085, 0.58),
        (NumberSurface(id="x", low=0.2, high=0.9), 0.578085, 0.58),
        (NumberSurface(id="x", low=0.0, high=500.0), 123.4567, 120.0),
        (NumberSurface(id="x", low=1e-5, high=1e-1, log=True), 0.00234567, 0.0023),
        (NumberSurface(id="x", low=0.0, high=0.985), 0.9843, 0.985),
        (NumberSurface(id="x", low=0.333, high=1.0), 0.3339, 0.333),
        (NumberSurface(id="x", low=0.4, high=0.4), 0.4, 0.4),
    ],
)
def test_numbers_are_rounded_to_what_can_be_told_apart(
    axis: NumberSurface, value: float, expected: float
) -> None:
    assert numeric.rounded(axis, value) == expected


@given(low=st.floats(-1e4, 1e4), span=st.floats(1e-3, 1e4), share=st.floats(0, 1))
def test_a_rounded_number_stays_within_its_bounds_and_near(
    low: float, span: float, share: float
) -> None:
    axis = NumberSurface(id="x", low=low, high=low + span)
    value = min(axis.high, low + share * span)
    number = numeric.rounded(axis, value)
    assert axis.low <= number <= axis.high
    assert abs(number - value) <= (axis.high - axis.low) / 60


def test_a_point_that_was_seen_is_suggested_again_only_if_nothing_else_comes() -> None:
    space = SearchSpace(axes=(NumberSurface(id="x", low=0.0, high=1.0),))
    first = numeric.suggest(space, [], seed=5)
    seen = {space.key(first)}
    assert space.key(numeric.suggest_new(space, [], seed=5, seen=seen)) not in seen
    assert numeric.suggest_new(space, [], seed=5) == first
