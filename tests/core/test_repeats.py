"""pass@k and pass^k over repeats."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.core.cases import Failure, FailureKind, Outcome, Split
from burnish.core.evaluations import CaseResult, Evaluation, Score
from burnish.core.statistics import pass_at_k, pass_hat_k


def evaluation(tries: dict[str, list[bool | None]]) -> Evaluation:
    results = [
        CaseResult(case=case, draw=draw, outcome=Outcome(replies=("r",)), scores=(_score(passed),))
        for case, verdicts in tries.items()
        for draw, passed in enumerate(verdicts)
    ]
    return Evaluation(candidate="c", split=Split.TRAIN, results=tuple(results))


def _score(passed: bool | None) -> Score:
    if passed is None:
        return Score.of_nothing("m", "the judge was away")
    return Score(metric="m", value=float(passed), passed=passed)


@settings(max_examples=50)
@given(st.lists(st.booleans(), min_size=1, max_size=6), st.integers(1, 6))
def test_both_are_what_counting_all_choices_of_k_tries_gives(tries: list[bool], k: int) -> None:
    measured = evaluation({"a": [*tries]})
    if k > len(tries):
        assert pass_at_k(measured, k).value is None
        return
    choices = list(combinations(tries, k))
    assert pass_at_k(measured, k).value == pytest.approx(sum(map(any, choices)) / len(choices))
    assert pass_hat_k(measured, k).value == pytest.approx(sum(map(all, choices)) / len(choices))


def test_cases_are_averaged() -> None:
    measured = evaluation({"a": [True, False], "b": [True, True], "c": [False, False]})
    assert pass_at_k(measured, 2).value == pytest.approx(2 / 3)
    assert pass_hat_k(measured, 2).value == pytest.approx(1 / 3)
    assert pass_at_k(measured, 1).value == pass_hat_k(measured, 1).value == pytest.approx(0.5)


def test_a_missing_try_is_neither_a_pass_nor_a_fail() -> None:
    found = pass_hat_k(evaluation({"a": [True, None], "b": [True, True]}), 2)
    assert (found.value, found.cases, found.left_out) == (1.0, 1, ("a",))


def test_a_crash_is_a_fail() -> None:
    crash = Outcome(failure=Failure(kind=FailureKind.AGENT, message="boom"))
    results = (CaseResult(case="a", outcome=crash, scores=(Score.of_failure("m", "boom"),)),)
    measured = Evaluation(candidate="c", split=Split.TRAIN, results=results)
    assert pass_at_k(measured, 1).value == 0.0


def test_k_below_1_makes_no_sense() -> None:
    with pytest.raises(ValueError, match="k must be at least 1"):
        pass_at_k(evaluation({"a": [True]}), 0)
