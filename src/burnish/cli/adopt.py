"""`burnish adopt`: the diff, the question, what was done; and `--update-source`, `--in-place`."""

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated

import typer

from burnish.cli import options
from burnish.cli.output import echo, this_program
from burnish.core.errors import BurnishError, ConfigError, FileTrouble, Problem

if TYPE_CHECKING:
    from burnish.core.trials import TrialRow
    from burnish.projects.adopt import Plan
    from burnish.runs.directory import Project, RunRecord
    from burnish.runs.homes import FileChange


def adopt(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            autocompletion=options.run_ids,
            help="The id of a run, the beginning of its id, or its folder.",
        ),
    ],
    *,
    trial: Annotated[
        int | None, typer.Option(metavar="N", help="An accepted or kept trial other than the best.")
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Only show what would change.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Put the files back as they were.")] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Also change files that were edited since; only untouched fields change.",
        ),
    ] = False,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The new location of the agent file.")
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="For other targets: copy the candidate there."),
    ] = None,
) -> None:
    """Put a run's best candidate into your own files: an agent's, prompts, a task's.

    Shows the diff and asks first.
    The files must be what the run measured; all of them change, or none.
    """
    wish = _AdoptRequest(trial=trial, diff=diff, yes=yes, undo=undo, force=force, file=file, to=to)
    wish.check()
    _adopt_run(run, wish)


@dataclass(frozen=True, kw_only=True)
class _AdoptRequest:
    trial: int | None = None
    diff: bool = False
    yes: bool = False
    undo: bool = False
    force: bool = False
    file: Path | None = None
    to: Path | None = None

    def check(self) -> None:
        pairs = (
            (self.diff and self.yes, "--diff only shows the changes, so --yes has no effect"),
            (
                self.undo and self.trial is not None,
                "--undo puts back what was adopted, so --trial has no effect",
            ),
            (self.undo and self.to is not None, "--undo and --to do not go together"),
            (self.diff and self.to is not None, "--diff and --to do not go together"),
        )
        if problems := [Problem(message=message) for wrong, message in pairs if wrong]:
            raise ConfigError(problems)

    def plan(self, run: "RunRecord") -> "Plan":
        from burnish.projects.adopt import plan_adoption, plan_undo

        if self.undo:
            return plan_undo(run, file=self.file, force=self.force)
        return plan_adoption(run, trial=self.trial, file=self.file, force=self.force)


def _adopt_run(name: str, wish: _AdoptRequest) -> None:
    from burnish.projects.adopt import adopting, homes_of
    from burnish.projects.adopt import undo as undo_adoption
    from burnish.runs.directory import RunRecord, find_run

    run = RunRecord.read(find_run(name))
    if homes_of(run.header) is None:
        if wish.undo:
            message = "this run does not change your files: it only copies candidates, so there is "
            raise ConfigError([Problem(where="--undo", message=f"{message}nothing to undo")])
        _copy_candidate(run, trial=wish.trial, to=wish.to)
        return
    if wish.to is not None:
        message = "this run changes your own files, which are adopted in place"
        raise ConfigError([Problem(where="--to", message=message, remedy="leave out --to")])
    if wish.diff:
        _show(wish.plan(run), wish)
        return
    with adopting(run, wish.file):
        if not wish.undo:
            _adopt(run, wish)
        elif _show(plan := wish.plan(run), wish):
            undo_adoption(plan)
            _tell_changed(plan)


def _adopt(run: "RunRecord", wish: _AdoptRequest) -> None:
    from burnish.projects import adopt as adoption

    plan = wish.plan(run)
    if not _show(plan, wish):
        return
    if not wish.yes and not _agreed(plan):
        typer.echo("nothing was changed")
        return
    adoption.adopt(plan)
    _tell_changed(plan)
    _tell_undo(run.folder)


def _agreed(plan: "Plan") -> bool:
    from burnish.cli.progress import run_name
    from burnish.core.formatting import counted

    files = counted(len(plan.files), "file")
    if not sys.stdin.isatty():
        message = f"{files} would change, but this is not a terminal, so burnish cannot ask"
        remedy = f"confirm with `burnish adopt {run_name(plan.run.folder)} --yes`"
        raise ConfigError([Problem(message=message, remedy=remedy)])
    return typer.confirm(f"change {files}?")


def _show(plan: "Plan", wish: _AdoptRequest) -> bool:
    if plan.nothing:
        echo(f"nothing to {'undo' if wish.undo else 'adopt'}: {plan.nothing}")
        return False
    if not wish.undo:
        assert plan.row is not None
        for line in _evidence(plan.run, plan.row):
            echo(line)
        if plan.run.status != "finished":
            state = f"the run is {plan.run.status}"
            typer.echo(f"note     {state}: once adopted, it cannot be resumed unless undone")
    _show_diff(plan.files)
    return True


def _evidence(run: "RunRecord", row: "TrialRow") -> Iterator[str]:
    from burnish.core.formatting import number, shorten
    from burnish.runs.claims import claim_words
    from burnish.runs.directory import loss_of

    note = row.trial.candidate.origin.note or ", ".join(row.trial.touched)
    about = f" · {shorten(note, 60)}" if note else ""
    yield f"adopts   trial {row.number} of {run.header.id} · {row.trial.phase}{about}"
    claim = run.claim
    if claim is not None and row == run.best:
        yield f"claim    {claim_words(claim)}"
        return
    if claim is not None and claim.gain is not None and run.best is not None:
        yield f"claim    it is about trial {run.best.number}, not this one"
    for split in ("holdout", "train"):
        before, after = loss_of(run.baseline, split), loss_of(row, split)
        if after is not None:
            losses = f"{number(before)} → {number(after)}"
            yield f"{split:<8} loss {losses}; it chose the result, so it is optimistic"
            return


def _show_diff(files: Sequence["FileChange"]) -> None:
    from burnish.core.formatting import CHANGED, visible
    from burnish.system import Redactor

    redactor = Redactor.from_environment()
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for change in files:
        for line in change.diff(_seen_from_here(change.path)):
            shown = visible(redactor.text(line))
            if line.startswith(CHANGED):
                typer.echo(_coloured_words(shown))
            else:
                typer.echo(typer.style(shown, fg=colours.get(line[:1])))


def _coloured_words(line: str) -> str:
    """A line that changed in part, with its old and new words in colour."""
    parts = re.split(r"(\[-.*?-\]|\{\+.*?\+\})", line)
    colours = {"[-": "red", "{+": "green"}
    return "".join(typer.style(part, fg=colours.get(part[:2])) if part else "" for part in parts)


def _tell_changed(plan: "Plan") -> None:
    for change in plan.files:
        echo(f"{change.verb:<8} {_seen_from_here(change.path)}")


def _tell_undo(folder: Path) -> None:
    from burnish.cli.progress import run_name

    echo(f"undo     {this_program()} adopt {run_name(folder)} --undo")


def _seen_from_here(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _copy_candidate(run: "RunRecord", *, trial: int | None, to: Path | None) -> None:
    from burnish.cli.progress import run_name
    from burnish.core.formatting import counted
    from burnish.projects.adopt import chosen_trial
    from burnish.runs.events import CANDIDATES

    row = chosen_trial(run, trial)
    if row is None or not (row.trial.accepted or row.trial.kept):
        typer.echo("nothing to adopt: no candidate was better than the baseline")
        return
    if row.number not in run.files:
        if row.trial.kept:
            message = f"trial {row.number} was only kept, and has no files of its own"
            raise ConfigError([Problem(where="--trial", message=message)])
        message = f"trial {row.number} was accepted, but its files were never written"
        raise ConfigError([Problem(message=message, remedy="resume the run, then adopt it")])
    files = [_inside(run.folder, name) for name in run.files[row.number]]
    home = PurePosixPath(CANDIDATES, f"iter-{row.number:02d}")
    if not all(file.is_relative_to(home) for file in files):
        home = PurePosixPath()
    if to is None:
        echo(f"trial {row.number} is in {run.folder / home}")
        echo(f"copy it  {this_program()} adopt {run_name(run.folder)} --to FOLDER")
        return
    _copy(run, files, home, to)
    echo(f"copied   {counted(len(files), 'file')} of trial {row.number} to {to}")


def _inside(folder: Path, name: str) -> PurePosixPath:
    """A file of a candidate, if it is in the run's folder: the folder may be from anybody."""
    from burnish.system.files import leads_inside
    from burnish.system.workspaces import path_problem

    problem = path_problem(name)
    if not problem and not leads_inside(folder, name):
        problem = "it is a link that leads out of the run's folder"
    if problem:
        message = f"this file of the candidate is not in the run's folder: {problem}"
        raise ConfigError([Problem(where=name, message=message, remedy="do not trust this run")])
    return PurePosixPath(name)


def _copy(run: "RunRecord", files: list[PurePosixPath], home: PurePosixPath, to: Path) -> None:
    from burnish.system import make_folder, read_bytes

    def fill(folder: Path) -> None:
        for file in files:
            copy = folder / file.relative_to(home)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(read_bytes(run.folder / file))

    to.parent.mkdir(parents=True, exist_ok=True)
    if not make_folder(to, fill):
        raise FileTrouble(f"{to} already exists", remedy="name a folder that does not exist yet")


def asks_for_update(project: "Project") -> bool:
    """Whether a flag asked for it, now or when the run was started."""
    flags = ("update_source", "in_place")
    places = (project.spec.get("output"), project.config.get("overrides"))
    return any(
        isinstance(place, dict) and place.get(flag) is True for place in places for flag in flags
    )


def update_source(folder: Path) -> None:
    """Adopt the run's best candidate without asking: all files or none, and only untouched ones."""
    from burnish.projects import adopt as adoption
    from burnish.runs.directory import RunRecord

    run = RunRecord.read(folder)
    try:
        with adoption.adopting(run):
            plan = adoption.plan_adoption(run)
            if plan.nothing:
                echo(f"source   nothing to update: {plan.nothing}")
            else:
                adoption.adopt(plan)
    except BurnishError as error:
        _write_result(folder, trouble=str(error))
        raise
    _write_result(folder, updated=bool(plan.files))
    if plan.files:
        _tell_changed(plan)
        _tell_undo(folder)


def _write_result(folder: Path, *, updated: bool = False, trouble: str = "") -> None:
    from burnish.strategies.reflective.result_files import RESULT, write_result_files

    if (folder / RESULT).exists():
        write_result_files(folder, update_source=True, source_updated=updated, trouble=trouble)
