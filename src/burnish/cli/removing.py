"""`burnish runs rm`."""

import shutil
from pathlib import Path

import typer

from burnish.core.errors import ConfigError, FileTrouble, Problem, RunLocked
from burnish.effects.sqlite_store import NAME as JOURNAL
from burnish.runs.directory import LOCK
from burnish.runs.index import find_run, forget_run, known_runs
from burnish.system import is_held


def remove(name: str, *, yes: bool) -> None:
    """Remove a run with the runs in its folder, such as refinements; a damaged one too."""
    folder = find_run(name)
    _require_run(folder)
    inside = [run for run in known_runs() if run.is_relative_to(folder)]
    for run in (folder, *inside):
        if is_held(run / LOCK):
            raise RunLocked(
                f"run {run.name} is being driven by a process",
                remedy="stop it first: Ctrl-C there, or touch optimize.stop in its folder",
            )
    if not yes and not typer.confirm(f"remove {folder} and everything in it?"):
        typer.echo("nothing was removed")
        return
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise FileTrouble(
            f"cannot remove {error.filename or folder}: {error.strerror}",
            remedy="check who owns it and its mode: `ls -ld`",
        ) from error
    for run in (folder, *inside):
        forget_run(run)
    typer.echo(f"removed {folder}")


def _require_run(folder: Path) -> None:
    """A folder of the user's own may hold a run.json too: it is not ours to remove."""
    if not any((folder / name).exists() for name in (LOCK, JOURNAL)):
        raise ConfigError(
            [
                Problem(
                    where=str(folder),
                    message="it has a run.json, but it is not a run of burnish",
                    remedy="remove it yourself if you want to",
                )
            ]
        )
