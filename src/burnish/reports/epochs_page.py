"""report.md of training by epochs: the mean loss of each, every task, and what became of texts."""

from collections.abc import Iterator

from burnish.core.content import Json
from burnish.core.trials import SplitResult, TrialRow
from burnish.core.words import cell, counted, duration, number, spending
from burnish.reports.report_parts import changes_made, headline, missing_cases, why
from burnish.runs.record import RunRecord, loss_of, result_of
from burnish.runs.standing import BASELINE


def epochs_page(run: RunRecord) -> str:
    """The report as Markdown."""
    parts = (
        headline(run),
        _summary(run),
        _epochs(run),
        _tasks(run),
        _proposals(run),
        changes_made(run),
        _registry(run),
        _method(run),
    )
    return "\n".join(line for part in parts for line in part) + "\n"


def _summary(run: RunRecord) -> Iterator[str]:
    yield from ("## Result", "", "| | |", "|---|---|")
    yield f"| status | {run.status} |"
    yield f"| exit reason | {cell(run.reason, 200) or '—'} |"
    held = bool(run.header.cases.get("holdout"))
    for split in ("train", "holdout") if held else ("train",):
        before, after = (number(loss_of(row, split)) for row in (run.baseline, run.best))
        told = "" if held else ", a training score: no task was held out"
        yield f"| mean loss, {split} | {before} → {after}{told} |"
    yield f"| epochs | {len(run.rows)}, {counted(run.accepted, 'update')} accepted |"
    if lost := missing_cases(run):
        yield f"| missing | {counted(lost, 'task')} over all epochs, in no mean and never a 0 |"
    yield f"| spent | {spending(run.spent)} |"
    if run.billed != run.spent:
        yield f"| billed | {spending(run.billed)} (with calls that were lost or not used) |"
    yield f"| time | {duration(run.active_seconds)} |"


def _epochs(run: RunRecord) -> Iterator[str]:
    yield from ("", "## Every epoch", "")
    yield "| epoch | text | learning rate | mean loss | holdout | decision |"
    yield "|---|---|---|---|---|---|"
    for row in run.rows:
        trial = row.trial
        rate = trial.details.get("learning_rate")
        mark = "✓ " if trial.accepted else "↗ " if trial.kept else ""
        told = "the same texts again" if not trial.decision and not trial.problems else why(trial)
        told = "the start" if trial.phase == BASELINE else told
        yield (
            f"| {trial.cycle} | {', '.join(trial.touched) or '—'} | "
            f"{f'{rate:g}' if isinstance(rate, int | float) else '—'} | "
            f"{_mean(row.trial.train)} | {_mean(row.trial.holdout)} | {mark}{cell(told, 200)} |"
        )
    yield ""
    yield (
        "Every update is compared with the best mean so far. ✓ became the best and is active in "
        "the registry; ↗ stayed without being better; all others were rolled back."
    )


def _mean(result: SplitResult | None) -> str:
    if result is None or result.measurement.loss is None:
        return "—"
    return f"{number(result.measurement.loss)} ±{number(result.measurement.std)}"


def _tasks(run: RunRecord) -> Iterator[str]:
    yield from ("", "## Every task", "", "| task | loss at the start | loss now |", "|---|---|---|")
    for split in ("train", "holdout"):
        sides = [_losses(row, split) for row in (run.baseline, run.best)]
        for task in sides[0]:
            before, after = (number(side.get(task)) for side in sides)
            held = " (held out)" if split == "holdout" else ""
            yield f"| {cell(task, 60)}{held} | {before} | {after} |"


def _losses(row: TrialRow | None, split: str) -> dict[str, float | None]:
    """The mean loss of each task over its repeats; None where one is missing."""
    result = result_of(row, split)
    found: dict[str, float | None] = {}
    if result is None:
        return found
    for task, scores in result.scores.items():
        values = [value for each in scores.values() for value in each]
        known = [value for value in values if value is not None]
        whole = known and len(known) == len(values)
        found[task] = 1 - sum(known) / len(known) if whole else None
    return found


def _proposals(run: RunRecord) -> Iterator[str]:
    tried = [row for row in run.rows if isinstance(row.trial.details.get("update"), dict)]
    if not tried:
        return
    yield from ("", "## What was tried", "")
    for row in tried:
        update = row.trial.details["update"]
        assert isinstance(update, dict)
        hoped = f"{_figure(update, 'expected_loss_reduction')} × {_figure(update, 'confidence')}"
        told = cell(str(update.get("rationale") or "no reason given"), 400)
        yield f"- epoch {row.trial.cycle}, {update.get('artifact')} (hoped for {hoped}): {told}"


def _figure(update: dict[str, Json], name: str) -> str:
    value = update.get(name)
    return f"{value:g}" if isinstance(value, int | float) else "—"


def _registry(run: RunRecord) -> Iterator[str]:
    kept = run.header.project.config.get("suite")
    path = kept.get("registry") if isinstance(kept, dict) else None
    if path is None:
        return
    yield from ("", "## The registry", "")
    put = [e for e in run.events if e.kind == "policy"]
    for event in put:
        versions = event.data.get("versions")
        for name, version in (versions if isinstance(versions, dict) else {}).items():
            yield f"- {name}: version {version} was made active"
    if not put:
        yield "- nothing in it was changed"
    yield f"- `burnish policy list --db {path}` shows what is read now, `rollback` goes back"


def _method(run: RunRecord) -> Iterator[str]:
    header = run.header
    cases = ", ".join(f"{split} {n}" for split, n in header.cases.items() if n)
    decided = "holdout decided too" if header.cases.get("holdout") else "no holdout"
    yield from ("", "## Method", "")
    yield f"- strategy `{header.strategy}`, seed {header.seed}, burnish {header.burnish}"
    yield f"- tasks: {cases}; train fed the proposals, {decided}"
    yield "- the loss weighs metrics, critique, rejections by gates, budget and ending; a task that"
    yield "  failed or left nothing counts 1, one that could not be run is missing"
    yield "- whatever became of the critique rubric, every result was graded by that of the start"
    yield from (f"- {note}" for note in _notes(run))
    if header.forked_from:
        yield f"- forked from `{header.forked_from}`: what that run had paid for was not paid again"
    yield "- the tasks should resemble those to come; burnish cannot see whether they do"


def _notes(run: RunRecord) -> list[str]:
    """What was said before the start, such as that a critic grades its own work."""
    told = (str(e.data.get("message")) for e in run.events if e.kind == "warning")
    return list(dict.fromkeys(each for each in told if not each.startswith("policy registry")))
