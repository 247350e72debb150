"""What reports of every strategy have: the headline, what each accept won, a diff in its fence."""

import re
from collections.abc import Iterator, Sequence

from burnish.core.candidates import diff
from burnish.core.trials import Trial
from burnish.reports.reading import RunRecord, loss_of, result_of
from burnish.reports.words import cell, sealed_words, visible
from burnish.runs.driving import SILENT

SPLITS = ("train", "holdout")


def headline(run: RunRecord) -> Iterator[str]:
    """The run's name, and first of all what the sealed test said."""
    yield f"# {run.header.id}"
    yield ""
    flattered = "the numbers below chose the result, so they flatter it"
    if run.sealed is not None:
        yield f"**Sealed test, looked at once: {sealed_words(run.sealed)}**"
    elif run.header.cases.get("test"):
        yield f"**The sealed test was not read yet: {flattered}.**"
    else:
        yield f"**There is no sealed test: {flattered}.**"
    yield ""


def gains(run: RunRecord) -> dict[int, float | None]:
    """How much loss on train each accepted trial removed: as its gate saw it, or as measured."""
    found: dict[int, float | None] = {}
    leader = loss_of(run.baseline, "train")
    for row in run.rows:
        if not row.trial.accepted or row.trial.decision is None:
            continue
        loss = loss_of(row, "train")
        fell = None if loss is None or leader is None else leader - loss
        found[row.number] = row.trial.decision.numbers.get("train_improvement", fell)
        leader = loss
    return found


def missing_cases(run: RunRecord) -> int:
    """Cases that are missing, over all trials."""
    results = (result_of(row, split) for row in run.rows for split in SPLITS)
    return sum(len(result.measurement.missing_cases) for result in results if result is not None)


def silences(run: RunRecord) -> Iterator[str]:
    """What is said of roles that never gave a usable answer, though something else was tried."""
    for event in run.events:
        if event.kind == "warning" and event.id.startswith(f"{SILENT}:"):
            yield str(event.data.get("message"))


def silence_rows(run: RunRecord) -> Iterator[str]:
    """The same as rows of a table."""
    yield from (f"| warning | {cell(message, 300)} |" for message in silences(run))


def fenced(lines: Sequence[str], language: str = "") -> Iterator[str]:
    """Lines in a fence that no line can close."""
    shown = [visible(line) for line in lines]
    longest = max((len(ticks) for line in shown for ticks in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}{language}"
    yield from shown
    yield fence


def changes_made(run: RunRecord) -> Iterator[str]:
    """How the best candidate differs from the baseline."""
    yield from ("", "## What changed", "")
    if run.baseline is None or run.best_candidate is None:
        yield "Nothing was measured yet."
        return
    changes = diff(run.baseline.trial.candidate, run.best_candidate)
    if not changes:
        yield "Nothing: no candidate was better than the baseline."
        return
    yield from fenced([line for change in changes for line in change.lines()], "diff")


def why(trial: Trial) -> str:
    """Why a trial ended as it did: what was wrong with it, or the decision."""
    told = trial.decision.reason if trial.decision else "the start"
    return "; ".join(map(str, trial.problems)) or told
