"""Sums are exact, and gates compare with a stated epsilon."""

import itertools

from burnish.core.cases import Outcome, Split
from burnish.core.comparisons import Pair
from burnish.core.evaluations import CaseResult, Evaluation, Objective, Score, mean
from burnish.core.gates import min_gain, sigma
from burnish.core.surfaces import EPSILON

OBJECTIVE = Objective(weights={"m": 1.0})


def evaluation(*values: float) -> Evaluation:
    results = tuple(
        CaseResult(
            case=f"c{n}", outcome=Outcome(replies=("x",)), scores=(Score(metric="m", value=value),)
        )
        for n, value in enumerate(values)
    )
    return Evaluation(candidate="x", split=Split.TRAIN, results=results)


def test_no_order_of_the_values_changes_a_sum() -> None:
    values = [0.1, 0.2, 0.3, 0.7, 1e-17]
    means = {mean(list(order)) for order in itertools.permutations(values)}
    losses = {
        OBJECTIVE.measure(evaluation(*order)).loss for order in itertools.permutations(values)
    }
    assert len(means) == len(losses) == 1


def test_a_difference_below_epsilon_is_a_tie() -> None:
    before = evaluation(0.5, 0.5)
    for step, accepted in ((EPSILON / 4, False), (EPSILON * 4, True)):
        pair = Pair(candidate=evaluation(0.5 + step, 0.5 + step), incumbent=before)
        assert sigma(objective=OBJECTIVE, train=pair).accepted is accepted
        assert min_gain(objective=OBJECTIVE, validation=pair).accepted is accepted
