"""The control chart keeps its promises: few false alarms, and falls are noticed."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.core.statistics import ChartDesign, read_chart

DESIGN = ChartDesign(baseline=60, shift=0.2, false_alarms=0.1, period=150, histories=300)


def passes(draws: random.Random, rate: float, count: int) -> list[float]:
    return [float(draws.random() < rate) for _ in range(count)]


@pytest.mark.parametrize("rate", [0.5, 0.8, 0.95])
def test_false_alarms_are_as_rare_as_promised(rate: float) -> None:
    draws = random.Random(7)
    histories = 400
    size = DESIGN.baseline + DESIGN.period
    alarms = sum(
        bool(read_chart(passes(draws, rate, size), DESIGN).alarms) for _ in range(histories)
    )
    # Promised are 40; chance in these histories, in the limit and in its estimate move that.
    assert 12 <= alarms <= 72


def test_scores_between_0_and_1_keep_the_promise_too() -> None:
    draws = random.Random(3)
    design = ChartDesign(baseline=20, shift=0.1, false_alarms=0.2, period=40, histories=60)
    histories = [[round(draws.betavariate(4, 2), 1) for _ in range(60)] for _ in range(60)]
    alarms = sum(bool(read_chart(each, design).alarms) for each in histories)
    assert 3 <= alarms <= 24  # promised are 12


def test_a_fall_is_noticed_about_as_soon_as_the_chart_says() -> None:
    draws = random.Random(11)
    delays: list[int] = []
    said: list[int] = []
    for _ in range(200):
        scores = passes(draws, 0.85, 60) + passes(draws, 0.65, 150)
        reading = read_chart(scores, DESIGN)
        first = next(iter(reading.alarms), None)
        delays.append(151 if first is None else first.at - 59)
        said.append(reading.delay or 151)
    assert sorted(delays)[100] == pytest.approx(sorted(said)[100], rel=0.4)
    assert sum(delay <= 150 for delay in delays) >= 140


def test_an_alarm_tells_since_when_and_how_low() -> None:
    scores = [1.0, 1.0, 1.0, 0.0] * 15 + [1.0] * 20 + [0.0, 0.0, 1.0] * 20
    reading = read_chart(scores, DESIGN)
    assert reading.usual == 0.75
    alarm = reading.alarms[0]
    assert 78 <= alarm.since <= 84
    assert alarm.level < 0.5
    assert reading.sums[alarm.at - 60] > reading.limit
    assert reading.sums[alarm.at - 59] < reading.limit  # it begins again


def test_there_is_no_chart_before_its_baseline() -> None:
    reading = read_chart([1.0] * 59, DESIGN)
    assert (reading.ready, reading.alarms, reading.scores) == (False, (), 59)


def test_a_perfect_baseline_does_not_make_one_failure_an_alarm() -> None:
    reading = read_chart([1.0] * 60 + [0.0] + [1.0] * 20, DESIGN)
    assert reading.ready
    assert reading.alarms == ()


def test_a_larger_baseline_notices_a_fall_sooner() -> None:
    small, large = (
        read_chart(
            ([1.0] * 4 + [0.0]) * (size // 5),
            ChartDesign(baseline=size, shift=0.1, period=600, histories=200),
        )
        for size in (50, 400)
    )
    assert large.limit < small.limit
    assert large.noticed > small.noticed


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=20, max_size=60), st.integers(0, 40))
def test_what_is_known_does_not_change_with_what_comes(scores: list[float], cut: int) -> None:
    design = ChartDesign(baseline=20, period=30, histories=20)
    whole, part = read_chart(scores, design), read_chart(scores[: 20 + cut], design)
    assert whole.sums[: len(part.sums)] == part.sums
    assert whole.alarms[: len(part.alarms)] == part.alarms
