"""One rule as a metric: the score of a turn, and the words when it is 0."""

import pytest

from burnish.metrics.computed import JsonMatch, Length, TextMatch, XmlMatch
from burnish.metrics.json_matching import JsonRule
from burnish.metrics.text_matching import TextRule
from burnish.metrics.turns import ComputedMetric
from burnish.metrics.xml_matching import XmlRule
from tests.metrics.exchange_of import exchange_of, verdict_of


@pytest.mark.parametrize(
    ("metric", "expected", "reply", "score", "words"),
    [
        (TextMatch(), "Paris", " Paris\n", 1, ""),
        (TextMatch(), "Paris", "Lyon", 0, "expected 'Paris', found 'Lyon'"),
        (TextMatch(rule=TextRule(match="contains")), "Paris", "It is Paris.", 1, ""),
        (TextMatch(rule=TextRule(match="regex")), r"^\d+$", "5 apples", 0, "matches the pattern"),
        (TextMatch(rule=TextRule(match="skip")), None, "anything", 1, ""),
        (JsonMatch(), '{"a": 1}', '{"a": 1.0}', 1, ""),
        (JsonMatch(), '{"a": 1}', '{"a": 2}', 0, "$.a: expected 1, found 2"),
        (JsonMatch(rule=JsonRule(match="skip", valid=True)), None, "{", 0, "which is no JSON"),
        (XmlMatch(), None, "<a/>", 1, ""),
        (XmlMatch(), None, "<a>", 0, "not well-formed"),
        (XmlMatch(rule=XmlRule(match="exact")), "<a>1</a>", "<a>2</a>", 0, "at /a: expected"),
        (Length(max=5), None, "12345", 1, ""),
        (Length(max=5), None, "1234567", 0, "cut 2 characters"),
        (Length(min=3, unit="words"), None, "one two", 0, "add 1 word"),
    ],
)
def test_scores(
    metric: ComputedMetric, expected: str | None, reply: str, score: float, words: str
) -> None:
    verdict = verdict_of(metric, exchange_of(reply, expected))
    assert verdict.value == score
    assert words in verdict.reason
    assert bool(verdict.reason) == (score < 1)


@pytest.mark.parametrize(
    "metric", [TextMatch(), JsonMatch(), XmlMatch(rule=XmlRule(match="exact"))]
)
def test_a_rule_that_needs_a_reference_says_nothing_without_one(metric: ComputedMetric) -> None:
    assert metric.compute(exchange_of("x")) is None


def test_a_structured_answer_is_the_json() -> None:
    exchange = exchange_of("Here you are!", '{"a": 1}', data={"a": 1})
    assert verdict_of(JsonMatch(), exchange).value == 1
