"""The page about a grid: the table, quality against cost, and cases by column."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from burnish.core.content import Json
from burnish.pages.charts import Chart, figure_of, heat_chart
from burnish.pages.document import ALONE, Place, render
from burnish.reports.evaluation_page import two
from burnish.reports.grid import GridReport
from burnish.reports.grid_page import (
    GRID_HEADS,
    grid_heading,
    grid_lines,
    grid_rows,
    grid_verdict,
    thousand,
)


@dataclass(frozen=True, kw_only=True)
class GridPage:
    """Everything on the page about a grid."""

    report: GridReport
    status: str = ""
    """As in the list of runs; empty in a file."""
    links: Mapping[int, str] = field(default_factory=dict[int, str])
    """By the number of a column, the key of the page about its run."""
    key: str = ""
    """The key of this page, if it can be followed."""

    @property
    def title(self) -> str:
        return grid_heading(self.report)

    @property
    def words(self) -> str:
        sentence = grid_verdict(self.report)
        return f"{sentence[:1].upper()}{sentence[1:]}."

    @property
    def live(self) -> bool:
        return bool(self.key) and self.status == "running"

    @property
    def tone(self) -> Literal["good", "bad", "open"]:
        if self.report.status != "finished":
            return "open"
        return "good" if self.report.ok else "bad"

    @property
    def head(self) -> tuple[str, ...]:
        return GRID_HEADS

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        return grid_rows(self.report)

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        return tuple(grid_lines(self.report))

    @property
    def charts(self) -> tuple[Chart, ...]:
        charts = [self._frontier, self._cases]
        return tuple(chart for chart in charts if chart is not None)

    @property
    def _frontier(self) -> Chart | None:
        """Score against cost."""
        priced = [
            (each, each.score, each.usd)
            for each in self.report.standing
            if each.score is not None and each.usd is not None
        ]
        if not any(usd for _, _, usd in priced):
            return None
        groups = (
            ("on the frontier", True, "accepted", "circle"),
            ("behind it", False, "rejected", "diamond"),
        )
        traces: list[Json] = []
        for name, on_it, meta, symbol in groups:
            shown = [(c.number, score, usd) for c, score, usd in priced if c.frontier is on_it]
            trace: dict[str, Json] = {
                "type": "scatter",
                "mode": "markers+text",
                "name": name,
                "x": [1000 * usd for _, _, usd in shown],
                "y": [score for _, score, _ in shown],
                "text": [str(number) for number, _, _ in shown],
                "textposition": "top center",
                "cliponaxis": False,
                "meta": meta,
                "marker": {"size": 13, "symbol": symbol},
            }
            traces += [trace] if shown else []
        return Chart(
            name="frontier",
            title="Quality and cost",
            figure=figure_of(traces, x="US dollars for 1,000 cases", y="score"),
            head=("column", "score", "cost of 1,000 cases", "on the frontier"),
            rows=tuple(
                (f"{c.number} {c.label}", two(score), thousand(c), "yes" if c.frontier else "no")
                for c, score, _ in priced
            ),
            note="No other column scores higher than one on the frontier for less, by these means "
            "alone: neighbours may differ by chance.",
        )

    @property
    def _cases(self) -> Chart | None:
        """Case by case."""
        columns = {
            f"{each.number} {each.label}": {
                case: score for case, score in each.scores.items() if score is not None
            }
            for each in self.report.standing
        }
        if not columns:
            return None
        return heat_chart("Cases by column", columns, note="The score of each case.")

    def to_html(self, place: Place = ALONE, *, key: str = "") -> str:
        """The whole document; with the key of the run, it leads to the same as one file."""
        context = {"page": self, "title": self.title, "key": key}
        return render("grid.html.j2", context, place=place)
