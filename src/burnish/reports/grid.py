"""Several measurements over the same cases: scores, paired differences, cost, and the frontier."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from burnish.core.comparisons import commonest_reason
from burnish.core.content import Json, codec, from_json
from burnish.core.errors import ConfigError, Problem
from burnish.core.evaluations import mean
from burnish.core.money import NOTHING, Spend
from burnish.reports.baseline import MetricChange, paired_change, simultaneous
from burnish.reports.evaluation import EvalReport, mean_interval
from burnish.reports.evaluation_cases import CaseRow, Try
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
    scores = {row.case: case_score(row, weights) for row in report.cases}
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


def case_score(row: CaseRow, weights: Mapping[str, float]) -> float | None:
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
        before, after = case_score(usual[row.case], weights), case_score(row, weights)
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
