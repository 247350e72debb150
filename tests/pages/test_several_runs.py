"""Several runs side by side, and the scores of one file over time."""

from dataclasses import replace

from burnish.pages.library import RunSummary
from burnish.pages.several_runs import ComparisonPage, SeveralRunsPage, trend_chart
from burnish.runs.directory import RunRecord


def _named(run: RunRecord, name: str, **inputs: str) -> RunRecord:
    header = replace(run.header, id=name, inputs={**run.header.inputs, **inputs})
    return replace(run, header=header)


def test_runs_on_other_cases_are_left_out_and_named(shown: RunRecord) -> None:
    runs = (_named(shown, "one"), _named(shown, "two"), _named(shown, "three", data="other"))
    page = SeveralRunsPage(runs=runs)
    assert page.names == ("one", "two")
    html = page.to_html()
    assert "Not compared" in html
    assert "same cases as one: three." in html
    assert [chart.name for chart in page.charts] == ["several", "heat"]


def test_runs_of_the_same_name_are_told_apart(shown: RunRecord) -> None:
    page = SeveralRunsPage(runs=(shown, shown, _named(shown, "other")))
    assert page.names == ("shown-run", "shown-run (2)", "other")
    assert [chart.head[1:] for chart in page.charts if chart.is_heat] == [page.names]
    two = ComparisonPage(left=shown, right=shown).to_html()
    assert "<h1>shown-run and shown-run (2)</h1>" in two


def test_other_metrics_are_a_warning(shown: RunRecord) -> None:
    page = SeveralRunsPage(runs=(_named(shown, "one"), _named(shown, "two", metrics="other")))
    assert len(page.compared) == 2
    assert any("same metrics" in words for words in page.warnings)


def _summary(name: str, best: float | None, *, data: str = "d", project: str = "a") -> RunSummary:
    return RunSummary(
        key=name,
        name=name,
        project=project,
        strategy="s",
        status="finished",
        started=f"2026-01-0{name}T00:00:00+00:00",
        trials=1,
        accepted=1,
        verdict="improved",
        score="",
        cost="",
        best=best,
        data=data,
    )


def test_scores_over_time_have_one_line_for_each_set_of_cases() -> None:
    chart = trend_chart([_summary("3", 0.9, data="new"), _summary("2", 0.8), _summary("1", 0.5)])
    assert chart is not None
    assert [row[1:] for row in chart.rows] == [
        ("1", "cases 1", "0.500"),
        ("2", "cases 1", "0.800"),
        ("3", "cases 2", "0.900"),
    ]
    assert "cannot be compared" in chart.note


def test_runs_of_several_files_have_no_common_line() -> None:
    assert trend_chart([_summary("1", 0.5), _summary("2", 0.6, project="b")]) is None
    assert trend_chart([_summary("1", 0.5), _summary("2", None)]) is None
