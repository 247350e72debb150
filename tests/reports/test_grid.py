"""Several measurements side by side: what differs, how surely, what it costs, what is shown."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from burnish.core.statistics import paired_interval
from burnish.pages.several_runs import GridPage
from burnish.reports.evaluation import EvalReport
from burnish.reports.grid import (
    GridColumn,
    GridReport,
    MeasuredColumn,
    grid_lines,
    grid_of,
    grid_sections,
    grid_table,
    grid_verdict,
)
from burnish.reports.rendering import to_markdown
from tests.reports.measured import AWAY, CRASH, failing, report, scored, sweeps

CASES = [f"case{n}" for n in range(12)]
ABOUT = GridReport(agent="clerk", cases=len(CASES))
GRADED = {"graded": 1.0}


def column(label: str, scores: Sequence[float], *, usd: float | None = 0.0) -> MeasuredColumn:
    made = sweeps({case: [score] for case, score in zip(CASES, scores, strict=True)})
    return MeasuredColumn(label=label, report=priced(made, usd))


def priced(made: EvalReport, usd: float | None) -> EvalReport:
    rows = (replace(row, tries=tuple(replace(t, usd=usd) for t in row.tries)) for row in made.cases)
    return replace(made, cases=tuple(rows))


def grid(*columns: MeasuredColumn, weights: Mapping[str, float] = GRADED) -> GridReport:
    return grid_of(columns, weights, ABOUT)


def words(made: GridReport, label: str) -> str:
    return "\n".join(text for name, text in grid_lines(made) if name == label)


HALF = [1.0] * 6 + [0.0] * 6


def test_every_column_is_compared_with_the_first_case_by_case() -> None:
    made = grid(column("a", HALF), column("b", [1.0] * 12), column("c", HALF))
    first, better, same = made.columns
    assert (first.score, first.change) == (0.5, None)
    assert better.change is not None
    assert same.change is not None
    assert (better.change.difference, better.change.moved) == (0.5, 6)
    assert (same.change.difference, same.change.moved) == (0.0, 0)


def test_intervals_of_several_columns_are_wider_so_that_all_of_them_hold() -> None:
    differences = [0.2, 0.1, 0.4, 0.3, -0.1, 0.2, 0.0, 0.5]
    alone = paired_interval(differences)
    one_of_four = paired_interval(differences, confidence=1 - 0.05 / 4)
    assert alone is not None
    assert one_of_four is not None
    assert one_of_four.low < alone.low < alone.high < one_of_four.high
    two = grid(column("a", HALF), column("b", [1.0] * 12))
    four = grid(column("a", HALF), *(column(f"b{n}", [1.0] * 12) for n in range(4)))
    changes = [each.columns[1].change for each in (two, four)]
    assert [each.low is not None for each in changes if each is not None] == [True, True]
    assert changes[0] is not None
    assert changes[1] is not None
    assert (changes[1].low or 0) < (changes[0].low or 0)
    assert (two.comparisons, two.confidence) == (1, 0.95)
    assert (four.comparisons, four.confidence) == (4, 0.9875)
    assert "98.75%" in words(four, "compared")
    assert "Bonferroni" not in words(two, "compared")


def test_six_changes_are_enough_for_one_comparison_but_not_for_many() -> None:
    one = grid(column("a", HALF), column("b", [1.0] * 12))
    many = grid(column("a", HALF), *(column(f"b{n}", [1.0] * 12) for n in range(8)))
    clear = [
        made.columns[1].change.distinguishable
        for made in (one, many)
        if made.columns[1].change is not None
    ]
    assert clear == [True, False]


def test_a_quantile_of_few_cases_may_be_far_out() -> None:
    wide = paired_interval([0.1, 0.2], confidence=0.999)
    assert wide is not None
    assert (wide.low, wide.high) == (-1.0, 1.0)


def test_the_frontier_has_what_nobody_beats_in_score_and_cost() -> None:
    made = grid(
        column("dear and good", [1.0] * 12, usd=0.02),
        column("cheap and bad", HALF, usd=0.001),
        column("dear and bad", HALF, usd=0.03),
        column("unknown", [1.0] * 12, usd=None),
    )
    assert [each.frontier for each in made.columns] == [True, True, False, False]
    assert "without a known price: 4" in words(made, "frontier")
    assert "no column has a known price" in words(grid(column("x", HALF, usd=None)), "frontier")


def test_a_column_that_failed_leaves_the_others_alone() -> None:
    gone = MeasuredColumn(label="gone", failure="HTTP 404: no such model")
    made = grid(gone, column("b", HALF), column("c", [1.0] * 12))
    assert (made.reference, made.comparisons) == (2, 1)
    assert made.columns[2].change is not None
    assert "column 2, the first that could be measured" in words(made, "compared")
    assert words(made, "failed") == "column 1, gone: HTTP 404: no such model"
    assert grid_verdict(made) == (
        "failed: cases fail or are missing in 1 column; 1 column could not be measured"
    )
    assert grid_verdict(grid(gone, gone)) == "failed: no column could be measured"


def test_a_column_without_any_score_has_failed_and_says_why() -> None:
    away = report(*(failing(case, AWAY) for case in CASES))
    made = grid(column("a", HALF), MeasuredColumn(label="b", report=away))
    assert "429 too many requests" in made.columns[1].failure
    assert made.comparisons == 0


def test_crashing_saves_neither_money_nor_time() -> None:
    crashed = report(*(failing(case, CRASH) for case in CASES))
    made = grid(column("a", HALF, usd=0.01), MeasuredColumn(label="b", report=crashed))
    assert (made.columns[1].usd, made.columns[1].seconds) == (0.01, 1.0)
    assert not made.columns[1].frontier


def test_a_missing_case_is_not_compared_and_never_counts_as_zero() -> None:
    lost = report(*(scored(c, 1.0) for c in CASES[1:]), failing(CASES[0], AWAY))
    made = grid(column("a", HALF), MeasuredColumn(label="b", report=lost))
    other = made.columns[1]
    assert (other.score, other.cases, other.missing) == (1.0, 11, 1)
    assert other.change is not None
    assert other.change.cases == 11
    assert words(made, "missing") == "column 2: 1 case of 12"


def test_a_metric_that_no_longer_applies_does_not_make_a_column_better() -> None:
    both = report(*(r for c in CASES for r in [two_scores(c, 0.0, 0.5)]))
    one = report(*(scored(c, 1.0) for c in CASES[:7]), *(two_scores(c, 1, 1) for c in CASES[7:]))
    made = grid(
        MeasuredColumn(label="a", report=both),
        MeasuredColumn(label="b", report=one),
        weights={"graded": 1.0, "tone": 1.0},
    )
    change = made.columns[1].change
    assert change is not None
    assert (change.cases, change.lost) == (5, 7)


def two_scores(case: str, graded: float, tone: float):
    result = scored(case, graded)
    return replace(result, scores=(*result.scores, *scored(case, tone, metric="tone").scores))


def test_weights_say_how_metrics_make_a_score() -> None:
    made = report(*(two_scores(case, 1.0, 0.0) for case in CASES))
    heavy = grid(MeasuredColumn(label="a", report=made), weights={"graded": 3.0, "tone": 1.0})
    assert heavy.columns[0].score == pytest.approx(0.75)


def test_the_json_has_every_column_with_its_cases() -> None:
    made = grid(column("a", HALF), MeasuredColumn(label="b", failure="away"))
    data = json.loads(made.to_text())
    assert (data["schema"], data["thresholds_hold"], data["reference"]) == (1, False, 1)
    assert data["columns"][0]["scores"]["case0"] == 1.0
    assert data["columns"][1]["failure"] == "away"


NAMES = [
    "openai:a-rather-long-name temperature=0.7",
    "汉字" * 10,
    "b\x1b[31m",
]


@pytest.mark.parametrize("width", [60, 80, 140])
def test_the_table_fits_the_terminal(width: int) -> None:
    columns = [column(name, HALF, usd=0.0123) for name in NAMES]
    made = grid(*columns, MeasuredColumn(label="gone", failure="x" * 900))
    console = Console(width=width, highlight=False)
    with console.capture() as captured:
        for part in grid_table(made, width):
            console.print(part)
    text = captured.get()
    assert all(cell_len(line) <= width for line in text.splitlines())
    assert "\x1b[31m" not in text
    assert "$12.30" in text
    assert ("95 % interval" in text) is (width == 140)


def test_pages_escape_what_names_hold() -> None:
    made = grid(column("<b>|a", HALF, usd=0.1), column("b", [1.0] * 12, usd=0.2))
    html = GridPage(report=made).to_html()
    assert "&lt;b&gt;|a" in html
    assert "<b>|a" not in html
    assert [chart.name for chart in GridPage(report=made).charts] == ["frontier", "heat"]
    markdown = to_markdown(grid_sections(made))
    assert "&lt;b>\\|a" in markdown


def test_a_grid_passes_if_every_case_passes_in_every_column() -> None:
    made = grid(column("a", [1.0] * 12), column("b", [1.0] * 12))
    assert made.ok
    assert grid_verdict(made) == "passed: every case passes in 2 columns"
    assert not replace(made, columns=(*made.columns, GridColumn(number=3, label="c"))).ok
