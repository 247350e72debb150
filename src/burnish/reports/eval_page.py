"""The lines of a measurement while it runs, and the page about it."""

from collections.abc import Iterable, Iterator

from burnish.core.cases import Split
from burnish.core.errors import ConfigError
from burnish.core.sections import Facts, Heading, Listing, Section, Table, Text
from burnish.core.words import cell, counted, number, spending
from burnish.reports.eval_baseline import BaselineComparison
from burnish.reports.eval_failures import complaints_of, unwell
from burnish.reports.eval_noise import Noise
from burnish.reports.eval_report import NAME, EvalReport
from burnish.reports.eval_words import (
    can_show,
    change_counts,
    change_words,
    heading,
    interval,
    metric_cells,
    totals_lines,
    two,
    verdict,
)
from burnish.runs.events import Event, SessionBegun, Stopping, Warned
from burnish.runs.progress import ProgressLines
from burnish.runs.record import RunRecord, result_of

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

    stopping = "stopping; once more stops at once"

    def lines(self, event: Event, width: int) -> list[str]:
        """What an event means to a person, if anything."""
        shown = (*SessionBegun.kinds, *Stopping.kinds, *Warned.kinds)
        return super().lines(event, width) if event.kind in shown else []

    def beginning(self, begun: SessionBegun) -> str:
        """The first line of a run."""
        return f"{begun.target} · {counted(begun.cases.get(Split.TRAIN.value, 0), 'case')}"

    def going_on(self, begun: SessionBegun) -> str:
        """What a resume says."""
        del begun
        return "going on; nothing is paid twice"


def _short(run: RunRecord, reason: str) -> Iterator[Section]:
    ended = f" ({cell(reason, 160)})" if reason else ""
    yield Text.of(f"A measurement, {run.status}{ended}.")
    measured = result_of(run.baseline, "train")
    if measured is not None:
        means = measured.measurement.components.items()
        yield Table(("metric", "mean"), tuple((cell(name), number(mean)) for name, mean in means))
        lost = len(measured.measurement.missing_cases)
        missing = f"{counted(lost, 'case')} missing, in no mean" if lost else "nothing is missing"
        yield Text.of(f"{counted(measured.measurement.cases, 'case')}; {missing}.")
    yield Text.of(f"Spent {spending(run.spent)}.")


def _page(report: EvalReport) -> Iterator[Section]:
    yield Text.of(f"**{cell(heading(report), 200)}: {verdict(report)}**")
    yield Facts(tuple((label, cell(words, 200)) for label, words in totals_lines(report)))
    yield Heading("Metrics")
    heads = ("metric", "mean", "95 % interval", "threshold", "cases that pass", "missing")
    yield Table(heads, tuple((cell(e.metric), *metric_cells(e)) for e in report.metrics))
    if report.baseline is not None:
        yield from _baseline(report.baseline)
    if report.noise is not None:
        yield from _noise(report.noise)
    yield from _troubles(report)


def _baseline(comparison: BaselineComparison) -> Iterator[Section]:
    yield Heading(f"Since {cell(comparison.baseline) or 'the baseline'}")
    yield Text.of(f"{change_counts(comparison)}.")
    rows = (
        (
            cell(each.metric),
            str(each.cases),
            two(each.before),
            two(each.after),
            f"{each.difference:+.3f} {interval(each.low, each.high)}",
            change_words(each),
        )
        for each in comparison.metrics
    )
    yield Table(("metric", "cases", "before", "after", "difference", ""), tuple(rows))
    if comparison.silent:
        names = cell(", ".join(comparison.silent))
        yield Text.of(f"Scored before, and says nothing now: {names}.")


def _noise(noise: Noise) -> Iterator[Section]:
    yield Heading(f"Noise over {noise.sweeps} sweeps")
    rows = (
        (
            cell(each.metric),
            str(each.cases),
            " ".join(map(two, each.sweeps)),
            f"{each.spread:.3f}",
            can_show(each.can_show),
        )
        for each in noise.metrics
    )
    yield Table(("", "cases", "sweeps", "spread", "can show"), tuple(rows))
    yield Listing(
        tuple(f"{cell(each.case)}: passes {each.passes} of {each.of}" for each in noise.flaky),
        lead=f"{counted(len(noise.flaky), 'case')} with a verdict that changes.",
    )


def _troubles(report: EvalReport) -> Iterator[Section]:
    sick = unwell(report.cases)
    if not sick:
        return
    rows: list[tuple[str, ...]] = []
    for row in sick[:_SHOWN]:
        for each in complaints_of(row):
            texts = (row.case, each.where, each.reason or each.trouble, each.expected or "—")
            rows.append(tuple(cell(text, 160) for text in (*texts, each.actual or "—")))
    yield Heading("What does not pass")
    yield Table(("case", "where", "what", "expected", "actual"), tuple(rows))
    if len(sick) > _SHOWN:
        yield Text.of(f"… and {counted(len(sick) - _SHOWN, 'case')} more: {NAME} has them all.")
