"""report.md of a run of coordinate descent: seed 000's eight parts, the sealed test first."""

from collections.abc import Iterator

from burnish.reports.coordinate_changes import changed_files, rationales
from burnish.reports.coordinate_gains import attribution
from burnish.reports.coordinate_method import adoption, holdout_skipped, method, repeats_used
from burnish.reports.coordinate_trajectory import trajectory
from burnish.reports.reading import RunRecord, loss_of, result_of
from burnish.reports.report_parts import SPLITS, headline, missing_cases, silence_rows
from burnish.reports.words import cell, counted, duration, number, spending


def coordinate_page(run: RunRecord) -> str:
    """The report as Markdown."""
    parts = (
        headline(run),
        holdout_skipped(run),
        _summary(run),
        trajectory(run),
        attribution(run),
        _metrics(run),
        changed_files(run),
        rationales(run),
        adoption(run),
        method(run),
    )
    return "\n".join(line for part in parts for line in part) + "\n"


def _summary(run: RunRecord) -> Iterator[str]:
    yield from ("## Result", "", "| | |", "|---|---|")
    yield f"| status | {run.status} |"
    yield f"| exit reason | {cell(run.reason, 200) or '—'} |"
    for split in SPLITS:
        yield f"| {split} loss | {_fall(run, split)} |"
    yield f"| trials | {run.trials}, {run.accepted} accepted |"
    yield f"| repeats | {', '.join(map(str, repeats_used(run))) or '—'} |"
    yield from silence_rows(run)
    if lost := missing_cases(run):
        yield f"| missing | {counted(lost, 'case')} over all trials, in no mean and never a 0 |"
    yield f"| spent | {spending(run.spent)} |"
    if run.billed != run.spent:
        yield f"| billed | {spending(run.billed)} (with calls that were lost or not used) |"
    yield f"| time | {duration(run.active_seconds)} |"


def _fall(run: RunRecord, split: str) -> str:
    """`0.969 → 0.125 (−87.1 %)`."""
    before, after = (loss_of(row, split) for row in (run.baseline, run.best))
    told = f"{number(before)} → {number(after)}"
    if before is None or after is None or before <= 0:
        return told
    return f"{told} ({100 * (after - before) / before:+.1f} %)".replace("-", "−")


def _metrics(run: RunRecord) -> Iterator[str]:
    """Per metric, baseline to best, on both splits."""
    yield from ("", "## Metrics", "")
    yield "| metric | train | change | holdout | change |"
    yield "|---|---|---|---|---|"
    sides = {split: tuple(_means(run, split)) for split in SPLITS}
    for name in sorted({name for pair in sides.values() for side in pair for name in side}):
        cells = (_moved(*(side.get(name) for side in sides[split])) for split in SPLITS)
        yield f"| {cell(name, 60)} | {' | '.join(cells)} |"


def _means(run: RunRecord, split: str) -> Iterator[dict[str, float]]:
    """Each metric's mean and the share of cases that pass: of the baseline, then of the best."""
    for row in (run.baseline, run.best):
        result = result_of(row, split)
        if result is None:
            yield {}
            continue
        rate = result.measurement.pass_rate
        passing = {} if rate is None else {"share of cases that pass": rate}
        yield {**result.measurement.components, **passing}


def _moved(before: float | None, after: float | None) -> str:
    """`0.031 → 1.000 | +0.969`."""
    change = "—" if before is None or after is None else f"{after - before:+z.3f}"
    return f"{number(before)} → {number(after)} | {change.replace('-', '−')}"
