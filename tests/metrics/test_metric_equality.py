"""Equality and numeric: the score of a turn, and the words when it is 0."""

import pytest

from burnish.core.content import Json
from burnish.metrics.computed import Equality, Numeric
from tests.metrics.exchange_of import exchange_of, verdict_of

LOOSE = Equality(case_insensitive=True, strip_whitespace=True, strip_punctuation=True)


@pytest.mark.parametrize(
    ("metric", "expected", "reply", "score", "words"),
    [
        (Equality(), "Paris", "Paris", 1, ""),
        (Equality(), "", "", 1, ""),
        (Equality(), "caf\u00e9", "cafe\u0301", 1, ""),
        (Equality(), "Paris", "Paris ", 0, "found 'Paris ': only the spacing differs"),
        (Equality(), "Paris", "paris", 0, "only the letter case differs"),
        (Equality(), "Paris", "", 0, "expected 'Paris', found nothing"),
        (Equality(strip_whitespace=True), "New York", " New\n  York ", 1, ""),
        (Equality(strip_whitespace=True), "NewYork", "New York", 0, "found 'New York'"),
        (Equality(case_insensitive=True), "Straße", "STRASSE", 1, ""),
        (Equality(strip_punctuation=True), "Its 5 oclock", "It's 5 o'clock!", 1, ""),
        (Equality(strip_punctuation=True), "5", "$5", 1, ""),
        (LOOSE, "que tal", "¿Que — tal?", 1, ""),
        (LOOSE, "yes", "No.", 0, "expected 'yes', found 'no'"),
        (LOOSE, "👍", " 👍! ", 1, ""),
        (LOOSE, "שלום", "שלום.", 1, ""),
        (Equality(response_path="a.b[0].c"), "deep", '{"a": {"b": [{"c": "deep"}]}}', 1, ""),
        (Equality(response_path="ok"), "true", '{"ok": true}', 1, ""),
        (Equality(response_path="answer"), "x", '{"other": 1}', 0, "with the keys other"),
        (Equality(response_path="answer"), "x", '{"answer": [1]}', 0, "is a list of 1"),
        (Equality(response_path="answer"), "x", '{"answer": null}', 0, "is null"),
        (Equality(response_path="answer"), "x", "x", 0, "not JSON: ask for JSON with nothing"),
        (Equality(response_path="a"), "x", '```\n{"a": "x"}\n```', 0, "inside a ``` fence"),
        (Numeric(), "31903.6", " 31903.6 ", 1, ""),
        (Numeric(), "31903.6", "31,903.6", 0, "set accept_thousands_separators"),
        (Numeric(accept_thousands_separators=True), "31903.6", "31,903.6", 1, ""),
        (Numeric(), "0.12", "12%", 0, "set accept_percent"),
        (Numeric(accept_percent=True), "0.12", "12%", 1, ""),
        (Numeric(absolute_tolerance=0.5), "10", "10.5", 1, ""),
        (Numeric(absolute_tolerance=0.5), "10", "10.6", 0, "off by 0.6, more than the allowed 0.5"),
        (Numeric(relative_tolerance=0.01), "1000", "1010", 1, ""),
        (Numeric(), "5", "about five", 0, "contains no number: ask for a bare number"),
        (Numeric(), "five", "5", 0, "the expected answer is not a number"),
        (Numeric(), "nan", "nan", 0, "is not a finite number"),
        (Numeric(response_path="$.answer"), "5", '{"answer": 5.0}', 1, ""),
        (Numeric(response_path="answer"), "5", '{"answer": "5"}', 1, ""),
        (
            Numeric(response_path="answer"),
            "1",
            '{"answer": true}',
            0,
            "'true', which contains no number",
        ),
        (Numeric(response_path="wrong"), "5", '{"answer": 5}', 0, "'wrong' is not among them"),
    ],
)
def test_scores(
    metric: Equality | Numeric, expected: str, reply: str, score: float, words: str
) -> None:
    verdict = verdict_of(metric, exchange_of(reply, expected))
    assert verdict.value == score
    assert words in verdict.reason
    assert bool(verdict.reason) == (score < 1)


@pytest.mark.parametrize("data", [{"answer": 5}, {"answer": "5"}])
def test_a_structured_answer_comes_before_the_reply(data: Json) -> None:
    exchange = exchange_of("I looked it up for you!", "5", data=data)
    assert verdict_of(Numeric(response_path="answer"), exchange).value == 1
    assert verdict_of(Equality(response_path="answer"), exchange).value == 1


@pytest.mark.parametrize("metric", [Equality(), Numeric()])
def test_without_an_expected_answer_there_is_nothing_to_say(metric: Equality | Numeric) -> None:
    assert metric.compute(exchange_of("5")) is None
