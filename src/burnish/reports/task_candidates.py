"""A candidate of a task as files: what it is, and how it differs from what it was made of."""

from pathlib import Path

from burnish.core.trials import TrialRow
from burnish.reports.task_trials import TaskTrial
from burnish.system import write_atomic
from burnish.system.file_trouble import file_trouble

PATCH, PROBLEMS, FILES = "diff.patch", "problems.txt", "files"


def candidate_name(row: TrialRow) -> str:
    """`iter-03`, as in the run's own folder."""
    return f"iter-{row.number:02d}"


def write_candidate(home: Path, trial: TaskTrial) -> None:
    """The files of a trial and its diff, kept or not; where it has none, why."""
    folder = home / candidate_name(trial.row)
    problems = trial.row.trial.problems
    if problems:
        _write(folder / PROBLEMS, "".join(f"{problem}\n" for problem in problems))
    if trial.after is None:
        return
    for path, content in trial.after.items():
        _write(folder / FILES / path, content)
    if trial.parent is not None:
        _write(folder / PATCH, trial.diff.text)


def _write(path: Path, content: str | bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise file_trouble("make", path.parent, error) from error
    write_atomic(path, content, durable=False)
