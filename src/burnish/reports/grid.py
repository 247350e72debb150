"""Several measurements over the same cases: scores, paired differences, cost, and the frontier."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import RenderableType
from rich.table import Table as RichTable
from rich.text import Text as RichText

from burnish.core.comparisons import commonest_reason
from burnish.core.content import Json, codec, from_json
from burnish.core.errors import ConfigError, Problem
from burnish.core.evaluations import mean
from burnish.core.formatting import (
    Facts,
    Heading,
    Listing,
    Section,
    Table,
    Text,
    cell,
    counted,
    duration,
    money,
    shorten,
    spending,
)
from burnish.core.money import NOTHING, Spend
from burnish.reports.baseline import MetricChange, paired_change, simultaneous
from burnish.reports.evaluation import EvalReport, mean_interval
from burnish.reports.evaluation_cases import CaseRow, Try
from burnish.reports.evaluation_page import change_words, interval, two
from burnish.system import read_bytes
from burnish.version import VERSION

GRID = "grid.json"
"""What a grid was started with: file, flags and axes."""
GRID_RESULTS = "results.json"
"""The file of a grid's report."""
COLUMNS = "columns"
"""The folder of its columns, each of which is a run."""
NOT_YET = "not measured yet"


def grid_home(run: Path) -> Path | None:
    """The folder of the grid that a run is a column of; None if it is of none."""
    home = run.parent.parent
    return home if run.parent.name == COLUMNS and (home / GRID).is_file() else None


@dataclass(frozen=True, kw_only=True)
class GridColumn:
    """One combination, measured or failed."""

    number: int
    """From 1, in the order of the grid."""
    label: str
    values: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What it is made of: by axis, the value."""
    run: str = ""
    """The folder of its run; empty if there is none."""
    failure: str = ""
    """Why nothing was measured; empty for a column that stands."""
    score: float | None = None
    """The weighted mean of its metrics over the cases."""
    low: float | None = None
    """Of the 95 % interval of its own score, not adjusted."""
    high: float | None = None
    cases: int = 0
    """The cases in the score."""
    missing: int = 0
    passed: int = 0
    failed: int = 0
    ok: bool = False
    """Whether a measurement of this column alone would pass."""
    metrics: Mapping[str, float | None] = field(default_factory=dict[str, float | None])
    scores: Mapping[str, float | None] = field(default_factory=dict[str, float | None])
    """By case; None where something is missing."""
    change: MetricChange | None = None
    """Against the reference, on the cases that both have."""
    usd: float | None = None
    """What the agent costs a case, without judges; None if a price is unknown."""
    seconds: float | None = None
    """How long a case takes; None if it takes no time that was measured."""
    frontier: bool = False
    """Whether no other column scores as high for less, or higher for as little."""
    spent: Spend = NOTHING

    @property
    def waits(self) -> bool:
        """Whether it still has to be measured, or is being measured."""
        return self.failure == NOT_YET


@dataclass(frozen=True, kw_only=True)
class GridReport:
    """All columns side by side."""

    schema: int = 1
    burnish: str = VERSION
    agent: str
    source: str = ""
    folder: str = ""
    cases: int = 0
    repeats: int = 1
    columns: tuple[GridColumn, ...] = ()
    reference: int | None = None
    """The number of the column that the others are compared with: the first that stands."""
    comparisons: int = 0
    """How many columns are compared with it."""
    confidence: float = 0.95
    """Of each interval of a difference, so that all of them together hold with 95 %."""
    notes: tuple[str, ...] = ()

    @property
    def standing(self) -> list[GridColumn]:
        return [each for each in self.columns if not each.failure]

    @property
    def ok(self) -> bool:
        """Whether every column was measured, and every case passes in each."""
        return bool(self.columns) and all(each.ok for each in self.columns)

    @property
    def spent(self) -> Spend:
        return sum((each.spent for each in self.columns), NOTHING)

    @property
    def status(self) -> str:
        """`finished`, or `interrupted` if a column still has to be measured."""
        return "interrupted" if any(each.waits for each in self.columns) else "finished"

    @classmethod
    def read(cls, folder: Path) -> "GridReport":
        """The report in the folder of a grid."""
        file = folder / GRID_RESULTS
        if not file.exists():
            message = "no column of this grid was measured yet"
            raise ConfigError([Problem(where=str(folder), message=message)])
        try:
            return codec(GridReport).decode(from_json(read_bytes(file)))
        except ValueError:
            message = "this is not the report of a grid"
            raise ConfigError([Problem(where=str(file), message=message)]) from None

    def to_text(self) -> str:
        """As JSON."""
        data = codec(GridReport).encode(self)
        assert isinstance(data, dict)
        return json.dumps({**data, "thresholds_hold": self.ok}, indent=2, ensure_ascii=False) + "\n"


@dataclass(frozen=True, kw_only=True)
class MeasuredColumn:
    """What came of one column: a report, or why there is none."""

    label: str
    values: Mapping[str, Json] = field(default_factory=dict[str, Json])
    run: str = ""
    report: EvalReport | None = None
    failure: str = ""


def grid_of(
    measured: Sequence[MeasuredColumn], weights: Mapping[str, float], about: GridReport
) -> GridReport:
    """The columns side by side, in a copy of the report `about` them.

    `weights` say how the metrics of a case make one score.
    """
    columns = [_column(number, each, weights) for number, each in enumerate(measured, start=1)]
    reports = [each.report for each in measured]
    first = next((i for i, each in enumerate(columns) if not each.failure), None)
    compared = sum(not each.failure for each in columns) - (first is not None)
    if first is not None:
        reference = reports[first]
        assert reference is not None
        for i, report in enumerate(reports):
            if report is not None and not columns[i].failure:
                columns[i] = _compared(columns[i], report, reference, weights, compared)
    columns = _with_frontier(columns)
    sizes = [report.totals for report in reports if report is not None]
    return replace(
        about,
        columns=tuple(columns),
        cases=max((size.cases for size in sizes), default=about.cases),
        repeats=max((size.repeats for size in sizes), default=about.repeats),
        reference=None if first is None else first + 1,
        comparisons=max(0, compared),
        confidence=simultaneous(compared),
    )


def grid_of_measurements(reports: Mapping[str, EvalReport]) -> GridReport:
    """Measurements of the same cases side by side, by their names; every metric counts the same."""
    columns = [MeasuredColumn(label=name, report=report) for name, report in reports.items()]
    metrics = {each.metric for report in reports.values() for each in report.metrics}
    agents = dict.fromkeys(report.about.agent for report in reports.values())
    notes = ("a score is the plain mean of all metrics",) if len(metrics) > 1 else ()
    about = GridReport(agent=", ".join(agents), notes=notes)
    return grid_of(columns, dict.fromkeys(metrics, 1.0), about)


def _column(number: int, measured: MeasuredColumn, weights: Mapping[str, float]) -> GridColumn:
    plain = GridColumn(
        number=number,
        label=measured.label,
        values=measured.values,
        run=measured.run,
        failure=measured.failure,
    )
    report = measured.report
    if report is None:
        return replace(plain, failure=measured.failure or "it was not measured")
    scores = {row.case: _case_score(row, weights) for row in report.cases}
    known = [score for score in scores.values() if score is not None]
    low, high = mean_interval(known) or (None, None)
    failure = measured.failure
    if not known and not failure:
        common = commonest_reason(row.why_missing for row in report.cases)
        failure = f"no case has a score: {common or 'no metric applies'}"
    return replace(
        plain,
        failure=failure,
        score=mean(known) if known else None,
        low=low,
        high=high,
        cases=len(known),
        missing=report.totals.missing,
        passed=report.totals.passed,
        failed=report.totals.failed,
        ok=report.ok,
        metrics={each.metric: each.mean for each in report.metrics},
        scores=scores,
        spent=report.totals.spent,
    )


def _case_score(row: CaseRow, weights: Mapping[str, float]) -> float | None:
    """The weighted mean of the metrics that apply; None if one is missing or none applies."""
    values = {metric: value for metric, value in row.values.items() if metric in weights}
    known = [(weights[metric], value) for metric, value in values.items() if value is not None]
    if not known or len(known) < len(values):
        return None
    return sum(weight * value for weight, value in known) / sum(weight for weight, _ in known)


def _compared(
    column: GridColumn,
    report: EvalReport,
    reference: EvalReport,
    weights: Mapping[str, float],
    comparisons: int,
) -> GridColumn:
    usual = {row.case: row for row in reference.cases}
    seconds = _a_run(report, usual, lambda one: one.seconds)
    column = replace(
        column, usd=_a_run(report, usual, lambda one: one.usd), seconds=seconds or None
    )
    if report is reference:
        return column
    both: list[tuple[float, float]] = []
    lost: list[float] = []
    for row in report.cases:
        before, after = _case_score(usual[row.case], weights), _case_score(row, weights)
        # A metric that no longer applies would take its own failures out of the mean.
        silent = not row.values.keys() >= usual[row.case].values.keys()
        if before is not None and silent and None not in row.values.values():
            lost.append(before)
        elif before is not None and after is not None:
            both.append((before, after))
    if not both:
        return column
    change = paired_change("score", both, lost, comparisons=comparisons)
    return replace(column, change=change)


def _a_run(
    report: EvalReport, usual: Mapping[str, CaseRow], amount: Callable[[Try], float | None]
) -> float | None:
    """What a run of a case takes; one that crashed takes at least what others do."""
    runs = [
        (row.case, one)
        for row in report.cases
        for one in row.tries
        if one.error_kind in ("", "agent")  # what is missing says nothing
    ]
    finished = _known([amount(one) for _, one in runs if one.answered])
    charged: list[float] = []
    for case, one in runs:
        amounts = [amount(one)]
        if not one.answered:
            amounts += [mean(finished)] if finished else []
            amounts += [amount(other) for other in usual[case].tries if other.answered]
        known = _known(amounts)
        if known is None:
            return None
        charged.append(max(known))
    return mean(charged) if charged else None


def _known(amounts: Sequence[float | None]) -> list[float] | None:
    """The amounts; None if one of them is unknown."""
    known = [each for each in amounts if each is not None]
    return known if len(known) == len(amounts) else None


def _with_frontier(columns: Sequence[GridColumn]) -> list[GridColumn]:
    """The columns, with those marked that no other beats in score or cost without losing in one."""
    priced = [
        (each.number, each.score, each.usd)
        for each in columns
        if not each.failure and each.score is not None and each.usd is not None
    ]

    def beaten(score: float, usd: float) -> bool:
        return any(
            other >= score and price <= usd and (other > score or price < usd)
            for _, other, price in priced
        )

    best = {number for number, score, usd in priced if not beaten(score, usd)}
    return [replace(each, frontier=each.number in best) for each in columns]


_ON_FRONTIER = "◆"
_WIDE = 104
"""From so many columns on, a terminal has room for the intervals of the scores too."""
_REASON = 400


def grid_heading(report: GridReport) -> str:
    """`refunds · 4 columns over 16 cases × 3 repeats`."""
    tries = f" × {report.repeats} repeats" if report.repeats > 1 else ""
    columns = counted(len(report.columns), "column")
    return f"{report.agent} · {columns} over {counted(report.cases, 'case')}{tries}"


def grid_verdict(report: GridReport) -> str:
    """Whether everything was measured and passes, in one sentence."""
    failed = [each for each in report.columns if each.failure and not each.waits]
    waiting = [each for each in report.columns if each.waits]
    if not report.standing and not waiting:
        return "failed: no column could be measured"
    short = [each for each in report.standing if not each.ok]
    words = [f"cases fail or are missing in {counted(len(short), 'column')}"] if short else []
    words += [f"{counted(len(failed), 'column')} could not be measured"] if failed else []
    if waiting:
        there = f"{len(report.columns) - len(waiting)} of {counted(len(report.columns), 'column')}"
        return "; ".join([f"not finished: {there} so far", *words])
    if words:
        return f"failed: {'; '.join(words)}"
    return f"passed: every case passes in {counted(len(report.columns), 'column')}"


def grid_lines(report: GridReport) -> Iterator[tuple[str, str]]:
    """What a reader needs to know beside the table."""
    yield from (("note", note) for note in report.notes)
    yield from _compared_lines(report)
    on_it = [str(each.number) for each in report.columns if each.frontier]
    unpriced = [str(each.number) for each in report.standing if each.usd is None]
    if on_it:
        beyond = f"; without a known price: {', '.join(unpriced)}" if unpriced else ""
        about = "no other column scores higher for less, by these means alone"
        yield "frontier", f"{_ON_FRONTIER} {', '.join(on_it)}: {about}{beyond}"
    elif report.standing:
        yield "frontier", "none: no column has a known price"
    for each in report.standing:
        if each.missing:
            yield (
                "missing",
                f"column {each.number}: {counted(each.missing, 'case')} of {report.cases}",
            )
    for each in report.columns:
        if each.failure:
            word = "waiting" if each.waits else "failed"
            yield word, f"column {each.number}, {each.label}: {shorten(each.failure, _REASON)}"
    yield "spent", spending(report.spent)


def _compared_lines(report: GridReport) -> Iterator[tuple[str, str]]:
    if not report.comparisons:
        if len(report.columns) > 1 and report.standing:
            yield "compared", "nothing: only one column was measured"
        return
    first = next(each for each in report.columns if each.number == report.reference)
    moved = "" if first.number == 1 else ", the first that could be measured"
    others = counted(report.comparisons, "column")
    with_it = f"{others} with column {first.number}{moved}, case by case"
    if report.comparisons == 1:
        yield "compared", f"{with_it}; the interval is a 95 % interval"
    else:
        adjusted = f"each interval has {report.confidence:.2%}, so that all hold with 95 %"
        yield "compared", f"{with_it}; {adjusted} (Bonferroni)"


def difference(each: GridColumn, report: GridReport) -> str:
    """`+0.12 [-0.05, 0.29]`, or what stands in its place."""
    if each.number == report.reference:
        return "reference"
    if each.change is None:
        return "—"
    return f"{each.change.difference:+.2f} {interval(each.change.low, each.change.high)}"


def _worth(each: GridColumn) -> str:
    if each.change is None:
        return ""
    words = change_words(each.change).partition(";")[0]
    return {"may be chance": "unclear", "no case moved": "same"}.get(words, words)


def thousand(each: GridColumn) -> str:
    """What a thousand cases cost: one case is often too cheap to be told from another."""
    return money(None if each.usd is None else 1000 * each.usd)


def _seconds(each: GridColumn) -> str:
    return "—" if each.seconds is None else duration(each.seconds)


# -- The terminal ----------------------------------------------------------------------------------
def grid_table(report: GridReport, width: int) -> Iterator[RenderableType]:
    """One row a column, then the metrics if there are several."""
    wide = width >= _WIDE
    room = max(14, width - (60 + 15 * wide))
    table = _plain("", "")
    table.add_column("column", width=room, overflow="fold")
    own = ("95 % interval",) if wide else ()
    for name in ("score", *own, "difference", "", "1k cases", "time"):
        table.add_column(name, no_wrap=True, justify="right" if name in _RIGHT else "left")
    for each in report.columns:
        mark = _ON_FRONTIER if each.frontier else "✗" if each.failure and not each.waits else " "
        head = (RichText(mark, "green" if each.frontier else "red"), str(each.number))
        name = RichText(shorten(each.label, 3 * room))
        if each.failure:
            state = RichText("—") if each.waits else RichText("failed", "red")
            table.add_row(*head, name, state, *("",) * wide, "", "", "", "")
            continue
        worth = _worth(each)
        shade = {"better": "green", "worse": "red"}.get(worth, "")
        own = (interval(each.low, each.high),) if wide else ()
        gap = difference(each, report)
        cost = (thousand(each), _seconds(each))
        table.add_row(*head, name, two(each.score), *own, gap, RichText(worth, shade), *cost)
    yield table
    metrics = list(dict.fromkeys(m for each in report.standing for m in each.metrics))
    if len(metrics) > 1:
        yield ""
        yield _metric_table(report, metrics, width)


_RIGHT = ("score", "1k cases", "time")


def _metric_table(report: GridReport, metrics: list[str], width: int) -> RichTable:
    """Metrics by the numbers of the columns, as many as there is room for."""
    names = max(len(metric) for metric in metrics)
    name = min(names, 30)
    shown = report.standing[: max(1, (width - name) // 7)]
    table = _plain("metric")
    for each in shown:
        table.add_column(str(each.number), no_wrap=True, justify="right")
    for metric in metrics:
        values = (two(each.metrics.get(metric)) for each in shown)
        table.add_row(RichText(shorten(metric, name)), *values)
    return table


def _plain(*names: str) -> RichTable:
    table = RichTable(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for name in names:
        table.add_column(name, no_wrap=True)
    return table


# -- Pages -----------------------------------------------------------------------------------------
_COSTS = ("cost of 1,000 cases", "time a case")
_SCORES = ("score", "95 % interval", "difference", "which is", "passed")
GRID_HEADS = ("no.", "column", *_SCORES, *_COSTS)


def grid_rows(report: GridReport) -> tuple[tuple[str, ...], ...]:
    """The table of a page: one row a column."""
    rows: list[tuple[str, ...]] = []
    for each in report.columns:
        mark = f"{each.number} {_ON_FRONTIER}" if each.frontier else str(each.number)
        if each.failure:
            rows.append((mark, each.label, "not yet" if each.waits else "failed", *("",) * 6))
            continue
        words = "" if each.change is None else change_words(each.change)
        passed = f"{each.passed} of {report.cases}"
        score = (two(each.score), interval(each.low, each.high))
        cost = (thousand(each), _seconds(each))
        rows.append((mark, each.label, *score, difference(each, report), words, passed, *cost))
    return tuple(rows)


def grid_sections(report: GridReport, *, level: int = 1) -> Iterator[Section]:
    """The page of a grid; with a deeper level, the comment on a change."""
    yield Heading(cell(grid_heading(report), 200), level=level)
    yield Text.of(f"**{grid_verdict(report)}**")
    yield Table(
        GRID_HEADS, tuple(tuple(cell(text, 80) for text in row) for row in grid_rows(report))
    )
    yield Facts(tuple((label, cell(words, _REASON)) for label, words in grid_lines(report)))
    metrics = list(dict.fromkeys(m for each in report.standing for m in each.metrics))
    if len(metrics) > 1:
        heads = ("metric", *(str(each.number) for each in report.standing))
        means = (
            (cell(metric), *(two(each.metrics.get(metric)) for each in report.standing))
            for metric in metrics
        )
        yield Table(heads, tuple(means))
    if level == 1:
        runs = tuple(f"column {e.number}: `{e.run}`" for e in report.columns if e.run)
        yield Listing(runs, lead="Each column is a run with a report of its own.")
