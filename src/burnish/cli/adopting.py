"""Adopting from the command line: the diff, the question, and what was done."""

import sys
from dataclasses import dataclass
from pathlib import Path

import typer

from burnish.cli.adopt_copies import copy_candidate
from burnish.cli.adopt_words import show_diff, show_evidence, tell_changed
from burnish.cli.naming import run_name
from burnish.core.errors import ConfigError, Problem
from burnish.core.words import counted
from burnish.projects.adopting import adopt, adopting, mend, require_whole, undo
from burnish.projects.adopting_homes import is_adoptable
from burnish.projects.adopting_planning import Plan, plan_adoption, plan_undo
from burnish.runs.index import find_run
from burnish.runs.record import RunRecord


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What the flags ask for."""

    trial: int | None = None
    diff: bool = False
    yes: bool = False
    undo: bool = False
    force: bool = False
    file: Path | None = None
    to: Path | None = None

    def check(self) -> None:
        """Refuse flags that do not go together."""
        pairs = (
            (self.diff and self.yes, "--diff only shows, so --yes has no meaning"),
            (
                self.undo and self.trial is not None,
                "--undo puts back what was adopted, so --trial has no meaning",
            ),
            (self.undo and self.to is not None, "--undo and --to do not go together"),
            (self.diff and self.to is not None, "--diff and --to do not go together"),
        )
        problems = [Problem(message=message) for wrong, message in pairs if wrong]
        if problems:
            raise ConfigError(problems)


def adopt_run(name: str, wish: Wish) -> None:
    """Adopt a run, undo that, or say where its candidate lies."""
    run = RunRecord.read(find_run(name))
    if not is_adoptable(run.header):
        _refuse_undo(wish)
        copy_candidate(run, trial=wish.trial, to=wish.to)
        return
    if wish.to is not None:
        message = "this run is about files of yours, which are adopted where they lie"
        raise ConfigError([Problem(where="--to", message=message, remedy="leave out --to")])
    if wish.diff:
        require_whole(run)
        _show(_planned(run, wish), wish)
        return
    with adopting(run, wish.file):
        if wish.undo:
            _undo(run, wish)
        else:
            _adopt(run, wish)


def _refuse_undo(wish: Wish) -> None:
    if wish.undo:
        message = (
            "this run is about no files of yours: its candidates are copied, and copies are yours"
        )
        raise ConfigError([Problem(where="--undo", message=message)])


def _planned(run: RunRecord, wish: Wish) -> Plan:
    if wish.undo:
        return plan_undo(run, file=wish.file, force=wish.force)
    return plan_adoption(run, trial=wish.trial, file=wish.file, force=wish.force)


def _show(plan: Plan, wish: Wish) -> bool:
    """The evidence and the diff; whether there is anything to do."""
    if plan.nothing:
        typer.echo(f"nothing to {'undo' if wish.undo else 'adopt'}: {plan.nothing}")
        return False
    if not wish.undo:
        show_evidence(plan)
    show_diff(plan.files)
    return True


def _adopt(run: RunRecord, wish: Wish) -> None:
    if (mended := mend(run)) is not None:
        typer.echo("an adoption was cut off between two files, so they were put back first:")
        tell_changed(mended)
    plan = _planned(run, wish)
    if not _show(plan, wish):
        return
    if not wish.yes and not _agreed(plan):
        typer.echo("nothing was changed")
        return
    adopt(plan)
    tell_changed(plan)
    typer.echo(f"undo     burnish adopt {run_name(run.folder)} --undo")


def _undo(run: RunRecord, wish: Wish) -> None:
    plan = _planned(run, wish)
    if _show(plan, wish):
        undo(plan)
        tell_changed(plan)


def _agreed(plan: Plan) -> bool:
    files = counted(len(plan.files), "file")
    if not sys.stdin.isatty():
        message = f"{files} would change, and nobody is there to ask: this is no terminal"
        remedy = f"go on with `burnish adopt {run_name(plan.run.folder)} --yes`"
        raise ConfigError([Problem(message=message, remedy=remedy)])
    return typer.confirm(f"change {files}?")
