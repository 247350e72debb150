"""Several runs on the same cases: side by side, and the scores of one file over time."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from burnish.core.drawings import Drawing
from burnish.core.formatting import moment, number
from burnish.pages.charts import Chart, Figure, case_means, drawn, figure_of, heat_chart
from burnish.pages.comparison_page import ComparisonPage, differences, distinct_names, side_by_side
from burnish.pages.document import ALONE, Place, render
from burnish.pages.grid_page import GridPage
from burnish.pages.library import RunSummary
from burnish.pages.report_file import evaluation_of
from burnish.reports.grid import grid_of_measurements
from burnish.runs.directory import RunRecord
from burnish.runs.report_sections import SPLITS

MOST = 12
"""Runs on one page: more columns cannot be read side by side."""


@dataclass(frozen=True, kw_only=True)
class SeveralRunsPage:
    """Runs side by side, as far as they were measured on the cases of the first of them."""

    runs: tuple[RunRecord, ...]

    @cached_property
    def compared(self) -> tuple[RunRecord, ...]:
        """The runs on the same cases."""
        return tuple(run for run in self.runs if self._same_cases(run))

    @property
    def left_out(self) -> tuple[str, ...]:
        """The names of the other runs."""
        return tuple(run.header.id for run in self.runs if not self._same_cases(run))

    def _same_cases(self, run: RunRecord) -> bool:
        return "data" not in differences(self.runs[0], run)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What else differs between the runs that are compared."""
        pairs = (differences(self.runs[0], run) for run in self.compared)
        return tuple(dict.fromkeys(words for pair in pairs for words in pair.values()))

    @property
    def names(self) -> tuple[str, ...]:
        return distinct_names(self.compared)

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        return side_by_side(self.compared)

    @property
    def charts(self) -> tuple[Chart, ...]:
        heat = next((chart for split in SPLITS[::-1] if (chart := self._cases(split))), None)
        return (self._scores, *(() if heat is None else (heat,)))

    @property
    def _scores(self) -> Chart:
        claims = [run.claim for run in self.compared]
        drawing = Drawing(
            title="Scores",
            labels=self.names,
            series={
                "baseline": tuple(None if c is None else c.baseline_score for c in claims),
                "best": tuple(None if c is None else c.best_score for c in claims),
            },
            unit="score",
            label="run",
            note="As the claim of each run has them. Higher is better.",
        )
        return drawn(drawing, "several")

    def _cases(self, split: str) -> Chart | None:
        """The best of each run, case by case."""
        columns = [case_means(run.best, split) for run in self.compared]
        if sum(bool(column) for column in columns) < 2:
            return None
        return heat_chart(
            f"Cases by run, on {split}",
            dict(zip(self.names, columns, strict=True)),
            note="Each column is the best candidate of a run.",
        )

    def to_html(self, place: Place = ALONE) -> str:
        """The whole document."""
        title = f"{len(self.compared)} runs"
        return render("several_runs.html.j2", {"page": self, "title": title}, place=place)


def comparison_html(runs: Sequence[RunRecord], place: Place = ALONE) -> str:
    """The page about two runs case by case, or about more of them side by side.

    Measurements of the same cases are the columns of a grid.
    """
    page = SeveralRunsPage(runs=tuple(runs))
    reports = [evaluation_of(run) for run in runs]
    if not page.left_out and None not in reports:
        pairs = zip(page.names, reports, strict=True)
        named = {name: report for name, report in pairs if report is not None}
        return GridPage(report=grid_of_measurements(named)).to_html(place)
    if len(runs) == 2:
        return ComparisonPage(left=runs[0], right=runs[1]).to_html(place)
    return page.to_html(place)


def trend_chart(summaries: Sequence[RunSummary]) -> Chart | None:
    """The best score of each run of one file over time; None for runs of several files."""
    runs = sorted((run for run in summaries if run.best is not None), key=lambda run: run.started)
    if len(runs) < 2 or len({run.project for run in summaries}) != 1:
        return None
    data = list(dict.fromkeys(run.data for run in runs))
    names = {key: f"cases {place}" for place, key in enumerate(data, start=1)}
    traces: list[Figure] = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": names[key],
            "x": [run.started for run in runs if run.data == key],
            "y": [run.best for run in runs if run.data == key],
            "text": [run.name for run in runs if run.data == key],
            "meta": f"series-{place % 4}",
        }
        for place, key in enumerate(data)
    ]
    note = "Runs on other cases have a line of their own: their scores cannot be compared."
    return Chart(
        name="trend",
        title=f"{runs[0].project or 'These runs'} over time",
        figure=figure_of([*traces], x="started", y="score of the best"),
        head=("started", "run", "measured on", "score of the best"),
        rows=tuple(
            (moment(run.started), run.name, names[run.data], number(run.best)) for run in runs
        ),
        note=note if len(data) > 1 else "All of them were measured on the same cases.",
    )
