"""`burnish adopt`: the diff, the question, what was done; and `--update-source`, `--in-place`."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated

import typer

from burnish.core.errors import BurnishError, ConfigError, FileTrouble, Problem

if TYPE_CHECKING:
    from burnish.core.trials import TrialRow
    from burnish.projects.adopt import Plan
    from burnish.runs.directory import Project, RunRecord
    from burnish.runs.homes import FileChange

_NOTE = 60


def adopt(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A run's id, the beginning of one, or its folder.")
    ],
    *,
    trial: Annotated[
        int | None, typer.Option(metavar="N", help="An accepted trial other than the best.")
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Only show what would change.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Put the files back as they were.")] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Also where files were edited since: only fields that nobody touched change.",
        ),
    ] = False,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the agent file lies now.")
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

    def plan(self, run: "RunRecord") -> "Plan":
        """What would change."""
        from burnish.projects.adopt import plan_adoption, plan_undo

        if self.undo:
            return plan_undo(run, file=self.file, force=self.force)
        return plan_adoption(run, trial=self.trial, file=self.file, force=self.force)


def _adopt_run(name: str, wish: _AdoptRequest) -> None:
    """Adopt a run, undo that, or say where its candidate lies."""
    from burnish.projects.adopt import adopting, homes_of, require_whole
    from burnish.runs.directory import RunRecord, find_run

    run = RunRecord.read(find_run(name))
    if homes_of(run.header) is None:
        _refuse_undo(wish)
        _copy_candidate(run, trial=wish.trial, to=wish.to)
        return
    if wish.to is not None:
        message = "this run is about files of yours, which are adopted where they lie"
        raise ConfigError([Problem(where="--to", message=message, remedy="leave out --to")])
    if wish.diff:
        require_whole(run)
        _show(wish.plan(run), wish)
        return
    with adopting(run, wish.file):
        if wish.undo:
            _undo(run, wish)
        else:
            _adopt(run, wish)


def _refuse_undo(wish: _AdoptRequest) -> None:
    if wish.undo:
        message = (
            "this run is about no files of yours: its candidates are copied, and copies are yours"
        )
        raise ConfigError([Problem(where="--undo", message=message)])


def _adopt(run: "RunRecord", wish: _AdoptRequest) -> None:
    from burnish.projects import adopt as adoption

    if (mended := adoption.mend(run)) is not None:
        typer.echo("an adoption was cut off between two files, so they were put back first:")
        _tell_changed(mended)
    plan = wish.plan(run)
    if not _show(plan, wish):
        return
    if not wish.yes and not _agreed(plan):
        typer.echo("nothing was changed")
        return
    adoption.adopt(plan)
    _tell_changed(plan)
    _tell_undo(run.folder)


def _undo(run: "RunRecord", wish: _AdoptRequest) -> None:
    from burnish.projects import adopt as adoption

    plan = wish.plan(run)
    if _show(plan, wish):
        adoption.undo(plan)
        _tell_changed(plan)


def _agreed(plan: "Plan") -> bool:
    from burnish.cli.progress import run_name
    from burnish.core.formatting import counted

    files = counted(len(plan.files), "file")
    if not sys.stdin.isatty():
        message = f"{files} would change, and nobody is there to ask: this is no terminal"
        remedy = f"go on with `burnish adopt {run_name(plan.run.folder)} --yes`"
        raise ConfigError([Problem(message=message, remedy=remedy)])
    return typer.confirm(f"change {files}?")


# -- what is shown -----------------------------------------------------------------------------


def _show(plan: "Plan", wish: _AdoptRequest) -> bool:
    """The evidence and the diff; whether there is anything to do."""
    if plan.nothing:
        typer.echo(f"nothing to {'undo' if wish.undo else 'adopt'}: {plan.nothing}")
        return False
    if not wish.undo:
        assert plan.row is not None
        for line in (*_evidence(plan.run, plan.row), *_warnings(plan.run)):
            typer.echo(line)
    _show_diff(plan.files)
    return True


def _evidence(run: "RunRecord", row: "TrialRow") -> Iterator[str]:
    """The trial and its numbers, the most honest first."""
    from burnish.core.formatting import number, shorten
    from burnish.runs.directory import loss_of, sealed_words

    note = row.trial.candidate.origin.note or ", ".join(row.trial.touched)
    about = f" · {shorten(note, _NOTE)}" if note else ""
    yield f"adopts   trial {row.number} of {run.header.id} · {row.trial.phase}{about}"
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


def _warnings(run: "RunRecord") -> Iterator[str]:
    if run.status != "finished":
        yield f"note     the run is {run.status}: once adopted, it cannot be resumed unless undone"


def _show_diff(files: Sequence["FileChange"]) -> None:
    """A unified diff of every file, without secrets."""
    from burnish.core.formatting import visible
    from burnish.system import Redactor

    redactor = Redactor.from_environment()
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for change in files:
        for line in change.diff(_seen_from_here(change.path)):
            shown = visible(redactor.text(line))
            typer.echo(typer.style(shown, fg=colours.get(line[:1])))


def _tell_changed(plan: "Plan") -> None:
    for change in plan.files:
        typer.echo(f"changed  {_seen_from_here(change.path)}")


def _tell_undo(folder: Path) -> None:
    from burnish.cli.progress import run_name

    typer.echo(f"undo     burnish adopt {run_name(folder)} --undo")


def _seen_from_here(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


# -- candidates that live in no file of the user: where they lie, and copies of them -----------


def _copy_candidate(run: "RunRecord", *, trial: int | None, to: Path | None) -> None:
    """Copy a trial's files to a folder, or say where they lie."""
    from burnish.cli.progress import run_name
    from burnish.core.formatting import counted
    from burnish.projects.adopt import chosen_trial

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


def _exported(run: "RunRecord", row: "TrialRow") -> list[PurePosixPath]:
    """The files that were written when the trial became the leader."""
    if row.number in run.files:
        return [PurePosixPath(name) for name in run.files[row.number]]
    message = f"trial {row.number} was accepted, but its files were never written"
    raise ConfigError([Problem(message=message, remedy="resume the run, then adopt it")])


def _home(row: "TrialRow", files: list[PurePosixPath]) -> PurePosixPath:
    """The folder of the candidate, where it has one of its own."""
    from burnish.runs.events import CANDIDATES

    own = PurePosixPath(CANDIDATES, f"iter-{row.number:02d}")
    return own if all(file.is_relative_to(own) for file in files) else PurePosixPath()


def _copy(run: "RunRecord", files: list[PurePosixPath], home: PurePosixPath, to: Path) -> None:
    from burnish.system import make_folder, read_bytes

    def fill(folder: Path) -> None:
        for file in files:
            copy = folder / file.relative_to(home)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(read_bytes(run.folder / file))

    to.parent.mkdir(parents=True, exist_ok=True)
    if not make_folder(to, fill):
        raise FileTrouble(f"{to} exists already", remedy="name a folder that is not there yet")


# -- `--update-source` and `--in-place`: adopted without a question, once a run ended well -----


def asks_for_update(project: "Project") -> bool:
    """Whether the command said so, now or when the run was started."""
    flags = ("update_source", "in_place")
    places = (project.spec.get("output"), project.config.get("overrides"))
    return any(
        isinstance(place, dict) and place.get(flag) is True for place in places for flag in flags
    )


def update_source(folder: Path) -> None:
    """Adopt the run's best without asking: all files or none, and only if nobody touched one."""
    from burnish.projects import adopt as adoption
    from burnish.runs.directory import RunRecord

    run = RunRecord.read(folder)
    try:
        with adoption.adopting(run):
            adoption.mend(run)
            plan = adoption.plan_adoption(run)
            if plan.nothing:
                typer.echo(f"source   nothing to update: {plan.nothing}")
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
