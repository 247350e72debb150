"""Several runs on the same cases: two side by side, a grid, and scores of one file over time."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from burnish.core.content import Json
from burnish.core.formatting import Drawing, duration, moment, number, spending
from burnish.pages.charts import Chart, case_means, drawn, figure_of, heat_chart
from burnish.pages.document import ALONE, Place, render
from burnish.pages.run_page import evaluation_of
from burnish.pages.run_result import ShownChange, shown_changes
from burnish.reports.evaluation_page import two
from burnish.reports.grid import (
    GRID_HEADS,
    GridReport,
    grid_heading,
    grid_lines,
    grid_of_measurements,
    grid_rows,
    grid_verdict,
    thousand,
)
from burnish.reports.rendering import CaseDelta, compare_cases
from burnish.runs.claims import claim_summary
from burnish.runs.directory import RunRecord, whole_loss
from burnish.runs.report_sections import SPLITS


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


_WORDS = {"up": "better", "down": "worse", "same": "same"}


@dataclass(frozen=True, kw_only=True)
class SplitDeltas:
    """The shared cases of a split, those that moved first."""

    split: str
    deltas: tuple[CaseDelta, ...]

    @property
    def counts(self) -> dict[str, int]:
        counter = Counter(_WORDS[delta.word] for delta in self.deltas)
        return {word: counter[word] for word in _WORDS.values() if counter[word]}


@dataclass(frozen=True, kw_only=True)
class ComparisonPage:
    """Two runs side by side."""

    left: RunRecord
    right: RunRecord

    @property
    def names(self) -> tuple[str, ...]:
        return _distinct_names((self.left, self.right))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why the two may not be comparable."""
        return tuple(_differences(self.left, self.right).values())

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        return _side_by_side((self.left, self.right))

    @property
    def splits(self) -> tuple[SplitDeltas, ...]:
        order = list(_WORDS)[::-1]
        splits = (
            SplitDeltas(
                split=split,
                deltas=tuple(
                    sorted(
                        compare_cases(self.left, self.right, split),
                        key=lambda delta: -order.index(delta.word),
                    )
                ),
            )
            for split in SPLITS
        )
        return tuple(each for each in splits if each.deltas)

    @property
    def changes(self) -> tuple[ShownChange, ...]:
        """How the winner on the right differs from the one on the left."""
        left, right = self.left.best_candidate, self.right.best_candidate
        return () if left is None or right is None else shown_changes(left, right)

    def word(self, delta: CaseDelta) -> str:
        """`better`, `worse` or `same`, from left to right."""
        return _WORDS[delta.word]

    def to_html(self, place: Place = ALONE) -> str:
        """The whole document."""
        title = " and ".join(self.names)
        return render("comparison.html.j2", {"page": self, "title": title}, place=place)


_DIFFERENCES = {
    "data": "They were not measured on the same cases: only shared cases are compared.",
    "metrics": "They were not measured with the same metrics, so scores may differ by that alone.",
    "target": "They are not about the same target.",
}


def _differences(left: RunRecord, right: RunRecord) -> dict[str, str]:
    """By the name of what differs, why two runs may not be comparable."""
    ours, theirs = left.header.inputs, right.header.inputs
    return {
        name: words for name, words in _DIFFERENCES.items() if ours.get(name) != theirs.get(name)
    }


def _distinct_names(runs: Sequence[RunRecord]) -> tuple[str, ...]:
    """The name of each run; one that has the name of another has a number too."""
    seen = Counter[str]()
    names: list[str] = []
    for run in runs:
        name = run.header.id
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return tuple(names)


def _side_by_side(runs: Sequence[RunRecord]) -> tuple[tuple[str, ...], ...]:
    """The rows of a table with one column for each run, after the names of the rows."""
    return tuple(
        (label, *words)
        for label, words in (
            ("claim", [claim_summary(run.claim) for run in runs]),
            *((f"{s} loss", [_losses(run, s) for run in runs]) for s in SPLITS),
            ("strategy", [run.header.strategy for run in runs]),
            ("status", [run.status for run in runs]),
            ("trials", [f"{run.trials:,}, {run.accepted} accepted" for run in runs]),
            ("spent", [spending(run.spent) for run in runs]),
            ("time", [duration(run.active_seconds) for run in runs]),
            ("started", [moment(run.header.started_at) for run in runs]),
        )
    )


def _losses(run: RunRecord, split: str) -> str:
    return " → ".join(number(whole_loss(run, row, split)) for row in (run.baseline, run.best))


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
        return "data" not in _differences(self.runs[0], run)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What else differs between the runs that are compared."""
        pairs = (_differences(self.runs[0], run) for run in self.compared)
        return tuple(dict.fromkeys(words for pair in pairs for words in pair.values()))

    @property
    def names(self) -> tuple[str, ...]:
        return _distinct_names(self.compared)

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        return _side_by_side(self.compared)

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
