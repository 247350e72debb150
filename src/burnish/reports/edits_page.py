"""report.md of the artifact loop: one primary number in its own unit, and what became of edits."""

from collections.abc import Iterator, Mapping

from burnish.core.content import Json
from burnish.core.trials import TrialRow
from burnish.core.words import cell, counted, duration, spending
from burnish.reports.coordinate_method import adoption
from burnish.reports.report_parts import SPLITS, changes_made, headline, missing_cases
from burnish.runs.record import RunRecord, result_of
from burnish.runs.standing import BASELINE
from burnish.strategies.edits.strategy import Edits

EDITS = Edits.name
"""The strategy whose runs are told this way."""
_WORDS = ("keep", "discard", "crash")


def edits_page(run: RunRecord) -> str:
    """The report as Markdown."""
    parts = (
        headline(run),
        _summary(run),
        _numbers(run),
        _judges(run),
        changes_made(run),
        _trials(run),
        adoption(run),
        _method(run),
    )
    return "\n".join(line for part in parts for line in part) + "\n"


def primary_of(run: RunRecord) -> str:
    """What the run made better."""
    return str(_goal(run).get("primary") or "score")


def result_words(run: RunRecord) -> str:
    """The primary number, at the start and of the best."""
    primary, held = primary_of(run), bool(run.header.cases.get("holdout"))
    told: list[str] = []
    for split in SPLITS if held else SPLITS[:1]:
        before, after = (_value(row, split, primary) for row in (run.baseline, run.best))
        name = split if held else "a training score"
        told.append(f"{plain(before)} → {plain(after)} ({name})")
    return f"{primary} {', '.join(told)}"


def plain(value: float | None) -> str:
    """A number in its own unit: 0.125, 1204, 3.2e-05."""
    return "—" if value is None else f"{value:.4g}"


def _summary(run: RunRecord) -> Iterator[str]:
    yield from ("## Result", "", "| | |", "|---|---|")
    reason = f" ({cell(run.reason, 160)})" if run.reason else ""
    yield f"| status | {run.status}{reason} |"
    primary, held = primary_of(run), bool(run.header.cases.get("holdout"))
    for split in SPLITS if held else SPLITS[:1]:
        name = split if held else "a training score"
        before, after = (_value(row, split, primary) for row in (run.baseline, run.best))
        yield f"| {cell(primary, 60)} ({name}) | {plain(before)} → {plain(after)} |"
    counts = (f"{_count(run, word)} {word}" for word in _WORDS)
    yield f"| edits | {run.trials}: {', '.join(counts)} |"
    if lost := missing_cases(run):
        yield f"| missing | {counted(lost, 'case')} over all trials, in no mean and never a 0 |"
    yield f"| spent | {spending(run.spent)} |"
    if run.billed != run.spent:
        yield f"| billed | {spending(run.billed)} (with calls that were lost or not used) |"
    yield f"| time | {duration(run.active_seconds)} |"


def _numbers(run: RunRecord) -> Iterator[str]:
    """Everything that was measured, of the start and of the best."""
    splits = [split for split in SPLITS if result_of(run.baseline, split) is not None]
    yield from ("", "## Numbers", "")
    yield f"| number | {' | '.join(f'{split} before | {split} now' for split in splits)} |"
    yield f"|---|{'---|---|' * len(splits)}"
    sides = [_values(row, split) for split in splits for row in (run.baseline, run.best)]
    for name in sorted({name for side in sides for name in side}):
        yield f"| {cell(name, 60)} | {' | '.join(plain(side.get(name)) for side in sides)} |"
    constraints = _goal(run).get("constraints")
    for told in constraints if isinstance(constraints, list) else []:
        yield from ("", f"Must hold: `{told}`.")


def _judges(run: RunRecord) -> Iterator[str]:
    """Where several judges scored the result and did not agree."""
    told = None if run.best is None else run.best.trial.details.get("disagreement")
    if not isinstance(told, list) or not told:
        return
    yield from ("", "## Where the judges do not agree", "")
    yield from (f"- {cell(str(each), 300)}" for each in told)


def _trials(run: RunRecord) -> Iterator[str]:
    primary, held = primary_of(run), bool(run.header.cases.get("holdout"))
    second = " holdout |" if held else ""
    yield from ("", "## Every edit", "")
    yield f"| # | iteration | what | lines | {cell(primary, 40)} |{second} decision | why |"
    yield f"|---|---|---|---|---|{'---|' if held else ''}---|---|"
    for row in run.rows:
        trial = row.trial
        start = trial.phase == BASELINE
        what = "what was there" if start else trial.candidate.origin.note or "—"
        why = "; ".join(map(str, trial.problems)) or (
            trial.decision.reason if trial.decision else ""
        )
        cells = [
            str(row.number),
            "—" if start else str(trial.cycle),
            cell(str(trial.details.get("rationale") or what).strip().split("\n")[0], 60),
            _lines(row),
            *(plain(_value(row, split, primary)) for split in (SPLITS if held else SPLITS[:1])),
            "—" if start else str(trial.details.get("decision")),
            cell(why, 160) or "—",
        ]
        yield f"| {' | '.join(cells)} |"


def _method(run: RunRecord) -> Iterator[str]:
    header = run.header
    yield from ("", "## Method", "")
    yield f"- strategy `{header.strategy}`, seed {header.seed}, burnish {header.burnish}"
    if header.cases.get("holdout"):
        yield "- the editor saw what the task's runs gave; holdout decided, and the editor never"
        yield "  heard of it"
    else:
        yield "- no holdout: the run that fed the editor also decided, so this is a training score;"
        yield "  expect less of it elsewhere, and add `holdout:` to the task to know"
    goal = _goal(run)
    if goal.get("direction"):
        yield f"- {goal['direction']} `{primary_of(run)}`: constraints come first, then this"
        yield "  number, then tie-breakers; only what is clearly better is kept"
    for event in run.events:
        if event.kind == "warning":
            yield f"- {cell(str(event.data.get('message')), 300)}"


def _goal(run: RunRecord) -> Mapping[str, Json]:
    """What the run said it was after."""
    stages = (event.data for event in run.events if event.kind == "stage")
    return next((data for data in stages if data.get("stage") == "load_task"), dict[str, Json]())


def _values(row: TrialRow | None, split: str) -> Mapping[str, float]:
    result = result_of(row, split)
    return {} if result is None else result.measurement.values


def _value(row: TrialRow | None, split: str, name: str) -> float | None:
    return _values(row, split).get(name)


def _count(run: RunRecord, word: str) -> int:
    return sum(row.trial.details.get("decision") == word for row in run.rows)


def _lines(row: TrialRow) -> str:
    told = row.trial.details.get("changes")
    changes = [each for each in told if isinstance(each, dict)] if isinstance(told, list) else []
    if not changes:
        return "—"
    added, removed = (
        sum(n for each in changes if isinstance(n := each.get(key), int))
        for key in ("added", "removed")
    )
    return f"+{added} −{removed}"
