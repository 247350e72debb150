"""report.md of a reflective search: what was found, how it was come by, and every trial."""

from collections.abc import Iterator

from burnish.core.trials import SplitResult, Trial, TrialRow
from burnish.core.words import cell, counted, duration, number, spending
from burnish.reports.coordinate_method import adoption
from burnish.reports.report_parts import changes_made, headline, missing_cases, why
from burnish.runs.record import RunRecord, loss_of, result_of
from burnish.runs.standing import BASELINE
from burnish.strategies.reflective.attempts import MERGE


def reflective_page(run: RunRecord) -> str:
    """The report as Markdown."""
    parts = (
        headline(run),
        _summary(run),
        _metrics(run),
        _way(run),
        changes_made(run),
        _trials(run),
        adoption(run),
        _method(run),
    )
    return "\n".join(line for part in parts for line in part) + "\n"


def _summary(run: RunRecord) -> Iterator[str]:
    yield from ("## Result", "", "| | |", "|---|---|")
    yield f"| status | {run.status} |"
    yield f"| exit reason | {cell(run.reason, 200) or '—'} |"
    before, after = (number(loss_of(row, "holdout")) for row in (run.baseline, run.best))
    yield f"| holdout loss | {before} → {after} |"
    yield f"| rounds | {max((row.trial.cycle for row in run.rows), default=0)} |"
    yield f"| trials | {run.trials}, {run.accepted} accepted{_of_these(run)} |"
    if lost := missing_cases(run):
        yield f"| missing | {counted(lost, 'case')} over all trials, in no mean and never a 0 |"
    yield f"| spent | {spending(run.spent)} |"
    if run.billed != run.spent:
        yield f"| billed | {spending(run.billed)} (with calls that were lost or not used) |"
    yield f"| time | {duration(run.active_seconds)} |"


def _of_these(run: RunRecord) -> str:
    """What became of the others."""
    trials = [row.trial for row in run.rows if row.trial.phase != BASELINE]
    counts = {
        "kept to build on": sum(trial.kept for trial in trials),
        "lucky once and not twice": sum(_code(trial) == "luck" for trial in trials),
        "lost a race early": sum(_code(trial) in ("hopeless", "futile") for trial in trials),
        "merges": sum(trial.phase == MERGE for trial in trials),
        "without a proposal": sum(_nothing_proposed(trial) for trial in trials),
    }
    return "".join(f", {count} {what}" for what, count in counts.items() if count)


def _metrics(run: RunRecord) -> Iterator[str]:
    yield from ("", "## Metrics on holdout", "", "| metric | baseline | best |", "|---|---|---|")
    sides = [_means(result_of(row, "holdout")) for row in (run.baseline, run.best)]
    for name in sorted({name for side in sides for name in side}):
        yield f"| {cell(name, 60)} | {' | '.join(number(side.get(name)) for side in sides)} |"


def _means(result: SplitResult | None) -> dict[str, float]:
    if result is None:
        return {}
    rate = result.measurement.pass_rate
    passing = {} if rate is None else {"share of cases that pass": rate}
    return {**result.measurement.components, **passing}


def _way(run: RunRecord) -> Iterator[str]:
    """The rewrites that the best candidate descends from, each with what it was made for."""
    yield from ("", "## How it came about", "")
    steps = list(_steps(run))
    if not steps:
        yield "No rewrite was better than the baseline."
        return
    for row in steps:
        told = _diagnosis(row.trial) or row.trial.candidate.origin.note or "—"
        yield f"- trial {row.number}, {', '.join(row.trial.touched) or '—'}: {cell(told, 300)}"


def _steps(run: RunRecord) -> Iterator[TrialRow]:
    """The trials that made the best candidate and its ancestors, the first one first."""
    made: dict[str, TrialRow] = {}
    for row in run.rows:
        if row.trial.phase != BASELINE and not _nothing_proposed(row.trial):
            made.setdefault(row.trial.candidate.id, row)
    waiting = [run.best_candidate.id] if run.best_candidate is not None else []
    found: dict[int, TrialRow] = {}
    while waiting:
        row = made.get(waiting.pop())
        if row is not None and row.number not in found:
            found[row.number] = row
            waiting += row.trial.candidate.parents
    yield from (found[number] for number in sorted(found))


def _trials(run: RunRecord) -> Iterator[str]:
    yield from ("", "## Every trial", "")
    yield "| # | round | what | minibatch | holdout | decision |"
    yield "|---|---|---|---|---|---|"
    for row in run.rows:
        trial = row.trial
        what = trial.candidate.origin.note or ", ".join(trial.touched) or "—"
        told = why(trial)
        mark = "✓ " if trial.accepted else "↗ " if trial.kept else ""
        yield (
            f"| {row.number} | {trial.cycle} | {cell(what, 40)} | {_batch(row)} | "
            f"{_held(row)} | {mark}{cell(told, 160)} |"
        )
    yield ""
    yield (
        "Losses, low is good: on its minibatch the parent's and the candidate's; on holdout over "
        "as many cases as are named, or all. ✓ leads from here on, ↗ was built on."
    )


def _batch(row: TrialRow) -> str:
    before = row.trial.details.get("parent_score")
    if not isinstance(before, int | float):
        return "—"
    return f"{number(1 - before)} → {number(loss_of(row, 'train'))}"


def _held(row: TrialRow) -> str:
    held = row.trial.holdout
    if held is None:
        return "—"
    whole = row.trial.details.get("whole_holdout", True)
    part = "" if whole else f" ({counted(held.measurement.cases, 'case')})"
    return f"{number(held.measurement.loss)}{part}"


def _method(run: RunRecord) -> Iterator[str]:
    header = run.header
    cases = ", ".join(f"{split} {n}" for split, n in header.cases.items())
    yield from ("", "## Method", "")
    yield f"- strategy `{header.strategy}`, seed {header.seed}, burnish {header.burnish}"
    yield f"- cases: {cases}; train fed the reflections, holdout decided"
    yield "- a rewrite must beat its parent on a few train cases, then the leader on holdout"
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


def _diagnosis(trial: Trial) -> str:
    told = trial.details.get("diagnosis")
    return "; ".join(map(str, told.values())) if isinstance(told, dict) else ""


def _code(trial: Trial) -> str:
    return "" if trial.decision is None else trial.decision.code


def _nothing_proposed(trial: Trial) -> bool:
    failed = bool(trial.proposals) and all(each.answer is None for each in trial.proposals)
    return failed or bool(trial.details.get("skipped"))
