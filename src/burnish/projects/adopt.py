"""Adopting a run: its best candidate put into the user's own files, shown first, undoable.

Which files those are the plug-in of the run's target says. Everything else is the same for all.
"""

import contextlib
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import cast

from burnish.core.content import short_id
from burnish.core.errors import ConfigError, FileTrouble, Problem, RunLocked
from burnish.core.formatting import shorten
from burnish.core.surfaces import Change, Value, diff, value_key
from burnish.core.trials import TrialRow
from burnish.projects.adopt_files import Adopted, AdoptionState, require_writable, write_together
from burnish.projects.dialects import dialect_named
from burnish.runs.directory import Header, Project, RunRecord, index_folder
from burnish.runs.events import BASELINE
from burnish.runs.homes import FileChange, Homes
from burnish.runs.plugins import TARGETS, strategy_plugin, target_plugin
from burnish.runs.recorder import now
from burnish.system import FileLock, Redactor, remove_stale_temporaries
from burnish.system.redaction import MARKER

_LOCK = "adopt.lock"
_SHOWN = 60


# -- the files that a run is about -------------------------------------------------------------


def homes_of(header: Header) -> Homes | None:
    """Where the values of a run live in the user's files; None where they do not."""
    if not strategy_plugin(header.strategy).proposes:
        return None
    answers = (target_plugin(kind).homes(header) for kind in _target_kinds(header.project))
    return next((homes for homes in answers if homes is not None), None)


def _target_kinds(project: Project) -> Sequence[str]:
    """The kind of the target; every kind where a program started the run and named none."""
    target = project.spec.get("target")
    if isinstance(target, dict):
        return [str(target["kind"])]
    if project.kind == Project.kind:
        return [point.name for point in entry_points(group=TARGETS)] if project.config else []
    try:
        # A run of version 0.1 kept no description: the kind of its file says what it is about.
        return [dialect_named(project.kind).target]
    except ConfigError:
        return []


def _loaded_homes(run: RunRecord, file: Path | None) -> Homes:
    """The files as they are now; `file` says where the project file lies now."""
    header = run.header
    if file is not None:
        header = replace(header, project=replace(header.project, file=str(file)))
    homes = homes_of(header)
    if homes is None:
        message = f"run {run.header.id} is about no files of yours"
        raise ConfigError([Problem(message=message)])
    if file is not None and not homes.movable:
        message = "these files are adopted where they lie"
        raise ConfigError([Problem(where="--file", message=message, remedy="leave it out")])
    for path in homes.files:
        if not path.exists():
            otherwise = ", or say where it is now with --file FILE" if homes.movable else ""
            raise FileTrouble(
                f"run {run.header.id} was started from {path}, which is gone",
                remedy=f"put the file back{otherwise}",
            )
    homes.load()
    return homes


# -- the values that change --------------------------------------------------------------------


def chosen_trial(run: RunRecord, number: int | None) -> TrialRow | None:
    """The trial to adopt: an accepted one by its number, or the best; None before any trial."""
    if number is None:
        return run.best
    row = next((row for row in run.rows if row.number == number), None)
    if row is not None and (row.trial.accepted or row.trial.phase == BASELINE):
        return row
    accepted = ", ".join(str(row.number) for row in run.rows if row.trial.accepted) or "none"
    message = f"trial {number} was not accepted" if row else f"there is no trial {number}"
    raise ConfigError([Problem(where="--trial", message=message, remedy=f"accepted: {accepted}")])


def changes_of(run: RunRecord, row: TrialRow) -> tuple[Change, ...]:
    """What the trial's candidate has that the run's start had not."""
    start = run.baseline
    return () if start is None else diff(start.trial.candidate, row.trial.candidate)


def _reversed(changes: Sequence[Change]) -> tuple[Change, ...]:
    """The same changes from the end to the start."""
    return tuple(Change(surface=c.surface, before=c.after, after=c.before) for c in changes)


def put(homes: Homes, changes: Sequence[Change]) -> tuple[FileChange, ...]:
    """What becomes of the files; refused where a field has a third value by now."""
    return homes.edited(_to_put(changes, homes.value))


def _to_put(changes: Sequence[Change], value_now: Callable[[str], Value]) -> Mapping[str, Value]:
    """The values that are not there yet."""
    values: dict[str, Value] = {}
    problems: list[Problem] = []
    for change in changes:
        if change.before is None or change.after is None:
            continue
        try:
            value = value_now(change.surface)
        except ConfigError as error:
            problems += error.problems
            continue
        if same_value(value, change.after):
            continue
        problems += _third_value(change, value) or _lost_secret(change, value)
        values[change.surface] = change.after
    if problems:
        raise ConfigError(problems)
    return values


def same_value(one: Value, other: Value) -> bool:
    """Whether two values are the same; texts may differ in how their lines end."""
    return value_key(_level(one)) == value_key(_level(other))


def _level(value: Value) -> Value:
    return value.replace("\r\n", "\n") if isinstance(value, str) else value


def _third_value(change: Change, value: Value) -> list[Problem]:
    if change.before is None or same_value(value, change.before) or MARKER in str(change.before):
        return []
    message = f"it is {_short(value)} now, and was {_short(change.before)} in the run"
    remedy = f"put it back, or change it to {_short(change.after)} yourself"
    return [Problem(where=change.surface, message=message, remedy=remedy)]


def _lost_secret(change: Change, value: Value) -> list[Problem]:
    """A run keeps no secrets: where one stood in a text, the text cannot be put back whole."""
    if MARKER not in str(change.after) or MARKER in str(value):
        return []
    message = f"the run kept this text with {MARKER} where something looked like a secret"
    remedy = "take the new text from the run's folder and edit the file yourself"
    return [Problem(where=change.surface, message=message, remedy=remedy)]


def _short(value: object) -> str:
    if isinstance(value, tuple):
        return f"{len(cast('tuple[object, ...]', value))} demonstrations"
    return shorten(repr(value), _SHOWN)


# -- what would change; nothing is written -----------------------------------------------------


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
    """What adopting a trial, the best by default, would change.

    The files must be what the run measured. `force` also takes files that were changed
    since, as long as the fields to change still have the values they had in the run.
    """
    row = chosen_trial(run, trial)
    changes = () if row is None else changes_of(run, row)
    if row is None or not changes:
        return Plan(run=run, nothing=_no_better(run, row))
    if why := _adopted_already(run, row):
        return Plan(run=run, row=row, nothing=why)
    homes = _loaded_homes(run, file)
    if not force:
        _require_measured(homes)
    files = put(homes, changes)
    why = "" if files else "the files have these values already"
    return Plan(run=run, row=row, files=files, nothing=why)


def plan_undo(run: RunRecord, *, file: Path | None = None, force: bool = False) -> Plan:
    """What puts the files back as they were before the run was adopted.

    They must be as the adoption left them. `force` also takes files that were edited since: each
    field that still has its adopted value gets its old one back, and the edits stay.
    """
    record = Adopted.read(run.folder)
    if record is None:
        remedy = f"adopt it first: `burnish adopt {run.header.id}`"
        message = f"run {run.header.id} was not adopted"
        raise ConfigError([Problem(message=message, remedy=remedy)])
    row = next((row for row in run.rows if row.number == record.trial), None)
    if record.standing is not AdoptionState.CHANGED:
        files = record.put_back()
    elif force and row is not None:
        files = put(_loaded_homes(run, file), _reversed(changes_of(run, row)))
    else:
        raise _edited_since(record)
    why = "" if files else "the files are as they were before the adoption"
    return Plan(run=run, row=row, files=files, nothing=why)


def _no_better(run: RunRecord, row: TrialRow | None) -> str:
    if row is None:
        return "nothing was measured yet"
    if run.accepted:
        return f"trial {row.number} has the values that the run started with"
    return "no candidate was better than what you have"


def _adopted_already(run: RunRecord, row: TrialRow) -> str:
    record = Adopted.read(run.folder)
    if record is None or record.standing is not AdoptionState.AFTER:
        return ""
    if record.candidate == row.trial.candidate.id:
        return f"trial {row.number} is adopted already, since {record.at}"
    message = f"trial {record.trial} of this run is adopted, and trial {row.number} would follow it"
    remedy = f"put it back first: `burnish adopt {run.header.id} --undo`"
    raise ConfigError([Problem(message=message, remedy=remedy)])


def _require_measured(homes: Homes) -> None:
    changed = homes.changed()
    if changed:
        raise ConfigError(
            [
                Problem(where=homes.place, message=f"{name} is not what the run measured")
                for name in changed
            ],
            remedy="put it back as it was, or run again on what you have now; --force changes only "
            "fields that still have the value they had in the run, and keeps your edits",
        )


def _edited_since(record: Adopted) -> ConfigError:
    problems = [
        Problem(where=file.path, message="it is not what the adoption wrote")
        for file in record.files
        if file.standing is AdoptionState.CHANGED
    ]
    remedy = (
        "put it back by hand; or --undo --force: each field that still has its adopted value gets "
        "its old one back, and your edits stay"
    )
    return ConfigError(problems, remedy=remedy)


# -- doing it ----------------------------------------------------------------------------------


@contextlib.contextmanager
def adopting(run: RunRecord, file: Path | None = None) -> Generator[None, None, None]:
    """One adoption of a run, and of an agent file, at a time; none while the run goes on."""
    if run.driven:
        raise RunLocked(
            f"run {run.header.id} is still going on",
            remedy="wait until it ends, or stop it: touch optimize.stop in its folder",
        )
    agent = Path(os.path.realpath(file or run.header.project.file))
    homes = homes_of(run.header)
    with (
        FileLock.acquire(run.folder / _LOCK, holding=f"the adoption of run {run.header.id}"),
        _alone_with(agent),
        contextlib.nullcontext() if homes is None else homes.alone(),
    ):
        _clean_up(run)
        yield


@contextlib.contextmanager
def _alone_with(agent: Path) -> Generator[None, None, None]:
    """Keeps the adoption of another run away from the same file.

    The lock lies beside the index of runs, not in the user's folder; as there, an adoption works
    where nothing can be written there.
    """
    place = index_folder().parent / "adopting"
    with contextlib.ExitStack() as held:
        with contextlib.suppress(FileTrouble, OSError):
            place.mkdir(parents=True, exist_ok=True)
            lock = place / f"{short_id(str(agent))}.lock"
            held.enter_context(FileLock.acquire(lock, holding=str(agent)))
        yield


def _clean_up(run: RunRecord) -> None:
    """Remove what a killed adoption left, here and beside the user's files."""
    record = Adopted.read(run.folder)
    files = record.files if record else ()
    for folder in {run.folder, *(Path(file.path).parent for file in files)}:
        remove_stale_temporaries(folder, shared=True)


def adopt(plan: Plan) -> None:
    """Change the files: all or none. What undoes it is on the disk before the first changes."""
    assert plan.row is not None
    require_writable(plan.files)
    record = Adopted.of(plan.row, plan.files, now())
    _require_no_secrets(record)
    _write(plan, record)


def undo(plan: Plan) -> None:
    """Put the files back: all or none."""
    record = Adopted.read(plan.run.folder)
    assert record is not None
    _write(plan, record)


def mend(run: RunRecord) -> Plan | None:
    """Put back what an adoption, or its undoing, left when it was killed between two files."""
    record = Adopted.read(run.folder)
    if record is None or not record.cut_off:
        return None
    plan = plan_undo(run)
    undo(plan)
    return plan


def require_whole(run: RunRecord) -> None:
    """Refuse to look at files that an adoption left half done."""
    record = Adopted.read(run.folder)
    if record is not None and record.cut_off:
        message = f"an adoption of run {run.header.id} was cut off between two files"
        remedy = f"put them back: `burnish adopt {run.header.id} --undo`"
        raise ConfigError([Problem(message=message, remedy=remedy)])


def _write(plan: Plan, record: Adopted) -> None:
    replace(record, done=False).write(plan.run.folder)
    write_together(plan.files)
    replace(record, done=True).write(plan.run.folder)


def _require_no_secrets(record: Adopted) -> None:
    """What undoes an adoption lies in the run's folder, where no secret may lie."""
    redactor = Redactor.from_environment()
    for file in record.files:
        lines = "".join(line for hunk in file.hunks for line in (*hunk.before, *hunk.after))
        if redactor.without_known(lines) != lines:
            message = "a line that would change holds a secret, which no run may keep"
            remedy = "put ${NAME} in its place and run again, or edit the file yourself"
            raise ConfigError([Problem(where=file.path, message=message, remedy=remedy)])
