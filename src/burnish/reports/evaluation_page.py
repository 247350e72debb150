"""A measurement in words: while it runs, its verdict and totals, its page, and on a terminal."""

import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table as RichTable
from rich.text import Text as RichText

from burnish.core.cases import Split
from burnish.core.comparisons import commonest_reason
from burnish.core.errors import ConfigError
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
    number,
    shorten,
    spending,
)
from burnish.reports.baseline import BaselineComparison, ChangeKind, MetricChange, Noise
from burnish.reports.evaluation import NAME, EvalReport, MetricSummary, Totals
from burnish.reports.evaluation_cases import (
    CaseRow,
    CaseVerdict,
    Complaint,
    Trouble,
    complaints_of,
    unwell,
)
from burnish.runs.directory import RunRecord, result_of
from burnish.runs.events import Event, SessionBegun, Stopping, Warned
from burnish.runs.progress import ProgressLines
from burnish.runs.report_sections import WHOLE_REASON

# -- Sentences and the page ------------------------------------------------------------------------


def heading(report: EvalReport) -> str:
    """`refunds · 16 cases × 3 repeats`."""
    totals = report.totals
    tries = f" × {totals.repeats} repeats" if totals.repeats > 1 else ""
    return f"{report.about.agent} · {counted(totals.cases, 'case')}{tries}"


def verdict(report: EvalReport) -> str:
    """Whether the thresholds hold, in one sentence; what is missing is always said."""
    totals = report.totals
    lost = f"{counted(totals.missing, 'case')} {'is' if totals.missing == 1 else 'are'} missing"
    unjudged = counted(totals.unjudged, "case")
    tail = f"; on {unjudged} no metric gives a verdict" if totals.unjudged else ""
    if totals.failed:
        fail = "fails" if totals.failed == 1 else "fail"
        failed = f"failed: {totals.failed} of {counted(totals.cases, 'case')} {fail}"
        return f"{failed}{f', and {lost}' if totals.missing else ''}{tail}"
    if totals.missing:
        others = "the other one passes" if totals.passed == 1 else f"the other {totals.passed} pass"
        rest = f", {others}" if totals.passed else ""
        return f"cannot tell: {lost}{rest}{tail}"
    if not totals.passed:
        return "cannot tell: no metric gives a verdict on any case"
    every = f" in all {totals.repeats} repeats" if totals.repeats > 1 else ""
    if totals.passed == 1:
        return f"passed: the one case with a verdict passes{every}{tail}"
    return f"passed: all {totals.passed} cases pass{every}{tail}"


def totals_lines(report: EvalReport) -> Iterator[tuple[str, str]]:
    """Counts, rates, latency, money."""
    totals = report.totals
    yield "cases", _counts(totals)
    if (share := totals.pass_rate) is not None:
        of = "" if share.of == totals.cases else f" of the {share.of:,} with a verdict"
        every = f" in all {totals.repeats} repeats" if totals.repeats > 1 else ""
        yield "passing", f"{share}{of}{every}"
    if totals.tries is not None and totals.tries.one is not None:
        rates, k = totals.tries, totals.tries.k
        single = f"single run {two(rates.one)}, any of {k} {two(rates.any_of_k)} (pass@{k})"
        yield "repeats", f"{single}, all of {k} {two(rates.all_of_k)} (pass^{k})"
    if totals.crashed:
        crashed = counted(totals.crashed, "case")
        yield "crashed", f"{crashed} in which the agent itself failed: they score 0 in every metric"
        if common := commonest_reason(row.why_crashed for row in report.cases):
            yield "because", f"in {common}"
    if totals.missing:
        yield (
            "missing",
            f"{counted(totals.missing, 'case')}: not in any mean, and never counted as 0",
        )
        if common := commonest_reason(row.why_missing for row in report.cases):
            yield "because", f"in {common}"
    yield from _silent(report.metrics)
    if totals.seconds_p50 is not None and totals.seconds_p95 is not None:
        p50, p95 = duration(totals.seconds_p50), duration(totals.seconds_p95)
        yield "latency", f"p50 {p50}, p95 {p95} a case"
    if totals.tokens_in or totals.tokens_out:
        yield "tokens", f"{totals.tokens_in:,} in, {totals.tokens_out:,} out, by the agent"
    yield "spent", spending(totals.spent)
    if totals.billed != totals.spent:
        yield "billed", f"{spending(totals.billed)}, with calls that were lost or not used"


def _silent(metrics: Iterable[MetricSummary]) -> Iterator[tuple[str, str]]:
    for each in metrics:
        if each.silent:
            why = f": it needs {each.needs}" if each.needs else ""
            yield "no score", f"{each.metric} applies to no case{why}"


def _counts(totals: Totals) -> str:
    named = (
        (totals.passed, "passed"),
        (totals.failed, "failed"),
        (totals.missing, "missing"),
        (totals.unjudged, "without a verdict"),
    )
    counts = ", ".join(f"{n:,} {word}" for n, word in named if n or word == "passed")
    return f"{counts}, of {totals.cases:,}"


def interval(low: float | None, high: float | None) -> str:
    """`[0.64, 0.97]`, or a dash."""
    return "—" if low is None or high is None else f"[{low:z.2f}, {high:z.2f}]"


def metric_cells(each: MetricSummary) -> tuple[str, str, str, str, str]:
    """A metric in a table: mean, interval, threshold, passing, missing."""
    passed = "—" if each.passed is None else f"{each.passed.count} of {each.passed.of}"
    bar = "—" if each.threshold is None else f"{each.threshold:g}"
    lost = f"{each.missing} of {each.cases + each.missing}" if each.missing else ""
    return two(each.mean), interval(each.low, each.high), bar, passed, lost


def two(value: float | None) -> str:
    """Two decimals, or a dash."""
    return "—" if value is None else f"{value:z.2f}"


def change_counts(comparison: BaselineComparison) -> str:
    """`1 new pass, 2 new fail, 13 unchanged`."""
    counts = [f"{n} {kind.value}" for kind in ChangeKind if (n := comparison.counts.get(kind, 0))]
    return ", ".join(counts) or "no case on either side"


def change_words(each: MetricChange) -> str:
    """What a difference is worth."""
    lost = f"; no longer a score in {counted(each.lost, 'case')}" if each.lost else ""
    if not each.moved:
        return f"no case moved{lost}"
    if each.distinguishable:
        return f"{'better' if each.difference > 0 else 'worse'}{lost}"
    return f"may be chance{lost}"


def regression(report: EvalReport) -> str:
    """Whether something is worse than in the baseline, beyond chance, in words."""
    compared = report.baseline
    assert compared is not None
    if compared.regressions:
        return f"a regression: {'; '.join(compared.regressions)}"
    gone = compared.counts.get(ChangeKind.ONLY_THERE, 0)
    other = compared.counts.get(ChangeKind.REWRITTEN, 0)
    left = f"; of its cases {gone} are gone and {other} rewritten" if gone or other else ""
    lost = [f"{counted(report.totals.missing, 'case')} missing"] if report.totals.missing else []
    if unknown := [*compared.unknown, *lost]:
        return f"cannot tell: {'; '.join(unknown)}{left}"
    return f"no regression: nothing is worse beyond chance{left}"


def repeats_note(comparison: BaselineComparison) -> str:
    """Said where the two sides were repeated differently."""
    before, now = comparison.repeats
    if before == now or not before:
        return ""
    sides = f"the baseline had {counted(before, 'repeat')}, this has {now}"
    return f"{sides}: the more repeats, the harder it is to pass them all"


def _can_show(value: float | None) -> str:
    """The smallest difference, or `nothing`."""
    return "nothing" if value is None or not math.isfinite(value) else f"{value:.2f}"


_SHOWN = 200


def evaluation_page(run: RunRecord, reason: str) -> Iterable[Section]:
    """The report of a measurement, or what is known of one that did not end."""
    title = Heading(run.header.id, level=1)
    try:
        if (run.folder / NAME).exists():
            return [title, *_page(EvalReport.read(run.folder))]
    except ConfigError:
        pass
    return [title, *_short(run, reason)]


class MeasureLines(ProgressLines):
    """Nothing but the beginning, and what a user should know: the results are a table."""

    def lines(self, event: Event, width: int) -> list[str]:
        shown = (*SessionBegun.kinds, *Stopping.kinds, *Warned.kinds)
        return super().lines(event, width) if event.kind in shown else []

    def beginning(self, begun: SessionBegun) -> str:
        cases = counted(begun.cases.get(Split.TRAIN.value, 0), "case")
        return f"{begun.title or begun.target} · {cases}"

    def going_on(self, begun: SessionBegun) -> str:
        del begun
        return "resuming; nothing is paid for twice"

    def stopping(self) -> str:
        return "stopping; a second Ctrl-C stops at once"


_METRIC_HEADS = ("metric", "mean", "95 % interval", "threshold", "cases that pass", "missing")
_CHANGE_HEADS = ("metric", "cases", "before", "after", "difference", "")
_NAMED = 20
"""Cases of one kind that a summary names."""


def summary(report: EvalReport) -> Iterator[Section]:
    """What reviewers of a change want to know: the verdict, what moved and how surely, the cost.

    Names are code, since where this is posted they could be mentions, links or images.
    """
    yield Heading(f"{_code(report.about.agent)} {verdict(report)}", level=3)
    compared = report.baseline
    if compared is None:
        yield Table(
            _METRIC_HEADS, tuple((_code(e.metric), *metric_cells(e)) for e in report.metrics)
        )
    else:
        changes = ((_code(each.metric), *_change_cells(each)) for each in compared.metrics)
        yield Table(_CHANGE_HEADS, tuple(changes))
        for lead, kind in (("Fixed", ChangeKind.NEW_PASS), ("Broken", ChangeKind.NEW_FAIL)):
            yield from _named(lead, [one.case for one in compared.cases if one.change is kind])
        yield Text.of(f"Since {_code(compared.baseline or 'the baseline')}: {regression(report)}.")
    shown = ("cases", "crashed", "missing", "latency", "spent")
    facts = ((label, words) for label, words in totals_lines(report) if label in shown)
    yield Text.of(" · ".join(f"{label} {words}" for label, words in facts))


def _named(lead: str, cases: Sequence[str]) -> Iterator[Section]:
    if cases:
        more = f" and {len(cases) - _NAMED:,} more" if len(cases) > _NAMED else ""
        names = ", ".join(map(_code, cases[:_NAMED]))
        yield Text.of(f"{lead}, {counted(len(cases), 'case')}: {names}{more}")


def _code(text: str) -> str:
    return "`" + shorten(text, 60).replace("`", "'").replace("|", "\\|") + "`"


def _short(run: RunRecord, reason: str) -> Iterator[Section]:
    ended = f" ({cell(reason, WHOLE_REASON)})" if reason else ""
    yield Text.of(f"A measurement, {run.status}{ended}.")
    measured = result_of(run.baseline, "train")
    if measured is not None:
        means = measured.measurement.components.items()
        yield Table(("metric", "mean"), tuple((cell(name), number(mean)) for name, mean in means))
        lost = len(measured.measurement.missing_cases)
        missing = (
            f"{counted(lost, 'case')} missing, not in any mean" if lost else "nothing is missing"
        )
        yield Text.of(f"{counted(measured.measurement.cases, 'case')}; {missing}.")
    yield Text.of(f"Spent {spending(run.spent)}.")


def _page(report: EvalReport) -> Iterator[Section]:
    yield Text.of(f"**{cell(heading(report), 200)}: {verdict(report)}**")
    yield Facts(tuple((label, cell(words, 200)) for label, words in totals_lines(report)))
    yield Heading("Metrics")
    yield Table(_METRIC_HEADS, tuple((cell(e.metric), *metric_cells(e)) for e in report.metrics))
    if report.baseline is not None:
        yield from _baseline(report.baseline)
    if report.noise is not None:
        yield from _noise(report.noise)
    yield from _troubles(report)


def _baseline(comparison: BaselineComparison) -> Iterator[Section]:
    yield Heading(f"Since {cell(comparison.baseline) or 'the baseline'}")
    yield Text.of(f"{change_counts(comparison)}.")
    rows = ((cell(each.metric), *_change_cells(each)) for each in comparison.metrics)
    yield Table(_CHANGE_HEADS, tuple(rows))
    if comparison.silent:
        names = cell(", ".join(comparison.silent))
        yield Text.of(f"Scored before, but not now: {names}.")


def _change_cells(each: MetricChange) -> tuple[str, ...]:
    moved = f"{each.difference:+.3f} {interval(each.low, each.high)}"
    return str(each.cases), two(each.before), two(each.after), moved, change_words(each)


def _noise(noise: Noise) -> Iterator[Section]:
    yield Heading(f"Noise over {noise.sweeps} sweeps")
    rows = (
        (
            cell(each.metric),
            str(each.cases),
            " ".join(map(two, each.sweeps)),
            f"{each.spread:.3f}",
            _can_show(each.can_show),
        )
        for each in noise.metrics
    )
    yield Table(("", "cases", "sweeps", "spread", "can show"), tuple(rows))
    yield Listing(
        tuple(f"{cell(each.case)}: passes {each.passes} of {each.of}" for each in noise.flaky),
        lead=f"{counted(len(noise.flaky), 'case')} whose verdict changes.",
    )


def _troubles(report: EvalReport) -> Iterator[Section]:
    sick = unwell(report.cases)
    if not sick:
        return
    rows: list[tuple[str, ...]] = []
    for row in sick[:_SHOWN]:
        for each in complaints_of(row):
            texts = (row.title, each.where, each.reason or each.trouble, each.expected or "—")
            rows.append(tuple(cell(text, 160) for text in (*texts, each.actual or "—")))
    yield Heading("What does not pass")
    yield Table(("case", "where", "what", "expected", "actual"), tuple(rows))
    if len(sick) > _SHOWN:
        yield Text.of(f"… and {counted(len(sick) - _SHOWN, 'case')} more: {NAME} has them all.")


# -- On a terminal ---------------------------------------------------------------------------------


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
        yield RichText(f"  {counted(len(metrics) - len(shown), 'more metric')}: see below", "dim")
    if left_out:
        yield RichText(left_out, "dim")


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
) -> RichTable:
    table = _plain()
    table.add_column("case", no_wrap=True, width=name + 2)
    if repeated:
        table.add_column("passes", no_wrap=True, justify="right")
    for metric in metrics:
        shown = min(each, max(_NARROWEST, cell_len(metric)))
        title = RichText(shorten(metric, shown), no_wrap=True)
        table.add_column(title, no_wrap=True, justify="right", width=shown)
    for row in rows:
        mark, style = _MARKS[row.verdict]
        cells = [RichText.assemble((mark, style), " ", shorten(row.title, name))]
        if repeated:
            shade = "" if row.verdict is CaseVerdict.PASS else style
            cells.append(RichText(f"{row.passes}/{len(row.tries)}", shade))
        table.add_row(*cells, *(_value(row, metric) for metric in metrics))
    return table


def _value(row: CaseRow, metric: str) -> RichText:
    """A score; a dash if the metric does not apply, which is different from missing."""
    if metric not in row.values:
        return RichText("—", "dim")
    value = row.values[metric]
    if value is None:
        return RichText("missing", "yellow")
    failed = row.passed(metric) is False
    return RichText(f"✗ {two(value)}", "red") if failed else RichText(two(value))


def metric_table(report: EvalReport) -> RichTable:
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
        table.add_row(*(RichText(shorten(row[i], 40), "yellow" if i == 5 else "") for i in columns))
    return table


_SHOWN_THERE = 20
_REPLIES = 3
"""Of one case: many repeats may fail in as many ways."""
_MOVES = (ChangeKind.NEW_FAIL, ChangeKind.NEW_PASS, ChangeKind.DOWN, ChangeKind.UP)


def troubles(report: EvalReport, width: int) -> Iterator[RenderableType]:
    """Every case that does not pass: expected and actual, then each metric with its reason."""
    sick = unwell(report.cases)
    for row in sick[:_SHOWN_THERE]:
        mark, style = _MARKS[row.verdict]
        yield RichText(f"{mark} {shorten(row.title, width - 2)}", f"bold {style}")
        exchanges = list(_by_exchange(row).items())
        for exchange, complaints in exchanges[:_REPLIES]:
            yield _exchange(exchange, complaints, len(row.tries), width)
        if len(exchanges) > _REPLIES:
            more = len(exchanges) - _REPLIES
            yield RichText(f"  … {more} more such {'reply' if more == 1 else 'replies'}", "dim")
    if len(sick) > _SHOWN_THERE:
        more = counted(len(sick) - _SHOWN_THERE, "case")
        yield RichText(f"… and {more} more; --json FILE and report.md have them all", "dim")


_ExchangeKey = tuple[int | None, str | None, str]


def _by_exchange(row: CaseRow) -> dict[_ExchangeKey, list[Complaint]]:
    """Complaints grouped by the reply they are about."""
    exchanges: dict[_ExchangeKey, list[Complaint]] = {}
    for each in sorted(complaints_of(row), key=lambda each: each.trouble is not Trouble.MISSING):
        exchanges.setdefault((each.turn, each.expected, each.actual), []).append(each)
    return exchanges


def _exchange(
    exchange: _ExchangeKey, complaints: list[Complaint], tries: int, width: int
) -> RichTable:
    turn, expected, actual = exchange
    named = max(cell_len(each.named) for each in complaints)
    label = min(max(8, named), max(10, width // 4))
    room = width - label - 4
    table = RichTable.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, width=label + 2)
    table.add_column(overflow="fold")
    if turn is not None:
        table.add_row(RichText(f"  turn {turn + 1}", "dim"), "")
    if expected is not None:
        table.add_row(RichText("  expected", "dim"), _excerpt(expected, room))
    if complaints[0].trouble is not Trouble.CRASHED and complaints[0].metric:
        table.add_row(RichText("  actual", "dim"), _excerpt(actual, room))
    for each in complaints:
        shade = "yellow" if each.trouble is Trouble.MISSING else ""
        value = two(each.value) if each.trouble is Trouble.FAILED else each.trouble.value
        often = f" in {each.tries} of {tries} repeats" if each.tries < tries else ""
        words = f"{value}{often}  {shorten(each.reason, 3 * room)}".rstrip()
        table.add_row(RichText(f"  {shorten(each.named, label)}", shade), RichText(words, shade))
    return table


def _excerpt(text: str, room: int) -> RichText:
    return RichText(shorten(text, room)) if text else RichText("(empty)", "dim")


def baseline(comparison: BaselineComparison, width: int) -> Iterator[RenderableType]:
    """What changed since the baseline."""
    yield RichText(f"since {shorten(comparison.baseline or 'the baseline', width - 6)}", "bold")
    yield RichText(f"  {change_counts(comparison)}")
    moved = sorted(
        (one for one in comparison.cases if one.change in _MOVES),
        key=lambda one: _MOVES.index(one.change),
    )
    for one in moved[:_SHOWN_THERE]:
        bad = one.change in (ChangeKind.NEW_FAIL, ChangeKind.DOWN)
        head = RichText(f"  {one.change.value:<9}", "red" if bad else "green")
        gap = f"{two(one.before)} → {two(one.after)}"
        yield head.append(f"{gap}  {shorten(one.case, width - 26)}", "default")
    if len(moved) > _SHOWN_THERE:
        yield RichText(f"  … and {len(moved) - _SHOWN_THERE} more: --json FILE has them all", "dim")
    yield _changes(comparison, width)
    if comparison.silent:
        names = shorten(", ".join(comparison.silent), max(8, width - 48))
        yield RichText(f"! scored before, but no case has a score now: {names}", "yellow")
    if note := repeats_note(comparison):
        yield RichText(f"! {note}", "yellow")


def _changes(comparison: BaselineComparison, width: int) -> RichTable:
    table = _plain("metric", "cases", "before → after", "difference", "")
    for each in comparison.metrics:
        words = change_words(each)
        gap = f"{each.difference:+.2f} {interval(each.low, each.high)}"
        cells = (str(each.cases), f"{two(each.before)} → {two(each.after)}", gap)
        name = RichText(shorten(each.metric, max(8, width - 61)))
        shade = {"worse": "red", "better": "green"}.get(words.split(";")[0], "")
        table.add_row(name, *map(RichText, cells), RichText(words, shade))
    return table


def noise(measured: Noise, width: int) -> Iterator[RenderableType]:
    """The noise floor, what the set can show, and the cases that are flaky."""
    yield RichText(f"noise: the same agent, {measured.sweeps} sweeps over the same cases", "bold")
    table = _plain("", "cases", "mean of each sweep", "spread", "can show")
    names = max((cell_len(shorten(each.metric, 26)) for each in measured.metrics), default=0)
    for each in measured.metrics:
        sweeps = shorten(" ".join(map(two, each.sweeps)), max(18, width - names - 29))
        shown = (str(each.cases), sweeps, f"{each.spread:.3f}", _can_show(each.can_show))
        table.add_row(RichText(shorten(each.metric, 26)), *map(RichText, shown))
    yield table
    for line in textwrap.wrap(_explained(measured), max(20, width)):
        yield RichText(line, "dim")
    yield from _flaky(measured, width)


def _explained(measured: Noise) -> str:
    meaning = (
        "can show: the smallest true difference between two versions, one sweep each, that a "
        "paired comparison finds in 4 of 5 tries at 95 % confidence, by the noise seen here; "
        "versions that also disagree case by case need more"
    )
    if measured.careful is None:
        return meaning
    return f"{meaning} (pass rate {_can_show(measured.careful)} if they agree only by chance)"


def _flaky(measured: Noise, width: int) -> Iterator[RichText]:
    n = len(measured.flaky)
    if n:
        share = measured.changed
        flips = "" if share is None else f"; {share:.0%} do between two sweeps"
        yield RichText(
            f"flaky: {counted(n, 'case')} change{'s' if n == 1 else ''} the verdict{flips}"
        )
    elif measured.changed is not None:
        yield RichText("flaky: no case changes its verdict")
    for each in sorted(measured.flaky, key=lambda one: one.passes / one.of)[:_SHOWN_THERE]:
        yield RichText(f"  passes {each.passes} of {each.of}  {shorten(each.case, width - 20)}")
    if n > _SHOWN_THERE:
        yield RichText(f"  … and {n - _SHOWN_THERE} more: --json FILE has them all", "dim")
    if measured.wavering:
        moves = (
            f"{counted(measured.wavering, 'case')} whose score changes but whose verdict does not"
        )
        yield RichText(f"in addition, {moves}", "dim")


def _plain(*names: str) -> RichTable:
    table = RichTable(box=None, pad_edge=False, header_style="bold", padding=(0, _GAP, 0, 0))
    for name in names:
        table.add_column(name, no_wrap=True)
    return table
