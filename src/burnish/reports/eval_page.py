"""report.md of a measurement."""

from collections.abc import Iterator

from burnish.core.errors import ConfigError
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
from burnish.runs.record import RunRecord, result_of

_SHOWN = 200


def measurement_page(run: RunRecord) -> str:
    """The report of a measurement, or what is known of one that did not end."""
    try:
        told = _page(EvalReport.read(run.folder)) if (run.folder / NAME).exists() else _short(run)
        lines = list(told)
    except ConfigError:
        lines = list(_short(run))
    return "\n".join([f"# {run.header.id}", "", *lines]) + "\n"


def _short(run: RunRecord) -> Iterator[str]:
    reason = f" ({cell(run.reason, 160)})" if run.reason else ""
    yield f"A measurement, {run.status}{reason}."
    measured = result_of(run.baseline, "train")
    if measured is not None:
        yield from ("", "| metric | mean |", "|---|---|")
        for metric, value in measured.measurement.components.items():
            yield f"| {cell(metric)} | {number(value)} |"
        lost = len(measured.measurement.missing_cases)
        told = f"{counted(lost, 'case')} missing, in no mean" if lost else "nothing is missing"
        yield from ("", f"{counted(measured.measurement.cases, 'case')}; {told}.")
    yield from ("", f"Spent {spending(run.spent)}.")


def _page(report: EvalReport) -> Iterator[str]:
    yield f"**{cell(heading(report), 200)}: {verdict(report)}**"
    yield from ("", "| | |", "|---|---|")
    for label, told in totals_lines(report):
        yield f"| {label} | {cell(told, 200)} |"
    yield from ("", "## Metrics", "")
    yield "| metric | mean | 95 % interval | threshold | cases that pass | missing |"
    yield "|---|---|---|---|---|---|"
    for each in report.metrics:
        yield f"| {cell(each.metric)} | {' | '.join(metric_cells(each))} |"
    if report.baseline is not None:
        yield from _baseline(report.baseline)
    if report.noise is not None:
        yield from _noise(report.noise)
    yield from _troubles(report)


def _baseline(found: BaselineComparison) -> Iterator[str]:
    yield from ("", f"## Since {cell(found.baseline) or 'the baseline'}", "")
    yield f"{change_counts(found)}."
    yield from (
        "",
        "| metric | cases | before | after | difference | |",
        "|---|---|---|---|---|---|",
    )
    for each in found.metrics:
        gap = f"{each.difference:+.3f} {interval(each.low, each.high)}"
        ends = f"{two(each.before)} | {two(each.after)}"
        yield f"| {cell(each.metric)} | {each.cases} | {ends} | {gap} | {change_words(each)} |"
    if found.silent:
        yield from ("", f"Scored before, and says nothing now: {cell(', '.join(found.silent))}.")


def _noise(found: Noise) -> Iterator[str]:
    yield from ("", f"## Noise over {found.sweeps} sweeps", "")
    yield from ("| | cases | sweeps | spread | can show |", "|---|---|---|---|---|")
    for each in found.metrics:
        sweeps = " ".join(map(two, each.sweeps))
        shown = f"{each.spread:.3f} | {can_show(each.can_show)}"
        yield f"| {cell(each.metric)} | {each.cases} | {sweeps} | {shown} |"
    yield from ("", f"{counted(len(found.flaky), 'case')} with a verdict that changes.")
    for flaky in found.flaky:
        yield f"- {cell(flaky.case)}: passes {flaky.passes} of {flaky.of}"


def _troubles(report: EvalReport) -> Iterator[str]:
    sick = unwell(report.cases)
    if not sick:
        return
    yield from ("", "## What does not pass", "", "| case | where | what | expected | actual |")
    yield "|---|---|---|---|---|"
    for row in sick[:_SHOWN]:
        for each in complaints_of(row):
            texts = (row.case, each.where, each.reason or each.trouble, each.expected or "—")
            shown = (*texts, each.actual or "—")
            yield f"| {' | '.join(cell(text, 160) for text in shown)} |"
    if len(sick) > _SHOWN:
        yield from ("", f"… and {counted(len(sick) - _SHOWN, 'case')} more: {NAME} has them all.")
