"""The pages about a measurement and about a watch: verdict, metrics or chart, and cases."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from burnish.core.content import Json
from burnish.core.formatting import number
from burnish.metrics.agreement import CheckedJudge
from burnish.pages.charts import Chart, figure_of
from burnish.pages.document import ALONE, DOWNLOADED, Chapter, Place, chapters, render
from burnish.reports.evaluation import EvalReport
from burnish.reports.evaluation_cases import CaseRow, CaseVerdict
from burnish.reports.evaluation_page import (
    change_counts,
    heading,
    metric_cells,
    totals_lines,
    verdict,
)
from burnish.reports.watch import WatchReport
from burnish.runs.directory import RunRecord
from burnish.runs.plugins import strategy_plugin
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


_CASES = 1_000
"""Cases of one page; evaluation.json has them all."""
_WORDS = {
    CaseVerdict.FAIL: "fails",
    CaseVerdict.MISSING: "missing",
    CaseVerdict.UNJUDGED: "no verdict",
    CaseVerdict.PASS: "passes",
}


@dataclass(frozen=True, kw_only=True)
class EvaluationPage:
    """Everything on the page about a measurement."""

    report: EvalReport
    chapters: tuple[Chapter, ...] = ()
    judges: tuple[CheckedJudge, ...] = ()
    grid: str = ""
    """The key of the page about the grid that it is a column of."""

    @classmethod
    def of(cls, run: RunRecord, report: EvalReport) -> "EvaluationPage":
        """The page of a run of `burnish eval`."""
        sections = strategy_plugin(run.header.strategy).report(run)
        return cls(report=report, chapters=chapters(sections))

    @property
    def title(self) -> str:
        return heading(self.report)

    @property
    def words(self) -> str:
        sentence = verdict(self.report)
        return f"{sentence[:1].upper()}{sentence[1:]}."

    @property
    def tone(self) -> Literal["good", "bad", "open"]:
        if self.report.ok:
            return "good"
        return "bad" if self.report.totals.failed else "open"

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        return tuple(totals_lines(self.report))

    @property
    def metrics(self) -> tuple[tuple[str, ...], ...]:
        return tuple((each.metric, *metric_cells(each)) for each in self.report.metrics)

    @property
    def chart(self) -> Chart | None:
        """The mean of each metric with its interval."""
        scored = [(each, each.mean) for each in self.report.metrics if each.mean is not None]
        if not scored:
            return None
        means: list[Json] = [mean for _, mean in scored]
        ups: list[Json] = [0 if each.high is None else each.high - mean for each, mean in scored]
        downs: list[Json] = [0 if each.low is None else mean - each.low for each, mean in scored]
        trace: dict[str, Json] = {
            "type": "scatter",
            "mode": "markers",
            "name": "mean and 95 % interval",
            "x": means,
            "y": [each.metric for each, _ in scored],
            "error_x": {"type": "data", "symmetric": False, "array": ups, "arrayminus": downs},
            "marker": {"size": 12},
            "meta": "train",
        }
        figure: dict[str, Json] = {"data": [trace], "x": "score", "y": ""}
        figure |= {"height": 120 + 40 * len(scored), "range": [0, 1]}
        return Chart(
            name="metrics",
            title="Metrics",
            figure=figure,
            head=("metric", "mean", "95 % interval", "threshold", "cases that pass", "missing"),
            rows=self.metrics,
        )

    @property
    def cases(self) -> tuple[CaseRow, ...]:
        """What fails first."""
        order = list(_WORDS)
        rows = sorted(self.report.cases, key=lambda row: order.index(row.verdict))
        return tuple(rows[:_CASES])

    @property
    def counts(self) -> dict[str, int]:
        counter = Counter(_WORDS[row.verdict] for row in self.report.cases)
        return {word: counter[word] for word in _WORDS.values() if counter[word]}

    @property
    def since(self) -> str:
        """What changed since the baseline, in words."""
        return "" if self.report.baseline is None else change_counts(self.report.baseline)

    def word(self, row: CaseRow) -> str:
        """The verdict on a case in a word or two."""
        return _WORDS[row.verdict]

    def to_html(self, place: Place = ALONE, *, key: str = "") -> str:
        """The whole document; with the key of the run, it leads to the same as one file."""
        context = {"page": self, "title": self.report.about.run or self.title, "key": key}
        return render("evaluation.html.j2", context, place=place)
