"""How small a difference a set can show: the claim, tried out by chance."""

import math
import random

import pytest

from burnish.core.statistics import paired_interval
from burnish.datasets.checks import cases_needed, smallest_difference


def changes(rng: random.Random, cases: int, difference: float, share: float) -> tuple[int, int]:
    """How many cases get better and worse, where a share of them changes."""
    better = (share + difference) / 2
    drawn = [rng.random() for _ in range(cases)]
    return sum(x < better for x in drawn), sum(better <= x < share for x in drawn)


@pytest.mark.parametrize(
    ("cases", "pass_rate", "changed"),
    [(50, 0.5, None), (200, 0.5, None), (100, 0.8, None), (100, 0.5, 0.2), (200, 0.5, 0.1)],
)
def test_the_difference_is_found_as_often_as_claimed(
    cases: int, pass_rate: float, changed: float | None
) -> None:
    rng = random.Random(11)
    difference = smallest_difference(cases, pass_rate=pass_rate, changed=changed)
    share = changed or 2 * pass_rate * (1 - pass_rate) + difference**2 / 2
    seen = [changes(rng, cases, difference, share) for _ in range(600)]
    found = sum(b - c > 1.96 * math.sqrt(b + c) for b, c in seen) / len(seen)
    assert 0.76 <= found <= 0.89
    half = [changes(rng, cases, difference / 2, share) for _ in range(300)]
    assert sum(b - c > 1.96 * math.sqrt(b + c) for b, c in half) / len(half) < 0.5


def test_the_interval_of_reports_finds_it_too() -> None:
    rng = random.Random(5)
    cases, found = 80, 0
    difference = smallest_difference(cases)
    for _ in range(60):
        better, worse = changes(rng, cases, difference, 0.5 + difference**2 / 2)
        differences = [1.0] * better + [-1.0] * worse + [0.0] * (cases - better - worse)
        interval = paired_interval(differences)
        assert interval is not None
        found += interval.low > 0
    assert 0.65 <= found / 60 <= 0.95


def test_a_spread_of_scores_is_taken_where_it_is_known() -> None:
    rng = random.Random(3)
    difference = smallest_difference(60, spread=0.3)
    means = [sum(rng.gauss(difference, 0.3) for _ in range(60)) / 60 for _ in range(500)]
    found = sum(mean > 1.96 * 0.3 / math.sqrt(60) for mean in means) / len(means)
    assert found == pytest.approx(0.8, abs=0.05)


def test_more_cases_show_smaller_differences() -> None:
    shown = [smallest_difference(cases) for cases in (4, 10, 30, 100, 1000)]
    assert shown == sorted(shown, reverse=True)
    assert shown[3] == pytest.approx(0.2, abs=0.005)
    assert smallest_difference(100, changed=0.1) < smallest_difference(100, changed=0.3) < shown[3]


@pytest.mark.parametrize("cases", [0, 1, 3])
def test_too_few_cases_show_nothing(cases: int) -> None:
    assert math.isinf(smallest_difference(cases))


def test_one_case_is_the_least_that_can_differ() -> None:
    assert smallest_difference(40, spread=0.0) == 1 / 40
    assert math.isinf(smallest_difference(2, spread=0.9))


@pytest.mark.parametrize("difference", [0.5, 0.2, 0.1, 0.05])
def test_cases_needed_is_the_other_way_round(difference: float) -> None:
    cases = cases_needed(difference)
    assert smallest_difference(cases) <= difference + 1e-9 < smallest_difference(cases - 1)
