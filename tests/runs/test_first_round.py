"""The limits that do not allow one round, which are known before the first call."""

import pytest

from burnish.core.money import Spend
from burnish.journal.limits import Budget
from burnish.runs.first_round import FirstRound

FIRST = FirstRound(
    baseline=Spend(metric_calls=8, calls=16),
    candidate=Spend(metric_calls=22, calls=45),
    reserved=Spend(calls=2),
    including="the sealed test",
    places={"max_calls": "--max-calls"},
)


@pytest.mark.parametrize(
    ("budget", "problems"),
    [
        (Budget(), []),
        (Budget(max_metric_calls=30), []),
        (
            Budget(max_metric_calls=29),
            [
                "budget.max_metric_calls: 29 runs of cases cannot finish one round: measuring the "
                "baseline and one candidate takes 30, including the sealed test: allow 30 or more, "
                "use fewer cases, or a smaller minibatch"
            ],
        ),
        # The baseline may take as few calls as it has runs.
        (Budget(max_calls=55), []),
        (
            Budget(max_calls=54),
            [
                "--max-calls: 54 calls cannot finish one round: measuring the baseline and one "
                "candidate takes 63, including the sealed test: allow 63 or more, use fewer "
                "cases, or a smaller minibatch"
            ],
        ),
        # What is only estimated is left to the run.
        (Budget(max_tokens=1, max_usd=0.01, max_minutes=0.1), []),
    ],
)
def test_a_limit_is_refused_if_no_round_could_end_under_it(
    budget: Budget, problems: list[str]
) -> None:
    refused = [f"{each.where}: {each.message}: {each.remedy}" for each in FIRST.problems(budget)]
    assert refused == problems


def test_where_the_baseline_is_a_result_only_it_must_be_paid_for() -> None:
    alone = FirstRound(baseline=Spend(metric_calls=8, calls=8), reserved=Spend(calls=1))
    assert not [*alone.problems(Budget(max_calls=9, max_metric_calls=8))]
    (problem,) = alone.problems(Budget(max_calls=8))
    assert problem.message == "8 calls cannot measure the baseline: that takes 9"
    assert problem.remedy == "allow 9 or more, or use fewer cases"


def test_a_plan_says_what_is_enough() -> None:
    assert FIRST.line() == "at least  30 metric calls and 63 calls to finish one round"
