"""What a scorer prints becomes numbers, or is refused with the reason."""

import time

import pytest

from burnish.targets.artifacts.task import NoNumbers, Scoring, numbers_of, read_numbers

USUAL = Scoring(command="score")


def measures(printed: str, scoring: Scoring = USUAL, primary: str = "score") -> dict[str, float]:
    return dict(read_numbers(printed, scoring, primary).measures)


def test_the_score_and_the_metrics_beside_it() -> None:
    assert measures('{"score": 0.5, "metrics": {"n": 3}}') == {"score": 0.5, "n": 3.0}
    assert measures('{"score": 7}') == {"score": 7.0}


def test_fields_are_called_as_the_task_says() -> None:
    named = Scoring(command="score", score_field="total", metrics_field="parts")
    found = measures('{"total": 2, "parts": {"a": 1}, "score": "x"}', named, "quality")
    assert found == {"total": 2.0, "quality": 2.0, "a": 1.0}


def test_a_metric_of_the_name_of_the_primary_number_is_it() -> None:
    assert measures('{"score": 0.2, "metrics": {"f1": 0.9}}', primary="f1")["f1"] == 0.9


def test_lines_before_and_after_and_nested_objects() -> None:
    printed = 'loading {model}\n{"epoch": 1}\n[1, 2]\n{"score": 1,\n "more": {"score": 3}}\nbye {'
    assert measures(printed) == {"score": 1.0}


def test_yes_and_no_are_numbers() -> None:
    assert measures('{"score": true, "metrics": {"ok": false}}') == {"score": 1.0, "ok": 0.0}


def test_words_for_the_editor() -> None:
    assert read_numbers('{"score": 1, "feedback": "so"}', USUAL, "score").feedback == "so"
    assert read_numbers('{"score": 1, "feedback": ["a"]}', USUAL, "score").feedback == '["a"]'


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        ("", "no JSON object"),
        ("score: 1", "no JSON object"),
        ('x {"score": 1}', "no JSON object"),
        ('{"score": 1', "JSON breaks off"),
        ('{"scores": 1}', "has no 'score'"),
        ('{"score": NaN}', "not a finite number"),
        ('{"score": -Infinity}', "not a finite number"),
        ('{"score": 1e999}', "not a finite number"),
        (f'{{"score": 1{"0" * 400}}}', "not a finite number"),
        ('{"score": null}', "not a finite number"),
        ('{"score": "0.9"}', "not a finite number"),
        ('{"score": [1]}', "not a finite number"),
        ('{"score": 1, "metrics": [1]}', "'metrics' of the scorer's JSON is not an object"),
        ('{"score": 1, "metrics": {"a": NaN}}', "'a' of the scorer's JSON"),
        ('{"score": 1, "metrics": {"a": "good"}}', "words for the editor go into 'feedback'"),
        ('{"score": 1, "metrics": {"score": 2}}', "'score' twice"),
        ('{"score": 1, "score": 2}', "'score' twice"),
        ('{"score": 1}\n{"score": 1}', "2 objects with 'score'"),
    ],
)
def test_what_is_no_score_is_refused(printed: str, reason: str) -> None:
    with pytest.raises(NoNumbers, match=reason):
        measures(printed)


@pytest.mark.parametrize("flood", ["{" * 1_000_000, "{\n" * 300_000, '{"a":[' * 100_000])
def test_much_output_costs_little_time(flood: str) -> None:
    started = time.monotonic()
    assert measures(f'{flood}\n{{"score": 1}}') == {"score": 1.0}
    assert time.monotonic() - started < 120


def test_output_that_is_made_to_cost_time_is_refused() -> None:
    started = time.monotonic()
    with pytest.raises(NoNumbers, match="broken"):
        measures('{"a":\n' * 150_000)
    assert time.monotonic() - started < 120


@pytest.mark.parametrize(("given", "score"), [(0.5, 0.5), (3, 3.0), (True, 1.0)])
def test_a_function_may_give_just_the_score(given: float, score: float) -> None:
    named = Scoring(kind="python", function="m:f", score_field="total")
    assert numbers_of(given, named, "p").measures == {"total": score, "p": score}


@pytest.mark.parametrize("given", [None, "0.5", [1], float("nan")])
def test_a_function_that_gives_no_number_is_refused(given: object) -> None:
    with pytest.raises(NoNumbers):
        numbers_of(given, USUAL, "score")
