"""report.md of back-propagation: what was patched and why, every round, and where losses led."""

from collections.abc import Iterator

from burnish.core.trials import SplitResult
from burnish.core.words import cell, counted, duration, number, spending
from burnish.reports.backprop_blame import crashes, failure_classes, landed, lost_answers
from burnish.reports.backprop_rounds import case_changes_made, patches_made, rounds_made
from burnish.reports.coordinate_method import adoption
from burnish.reports.report_parts import changes_made, headline, missing_cases, silence_rows
from burnish.runs.record import RunRecord, result_of


def backprop_page(run: RunRecord) -> str:
    """The report as Markdown."""
    parts = (
        headline(run),
        _summary(run),
        _metrics(run),
        changes_made(run),
        patches_made(run),
        rounds_made(run),
        landed(run),
        failure_classes(run),
        crashes(run),
        case_changes_made(run),
        lost_answers(run),
        adoption(run),
        _method(run),
    )
    return "\n".join(line for part in parts for line in part) + "\n"


def _summary(run: RunRecord) -> Iterator[str]:
    yield from ("## Result", "", "| | |", "|---|---|")
    yield f"| status | {run.status} |"
    yield f"| exit reason | {cell(run.reason, 200) or '—'} |"
    before, after = (_score(result_of(row, "holdout")) for row in (run.baseline, run.best))
    yield f"| holdout score | {number(before)} → {number(after)} |"
    rounds = max((row.trial.cycle for row in run.rows), default=0)
    yield f"| rounds | {rounds}, with {counted(run.trials, 'candidate')}, {run.accepted} accepted |"
    yield from silence_rows(run)
    if lost := missing_cases(run):
        yield f"| missing | {counted(lost, 'case')} over all rounds, in no mean and never a 0 |"
    yield f"| spent | {spending(run.spent)} |"
    if run.billed != run.spent:
        yield f"| billed | {spending(run.billed)} (with calls that were lost or not used) |"
    yield f"| time | {duration(run.active_seconds)} |"


def _metrics(run: RunRecord) -> Iterator[str]:
    yield from ("", "## Metrics on holdout", "", "| metric | baseline | best |", "|---|---|---|")
    results = [result_of(row, "holdout") for row in (run.baseline, run.best)]
    sides = [dict(each.measurement.components) if each else dict[str, float]() for each in results]
    for name in sorted({name for side in sides for name in side}):
        yield f"| {cell(name, 60)} | {' | '.join(number(side.get(name)) for side in sides)} |"
    rates = [None if each is None else each.measurement.pass_rate for each in results]
    yield f"| share of cases that pass | {' | '.join(map(number, rates))} |"


def _score(result: SplitResult | None) -> float | None:
    return None if result is None else result.measurement.score


def _method(run: RunRecord) -> Iterator[str]:
    header = run.header
    cases = ", ".join(f"{split} {n}" for split, n in header.cases.items())
    yield from ("", "## Method", "")
    yield f"- strategy `{header.strategy}`, seed {header.seed}, burnish {header.burnish}"
    yield f"- cases: {cases}; losses come from train, holdout decided, and no role ever saw it"
    yield "- each failed metric is a loss at the step where its run ended; it is walked back step"
    yield "  by step, what is said of a surface is merged, and one patch a surface is tried"
    yield "- the score is the weighted mean of the metrics, high is good; holdout was looked at"
    yield "  once for each candidate, and each look wears it a little"
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
