"""report.md: what a person reads to decide whether to adopt the result."""

from collections.abc import Iterator
from pathlib import Path

from burnish.core.candidates import diff
from burnish.core.trials import SplitResult, TrialRow
from burnish.reports.reading import RunRecord
from burnish.reports.words import duration, number, sealed_words, shorten, sparkline, spending
from burnish.runs.directory import BEST, CANDIDATES
from burnish.system import write_atomic

NAME = "report.md"

_ADOPT = (
    "",
    "## How to adopt",
    "",
    f"The best candidate lies in `{CANDIDATES}/{BEST}/` of this folder, ready to copy.",
)


def write_report(folder: Path) -> Path:
    """Write report.md from what the journal holds."""
    path = folder / NAME
    write_atomic(path, render(RunRecord.read(folder)))
    return path


def render(run: RunRecord) -> str:
    """The report as Markdown."""
    parts = (
        _headline(run),
        _trajectory(run),
        _attribution(run),
        _metrics(run),
        _changes(run),
        _trials(run),
        _ADOPT,
        _method(run),
    )
    return "\n".join(line for part in parts for line in part) + "\n"


def _headline(run: RunRecord) -> Iterator[str]:
    yield f"# {run.header.id}"
    yield ""
    if run.sealed is not None:
        yield f"**Sealed test, looked at once: {sealed_words(run.sealed)}**"
    else:
        yield "**No sealed test was read: the numbers below chose the result and flatter it.**"
    yield ""
    yield "| | |"
    yield "|---|---|"
    yield f"| status | {run.status}{f' ({run.reason})' if run.reason else ''} |"
    for name, split in (("train", "train"), ("holdout", "holdout")):
        before, after = (_loss(row, split) for row in (run.baseline, run.best))
        yield f"| {name} loss | {before} → {after} |"
    accepted = sum(row.trial.accepted for row in run.rows)
    yield f"| trials | {max(0, len(run.rows) - 1)}, {accepted} accepted |"
    yield f"| spent | {spending(run.spent)} |"
    if run.billed != run.spent:
        yield f"| billed | {spending(run.billed)} (includes calls that were lost or not used) |"
    yield f"| time | {duration(run.active_seconds)} |"


def _trajectory(run: RunRecord) -> Iterator[str]:
    yield from ("", "## Trajectory", "", "```")
    for split in ("train", "holdout"):
        losses = [_split(row, split) for row in run.rows]
        known = [None if loss is None else loss.measurement.loss for loss in losses]
        yield f"{split:<8} {sparkline(known)}"
    marks = (row.trial.phase[:1] or " " for row in run.rows)
    yield f"{'phase':<8} {''.join(marks)}"
    ticks = "".join("✓" if row.trial.accepted else " " for row in run.rows)
    yield f"{'accepted':<8} {ticks}".rstrip()
    yield "```"
    yield ""
    yield "Loss by trial, low is good; one column a trial."


def _attribution(run: RunRecord) -> Iterator[str]:
    yield from ("", "## Where the gain came from", "")
    yield "| cycle | phase | trials | accepted | loss removed on train |"
    yield "|---|---|---|---|---|"
    groups: dict[tuple[int, str], list[TrialRow]] = {}
    for row in run.rows[1:]:
        groups.setdefault((row.trial.cycle, row.trial.phase), []).append(row)
    for (cycle, phase), rows in groups.items():
        won = [row for row in rows if row.trial.accepted]
        gain = sum(_gain(row) for row in won)
        yield f"| {cycle} | {phase} | {len(rows)} | {len(won)} | {gain:.3f} |"


def _metrics(run: RunRecord) -> Iterator[str]:
    yield from ("", "## Metrics on train", "", "| metric | baseline | best |", "|---|---|---|")
    before, after = (_components(row) for row in (run.baseline, run.best))
    for metric in sorted(set(before) | set(after)):
        yield f"| {metric} | {number(before.get(metric))} | {number(after.get(metric))} |"
    rates = [None if (s := _split(row, "train")) is None else s.measurement.pass_rate
             for row in (run.baseline, run.best)]  # fmt: skip
    yield f"| cases that pass | {number(rates[0])} | {number(rates[1])} |"


def _changes(run: RunRecord) -> Iterator[str]:
    yield from ("", "## What changed", "")
    if run.baseline is None or run.best_candidate is None:
        yield "Nothing was measured yet."
        return
    changes = diff(run.baseline.trial.candidate, run.best_candidate)
    if not changes:
        yield "Nothing: no candidate was better than the baseline."
        return
    yield "```diff"
    for change in changes:
        yield from change.lines()
    yield "```"


def _trials(run: RunRecord) -> Iterator[str]:
    yield from ("", "## Every trial", "")
    yield "| # | phase | what | train | holdout | decision |"
    yield "|---|---|---|---|---|---|"
    for row in run.rows:
        trial = row.trial
        what = trial.candidate.origin.note or ", ".join(trial.touched) or "—"
        told = "; ".join(map(str, trial.problems)) or (
            trial.decision.reason if trial.decision else "the start"
        )
        mark = "✓ " if trial.accepted else ""
        yield (
            f"| {row.number} | {trial.phase} | {_cell(what, 40)} | {_loss(row, 'train')} | "
            f"{_loss(row, 'holdout')} | {mark}{_cell(told, 160)} |"
        )


def _method(run: RunRecord) -> Iterator[str]:
    cases = ", ".join(f"{split} {n}" for split, n in run.header.cases.items())
    yield from ("", "## Method", "")
    header = run.header
    yield f"- strategy `{header.strategy}`, seed {header.seed}, burnish {header.burnish}"
    yield f"- cases: {cases}; train fed the proposals, holdout decided"
    if run.header.sealed_test == "spent":
        yield "- **the sealed test was read before by the run this one was forked from: its score "
        yield "  may flatter this result**"
    yield "- holdout and test should resemble what the agent meets in production; burnish cannot "
    yield "  see whether they do"
    yield "- the decisions can be replayed from the journal; the agent's own answers vary"


def _split(row: TrialRow | None, split: str) -> SplitResult | None:
    if row is None:
        return None
    return row.trial.train if split == "train" else row.trial.holdout


def _loss(row: TrialRow | None, split: str) -> str:
    found = _split(row, split)
    return "—" if found is None else number(found.measurement.loss)


def _components(row: TrialRow | None) -> dict[str, float]:
    found = _split(row, "train")
    return {} if found is None else dict(found.measurement.components)


def _gain(row: TrialRow) -> float:
    decision = row.trial.decision
    return 0.0 if decision is None else decision.numbers.get("train_improvement", 0.0)


def _cell(text: str, width: int) -> str:
    return shorten(text, width).replace("|", "\\|")
