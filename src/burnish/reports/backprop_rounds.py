"""The rounds of back-propagation in a report: patches with their reasons, scores, case changes."""

from collections.abc import Iterator, Mapping

from burnish.core.candidates import diff
from burnish.core.content import Json
from burnish.core.trials import Trial, TrialRow
from burnish.core.words import cell, number, shorten
from burnish.reports.backprop_lines import touched_words
from burnish.reports.report_parts import fenced, why
from burnish.runs.record import RunRecord, result_of
from burnish.strategies.backprop.rounds import PHASE

_CHANGES = ("new_pass", "new_fail", "up", "down")
_NAMED = 6
"""Cases that are named in a cell."""


def rounds_of(run: RunRecord) -> list[TrialRow]:
    """The rows that rounds made."""
    return [row for row in run.rows if row.trial.phase == PHASE]


def label_of(run: RunRecord, row: TrialRow) -> str:
    """`2`, or `2.1` and `2.2` where a round tried several candidates."""
    same = [each.number for each in rounds_of(run) if each.trial.cycle == row.trial.cycle]
    place = "" if len(same) == 1 else f".{same.index(row.number) + 1}"
    return f"{row.trial.cycle}{place}"


def patches_made(run: RunRecord) -> Iterator[str]:
    """Every patch with its reason; where several were accepted, each with its own diff."""
    yield from ("", "## Patches and why", "")
    known = {row.trial.candidate.id: row.trial.candidate for row in run.rows}
    if not any(_patches(row.trial) for row in rounds_of(run)):
        yield "No patch was made."
        return
    for row in rounds_of(run):
        mark = "accepted" if row.trial.accepted else "turned down"
        for surface, patch in _patches(row.trial).items():
            reason = cell(str(patch.get("reason") or "—"), 400)
            yield f"- round {label_of(run, row)}, `{surface}`, {mark}: {reason}"
        parent = next((known[p] for p in row.trial.candidate.parents if p in known), None)
        if row.trial.accepted and run.accepted > 1 and parent is not None:
            changes = diff(parent, row.trial.candidate)
            yield ""
            yield from fenced([line for change in changes for line in change.lines()], "diff")
            yield ""


def rounds_made(run: RunRecord) -> Iterator[str]:
    """Train, holdout, the gain and the decision of every candidate."""
    yield from ("", "## Rounds", "")
    yield "| round | patched | train | holdout | gain | decision |"
    yield "|---|---|---|---|---|---|"
    held = _score(run.baseline)
    yield f"| start | — | — | {number(held)} | — | the start |"
    for row in rounds_of(run):
        now = _score(row)
        gain = None if now is None or held is None else now - held
        mark = "✓ " if row.trial.accepted else ""
        what = cell(touched_words([*row.trial.touched]), 50)
        train = number(row.trial.details.get("train_score"))
        yield (
            f"| {label_of(run, row)} | {what} | {train} | {number(now)} | {_signed(gain)} | "
            f"{mark}{cell(why(row.trial), 160)} |"
        )
        held = now if row.trial.accepted else held
    yield ""
    yield "Scores, high is good. Train is the incumbent's, before the patch: its failures are what"
    yield "the patch was written for. The gain is over the incumbent of that moment."


def case_changes_made(run: RunRecord) -> Iterator[str]:
    """What became of single cases of holdout, round by round; by name only."""
    yield from ("", "## Case by case", "")
    yield "| round | new pass | new fail | up | down |"
    yield "|---|---|---|---|---|"
    for row in rounds_of(run):
        told = row.trial.details.get("changes")
        if isinstance(told, dict):
            cells = " | ".join(_names(told.get(key)) for key in _CHANGES)
            yield f"| {label_of(run, row)} | {cells} |"
    yield ""
    yield "Cases of holdout, against the incumbent of that moment; one that is missing on a side is"
    yield "in no column."


def _patches(trial: Trial) -> dict[str, Mapping[str, Json]]:
    told = trial.details.get("patches")
    found = told if isinstance(told, dict) else {}
    return {name: patch for name, patch in found.items() if isinstance(patch, dict)}


def _score(row: TrialRow | None) -> float | None:
    result = result_of(row, "holdout")
    return None if result is None else result.measurement.score


def _signed(gain: float | None) -> str:
    return "—" if gain is None else f"{gain:+z.3f}"


def _names(value: Json) -> str:
    names = [str(name) for name in value] if isinstance(value, list) else []
    shown = ", ".join(shorten(name, 30) for name in names[:_NAMED])
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{len(names)}: {cell(shown, 240)}{more}" if names else "—"
