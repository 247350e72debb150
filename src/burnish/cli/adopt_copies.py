"""Candidates of targets that are no agent file: where they lie, and copies of them."""

from pathlib import Path, PurePosixPath

import typer

from burnish.cli.naming import run_name
from burnish.core.errors import ConfigError, FileTrouble, Problem
from burnish.core.trials import TrialRow
from burnish.core.words import counted
from burnish.projects.adopting_values import chosen_trial
from burnish.runs.exporting import CANDIDATES
from burnish.runs.record import RunRecord
from burnish.system import make_folder, read_bytes


def copy_candidate(run: RunRecord, *, trial: int | None, to: Path | None) -> None:
    """Copy a trial's files to a folder, or say where they lie."""
    row = chosen_trial(run, trial)
    if row is None or not row.trial.accepted:
        typer.echo("nothing to adopt: no candidate was better than what you have")
        return
    files = _exported(run, row)
    home = _home(row, files)
    if to is None:
        typer.echo(f"trial {row.number} lies in {run.folder / home}")
        typer.echo(f"copy it  burnish adopt {run_name(run.folder)} --to FOLDER")
        return
    _copy(run, files, home, to)
    typer.echo(f"copied   {counted(len(files), 'file')} of trial {row.number} to {to}")


def _exported(run: RunRecord, row: TrialRow) -> list[PurePosixPath]:
    """The files that were written when the trial became the leader."""
    if row.number in run.files:
        return [PurePosixPath(name) for name in run.files[row.number]]
    message = f"trial {row.number} was accepted, but its files were never written"
    raise ConfigError([Problem(message=message, remedy="resume the run, then adopt it")])


def _home(row: TrialRow, files: list[PurePosixPath]) -> PurePosixPath:
    """The folder of the candidate, where it has one of its own."""
    own = PurePosixPath(CANDIDATES, f"iter-{row.number:02d}")
    return own if all(file.is_relative_to(own) for file in files) else PurePosixPath()


def _copy(run: RunRecord, files: list[PurePosixPath], home: PurePosixPath, to: Path) -> None:
    def fill(folder: Path) -> None:
        for file in files:
            copy = folder / file.relative_to(home)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(read_bytes(run.folder / file))

    to.parent.mkdir(parents=True, exist_ok=True)
    if not make_folder(to, fill):
        raise FileTrouble(f"{to} exists already", remedy="name a folder that is not there yet")
