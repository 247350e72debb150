"""Adopting a run: its best candidate put into the user's own files, shown first, undoable."""

import contextlib
import os
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

from burnish.core.content import short_id
from burnish.core.errors import ConfigError, FileTrouble, Problem, RunLocked
from burnish.projects.adopting_homes import nobody_writes
from burnish.projects.adopting_planning import Plan, plan_undo
from burnish.projects.adopting_record import Adopted
from burnish.projects.adopting_writing import require_writable, write_together
from burnish.runs.index import index_folder
from burnish.runs.record import RunRecord
from burnish.runs.telling import now
from burnish.system import FileLock, Redactor, remove_stale_temporaries

LOCK = "adopt.lock"


@contextlib.contextmanager
def adopting(run: RunRecord, file: Path | None = None) -> Generator[None, None, None]:
    """One adoption of a run, and of an agent file, at a time; none while the run goes on."""
    if run.driven:
        raise RunLocked(
            f"run {run.header.id} is still going on",
            remedy="wait until it ends, or stop it: touch optimize.stop in its folder",
        )
    agent = Path(os.path.realpath(file or run.header.project.file))
    with (
        FileLock.acquire(run.folder / LOCK, holding=f"the adoption of run {run.header.id}"),
        _alone_with(agent),
        nobody_writes(run.header),
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
