"""The report of a measurement: verdicts, means and intervals that are true, and a round trip."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish.core.cases import Case, Outcome, Split, Usage
from burnish.core.errors import ConfigError
from burnish.core.evaluations import Evaluation
from burnish.metrics.computed import ExpectedTools
from burnish.metrics.overlap import RougeMetric
from burnish.projects.measurements import measure
from burnish.reports.evaluation import NAME, EvalReport, mean_interval, percentile
from burnish.reports.evaluation_cases import CaseVerdict
from burnish.reports.evaluation_page import totals_lines, verdict
from burnish.runs.directory import RunRecord, result_of
from burnish.system import Redactor
from burnish.testing import ExpectedText
from tests.reports.measured import (
    ABOUT,
    AWAY,
    CRASH,
    asking,
    failing,
    measurement,
    report,
    scored,
    sweeps,
)


def totals(found: EvalReport) -> dict[str, str]:
    return dict(totals_lines(found))


def test_a_metric_that_applies_to_no_case_keeps_its_column(tmp_path: Path) -> None:
    metrics = (ExpectedText(), ExpectedTools())
    made = measurement(tmp_path, lambda case, draw: "yes", asking("a", "b"), metrics=metrics)
    found = measure(made).report
    assert found is not None
    assert [(each.metric, each.mean, each.cases) for each in found.metrics] == [
        ("expected_text", 1.0, 2),
        ("expected_tools", None, 0),
    ]
    assert totals(found)["no score"] == "expected_tools applies to no case: it needs expected_tools"
    assert found.against(found).baseline is not None
    assert found.ok


def test_without_a_threshold_there_is_no_pass_share(tmp_path: Path) -> None:
    def respond(case: Case, draw: int) -> str:
        if case.id == "broken":
            raise ValueError("boom")
        return "yes or no"

    made = measurement(
        tmp_path, respond, asking("a", "b", "broken"), metrics=(RougeMetric(name="rouge"),)
    )
    found = measure(made).report
    assert found is not None
    (rouge,) = found.metrics
    assert rouge.mean is not None
    assert 0 < rouge.mean < 1
    assert (rouge.passed, found.totals.pass_rate) == (None, None)
    summary = found.to_json()["summary"]
    assert isinstance(summary, dict)
    assert summary["pass_rate"] is None
    assert [row.verdict for row in found.cases] == ["unjudged", "unjudged", "fail"]
    assert "passing" not in totals(found)
    run = RunRecord.read(Path(found.about.folder))
    assert result_of(run.baseline, "train").measurement.pass_rate is None  # pyright: ignore[reportOptionalMemberAccess]


@pytest.mark.parametrize(
    ("found", "ok", "words"),
    [
        (report(scored("a", 1.0), scored("b", 0.5)), True, "passed: all 2 cases pass"),
        (report(scored("a", 1.0), scored("b", 0.2)), False, "failed: 1 of 2 cases fails"),
        (
            report(scored("a", 1.0), failing("b", AWAY)),
            False,
            "cannot tell: 1 case is missing, the other one passes",
        ),
        (
            report(scored("a", 0.0), failing("b", AWAY)),
            False,
            "failed: 1 of 2 cases fails, and 1 case is missing",
        ),
        (report(scored("a", 1.0), failing("b", CRASH)), False, "failed: 1 of 2 cases fails"),
        (report(scored("a", 1.0, None)), False, "cannot tell: 1 case is missing"),
        (
            sweeps({"a": [1.0, 1.0], "b": [1.0, 0.8]}),
            True,
            "passed: all 2 cases pass in all 2 repeats",
        ),
        (sweeps({"a": [1.0, 1.0], "b": [1.0, 0.0]}), False, "failed: 1 of 2 cases fails"),
        (
            sweeps({"a": [0.0, None], "b": [1.0, 1.0]}),
            False,
            "cannot tell: 1 case is missing, the other one passes",
        ),
    ],
    ids=[
        "all pass",
        "one fails",
        "one missing",
        "a fail and a missing",
        "a crash",
        "a missing turn",
        "every repeat",
        "one repeat fails",
        "a missing repeat",
    ],
)
def test_the_thresholds_hold_when_every_case_passes_every_time(
    found: EvalReport, ok: bool, words: str
) -> None:
    assert found.ok is ok
    assert verdict(found) == words


def test_a_case_that_no_metric_judges_does_not_fail_and_does_not_pass() -> None:
    silent = replace(scored("b", 1.0), scores=())
    found = report(scored("a", 1.0), silent)
    assert found.ok
    assert verdict(found).endswith("on 1 case no metric gives a verdict")
    assert found.totals.pass_rate is not None
    assert found.totals.pass_rate.of == 1
    alone = report(silent)
    assert not alone.ok
    assert verdict(alone) == "cannot tell: no metric gives a verdict on any case"


def test_a_mean_has_its_zeros_and_says_what_is_missing() -> None:
    found = report(
        scored("a", 1.0),
        scored("b", 0.0),
        scored("c", 0.0),
        failing("d", CRASH),
        failing("e", AWAY),
    )
    [graded] = found.metrics
    assert (graded.mean, graded.cases, graded.missing) == (0.25, 4, 1)
    summary = found.to_json()["summary"]
    assert isinstance(summary, dict)
    assert summary["average_scores"] == {"graded": 0.25}
    assert summary["metrics_evaluated"] == {"graded": 4}
    assert (summary["pass_rate"], summary["passed"], summary["failed"]) == (0.25, 1, 3)
    assert totals(found)["missing"] == "1 case: not in any mean, and never counted as 0"
    assert totals(found)["crashed"].startswith("1 case")


def test_a_case_with_a_missing_repeat_is_in_no_mean() -> None:
    [graded] = sweeps({"a": [1.0, None], "b": [0.5, 0.5]}).metrics
    assert (graded.mean, graded.cases, graded.missing) == (0.5, 1, 1)


def test_what_repeats_say() -> None:
    found = sweeps({"a": [1, 1, 1], "b": [1, 0, 0], "c": [0, 0, 0], "d": [1, 1, 0]})
    rates = found.totals.tries
    assert rates is not None
    assert (rates.k, rates.one, rates.any_of_k, rates.all_of_k) == (3, 0.5, 0.75, 0.25)
    assert found.totals.pass_rate is not None
    assert found.totals.pass_rate.value == 0.25
    told = totals(found)
    assert told["repeats"] == "single run 0.50, any of 3 0.75 (pass@3), all of 3 0.25 (pass^3)"
    assert told["passing"].endswith("in all 3 repeats")


def test_latency_is_of_runs_that_answered() -> None:
    slow = [replace(scored(f"c{n}", 1.0), outcome=Outcome(seconds=float(n))) for n in range(1, 21)]
    crash = replace(CRASH, seconds=0.001)
    found = report(*slow, failing("x", crash)).totals
    assert (found.seconds_p50, found.seconds_p95) == (10.0, 19.0)


def test_an_interval_never_claims_more_than_the_cases_can() -> None:
    sure = mean_interval([1.0, 1.0, 1.0])
    assert sure is not None
    assert sure[0] < 0.5
    assert sure[1] == 1.0
    assert mean_interval([0.7]) is None
    assert mean_interval([0.7, 0.7, 0.7]) is None
    wide = mean_interval([0.1, 0.4, 0.6, 0.9])
    assert wide is not None
    assert wide[0] < 0.5 < wide[1]


@given(st.lists(st.floats(0, 1), min_size=2, max_size=12))
def test_a_mean_lies_in_its_interval(values: list[float]) -> None:
    found = mean_interval(values)
    if found is not None:
        low, high = found
        assert low - 1e-9 <= math.fsum(values) / len(values) <= high + 1e-9


@given(st.lists(st.floats(0, 100), min_size=1), st.sampled_from([0.5, 0.95, 1.0]))
def test_a_percentile_is_a_value_that_was_seen(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9


def test_the_same_measurement_has_the_same_interval() -> None:
    results = [scored(f"c{n}", n / 10) for n in range(10)]
    assert report(*results).metrics == report(*results).metrics


def test_a_report_is_read_as_it_was_written(tmp_path: Path) -> None:
    found = report(
        scored("a", 1.0, 0.25),
        failing("b", CRASH),
        failing("c", AWAY),
        replace(
            scored("長い \x1b[31m", 1.0),
            outcome=Outcome(replies=("x" * 50_000,), usage=Usage(input_tokens=3), nano_usd=None),
        ),
    )
    found = found.with_noise().against(found)
    path = tmp_path / "report.json"
    found.write(path)
    assert EvalReport.read(path) == found
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data["schema"] == 1
    row = data["cases"][0]
    assert (row["case"], row["verdict"]) == ("a", "fail")
    assert row["tries"][0]["scores"][1] == {
        "metric": "graded",
        "value": 0.25,
        "passed": False,
        "reason": "scored 0.25",
        "turn": 1,
    }
    assert data["cases"][3]["tries"][0]["usd"] is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "not a report of `burnish eval`"),
        ("[1]", "not a report of `burnish eval`"),
        ("no json", "not a report of `burnish eval`"),
        ('{"schema": 99}', "written by a newer burnish"),
    ],
)
def test_what_is_no_report_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=words):
        EvalReport.read(path)


def test_no_secret_of_a_recorded_reply_reaches_a_report() -> None:
    secret = replace(scored("a", 1.0), outcome=Outcome(replies=("the key is hunter2-hunter2",)))
    found = EvalReport.from_measurement(
        Evaluation(candidate="c", split=Split.TRAIN, results=(secret,)),
        asking("a"),
        ABOUT,
        redactor=Redactor(secrets=("hunter2-hunter2",)),
    )
    assert found.cases[0].tries[0].replies == ("the key is [redacted]",)


def test_a_measurement_leaves_its_report_in_its_folder(tmp_path: Path) -> None:
    asked = measurement(tmp_path, lambda case, _: "yes" if case.id == "a" else "no", asking(*"ab"))
    measured = measure(asked)
    folder = measured.ending.folder
    assert measured.report is not None
    assert EvalReport.read(folder) == EvalReport.read(folder / NAME) == measured.report
    assert measured.report.totals.spent.calls == 2
    assert [row.verdict for row in measured.report.cases] == [CaseVerdict.PASS, CaseVerdict.FAIL]
    page = (folder / "report.md").read_text(encoding="utf-8")
    assert "**clerk · 2 cases: failed: 1 of 2 cases fails**" in page
    assert "| b | expected_text | expected 'yes' in 'no' | yes | no |" in page
    assert "adopt" not in page


@pytest.mark.slow
def test_a_thousand_cases_are_quick(tmp_path: Path) -> None:
    results = [scored(f"case-{n}", (n % 7) / 6, draw=d) for n in range(1000) for d in range(2)]
    found = report(*results).with_noise()
    found.write(tmp_path / "big.json")
    again = EvalReport.read(tmp_path / "big.json")
    assert again.against(found).baseline is not None
    assert again.totals.cases == 1000


def test_an_unchanged_report_is_read_once(tmp_path: Path) -> None:
    file = tmp_path / NAME
    found = report(scored("a", 1.0))
    found.write(file)
    first = EvalReport.read(file)
    assert EvalReport.read(tmp_path) is first
    replace(found, about=replace(ABOUT, agent="another")).write(file)
    assert EvalReport.read(file).about.agent == "another"
