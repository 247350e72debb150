"""results.jsonl and the candidates of seed 002, where the task says, beside the run's own folder.

They say what the ledger says. A row is written once, when its trial is on record, and never
changed; rows of other runs stay. So a killed run that goes on only adds what is not there yet.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from burnish.core.codec import codec
from burnish.core.content import Json
from burnish.core.errors import BurnishError
from burnish.core.objectives import Constraint
from burnish.reports.task_candidates import candidate_name, write_candidate
from burnish.reports.task_rows import result_row
from burnish.reports.task_trials import FilesOf, TaskTrial, task_trials
from burnish.runs.directory import look_into, trial_rows
from burnish.runs.events import Event, Tick
from burnish.runs.header import Header
from burnish.system.shared_lines import add_lines, whole_lines

KEPT = "task"
"""Where `Project.config` of a task's run keeps all this."""


@dataclass(frozen=True, kw_only=True)
class TaskLog:
    """What a task says of its files and results, kept in the header of its runs."""

    task: str
    folder: str
    results_file: str
    candidate_dir: str
    primary: str = "score"
    direction: str = "maximize"
    constraints: tuple[Constraint, ...] = ()
    repeats: int = 1

    def to_json(self) -> Json:
        """For the header."""
        return codec(TaskLog).encode(self)

    @classmethod
    def of(cls, config: Mapping[str, Json]) -> "TaskLog | None":
        """What the config of a run's project keeps; None where it is no run over a task."""
        kept = config.get(KEPT)
        return codec(TaskLog).decode(kept) if isinstance(kept, dict) else None

    @property
    def results(self) -> Path:
        """The file of rows."""
        return Path(self.folder) / self.results_file

    def candidates(self, run: str) -> Path:
        """A run's candidates."""
        return Path(self.folder) / self.candidate_dir / run


class TaskResults:
    """Listens to a run over a task and writes what each trial gave."""

    def __init__(self, folder: Path, log: TaskLog, files_of: FilesOf) -> None:
        self._folder = folder
        self._log = log
        self._files_of = files_of

    def event(self, event: Event) -> None:
        """Write what an event brings. What cannot be written now is written at the end."""
        if event.kind == "trial_recorded":
            try:
                self.finish()
            except BurnishError:
                return

    def tick(self, tick: Tick) -> None:
        """Cases are too many for files."""

    def finish(self) -> None:
        """Write every row and candidate that is not there yet."""
        run = Header.read(self._folder).id
        with look_into(self._folder) as journal:
            rows = list(trial_rows(journal))
        there = _numbers_there(self._log.results, run)
        trials = task_trials(rows, self._files_of)
        new = [trial for trial in trials if trial.row.number not in there]
        for trial in new:
            write_candidate(self._log.candidates(run), trial)
        # The rows come last: where one is, its candidate is whole.
        add_lines(self._log.results, [self._line(trial, run) for trial in new])

    def _line(self, trial: TaskTrial, run: str) -> str:
        log = self._log
        told: dict[str, Json] = {
            "task": log.task,
            "run": run,
            **result_row(trial, primary=log.primary, constraints=log.constraints),
            "repeats": log.repeats,
            "folder": f"{log.candidate_dir.rstrip('/')}/{run}/{candidate_name(trial.row)}",
        }
        return json.dumps(told, ensure_ascii=False)


def _numbers_there(path: Path, run: str) -> set[int]:
    """The trials of this run whose rows are in the file."""
    found: set[int] = set()
    for line in whole_lines(path):
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            told = cast("dict[str, Any]", row)
            if told.get("run") == run and isinstance(told.get("trial"), int):
                found.add(told["trial"])
    return found
