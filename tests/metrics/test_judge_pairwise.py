"""The pairwise verifier: both orders, grades in equal steps, and whether the orders agree."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from burnish.core.cases import Case, Outcome, Rubric, Turn
from burnish.core.errors import ConfigError
from burnish.metrics.judges import Panel
from burnish.metrics.rubrics import PairwiseVerifier
from burnish.models.chat import ChatRequest
from burnish.models.errors import ModelUnavailable
from tests.metrics.judge_bench import panel, prompt, said, score, scripted

CASE = Case(turns=(Turn(input="q", expected="the reference"),), name="pair")
OUTCOME = Outcome(replies=("the reply",))
Respond = Callable[[ChatRequest, int], str]


def verifier(asked: Panel) -> PairwiseVerifier:
    return PairwiseVerifier(panel=asked, prompt=prompt("judge_pairwise"))


def reply_is_first(request: ChatRequest) -> bool:
    return "<first_answer>\nthe reply\n</first_answer>" in request.messages[1].content


def grading(one: str, two: str) -> Respond:
    """The grades of (reply, reference) with the reply first, and with the reference first."""

    def respond(request: ChatRequest, draw: int) -> str:
        if reply_is_first(request):
            return said(reasoning="first look", first_grade=one[0], second_grade=one[1])
        return said(reasoning="second look", first_grade=two[1], second_grade=two[0])

    return respond


@pytest.mark.parametrize(
    ("one", "two", "value", "passed", "agrees"),
    [
        ("AT", "AT", 1.0, True, True),
        ("TA", "TA", 0.0, False, True),
        ("AA", "TT", 0.5, True, True),
        ("AB", "AB", 0.5 + 1 / 38, True, True),
        ("BA", "BA", 0.5 - 1 / 38, False, True),
        ("AT", "TA", 0.5, True, False),
        ("AT", "AA", 0.75, True, False),
        ("at", " a", 0.75, True, False),
    ],
)
async def test_the_mean_of_both_orders(
    one: str, two: str, value: float, passed: bool, agrees: bool
) -> None:
    second = two if two != " a" else "aa"
    metric = replace(verifier(panel(grading(one, second))), threshold=0.5)
    found = await score(metric, CASE, OUTCOME)
    assert (found.value, found.passed) == (pytest.approx(value), passed)
    assert found.details["order_agrees"] is agrees
    assert bool(found.reason) == (not agrees or value <= 0.5)
    assert ("the two orders disagree" in found.reason) is not agrees


async def test_both_orders_are_asked_and_kept() -> None:
    backend = scripted(grading("CE", "DC"))
    found = await score(verifier(panel(backend)), CASE, OUTCOME)
    assert sorted(map(reply_is_first, backend.asked)) == [False, True]
    assert found.details["orders"] == [
        {
            "first": "reply",
            "first_grade": "C",
            "second_grade": "E",
            "first_margin": pytest.approx(2 / 19),
        },
        {
            "first": "reference",
            "first_grade": "C",
            "second_grade": "D",
            "first_margin": pytest.approx(1 / 19),
        },
    ]
    assert found.reason == (
        "the reply got C and D, the reference E and C (A is best, T worst); "
        "the two orders disagree, so this says little: second look"
    )


@pytest.mark.parametrize("lost", [True, False])
async def test_without_either_order_there_is_no_score(lost: bool) -> None:
    whole = grading("AB", "AB")

    def respond(request: ChatRequest, draw: int) -> str:
        if reply_is_first(request) is lost:
            raise ModelUnavailable("gone")
        return whole(request, draw)

    found = await score(verifier(panel(respond)), CASE, OUTCOME)
    assert found.missing
    assert "gone" in found.reason


async def test_each_sample_asks_both_orders() -> None:
    backend = scripted(grading("AB", "AB"))
    metric = verifier(panel(backend, samples=3))
    await score(metric, CASE, OUTCOME)
    assert len(backend.asked) == metric.estimate(CASE).calls == 6


async def test_criteria_and_rubrics_are_what_is_graded_by() -> None:
    backend = scripted(grading("AB", "AB"))
    metric = verifier(panel(backend))
    await score(metric, CASE, OUTCOME)
    assert "to the point" in backend.asked[0].messages[1].content
    own = replace(metric, criteria="Be brief.", rubrics=(Rubric(id="a", text="Be kind."),))
    case = replace(CASE, rubrics=(Rubric(id="b", text="Be right."),))
    await score(own, case, OUTCOME)
    shown = backend.asked[2].messages[1].content
    assert "<criteria>\nBe brief.\na: Be kind.\nb: Be right.\n</criteria>" in shown
    assert own.fingerprint != metric.fingerprint
    clash = replace(CASE, rubrics=(Rubric(id="a", text="Again."),))
    assert (await score(own, clash, OUTCOME)).missing
    with pytest.raises(ConfigError, match="a rubric has no id"):
        replace(metric, rubrics=(Rubric(id="", text="x"),))
