"""A pass rate is the share of cases that pass, not a mean of scores."""

import pytest

from burnish.core.cases import Outcome, Split
from burnish.core.evaluations import CaseResult, Evaluation, Score, pass_rate


def half_right(case: str) -> CaseResult:
    """One of two turns right."""
    turns = (
        Score(metric="m", value=1.0, passed=True, turn=0),
        Score(metric="m", value=0.0, passed=False, turn=1),
    )
    return CaseResult(case=case, outcome=Outcome(replies=("a", "b")), scores=turns)


def test_defect_001_3_cases_that_each_fail_a_turn_have_a_pass_rate_of_0() -> None:
    found = Evaluation(
        candidate="c", split=Split.TRAIN, results=tuple(half_right(n) for n in "abc")
    )
    assert found.mean_of("m") == pytest.approx(0.5)
    assert pass_rate(found) == 0.0
