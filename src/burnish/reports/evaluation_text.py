"""A measurement on a terminal: cases by metrics, what fails and why, what changed, the noise."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from burnish.core.formatting import counted, shorten
from burnish.reports.baseline import BaselineComparison, ChangeKind, Noise
from burnish.reports.evaluation import EvalReport
from burnish.reports.evaluation_cases import (
    CaseRow,
    CaseVerdict,
    Complaint,
    Trouble,
    complaints_of,
    unwell,
)
from burnish.reports.evaluation_page import (
    can_show,
    change_counts,
    change_words,
    interval,
    metric_cells,
    repeats_note,
    two,
)

_ALL_SHOWN = 40
"""Up to so many cases are shown whole; beyond, only those that do not pass."""
_NARROWEST = 8
_GAP = 2
_MARKS = {
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
    longest = max((cell_len(shorten(row.title, width)) for row in rows), default=4)
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
    if len(cases) <= _ALL_SHOWN:
        return list(cases), ""
    sick = [row for row in cases if row.verdict in (CaseVerdict.FAIL, CaseVerdict.MISSING)]
    well = f"{counted(len(cases) - len(sick), 'other case')} not shown"
    more = len(sick) - _ALL_SHOWN
    do = "does" if more == 1 else "do"
    beyond = f"… {counted(more, 'more case')} that {do} not pass, " if more > 0 else ""
    return sick[:_ALL_SHOWN], f"  {beyond}{well}"


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
    table = _plain()
    table.add_column("case", no_wrap=True, width=name + 2)
    if repeated:
        table.add_column("passes", no_wrap=True, justify="right")
    for metric in metrics:
        shown = min(each, max(_NARROWEST, cell_len(metric)))
        title = Text(shorten(metric, shown), no_wrap=True)
        table.add_column(title, no_wrap=True, justify="right", width=shown)
    for row in rows:
        mark, style = _MARKS[row.verdict]
        cells = [Text.assemble((mark, style), " ", shorten(row.title, name))]
        if repeated:
            shade = "" if row.verdict is CaseVerdict.PASS else style
            cells.append(Text(f"{row.passes}/{len(row.tries)}", shade))
        table.add_row(*cells, *(_value(row, metric) for metric in metrics))
    return table


def _value(row: CaseRow, metric: str) -> Text:
    """A score; a dash if the metric does not apply, which is different from missing."""
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
    columns = [
        i for i in range(len(names)) if i < 3 or any(row[i] not in ("", "—") for row in rows)
    ]
    table = _plain()
    for i in columns:
        table.add_column(names[i], no_wrap=True, justify="left" if i in (0, 2) else "right")
    for row in rows:
        table.add_row(*(Text(shorten(row[i], 40), "yellow" if i == 5 else "") for i in columns))
    return table


_SHOWN = 20
_REPLIES = 3
"""Of one case: many repeats may fail in as many ways."""
_MOVES = (ChangeKind.NEW_FAIL, ChangeKind.NEW_PASS, ChangeKind.DOWN, ChangeKind.UP)


def troubles(report: EvalReport, width: int) -> Iterator[RenderableType]:
    """Every case that does not pass: expected and actual, then each metric with its reason."""
    sick = unwell(report.cases)
    for row in sick[:_SHOWN]:
        mark, style = _MARKS[row.verdict]
        yield Text(f"{mark} {shorten(row.title, width - 2)}", f"bold {style}")
        exchanges = list(_by_exchange(row).items())
        for exchange, complaints in exchanges[:_REPLIES]:
            yield _exchange(exchange, complaints, len(row.tries), width)
        if len(exchanges) > _REPLIES:
            more = len(exchanges) - _REPLIES
            yield Text(f"  … {more} more such {'reply' if more == 1 else 'replies'}", "dim")
    if len(sick) > _SHOWN:
        more = counted(len(sick) - _SHOWN, "case")
        yield Text(f"… and {more} more; --json FILE and report.md have them all", "dim")


_ExchangeKey = tuple[int | None, str | None, str]


def _by_exchange(row: CaseRow) -> dict[_ExchangeKey, list[Complaint]]:
    """Complaints grouped by the reply they are about."""
    exchanges: dict[_ExchangeKey, list[Complaint]] = {}
    for each in sorted(complaints_of(row), key=lambda each: each.trouble is not Trouble.MISSING):
        exchanges.setdefault((each.turn, each.expected, each.actual), []).append(each)
    return exchanges


def _exchange(exchange: _ExchangeKey, complaints: list[Complaint], tries: int, width: int) -> Table:
    turn, expected, actual = exchange
    named = max(cell_len(each.named) for each in complaints)
    label = min(max(8, named), max(10, width // 4))
    room = width - label - 4
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, width=label + 2)
    table.add_column(overflow="fold")
    if turn is not None:
        table.add_row(Text(f"  turn {turn + 1}", "dim"), "")
    if expected is not None:
        table.add_row(Text("  expected", "dim"), _excerpt(expected, room))
    if complaints[0].trouble is not Trouble.CRASHED and complaints[0].metric:
        table.add_row(Text("  actual", "dim"), _excerpt(actual, room))
    for each in complaints:
        shade = "yellow" if each.trouble is Trouble.MISSING else ""
        value = two(each.value) if each.trouble is Trouble.FAILED else each.trouble.value
        often = f" in {each.tries} of {tries} repeats" if each.tries < tries else ""
        words = f"{value}{often}  {shorten(each.reason, 3 * room)}".rstrip()
        table.add_row(Text(f"  {shorten(each.named, label)}", shade), Text(words, shade))
    return table


def _excerpt(text: str, room: int) -> Text:
    return Text(shorten(text, room)) if text else Text("(empty)", "dim")


def baseline(comparison: BaselineComparison, width: int) -> Iterator[RenderableType]:
    """What changed since the baseline."""
    yield Text(f"since {shorten(comparison.baseline or 'the baseline', width - 6)}", "bold")
    yield Text(f"  {change_counts(comparison)}")
    moved = sorted(
        (one for one in comparison.cases if one.change in _MOVES),
        key=lambda one: _MOVES.index(one.change),
    )
    for one in moved[:_SHOWN]:
        bad = one.change in (ChangeKind.NEW_FAIL, ChangeKind.DOWN)
        head = Text(f"  {one.change.value:<9}", "red" if bad else "green")
        gap = f"{two(one.before)} → {two(one.after)}"
        yield head.append(f"{gap}  {shorten(one.case, width - 26)}", "default")
    if len(moved) > _SHOWN:
        yield Text(f"  … and {len(moved) - _SHOWN} more: --json FILE has them all", "dim")
    yield _changes(comparison, width)
    if comparison.silent:
        names = shorten(", ".join(comparison.silent), max(8, width - 48))
        yield Text(f"! scored before, but no case has a score now: {names}", "yellow")
    if note := repeats_note(comparison):
        yield Text(f"! {note}", "yellow")


def _changes(comparison: BaselineComparison, width: int) -> Table:
    table = _plain("metric", "cases", "before → after", "difference", "")
    for each in comparison.metrics:
        words = change_words(each)
        gap = f"{each.difference:+.2f} {interval(each.low, each.high)}"
        cells = (str(each.cases), f"{two(each.before)} → {two(each.after)}", gap)
        name = Text(shorten(each.metric, max(8, width - 61)))
        shade = {"worse": "red", "better": "green"}.get(words.split(";")[0], "")
        table.add_row(name, *map(Text, cells), Text(words, shade))
    return table


def noise(measured: Noise, width: int) -> Iterator[RenderableType]:
    """The noise floor, what the set can show, and the cases that are flaky."""
    yield Text(f"noise: the same agent, {measured.sweeps} sweeps over the same cases", "bold")
    table = _plain("", "cases", "mean of each sweep", "spread", "can show")
    names = max((cell_len(shorten(each.metric, 26)) for each in measured.metrics), default=0)
    for each in measured.metrics:
        sweeps = shorten(" ".join(map(two, each.sweeps)), max(18, width - names - 29))
        shown = (str(each.cases), sweeps, f"{each.spread:.3f}", can_show(each.can_show))
        table.add_row(Text(shorten(each.metric, 26)), *map(Text, shown))
    yield table
    for line in textwrap.wrap(_explained(measured), max(20, width)):
        yield Text(line, "dim")
    yield from _flaky(measured, width)


def _explained(measured: Noise) -> str:
    meaning = (
        "can show: the smallest true difference between two versions, one sweep each, that a "
        "paired comparison finds in 4 of 5 tries at 95 % confidence, by the noise seen here; "
        "versions that also disagree case by case need more"
    )
    if measured.careful is None:
        return meaning
    return f"{meaning} (pass rate {can_show(measured.careful)} if they agree only by chance)"


def _flaky(measured: Noise, width: int) -> Iterator[Text]:
    n = len(measured.flaky)
    if n:
        share = measured.changed
        flips = "" if share is None else f"; {share:.0%} do between two sweeps"
        yield Text(f"flaky: {counted(n, 'case')} change{'s' if n == 1 else ''} the verdict{flips}")
    elif measured.changed is not None:
        yield Text("flaky: no case changes its verdict")
    for each in sorted(measured.flaky, key=lambda one: one.passes / one.of)[:_SHOWN]:
        yield Text(f"  passes {each.passes} of {each.of}  {shorten(each.case, width - 20)}")
    if n > _SHOWN:
        yield Text(f"  … and {n - _SHOWN} more: --json FILE has them all", "dim")
    if measured.wavering:
        moves = (
            f"{counted(measured.wavering, 'case')} whose score changes but whose verdict does not"
        )
        yield Text(f"in addition, {moves}", "dim")


def _plain(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, _GAP, 0, 0))
    for name in names:
        table.add_column(name, no_wrap=True)
    return table
