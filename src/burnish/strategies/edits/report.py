"""The words of the artifact loop: one primary number in its own unit, and what became of edits."""

from collections.abc import Iterator, Mapping

from burnish.core.content import Json
from burnish.core.formatting import Facts, Heading, Listing, Section, Table, Text, cell, padded
from burnish.core.trials import TrialRow
from burnish.runs.directory import RunRecord, result_of
from burnish.runs.events import BASELINE, TrialRecorded, Warned, read_all
from burnish.runs.progress import ProgressLines, shorten_after
from burnish.runs.report_sections import (
    SPLITS,
    adoption,
    changes_made,
    cost_rows,
    headline,
    started_with,
    status_words,
)
from burnish.strategies.edits.attempts import EditDetails
from burnish.strategies.edits.strategy import LOAD_TASK, StageReached

ENDS = {"nothing_new": "too many rounds without a candidate worth running"}
"""Why a search ended."""
_WORDS = ("keep", "discard", "crash")
_NOTE = 24


class EditLines(ProgressLines):
    """Edits by the primary number, and keep, discard or crash."""

    def baseline(self, trial: TrialRecorded, width: int) -> list[str]:
        """What was there."""
        numbers = _primary_words(trial)
        if numbers is None:
            return super().baseline(trial, width)
        return [f"{'what was there':<{_NOTE + 8}} {numbers}".rstrip()]

    def trial(self, trial: TrialRecorded, width: int) -> str:
        """One edit in one line; why it was decided so, as far as there is room."""
        numbers = _primary_words(trial)
        if numbers is None:
            return super().trial(trial, width)
        label = f"[{trial.cycle!s:>3}.{trial.index}]"
        head = f"{label} {padded(trial.note or '—', _NOTE)} {numbers:<28} {_word(trial):<10}"
        return shorten_after(head, trial.reason.split("\n")[0], width).rstrip()


def _primary_words(trial: TrialRecorded) -> str | None:
    """The primary number on train and holdout; None where the trial tells of none."""
    primary = trial.primary
    if not isinstance(primary, dict):
        return None
    labels = {"train": str(primary.get("name")), "holdout": "hold"}
    shown = (f"{label} {_side(primary[side])}" for side, label in labels.items() if side in primary)
    return "  ".join(shown)


def _side(value: Json) -> str:
    return _plain(value if isinstance(value, int | float) else None)


def _word(trial: TrialRecorded) -> str:
    if trial.accepted:
        return "keep ✓"
    return "crash ✗" if trial.code.endswith("crash") else "discard ✗"


def report(run: RunRecord, reason: str) -> Iterator[Section]:
    """The sections of the report."""
    yield from headline(run)
    yield Heading("Result")
    yield Facts(tuple(_summary(run, reason)))
    yield from _numbers(run)
    yield from _judges(run)
    yield from changes_made(run)
    yield from _trials(run)
    yield from adoption(run)
    yield Heading("Method")
    yield Listing(tuple(_method(run)))


def result_words(run: RunRecord) -> str:
    """The primary number, at the start and of the best."""
    values = [f"{change} ({name})" for name, change in _changes(run)]
    return f"{_primary(run)} {', '.join(values)}"


def _changes(run: RunRecord) -> Iterator[tuple[str, str]]:
    """By split, the primary number at the start and of the best."""
    primary, held = _primary(run), _is_held(run)
    for split in SPLITS if held else SPLITS[:1]:
        before, after = (_value(row, split, primary) for row in (run.baseline, run.best))
        yield split if held else "a training score", f"{_plain(before)} → {_plain(after)}"


def _summary(run: RunRecord, reason: str) -> Iterator[tuple[str, str]]:
    yield "status", status_words(run, reason)
    for name, change in _changes(run):
        yield f"{cell(_primary(run), 60)} ({name})", change
    counts = (f"{_count(run, word)} {word}" for word in _WORDS)
    yield "edits", f"{run.trials}: {', '.join(counts)}"
    yield from cost_rows(run)


def _numbers(run: RunRecord) -> Iterator[Section]:
    """Everything that was measured, of the start and of the best."""
    splits = [split for split in SPLITS if result_of(run.baseline, split) is not None]
    sides = [_values(row, split) for split in splits for row in (run.baseline, run.best)]
    names = sorted({name for side in sides for name in side})
    heads = (f"{split} {when}" for split in splits for when in ("before", "now"))
    rows = ((cell(name, 60), *(_plain(side.get(name)) for side in sides)) for name in names)
    yield Heading("Numbers")
    yield Table(("number", *heads), tuple(rows))
    constraints = _goal(run).constraints
    for constraint in constraints if isinstance(constraints, list) else []:
        yield Text.of(f"Must hold: `{constraint}`.")


def _judges(run: RunRecord) -> Iterator[Section]:
    """Where several judges scored the result and did not agree."""
    points = None if run.best is None else EditDetails.of(run.best.trial).disagreement
    if points:
        yield Heading("Where the judges do not agree")
        yield Listing(tuple(cell(each, 300) for each in points))


def _trials(run: RunRecord) -> Iterator[Section]:
    primary, splits = _primary(run), SPLITS if _is_held(run) else SPLITS[:1]
    rows: list[tuple[str, ...]] = []
    for row in run.rows:
        trial, start, details = row.trial, row.trial.phase == BASELINE, EditDetails.of(row.trial)
        what = "what was there" if start else trial.candidate.origin.note or "—"
        reason = "; ".join(map(str, trial.problems)) or (
            trial.decision.reason if trial.decision else ""
        )
        rows.append(
            (
                str(row.number),
                "—" if start else str(trial.cycle),
                cell((details.rationale or what).strip().split("\n")[0], 60),
                _lines(details),
                *(_plain(_value(row, split, primary)) for split in splits),
                "—" if start else str(details.decision),
                cell(reason, 160) or "—",
            )
        )
    heads = ("#", "iteration", "what", "lines", cell(primary, 40), *splits[1:], "decision", "why")
    yield Heading("Every edit")
    yield Table(heads, tuple(rows))


def _method(run: RunRecord) -> Iterator[str]:
    yield started_with(run)
    if _is_held(run):
        yield (
            "the editor saw what the task's runs gave; holdout decided, and the editor never\n"
            "heard of it"
        )
    else:
        yield (
            "no holdout: the run that fed the editor also decided, so this is a training score;\n"
            "expect less of it elsewhere, and add `holdout:` to the task to know"
        )
    if direction := _goal(run).direction:
        yield (
            f"{direction} `{_primary(run)}`: constraints come first, then this\n"
            "number, then tie-breakers; only what is clearly better is kept"
        )
    yield from (cell(warning.message, 300) for warning in read_all(run.events, Warned))


def _primary(run: RunRecord) -> str:
    """What the run made better."""
    return _goal(run).primary or "score"


def _is_held(run: RunRecord) -> bool:
    """Whether a holdout decided."""
    return bool(run.header.cases.get("holdout"))


def _plain(value: float | None) -> str:
    """A number in its own unit: 0.125, 1204, 3.2e-05."""
    return "—" if value is None else f"{value:.4g}"


def _goal(run: RunRecord) -> StageReached:
    """What the run said it was after."""
    stages = read_all(run.events, StageReached)
    return next((stage for stage in stages if stage.stage == LOAD_TASK), StageReached())


def _values(row: TrialRow | None, split: str) -> Mapping[str, float]:
    result = result_of(row, split)
    return {} if result is None else result.measurement.values


def _value(row: TrialRow | None, split: str, name: str) -> float | None:
    return _values(row, split).get(name)


def _count(run: RunRecord, word: str) -> int:
    return sum(EditDetails.of(row.trial).decision == word for row in run.rows)


def _lines(details: EditDetails) -> str:
    if not details.changes:
        return "—"
    added = sum(change.added for change in details.changes)
    removed = sum(change.removed for change in details.changes)
    return f"+{added} −{removed}"
