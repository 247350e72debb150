"""The page about a measurement: verdict, metrics, cases, and what differs from another one."""

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from burnish.core.content import Json
from burnish.metrics.agreement import CheckedJudge
from burnish.pages.charts import Chart
from burnish.pages.document import ALONE, Place, render
from burnish.pages.markup import Chapter, chapters
from burnish.reports.evaluation import EvalReport
from burnish.reports.evaluation_cases import CaseRow, CaseVerdict
from burnish.reports.evaluation_page import (
    change_counts,
    heading,
    metric_cells,
    totals_lines,
    verdict,
)
from burnish.runs.directory import RunRecord
from burnish.runs.plugins import strategy_plugin

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
