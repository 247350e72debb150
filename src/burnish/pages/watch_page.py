"""The page about a watch: verdict, chart, the report in chapters."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from burnish.core.content import Json
from burnish.core.formatting import number
from burnish.pages.charts import Chart, figure_of
from burnish.pages.document import ALONE, DOWNLOADED, Place, render
from burnish.pages.markup import Chapter, chapters
from burnish.reports.watch import WatchReport
from burnish.system import write_atomic

_ROWS = 300
"""Rows of the table beside a chart."""


@dataclass(frozen=True, kw_only=True)
class WatchPage:
    """Everything on the page about a watch."""

    report: WatchReport

    @property
    def title(self) -> str:
        return f"Watch of {Path(self.report.log).name}"

    @property
    def tone(self) -> Literal["good", "bad", "open"]:
        if any(check.alarm for check in self.report.checks):
            return "bad"
        return "good" if self.report.reading.ready else "open"

    @property
    def chart(self) -> Chart | None:
        """The sum by judged trace, and its limit."""
        reading = self.report.reading
        if not reading.sums:
            return None
        first = reading.design.baseline + 1
        places: list[Json] = [*range(first, first + len(reading.sums))]
        limit: list[Json] = [reading.limit] * len(places)
        sums: list[Json] = [*reading.sums]
        lines = (("sum", sums, "train"), ("limit", limit, "accepted"))
        traces: list[Json] = [
            {"type": "scatter", "mode": "lines", "name": name, "x": places, "y": y, "meta": meta}
            for name, y, meta in lines
        ]
        rows = zip(places, reading.sums, strict=True)
        return Chart(
            name="watch",
            title="Sum of what is missing from the usual score",
            figure=figure_of(traces, x="judged trace", y="sum"),
            head=("judged trace", "sum"),
            rows=tuple((str(place), number(value)) for place, value in rows)[-_ROWS:],
            note="Above the limit it is an alarm, and the sum begins again at 0.",
        )

    @property
    def chapters(self) -> tuple[Chapter, ...]:
        return chapters(self.report.sections())

    def to_html(self, place: Place = ALONE) -> str:
        """The whole document."""
        return render("watch.html.j2", {"page": self, "title": self.title}, place=place)


def write_watch_page(report: WatchReport, folder: Path) -> Path:
    """Write report.html."""
    path = folder / DOWNLOADED
    write_atomic(path, WatchPage(report=report).to_html())
    return path
