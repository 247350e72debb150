"""What an adoption, or its undoing, would change in the user's files; nothing is written here."""

from dataclasses import dataclass
from pathlib import Path

from burnish.core.errors import ConfigError, Problem
from burnish.core.trials import TrialRow
from burnish.projects.adopting_files import FileChange
from burnish.projects.adopting_homes import Home, home_of
from burnish.projects.adopting_record import Adopted, Standing
from burnish.projects.adopting_values import changes_of, chosen_trial, turned_round
from burnish.runs.record import RunRecord


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
    """What adopting a trial, the best by default, would change; nothing is written.

    The files must be what the run measured. `force` also takes files that were changed
    since, as long as the fields to change still have the values they had in the run.
    """
    row = chosen_trial(run, trial)
    changes = () if row is None else changes_of(run, row)
    if row is None or not changes:
        return Plan(run=run, nothing=_no_better(run, row))
    if told := _adopted_already(run, row):
        return Plan(run=run, row=row, nothing=told)
    home = home_of(run, file)
    if not force:
        _require_measured(run, home)
    files = home.put(changes)
    told = "" if files else "the files have these values already"
    return Plan(run=run, row=row, files=files, nothing=told)


def plan_undo(run: RunRecord, *, file: Path | None = None, force: bool = False) -> Plan:
    """What puts the files back as they were before the run was adopted; nothing is written.

    They must be as the adoption left them. `force` also takes files that were edited since: each
    field that still has its adopted value gets its old one back, and the edits stay.
    """
    record = Adopted.read(run.folder)
    if record is None:
        remedy = f"adopt it first: `burnish adopt {run.header.id}`"
        message = f"run {run.header.id} was not adopted"
        raise ConfigError([Problem(message=message, remedy=remedy)])
    row = next((row for row in run.rows if row.number == record.trial), None)
    if record.standing is not Standing.CHANGED:
        files = record.put_back()
    elif force and row is not None:
        files = home_of(run, file).put(turned_round(changes_of(run, row)))
    else:
        raise _edited_since(record)
    told = "" if files else "the files are as they were before the adoption"
    return Plan(run=run, row=row, files=files, nothing=told)


def _no_better(run: RunRecord, row: TrialRow | None) -> str:
    if row is None:
        return "nothing was measured yet"
    if run.accepted:
        return f"trial {row.number} has the values that the run started with"
    return "no candidate was better than what you have"


def _adopted_already(run: RunRecord, row: TrialRow) -> str:
    record = Adopted.read(run.folder)
    if record is None or record.standing is not Standing.AFTER:
        return ""
    if record.candidate == row.trial.candidate.id:
        return f"trial {row.number} is adopted already, since {record.at}"
    message = f"trial {record.trial} of this run is adopted, and trial {row.number} would follow it"
    remedy = f"put it back first: `burnish adopt {run.header.id} --undo`"
    raise ConfigError([Problem(message=message, remedy=remedy)])


def _require_measured(run: RunRecord, home: Home) -> None:
    changed = home.changed_since(run.header)
    if changed:
        raise ConfigError(
            [
                Problem(where=home.place, message=f"{name} is not what the run measured")
                for name in changed
            ],
            remedy="put it back as it was, or run again on what you have now; --force changes only "
            "fields that still have the value they had in the run, and keeps your edits",
        )


def _edited_since(record: Adopted) -> ConfigError:
    problems = [
        Problem(where=file.path, message="it is not what the adoption wrote")
        for file in record.files
        if file.standing is Standing.CHANGED
    ]
    remedy = (
        "put it back by hand; or --undo --force: each field that still has its adopted value gets "
        "its old one back, and your edits stay"
    )
    return ConfigError(problems, remedy=remedy)
