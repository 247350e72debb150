"""Intervals of few cases cover the truth, whatever the scores look like."""

import random
from collections.abc import Callable
from statistics import NormalDist

import pytest

from burnish.core.statistics import paired_interval, unpaired_interval

_SAMPLES = 800
_COVERED = 0.93
_IMPROVED = 0.05
"""A null may be called improved so often at most; 2.5 % is what the interval aims at."""
# What so many samples may be off by: among some fifty worlds, a chance of one in a thousand.
_SLACK = 3.3 * (_COVERED * (1 - _COVERED) / _SAMPLES) ** 0.5
_NULL_SLACK = 3.3 * (0.025 * 0.975 / _SAMPLES) ** 0.5

Draw = Callable[[random.Random], float]


def _passes(before: float, after: float, repeats: int) -> Draw:
    """Scores of 0 or 1, over repeats."""

    def share(rng: random.Random, rate: float) -> float:
        return sum(rng.random() < rate for _ in range(repeats)) / repeats

    return lambda rng: share(rng, after) - share(rng, before)


def _cases_that_differ(before: float, after: float, repeats: int) -> Draw:
    """The same where cases are hard or easy, and few are in between."""

    def draw(rng: random.Random) -> float:
        hard = rng.random() < 0.5
        return _passes(before if hard else 1.0, after if hard else 1.0, repeats)(rng)

    return draw


def _rare(share: float, *gains: float) -> Draw:
    """Nearly always zero."""
    return lambda rng: rng.choice(gains) if rng.random() < share else 0.0


def _normal(gain: float, spread: float, repeats: int) -> Draw:
    return lambda rng: rng.gauss(gain, spread / repeats**0.5)


def _steps(rng: random.Random) -> float:
    """Marks in quarters."""
    return round(4 * rng.gauss(0.1, 0.3)) / 4


_STEPS_MEAN = sum(
    step / 4 * (_LAW.cdf((step + 0.5) / 4) - _LAW.cdf((step - 0.5) / 4))
    for _LAW in [NormalDist(0.1, 0.3)]
    for step in range(-12, 13)
)

_WORLDS: dict[str, tuple[Draw, float]] = {
    **{
        f"0/1 {before} {after}, {repeats} repeats": (
            _passes(before, after, repeats),
            after - before,
        )
        for before, after in ((0.5, 0.5), (0.9, 0.9), (0.97, 0.97), (0.5, 0.8), (0.9, 0.98))
        for repeats in (1, 3, 5)
    },
    "half of the cases are easy": (_cases_that_differ(0.3, 0.6, 2), 0.15),
    **{f"rare gains of 1, {share}": (_rare(share, 1.0), share) for share in (0.02, 0.05, 0.1, 0.3)},
    "rare losses of 1": (_rare(0.1, -1.0), -0.1),
    "rare changes both ways": (_rare(0.1, -1.0, 1.0), 0.0),
    "rare small gains": (_rare(0.1, 0.25, 0.5), 0.0375),
    "continuous": (_normal(0.05, 0.2, 1), 0.05),
    "continuous null": (_normal(0.0, 0.3, 1), 0.0),
    "continuous null, 5 repeats": (_normal(0.0, 0.3, 5), 0.0),
    "a long tail": (lambda rng: rng.expovariate(10.0), 0.1),
    "quarters": (_steps, _STEPS_MEAN),
    "always the same": (lambda _: 0.25, 0.25),
}


@pytest.mark.parametrize("name", _WORLDS)
@pytest.mark.parametrize("cases", [8, 24])
def test_the_interval_covers_the_truth_and_a_null_is_seldom_an_improvement(
    name: str, cases: int
) -> None:
    draw, truth = _WORLDS[name]
    rng = random.Random(f"{name} {cases}")
    covered = improved = 0
    for _ in range(_SAMPLES):
        interval = paired_interval([draw(rng) for _ in range(cases)])
        assert interval is not None
        assert interval.low < interval.high
        assert interval.low <= interval.mean <= interval.high
        covered += interval.low <= truth <= interval.high
        improved += interval.low > 0
    assert covered / _SAMPLES >= _COVERED - _SLACK
    if truth == 0:
        assert improved / _SAMPLES <= 0.025 + _NULL_SLACK < _IMPROVED


def test_a_clear_gain_is_shown() -> None:
    """Wide enough is easy: the interval must also be narrow enough to show something."""
    rng = random.Random("clear")
    shown = 0
    for _ in range(_SAMPLES):
        interval = paired_interval([_passes(0.4, 0.9, 3)(rng) for _ in range(20)])
        shown += interval is not None and interval.low > 0
    assert shown / _SAMPLES > 0.95


@pytest.mark.parametrize(("ties", "bound"), [(8, 0.37), (20, 0.15), (40, 0.075)])
def test_ties_alone_say_as_much_as_the_rule_of_three(ties: int, bound: float) -> None:
    interval = paired_interval([0.0] * ties)
    assert interval is not None
    assert interval.high == pytest.approx(bound, abs=0.005)
    assert interval.low == -interval.high
    assert not interval.distinguishable


def test_scores_between_0_and_1_have_an_interval_there() -> None:
    interval = paired_interval([1.0, 1.0, 1.0, 0.9], span=(0.0, 1.0))
    assert interval is not None
    assert 0.0 <= interval.low < interval.mean < interval.high <= 1.0


def test_differences_beyond_the_span_widen_it() -> None:
    interval = paired_interval([5.0, 5.0, 5.0, 7.0])
    assert interval is not None
    assert interval.low < 5.5 < interval.high <= 7.0


def test_one_case_has_no_interval() -> None:
    assert paired_interval([0.5]) is None


@pytest.mark.parametrize(("draws", "power"), [(3, 0.75), (5, 0.95)])
def test_draws_of_one_case_are_compared_unpaired(draws: int, power: float) -> None:
    rng = random.Random(f"unpaired {draws}")
    covered = shown = 0
    for _ in range(_SAMPLES):
        old, new = ([rng.gauss(centre, 0.1) for _ in range(draws)] for centre in (0.5, 0.9))
        interval = unpaired_interval(new, old)
        assert interval is not None
        covered += interval.low <= 0.4 <= interval.high
        shown += interval.low > 0
    assert covered / _SAMPLES >= _COVERED - _SLACK
    assert shown / _SAMPLES > power


def test_few_draws_without_any_spread_have_no_unpaired_interval() -> None:
    assert unpaired_interval([0.5, 0.5], [0.4, 0.4]) is None
    assert unpaired_interval([0.5], [0.4, 0.3]) is None


def test_a_number_that_does_not_vary_in_three_draws_is_known() -> None:
    interval = unpaired_interval([0.5] * 3, [0.4] * 3)
    assert interval is not None
    assert interval.low == interval.high == pytest.approx(0.1)
    same = unpaired_interval([0.5] * 3, [0.5] * 3)
    assert same is not None
    assert not same.distinguishable


def test_two_sides_that_do_not_differ_seldom_look_as_if_they_did_not_vary() -> None:
    rng = random.Random("steady")
    claimed = 0
    for _ in range(_SAMPLES):
        old, new = ([float(rng.random() < 0.5) for _ in range(3)] for _ in range(2))
        interval = unpaired_interval(new, old)
        claimed += interval is not None and interval.low > 0
    assert claimed / _SAMPLES < 0.025
