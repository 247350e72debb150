"""The final response: every rule that is given must hold."""

import pytest

from burnish.metrics.computed import FinalResponse
from burnish.metrics.document_matching import JsonRule, XmlRule
from burnish.metrics.rouge import RougeRule
from burnish.metrics.text_matching import LengthRule, TextRule
from tests.metrics.exchange_of import exchange_of, verdict_of

LENGTH = TextRule(match="skip", length=LengthRule(max=12))
CAT = "the cat sat on the mat"


@pytest.mark.parametrize(
    ("metric", "expected", "reply", "score", "words"),
    [
        (FinalResponse(), "Paris", " Paris ", 1, ""),
        (FinalResponse(), "Paris", "paris", 0, "text: expected 'Paris', found 'paris'"),
        (FinalResponse(text=TextRule(match="contains")), "Paris", "It is Paris.", 1, ""),
        (FinalResponse(text=LENGTH), None, "short", 1, ""),
        (FinalResponse(text=LENGTH), None, "quite a long one", 0, "text: too long: 16 characters"),
        (FinalResponse(json=JsonRule()), '{"a": 1}', '{"a": 1}', 1, ""),
        (FinalResponse(json=JsonRule()), '{"a": 1}', '{"a": 2}', 0, "json: $.a: expected 1"),
        (FinalResponse(text=LENGTH, json=JsonRule()), "[1]", "[1]", 1, ""),
        (FinalResponse(text=LENGTH, json=JsonRule()), "[1]", "[2]", 0, "json: $[0]: expected 1"),
        (
            FinalResponse(text=LENGTH, json=JsonRule()),
            "[1]",
            "[1, 2, 3, 4, 5]",
            0,
            "too long: 15 characters, expected at most 12; cut 3 characters; json: $: expected a",
        ),
        (FinalResponse(xml=XmlRule()), None, "<a/>", 1, ""),
        (FinalResponse(xml=XmlRule()), None, "no", 0, "xml: found 'no', which is not well-formed"),
        (FinalResponse(rouge=RougeRule(min_f1=0.9)), CAT, CAT, 1, ""),
        (FinalResponse(rouge=RougeRule()), CAT, "a dog", 1, ""),
        (
            FinalResponse(rouge=RougeRule(min_f1=0.5)),
            CAT,
            "a dog",
            0,
            "rouge1 f1 0.000, at least 0.5",
        ),
        (
            FinalResponse(rouge=RougeRule(min_recall=0.9, min_precision=0.9)),
            CAT,
            "the cat",
            0,
            "rouge1 recall 0.333, at least 0.9 expected (words of the expected text are missing)",
        ),
        (FinalResponse(rouge=RougeRule(ignore=True, min_f1=1)), None, "x", 1, ""),
        (FinalResponse(text=TextRule(ignore=True)), None, "x", 1, ""),
    ],
)
def test_scores(
    metric: FinalResponse, expected: str | None, reply: str, score: float, words: str
) -> None:
    verdict = verdict_of(metric, exchange_of(reply, expected))
    assert verdict.value == score
    assert words in verdict.reason
    assert bool(verdict.reason) == (score < 1)


@pytest.mark.parametrize(
    "metric",
    [
        FinalResponse(),
        FinalResponse(text=TextRule()),
        FinalResponse(json=JsonRule(), text=LENGTH),
        FinalResponse(rouge=RougeRule()),
    ],
)
def test_a_rule_that_needs_a_reference_says_nothing_without_one(metric: FinalResponse) -> None:
    assert metric.compute(exchange_of("x")) is None


@pytest.mark.parametrize(("measure", "value"), [("precision", 1.0), ("recall", 1 / 3), ("f1", 0.5)])
def test_the_rouge_that_was_asked_for_is_kept(measure: str, value: float) -> None:
    rule = RougeRule(measure=measure)  # pyright: ignore[reportArgumentType]
    verdict = verdict_of(FinalResponse(rouge=rule), exchange_of("the cat", CAT))
    assert verdict.details["rouge1"] == pytest.approx(value)


def test_defect_001_3_14_an_empty_json_rule_is_a_rule() -> None:
    metric = FinalResponse(json=JsonRule())
    assert verdict_of(metric, exchange_of("{}", "{}")).value == 1
    assert verdict_of(metric, exchange_of("same words", "same words")).value == 0


def test_a_structured_answer_is_the_json() -> None:
    exchange = exchange_of("Here you are!", "[1]", data=[1])
    assert verdict_of(FinalResponse(json=JsonRule()), exchange).value == 1
