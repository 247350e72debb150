"""What `burnish adopt` says: which trial, what speaks for it, and the diff of every file."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

from burnish.core.trials import TrialRow
from burnish.core.words import number, shorten, visible
from burnish.projects.adopting_files import FileChange
from burnish.projects.adopting_planning import Plan
from burnish.runs.record import RunRecord, loss_of, sealed_words
from burnish.system import Redactor

_NOTE = 60


def show_evidence(plan: Plan) -> None:
    """Which trial it is, and what speaks for it."""
    assert plan.row is not None
    for line in (*evidence(plan.run, plan.row), *_warnings(plan.run)):
        typer.echo(line)


def evidence(run: RunRecord, row: TrialRow) -> Iterator[str]:
    """The trial and its numbers, the most honest first."""
    note = row.trial.candidate.origin.note or ", ".join(row.trial.touched)
    told = f" · {shorten(note, _NOTE)}" if note else ""
    yield f"adopts   trial {row.number} of {run.header.id} · {row.trial.phase}{told}"
    if run.sealed is not None and row == run.best:
        yield f"test     {sealed_words(run.sealed)}"
        return
    if run.sealed is not None and run.best is not None:
        yield f"test     it measured trial {run.best.number}, not this one"
    for split in ("holdout", "train"):
        before, after = loss_of(run.baseline, split), loss_of(row, split)
        if after is not None:
            losses = f"{number(before)} → {number(after)}"
            yield f"{split:<8} loss {losses}; it chose the result, so it flatters it"
            return


def show_diff(files: Sequence[FileChange]) -> None:
    """A unified diff of every file, without secrets."""
    redactor = Redactor.from_environment()
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for change in files:
        for line in change.diff(_seen_from_here(change.path)):
            told = visible(redactor.text(line))
            typer.echo(typer.style(told, fg=colours.get(line[:1])))


def tell_changed(plan: Plan) -> None:
    """Which files were changed."""
    for change in plan.files:
        typer.echo(f"changed  {_seen_from_here(change.path)}")


def _warnings(run: RunRecord) -> Iterator[str]:
    if run.status != "finished":
        yield f"note     the run is {run.status}: once adopted, it cannot be resumed unless undone"


def _seen_from_here(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
