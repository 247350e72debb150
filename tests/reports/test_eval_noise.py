"""Noise: one agent against itself, what the set can show, and which cases are flaky."""

import random
from pathlib import Path

import pytest

from burnish.core.cases import Case
from burnish.projects.measurements import measure
from burnish.reports.baseline import Noise, noise_of
from burnish.reports.evaluation import EvalReport
from tests.reports.measured import Graded, asking, measurement, sweeps


def noise(found: EvalReport) -> Noise:
    return noise_of(found.cases)


def test_a_steady_agent_has_no_noise() -> None:
    found = noise(sweeps({name: [1.0, 1.0, 1.0] for name in "abcdefghij"}))
    assert (found.sweeps, found.changed, found.flaky, found.wavering) == (3, 0.0, (), 0)
    rate, graded = found.metrics
    assert (rate.metric, rate.spread, graded.spread) == ("pass rate", 0.0, 0.0)
    # With ten cases one more pass is not yet a difference, however steady the agent is.
    assert rate.can_show is not None
    assert rate.can_show > 0.5


def test_flaky_cases_and_their_rates() -> None:
    found = noise(
        sweeps({"a": [1, 0, 1, 1], "b": [1, 1, 1, 1], "c": [0, 0, 0, 1], "d": [0, 0, 0, 0]})
    )
    assert [(one.case, one.passes, one.of) for one in found.flaky] == [("a", 3, 4), ("c", 1, 4)]
    # Of six pairs of sweeps, three differ in a and three in c: 6 of 24.
    assert found.changed == pytest.approx(0.25)
    assert found.metrics[0].sweeps == (0.5, 0.25, 0.5, 0.75)


def test_scores_that_move_below_the_verdict_are_counted() -> None:
    found = noise(sweeps({"a": [0.6, 0.9], "b": [0.1, 0.4], "c": [1.0, 1.0]}))
    assert (found.flaky, found.wavering) == ((), 2)


def test_a_case_with_a_missing_sweep_is_left_out() -> None:
    found = noise(sweeps({"a": [1.0, None], "b": [1.0, 1.0]}))
    assert [each.cases for each in found.metrics] == [1, 1]


def test_more_noise_hides_more() -> None:
    calm, rough = (
        noise(sweeps({f"c{n}": [0.5 + jump, 0.5 - jump] for n in range(50)})).metrics[1].can_show
        for jump in (0.05, 0.3)
    )
    assert calm is not None
    assert rough is not None
    assert calm < rough


def test_what_can_be_shown_is_shown(tmp_path: Path) -> None:
    """An agent with known noise: a true difference of `can_show` is found in about 4 of 5."""
    cases = asking(*(f"c{n}" for n in range(60)))

    def roll(case: Case, draw: int) -> str:
        return f"{random.Random(f'{case.id} {draw}').gauss(0.5, 0.1):.6f}"

    asked = measurement(tmp_path, roll, cases, metrics=(Graded(),), repeats=4, noise=True)
    found = measure(asked).report
    assert found is not None
    assert found.noise is not None
    graded = found.noise.metrics[1]
    # √2 · 0.1 is the spread of a difference; (1.96 + 0.84)/√60 of it is the smallest difference.
    assert graded.can_show == pytest.approx(2.80 * 0.1414 / 60**0.5, rel=0.15)
    assert len(graded.sweeps) == 4
    assert found.noise.flaky
    assert asked.evaluation is not None
    assert len(asked.evaluation.results) == 240
