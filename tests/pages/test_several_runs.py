"""Several runs side by side."""

from dataclasses import replace

from burnish.pages.several_runs import ComparisonPage, SeveralRunsPage
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
