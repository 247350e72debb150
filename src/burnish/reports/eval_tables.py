"""A measurement on a terminal: cases by metrics, what fails and why, the sums."""

from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from burnish.core.words import counted, shorten
from burnish.reports.eval_report import EvalReport
from burnish.reports.eval_rows import CaseRow, CaseVerdict
from burnish.reports.eval_words import metric_cells, two

ALL_SHOWN = 40
"""Up to so many cases are shown whole; beyond, only those that do not pass."""
_NARROWEST = 8
_GAP = 2
MARKS = {
    CaseVerdict.PASS: ("✓", "green"),
    CaseVerdict.FAIL: ("✗", "red"),
    CaseVerdict.MISSING: ("!", "yellow"),
    CaseVerdict.UNJUDGED: ("·", "dim"),
}


def case_table(report: EvalReport, width: int) -> Iterator[RenderableType]:
    """Cases by metrics, in the room there is; and a line about what is not shown."""
    rows, left_out = _chosen(report.cases)
    metrics = [each.metric for each in report.metrics]
    repeated = report.totals.repeats > 1
    longest = max((cell_len(shorten(row.case, width)) for row in rows), default=4)
    name = min(max(4, longest), max(12, width // 3))
    room = width - name - len("✓ ") - _GAP - (len("passes") + _GAP if repeated else 0)
    shown, each_width = _fitting(metrics, rows, room)
    if rows:
        yield _table(rows, shown, each_width, name, repeated=repeated)
    if len(shown) < len(metrics):
        yield Text(f"  {counted(len(metrics) - len(shown), 'more metric')}: see below", "dim")
    if left_out:
        yield Text(left_out, "dim")


def _chosen(cases: Sequence[CaseRow]) -> tuple[list[CaseRow], str]:
    """The rows to show, and what to say of the others."""
    if len(cases) <= ALL_SHOWN:
        return list(cases), ""
    sick = [row for row in cases if row.verdict in (CaseVerdict.FAIL, CaseVerdict.MISSING)]
    well = f"{counted(len(cases) - len(sick), 'other case')} not shown"
    more = len(sick) - ALL_SHOWN
    told = f"… {counted(more, 'more case')} that does not pass, " if more == 1 else ""
    told = told or (f"… {counted(more, 'more case')} that do not pass, " if more > 1 else "")
    return sick[:ALL_SHOWN], f"  {told}{well}"


def _fitting(metrics: Sequence[str], rows: Iterable[CaseRow], room: int) -> tuple[list[str], int]:
    """The metrics there is room for, those that fail first, and how wide a column may be."""
    names = max((cell_len(metric) for metric in metrics), default=_NARROWEST)
    for each in range(max(names, _NARROWEST), _NARROWEST - 1, -1):
        if sum(_GAP + min(each, max(_NARROWEST, cell_len(m))) for m in metrics) <= room:
            return list(metrics), each
    failing = {s.metric for row in rows for one in row.tries for s in one.scores if not s.passed}
    first = sorted(metrics, key=lambda metric: metric not in failing)
    return first[: max(1, room // (_NARROWEST + _GAP))], _NARROWEST


def _table(
    rows: Sequence[CaseRow], metrics: Sequence[str], each: int, name: int, *, repeated: bool
) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, _GAP, 0, 0))
    table.add_column("case", no_wrap=True, width=name + 2)
    if repeated:
        table.add_column("passes", no_wrap=True, justify="right")
    for metric in metrics:
        shown = min(each, max(_NARROWEST, cell_len(metric)))
        title = Text(shorten(metric, shown), no_wrap=True)
        table.add_column(title, no_wrap=True, justify="right", width=shown)
    for row in rows:
        mark, style = MARKS[row.verdict]
        cells = [Text.assemble((mark, style), " ", shorten(row.case, name))]
        if repeated:
            cells.append(Text(f"{row.passes}/{len(row.tries)}", _shade(row)))
        table.add_row(*cells, *(_value(row, metric) for metric in metrics))
    return table


def _shade(row: CaseRow) -> str:
    return "" if row.verdict is CaseVerdict.PASS else MARKS[row.verdict][1]


def _value(row: CaseRow, metric: str) -> Text:
    """A score; a dash where the metric does not apply, which is not the same as missing."""
    if metric not in row.values:
        return Text("—", "dim")
    value = row.values[metric]
    if value is None:
        return Text("missing", "yellow")
    failed = row.passed(metric) is False
    return Text(f"✗ {two(value)}", "red") if failed else Text(two(value))


def metric_table(report: EvalReport) -> Table:
    """The metrics with their means and intervals."""
    names = ["metric", "mean", "95 % interval", "threshold", "pass", "missing"]
    rows = [(each.metric, *metric_cells(each)) for each in report.metrics]
    # A column that says nothing only takes room.
    kept = [i for i in range(len(names)) if i < 3 or any(row[i] not in ("", "—") for row in rows)]
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, _GAP, 0, 0))
    for i in kept:
        right = i not in (0, 2)
        table.add_column(names[i], no_wrap=True, justify="right" if right else "left")
    for row in rows:
        loud = {5: "yellow"}
        table.add_row(*(Text(shorten(row[i], 40), loud.get(i, "")) for i in kept))
    return table
