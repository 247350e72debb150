"""A grid in words and tables: on a terminal, in report.md, and for those who review a change."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table as RichTable
from rich.text import Text as RichText

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
from burnish.reports.evaluation_page import change_words, interval, two
from burnish.reports.grid import GridColumn, GridReport

ON_FRONTIER = "◆"
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
    yield from _compared(report)
    on_it = [str(each.number) for each in report.columns if each.frontier]
    unpriced = [str(each.number) for each in report.standing if each.usd is None]
    if on_it:
        beyond = f"; without a known price: {', '.join(unpriced)}" if unpriced else ""
        about = "no other column scores higher for less, by these means alone"
        yield "frontier", f"{ON_FRONTIER} {', '.join(on_it)}: {about}{beyond}"
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


def _compared(report: GridReport) -> Iterator[tuple[str, str]]:
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
        mark = ON_FRONTIER if each.frontier else "✗" if each.failure and not each.waits else " "
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
        mark = f"{each.number} {ON_FRONTIER}" if each.frontier else str(each.number)
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
