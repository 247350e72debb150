"""Adopting a run: its best candidate is written to the user's own files, after a diff, undoable.

The plug-in of the run's target says which files those are.
"""

import contextlib
import os
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from burnish.core.content import short_id
from burnish.core.errors import ConfigError, FileTrouble, Problem, RunLocked, in_shell
from burnish.core.formatting import shorten
from burnish.core.surfaces import Change, Value, diff, value_key
from burnish.core.trials import TrialRow
from burnish.projects.adopt_files import Adopted, AdoptionState, require_writable, write_together
from burnish.projects.dialects import dialect_named
from burnish.runs.directory import Header, Project, RunRecord, index_folder, known_runs
from burnish.runs.events import BASELINE
from burnish.runs.homes import FileChange, Homes
from burnish.runs.plugins import TARGETS, strategy_plugin, target_plugin
from burnish.runs.recorder import now
from burnish.system import FileLock, Redactor, remove_stale_temporaries
from burnish.system.redaction import MARKER
from burnish.system.user_code import installed


def homes_of(header: Header) -> Homes | None:
    """Where the values of a run are in the user's files; None if they are in none."""
    if not strategy_plugin(header.strategy).proposes:
        return None
    answers = (target_plugin(kind).homes(header) for kind in _target_kinds(header.project))
    return next((homes for homes in answers if homes is not None), None)


def _target_kinds(project: Project) -> Sequence[str]:
    """The kind of the target; every kind if a program started the run without naming one."""
    target = project.spec.get("target")
    if isinstance(target, dict):
        return [str(target["kind"])]
    if project.kind == Project.kind:
        return [point.name for point in installed(TARGETS)] if project.config else []
    try:
        # A run of version 0.1 kept no description: the kind of its file says what it is about.
        return [dialect_named(project.kind).target]
    except ConfigError:
        return []


def _loaded_homes(run: RunRecord, file: Path | None) -> Homes:
    header = run.header
    if file is not None:
        header = replace(header, project=replace(header.project, file=str(file)))
    homes = homes_of(header)
    if homes is None:
        message = f"run {run.header.id} does not change any of your files"
        raise ConfigError([Problem(message=message)])
    if file is not None and not homes.movable:
        message = "these files are always adopted in place"
        raise ConfigError([Problem(where="--file", message=message, remedy="leave it out")])
    for path in homes.files:
        if not path.exists():
            otherwise = ", or give its new location with --file FILE" if homes.movable else ""
            raise FileTrouble(
                f"run {run.header.id} was started from {path}, which no longer exists",
                remedy=f"put the file back{otherwise}",
            )
    homes.load()
    return homes


def chosen_trial(run: RunRecord, number: int | None) -> TrialRow | None:
    """The trial to adopt: an accepted or kept one by its number, or the best; None if there is
    none yet."""
    if number is None:
        return run.best
    row = next((row for row in run.rows if row.number == number), None)
    if row is not None and (_is_kept(row) or row.trial.phase == BASELINE):
        return row
    accepted = ", ".join(str(row.number) for row in run.rows if _is_kept(row)) or "none"
    message = f"trial {number} was not accepted" if row else f"there is no trial {number}"
    raise ConfigError([Problem(where="--trial", message=message, remedy=f"accepted: {accepted}")])


def _is_kept(row: TrialRow) -> bool:
    return row.trial.accepted or row.trial.kept


def changes_of(run: RunRecord, row: TrialRow) -> tuple[Change, ...]:
    """How the trial's candidate differs from the start of the run."""
    start = run.baseline
    return () if start is None else diff(start.trial.candidate, row.trial.candidate)


def put(homes: Homes, changes: Sequence[Change]) -> tuple[FileChange, ...]:
    """The changes of the files; rejected if a field has a third value by now."""
    values: dict[str, Value] = {}
    files: list[FileChange] = []
    problems: list[Problem] = []
    for change in changes:
        try:
            if change.before is None or change.after is None:
                added = homes.file_added(change)
                files += [] if added is None else [added]
                continue
            value = homes.value(change.surface)
        except ConfigError as error:
            problems += error.problems
            continue
        if same_value(value, change.after):
            continue
        if problem := _conflict(change, change.before, value):
            problems.append(problem)
        values[change.surface] = change.after
    if problems:
        raise ConfigError(problems)
    return (*homes.edited(values), *files)


def same_value(one: Value, other: Value) -> bool:
    """Whether two values are the same; texts may differ in how their lines end."""
    return value_key(_level(one)) == value_key(_level(other))


def _level(value: Value) -> Value:
    return value.replace("\r\n", "\n") if isinstance(value, str) else value


def _conflict(change: Change, before: Value, value: Value) -> Problem | None:
    if not same_value(value, before) and MARKER not in str(before):
        message = f"it is {_short(value)} now, but was {_short(before)} in the run"
        remedy = f"put it back, or change it to {_short(change.after)} yourself"
    elif MARKER in str(change.after) and MARKER not in str(value):
        # A run keeps no secrets, so a text that had one cannot be put back whole.
        message = f"the run stored this text with {MARKER} in place of what looked like a secret"
        remedy = "take the new text from the run's folder and edit the file yourself"
    else:
        return None
    return Problem(where=change.surface, message=message, remedy=remedy)


def _short(value: object) -> str:
    if isinstance(value, tuple):
        return f"{len(cast('tuple[object, ...]', value))} demonstrations"
    return shorten(repr(value), 60)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What an adoption, or its undoing, would change."""

    run: RunRecord
    row: TrialRow | None = None
    """The trial that is adopted, or was."""
    files: tuple[FileChange, ...] = ()
    nothing: str = ""
    """Why there is nothing to change."""


def plan_adoption(
    run: RunRecord, *, trial: int | None = None, file: Path | None = None, force: bool = False
) -> Plan:
    """What adopting a trial, by default the best, would change.

    The files must be what the run measured. `force` also accepts files that were changed since, as
    long as the fields to change still have the values they had in the run.
    """
    row = chosen_trial(run, trial)
    changes = () if row is None else changes_of(run, row)
    if row is None or not changes:
        return Plan(run=run, nothing=_no_better(run, row))
    if why := _adopted_already(run, row):
        return Plan(run=run, row=row, nothing=why)
    homes = _loaded_homes(run, file)
    if not force and (changed := homes.changed()):
        raise ConfigError(
            [
                Problem(where=homes.place, message=f"{name} is not what the run measured")
                for name in changed
            ],
            remedy="put it back as it was, or run again on what you have now; --force changes only "
            "fields that still have the value they had in the run, and keeps your edits",
        )
    files = put(homes, changes)
    _require_inside(run, (each.path for each in files), file)
    why = "" if files else "the files already have these values"
    return Plan(run=run, row=row, files=files, nothing=why)


def _outside(run: RunRecord, places: Iterable[Path], file: Path | None) -> list[Problem]:
    """Why a run may not change these places: one from elsewhere names what it likes as its project.

    What such a run changes must be in the current folder, or beside the file that the user named.
    """
    if run.folder.resolve() in {*known_runs()}:
        return []
    home = Path.cwd() if file is None else file.resolve().parent
    message = f"run {run.header.id} is not from this machine, and the file is outside of {home}"
    outside = (place for place in dict.fromkeys(places) if not _is_below(place, home))
    return [Problem(where=str(place), message=message) for place in outside]


def _is_below(place: Path, home: Path) -> bool:
    try:
        return home in place.resolve().parents
    except (OSError, RuntimeError, ValueError):  # a loop of links, or a name that no file can have
        return False


def _require_inside(run: RunRecord, places: Iterable[Path], file: Path | None) -> None:
    if problems := _outside(run, places, file):
        remedy = "go to the folder of the project, or name its file with --file FILE"
        raise ConfigError(problems, remedy=remedy)


def plan_undo(run: RunRecord, *, file: Path | None = None, force: bool = False) -> Plan:
    """What restores the files to their state before the adoption.

    They must be as the adoption left them. `force` also accepts files that were edited since:
    fields that still have their adopted value get the old one back, and other edits stay.
    """
    record = Adopted.read(run.folder)
    if record is None:
        remedy = f"adopt it first: `burnish adopt {in_shell(run.header.id)}`"
        message = f"run {run.header.id} was not adopted"
        raise ConfigError([Problem(message=message, remedy=remedy)])
    _require_inside(run, record.places, file)
    row = next((row for row in run.rows if row.number == record.trial), None)
    if record.standing is not AdoptionState.CHANGED:
        files = record.put_back()
    elif force and row is not None:
        back = [replace(c, before=c.after, after=c.before) for c in changes_of(run, row)]
        files = put(_loaded_homes(run, file), back)
    else:
        raise ConfigError(
            [
                Problem(where=file.path, message="the file has changed since the adoption")
                for file in record.files
                if file.standing is AdoptionState.CHANGED
            ],
            remedy="put it back by hand; or --undo --force: each field that still has its adopted "
            "value gets its old one back, and your edits stay",
        )
    _require_inside(run, (each.path for each in files), file)
    why = "" if files else "the files are as they were before the adoption"
    return Plan(run=run, row=row, files=files, nothing=why)


def _no_better(run: RunRecord, row: TrialRow | None) -> str:
    if row is None:
        return "nothing was measured yet"
    if run.accepted:
        return f"trial {row.number} has the values that the run started with"
    return "no candidate was better than the baseline"


def _adopted_already(run: RunRecord, row: TrialRow) -> str:
    record = Adopted.read(run.folder)
    if record is None or record.standing is not AdoptionState.AFTER:
        return ""
    if record.candidate == row.trial.candidate.id:
        return f"trial {row.number} has been adopted since {record.at}"
    message = f"trial {record.trial} of this run is already adopted, not trial {row.number}"
    remedy = f"put it back first: `burnish adopt {in_shell(run.header.id)} --undo`"
    raise ConfigError([Problem(message=message, remedy=remedy)])


@contextlib.contextmanager
def adopting(run: RunRecord, file: Path | None = None) -> Generator[None, None, None]:
    """Allow one adoption of a run, and of an agent file, at a time; none while the run goes on."""
    if run.driven:
        raise RunLocked(
            f"run {run.header.id} is still running",
            remedy="wait until it ends, or stop it: touch optimize.stop in its folder",
        )
    agent = Path(os.path.realpath(file or run.header.project.file))
    homes = homes_of(run.header)
    with (
        FileLock.acquire(run.folder / "adopt.lock", holding=f"the adoption of run {run.header.id}"),
        _alone_with(agent),
        contextlib.nullcontext() if homes is None else homes.alone(),
    ):
        _clean_up(run, file)
        yield


@contextlib.contextmanager
def _alone_with(agent: Path) -> Generator[None, None, None]:
    """Keep adoptions of other runs away from the same file.

    The lock is next to the index of runs. An adoption also works if it cannot be written.
    """
    place = index_folder().parent / "adopting"
    with contextlib.ExitStack() as held:
        with contextlib.suppress(FileTrouble, OSError):
            place.mkdir(parents=True, exist_ok=True)
            lock = place / f"{short_id(str(agent))}.lock"
            held.enter_context(FileLock.acquire(lock, holding=str(agent)))
        yield


def _clean_up(run: RunRecord, file: Path | None) -> None:
    """Remove what a killed adoption left in the run's folder and next to the user's files.

    A record that names places outside of the project was made elsewhere, and left nothing here.
    """
    remove_stale_temporaries(run.folder, shared=True)
    record = Adopted.read(run.folder)
    if record is None or _outside(run, record.places, file):
        return
    for folder in {Path(file.path).parent for file in record.files}:
        remove_stale_temporaries(folder, shared=True)
    if not record.done:
        record.remove_folders()


def adopt(plan: Plan) -> None:
    """Change all files or none. The record to undo it is on disk before the first change."""
    assert plan.row is not None
    require_writable(plan.files)
    record = Adopted.of(plan.row, plan.files, now())
    _require_no_secrets(record)
    _write(plan, record)


def undo(plan: Plan) -> None:
    """Restore all files or none."""
    record = Adopted.read(plan.run.folder)
    assert record is not None
    _write(plan, record)


def _write(plan: Plan, record: Adopted) -> None:
    replace(record, done=False).write(plan.run.folder)
    write_together(plan.files)
    record.remove_folders()
    replace(record, done=True).write(plan.run.folder)


def _require_no_secrets(record: Adopted) -> None:
    """The record to undo an adoption is in the run's folder, which must not contain secrets."""
    redactor = Redactor.from_environment()
    for file in record.files:
        lines = "".join(line for hunk in file.hunks for line in (*hunk.before, *hunk.after))
        if redactor.without_known(lines) != lines:
            message = "a line that would change contains a secret, and runs must not store secrets"
            remedy = "replace it with ${NAME} and run again, or edit the file yourself"
            raise ConfigError([Problem(where=file.path, message=message, remedy=remedy)])
