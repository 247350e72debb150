"""The agent's tests: cases, metrics and the least score stand in the marker."""

import pytest
from shop_agent import answer


@pytest.mark.burnish(cases="cases.csv", metric="equality", min_score=0.8)
def test_the_shop_answers(evaluate):
    evaluate(answer)


@pytest.mark.burnish(cases="cases.csv", metric="equality", min_score=0.8)
def test_a_shorter_agent_is_as_good(evaluate, compare_to):
    today = evaluate(answer)
    evaluate(lambda question: answer(question).strip())
    compare_to(today.report)
