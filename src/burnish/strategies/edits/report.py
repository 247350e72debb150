"""The words of the artifact loop: one primary number in its own unit, and what became of edits."""

from collections.abc import Iterator, Mapping, Sequence

from burnish.core.content import Json
from burnish.core.drawings import Drawing
from burnish.core.formatting import Facts, Heading, Listing, Section, Table, Text, cell, padded
from burnish.core.trials import TrialRow
from burnish.runs import report_sections as sections
from burnish.runs.directory import RunRecord, result_of
from burnish.runs.events import BASELINE, PRUNE, TrialRecorded, Warned, read_all
from burnish.runs.progress import ProgressLines, shorten_after, spent_words
from burnish.strategies.edits.attempts import EditDetails
from burnish.strategies.edits.strategy import LOAD_TASK, TARGET, StageReached
from burnish.strategies.pruning_report import pruning

ENDS = {
    "nothing_new": "too many rounds without a candidate worth running",
    TARGET: "the number is as good as the task wants it",
}


_REST = 61
"""The width of a line without its note and reason."""


class EditLines(ProgressLines):
    """Edits by the primary number, and keep, discard or crash."""

    def baseline(self, trial: TrialRecorded, width: int) -> list[str]:
        numbers = _primary_words(trial)
        if numbers is None:
            return super().baseline(trial, width)
        return [f"{'baseline':<32} {numbers}".rstrip()]

    def trial(self, trial: TrialRecorded, width: int) -> str:
        numbers = _primary_words(trial)
        if numbers is None:
            return super().trial(trial, width)
        # Pruning comes after the search, so its trials have no round of their own.
        label = f"[{'p' if trial.phase == PRUNE else trial.cycle!s:>3}.{trial.index}]"
        lost = "crash ✗" if trial.code.endswith("crash") else "discard ✗"
        word = "keep ✓" if trial.accepted else lost
        note = padded(trial.note or "—", min(24, max(12, width - _REST)))
        spent = " ".join(spent_words(trial)).strip()
        head = f"{label} {note} {numbers:<28} {word:<9} {spent:<12} "
        return shorten_after(head, trial.reason.split("\n")[0], width).rstrip()


def _primary_words(trial: TrialRecorded) -> str | None:
    """The primary number on train and holdout, if the trial has one."""
    primary = trial.primary
    if not isinstance(primary, dict):
        return None
    labels = {"train": str(primary.get("name")), "holdout": "hold"}
    return "  ".join(f"{label} {_plain(primary[s])}" for s, label in labels.items() if s in primary)


def report(run: RunRecord, reason: str) -> Iterator[Section]:
    """The sections of the report."""
    yield from sections.headline(run)
    yield Heading("Result")
    yield Facts(tuple(_summary(run, reason)))
    yield from _numbers(run)
    if run.best is not None and (points := EditDetails.of(run.best.trial).disagreement):
        yield Heading("Where the judges do not agree")
        yield Listing(tuple(cell(each, 300) for each in points))
    yield from sections.changes_made(run)
    yield from pruning(run)
    yield from _trials(run)
    yield from sections.adoption(run)
    yield Heading("Method")
    yield Listing(tuple(_method(run)))


def result_words(run: RunRecord) -> str:
    """The primary number, at the start and of the best."""
    values = [f"{change} ({name})" for name, change in _changes(run)]
    return f"{_primary(run)} {', '.join(values)}"


def _changes(run: RunRecord) -> Iterator[tuple[str, str]]:
    """By split, the primary number at the start and of the best."""
    primary, held = _primary(run), _is_held(run)
    for split in sections.SPLITS if held else sections.SPLITS[:1]:
        values = (_values(row, split).get(primary) for row in (run.baseline, run.best))
        yield split if held else "a training score", " → ".join(map(_plain, values))


def _summary(run: RunRecord, reason: str) -> Iterator[tuple[str, str]]:
    yield "status", sections.status_words(run, reason)
    for name, change in _changes(run):
        yield f"{cell(_primary(run), 60)} ({name})", change
    if run.best is not None and (broken := EditDetails.of(run.best.trial).broken):
        yield "constraints", cell(f"the best still breaks {'; '.join(broken)}", 300)
    words = [EditDetails.of(row.trial).decision for row in run.rows]
    counts = [(words.count(word), word) for word in ("keep", "discard", "crash")]
    every = ", ".join(f"{count} {word}" for count, word in counts)
    yield "edits", f"{sum(count for count, _ in counts)}: {every}"
    yield from sections.cost_rows(run)


def _numbers(run: RunRecord) -> Iterator[Section]:
    splits = [split for split in sections.SPLITS if result_of(run.baseline, split) is not None]
    sides = [_values(row, split) for split in splits for row in (run.baseline, run.best)]
    names = sorted({name for side in sides for name in side})
    heads = (f"{split} {when}" for split in splits for when in ("before", "now"))
    rows = ((cell(name, 60), *(_plain(side.get(name)) for side in sides)) for name in names)
    yield Heading("Numbers")
    yield Table(("number", *heads), tuple(rows))
    constraints = _goal(run).constraints
    for constraint in constraints if isinstance(constraints, list) else []:
        yield Text.of(f"Must hold: `{constraint}`.")


def _trials(run: RunRecord) -> Iterator[Section]:
    primary, splits = _primary(run), sections.SPLITS if _is_held(run) else sections.SPLITS[:1]
    rows: list[tuple[str, ...]] = []
    for row in (row for row in run.rows if row.trial.phase != PRUNE):
        trial, start, details = row.trial, row.trial.phase == BASELINE, EditDetails.of(row.trial)
        what = "baseline" if start else trial.candidate.origin.note or "—"
        changes = details.changes or ()
        added, removed = sum(e.added for e in changes), sum(e.removed for e in changes)
        decided = trial.decision.reason if trial.decision else ""
        reason = "; ".join(map(str, trial.problems)) or decided
        rows.append(
            (
                str(row.number),
                "—" if start else str(trial.cycle),
                cell((details.rationale or what).strip().split("\n")[0], 60),
                f"+{added} −{removed}" if changes else "—",
                *(_plain(_values(row, split).get(primary)) for split in splits),
                "—" if start else str(details.decision),
                cell(reason, 160) or "—",
            )
        )
    heads = ("#", "iteration", "what", "lines", cell(primary, 40), *splits[1:], "decision", "why")
    yield Heading("Every edit")
    yield Table(heads, tuple(rows))


def _method(run: RunRecord) -> Iterator[str]:
    yield sections.started_with(run)
    if _is_held(run):
        yield (
            "the editor saw the results of the task's runs; holdout decided, and the editor never\n"
            "saw it"
        )
    else:
        yield (
            "no holdout: the run that fed the editor also decided, so this is a training score;\n"
            "expect less elsewhere, and add `holdout:` to the task to measure it"
        )
    if direction := _goal(run).direction:
        yield (
            f"{direction} `{_primary(run)}`: constraints come first, then this\n"
            "number, then tie-breakers; only what is clearly better is kept"
        )
    yield from sections.luck_points(run)
    yield from sections.provenance(run)
    yield from (cell(warning.message, 300) for warning in read_all(run.events, Warned))


def primary_by_trial(run: RunRecord) -> Iterator[Drawing]:
    """The primary number of every trial, and that of the files that were then the best."""
    primary = _primary(run)
    measured = {
        split: tuple(_values(row, split).get(primary) for row in run.rows)
        for split in sections.SPLITS
    }
    series = {split: values for split, values in measured.items() if _counted(values) > 0}
    if max(map(_counted, series.values()), default=0) < 2:
        return
    decisive = list(series.values())[-1]
    best: list[float | None] = []
    for row, value in zip(run.rows, decisive, strict=True):
        leads = row.trial.accepted or row.trial.phase == BASELINE
        best.append(value if leads else best[-1] if best else None)
    direction = _goal(run).direction
    yield Drawing(
        title=f"{primary} by trial",
        labels=tuple(str(row.number) for row in run.rows),
        series={**series, "best so far": tuple(best)},
        unit=primary,
        label="trial",
        note=f"In its own unit{f', to {direction}' if direction else ''}. An edit that crashed, "
        "or was turned away before it was run, has no number.",
    )


def _counted(values: Sequence[float | None]) -> int:
    return sum(value is not None for value in values)


def _primary(run: RunRecord) -> str:
    return _goal(run).primary or "score"


def _is_held(run: RunRecord) -> bool:
    return bool(run.header.cases.get("holdout"))


def _plain(value: Json) -> str:
    """A number in its own unit: 0.125, 1204, 3.2e-05."""
    return f"{value:.4g}" if isinstance(value, int | float) else "—"


def _goal(run: RunRecord) -> StageReached:
    stages = read_all(run.events, StageReached)
    return next((stage for stage in stages if stage.stage == LOAD_TASK), StageReached())


def _values(row: TrialRow | None, split: str) -> Mapping[str, float]:
    result = result_of(row, split)
    return {} if result is None else result.measurement.values
