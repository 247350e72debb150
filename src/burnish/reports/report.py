"""report.md: what a person reads to decide whether to adopt the result."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from burnish.core.trials import SplitResult, TrialRow
from burnish.reports.backprop_page import backprop_page
from burnish.reports.coordinate_page import coordinate_page
from burnish.reports.delegation_page import PAGES, delegation_page
from burnish.reports.edits_page import edits_page
from burnish.reports.epochs_page import epochs_page
from burnish.reports.eval_page import measurement_page
from burnish.reports.reading import RunRecord, loss_of, result_of
from burnish.reports.reflective_page import reflective_page
from burnish.reports.report_parts import (
    SPLITS,
    changes_made,
    gains,
    headline,
    missing_cases,
    silence_rows,
    why,
)
from burnish.reports.words import (
    cell,
    counted,
    duration,
    number,
    sparkline,
    spending,
)
from burnish.runs.exporting import BEST, CANDIDATES
from burnish.runs.standing import BASELINE
from burnish.strategies.backprop.strategy import Backprop
from burnish.strategies.coordinate.strategy import Coordinate
from burnish.strategies.edits.strategy import Edits
from burnish.strategies.epochs.strategy import Epochs
from burnish.strategies.measure import Measure
from burnish.strategies.reflective.strategy import Reflective
from burnish.system import write_atomic

NAME = "report.md"


def write_report(folder: Path) -> Path:
    """Write report.md from what the journal holds."""
    path = folder / NAME
    write_atomic(path, render(RunRecord.read(folder)))
    return path


def render(run: RunRecord) -> str:
    """The report as Markdown."""
    if run.header.strategy == Measure.name:
        return measurement_page(run)
    if run.header.strategy == Coordinate.name:
        return coordinate_page(run)
    if run.header.strategy == Edits.name:
        return edits_page(run)
    if run.header.strategy == Reflective.name:
        return reflective_page(run)
    if run.header.strategy == Backprop.name:
        return backprop_page(run)
    if run.header.strategy == Epochs.name:
        return epochs_page(run)
    if run.header.strategy in PAGES:
        return delegation_page(run)
    parts = (
        headline(run),
        _summary(run),
        _trajectory(run),
        _attribution(run),
        _metrics(run),
        changes_made(run),
        _trials(run),
        _adopt(run),
        _method(run),
    )
    return "\n".join(line for part in parts for line in part) + "\n"


def _summary(run: RunRecord) -> Iterator[str]:
    yield "| | |"
    yield "|---|---|"
    reason = f" ({cell(run.reason, 160)})" if run.reason else ""
    yield f"| status | {run.status}{reason} |"
    for split in SPLITS:
        before, after = (number(loss_of(row, split)) for row in (run.baseline, run.best))
        yield f"| {split} loss | {before} → {after} |"
    yield f"| trials | {run.trials}, {run.accepted} accepted |"
    yield from silence_rows(run)
    if lost := missing_cases(run):
        yield f"| missing | {counted(lost, 'case')} over all trials, in no mean and never a 0 |"
    yield f"| spent | {spending(run.spent)} |"
    if run.billed != run.spent:
        yield f"| billed | {spending(run.billed)} (with calls that were lost or not used) |"
    yield f"| time | {duration(run.active_seconds)} |"


def _trajectory(run: RunRecord) -> Iterator[str]:
    yield from ("", "## Trajectory", "", "```")
    for split in SPLITS:
        yield f"{split:<8} {sparkline([loss_of(row, split) for row in run.rows])}".rstrip()
    marks = (row.trial.phase[:1] or " " for row in run.rows)
    yield f"{'phase':<8} {''.join(marks)}"
    ticks = "".join("✓" if row.trial.accepted else " " for row in run.rows)
    yield f"{'accepted':<8} {ticks}".rstrip()
    yield "```"
    yield ""
    yield "Loss by trial, low is good; one column a trial, the baseline first."


def _attribution(run: RunRecord) -> Iterator[str]:
    yield from ("", "## Where the gain came from", "")
    yield "| cycle | phase | trials | accepted | loss removed on train |"
    yield "|---|---|---|---|---|"
    won_by = gains(run)
    groups: dict[tuple[int, str], list[TrialRow]] = {}
    for row in run.rows:
        if row.trial.phase != BASELINE:
            groups.setdefault((row.trial.cycle, row.trial.phase), []).append(row)
    for (cycle, phase), rows in groups.items():
        won = [won_by[row.number] for row in rows if row.trial.accepted]
        known = [gain for gain in won if gain is not None]
        told = number(sum(known, 0.0)) if len(known) == len(won) else "—"
        yield f"| {cycle} | {cell(phase, 40)} | {len(rows)} | {len(won)} | {told} |"


def _metrics(run: RunRecord) -> Iterator[str]:
    yield from ("", "## Metrics on train", "", "| metric | baseline | best |", "|---|---|---|")
    results = [result_of(row, "train") for row in (run.baseline, run.best)]
    before, after = map(_components, results)
    for metric in sorted({*before, *after}):
        values = f"{number(before.get(metric))} | {number(after.get(metric))}"
        yield f"| {cell(metric, 60)} | {values} |"
    rates = [number(None if r is None else r.measurement.pass_rate) for r in results]
    yield f"| share of cases that pass | {rates[0]} | {rates[1]} |"


def _trials(run: RunRecord) -> Iterator[str]:
    yield from ("", "## Every trial", "")
    yield "| # | phase | what | train | holdout | decision |"
    yield "|---|---|---|---|---|---|"
    for row in run.rows:
        trial = row.trial
        what = trial.candidate.origin.note or ", ".join(trial.touched) or "—"
        told = why(trial)
        mark = "✓ " if trial.accepted else ""
        losses = " | ".join(number(loss_of(row, split)) for split in SPLITS)
        yield (
            f"| {row.number} | {cell(trial.phase, 40)} | {cell(what, 40)} | {losses} | "
            f"{mark}{cell(told, 160)} |"
        )


def _adopt(run: RunRecord) -> Iterator[str]:
    yield from ("", "## How to adopt", "")
    if run.accepted:
        yield f"The best candidate lies in `{CANDIDATES}/{BEST}/` of this folder, ready to copy."
    else:
        yield "There is nothing to adopt: what you have is the best that was found."


def _method(run: RunRecord) -> Iterator[str]:
    header = run.header
    cases = ", ".join(f"{split} {n}" for split, n in header.cases.items())
    decided = "holdout decided" if header.cases.get("holdout") else "no holdout: a training score"
    yield from ("", "## Method", "")
    yield f"- strategy `{header.strategy}`, seed {header.seed}, burnish {header.burnish}"
    yield f"- cases: {cases}; train fed the proposals, {decided}"
    if header.forked_from:
        yield f"- forked from `{header.forked_from}`: what that run had paid for was not paid again"
    if header.sealed_test == "spent":
        yield "- **the sealed test was read before by the run this one was forked from: its score"
        yield "  may flatter this result**"
    if run.sealed is not None and run.sealed.gain is not None:
        yield f"- gain [low, high]: the mean over {run.sealed.gain.cases} test cases and its 95 %"
        yield "  bootstrap interval"
    yield "- holdout and test should resemble what the agent meets in production; burnish cannot"
    yield "  see whether they do"
    yield "- the decisions can be replayed from the journal; the agent's own answers vary"


def _components(result: SplitResult | None) -> Mapping[str, float]:
    return {} if result is None else result.measurement.components
