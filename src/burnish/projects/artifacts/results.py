"""results.jsonl and the candidates of a task, and where its values live."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

from burnish.core.content import Json, codec
from burnish.core.errors import BurnishError
from burnish.core.evaluations import Constraint
from burnish.core.surfaces import Candidate
from burnish.core.trials import SplitResult, Trial, TrialRow
from burnish.runs.directory import Header, look_into, trial_rows
from burnish.runs.events import BASELINE, Event, Tick, leads
from burnish.runs.homes import FILES as HOME_FILES
from burnish.runs.homes import FileHome, FileHomes, measured_hashes
from burnish.strategies.edits.attempts import EditDetails
from burnish.system import write_atomic
from burnish.system.files import add_lines, file_trouble, whole_lines
from burnish.system.restoration import digest
from burnish.system.workspaces import DiffSummary, summarize_diff
from burnish.targets.artifacts.target import ArtifactsTarget
from burnish.targets.artifacts.task import file_and_place

_FilesOf: TypeAlias = Callable[[Candidate], Mapping[str, str]]
_WHOLE = 2**31
"""A patch that leaves something out could not be applied."""


@dataclass(frozen=True, kw_only=True)
class TaskTrial:
    """One trial, and the files before and after its edit."""

    row: TrialRow
    parent: Candidate | None
    """What was edited; None for the trial that measures the start."""
    before: Mapping[str, bytes]
    after: Mapping[str, bytes] | None
    """None where no candidate came of it: an answer that could not be used."""

    @property
    def diff(self) -> DiffSummary:
        """What the edit changed."""
        after = self.before if self.after is None or self.parent is None else self.after
        return summarize_diff(self.before, after, max_chars=_WHOLE)


def task_trials(rows: Sequence[TrialRow], files_of: _FilesOf) -> list[TaskTrial]:
    """Every trial of a run."""
    return [_trial(row, rows, files_of) for row in rows]


def _trial(row: TrialRow, rows: Sequence[TrialRow], files_of: _FilesOf) -> TaskTrial:
    leaders = [each.trial.candidate for each in rows if each.number < row.number and leads(each)]
    candidate, parent = row.trial.candidate, None
    if row.trial.phase != BASELINE:
        named = [each for each in leaders if each.id in candidate.parents[:1]]
        parent = [*leaders, *named][-1] if leaders else None
    made = all(each.id != candidate.id for each in leaders)
    return TaskTrial(
        row=row,
        parent=parent,
        before={} if parent is None else _encoded(files_of(parent)),
        after=_encoded(files_of(candidate)) if made else None,
    )


def _encoded(texts: Mapping[str, str]) -> dict[str, bytes]:
    return {path: text.encode() for path, text in texts.items()}


_SCHEMA = 1
KEEP, DISCARD = "keep", "discard"


def result_row(
    trial: TaskTrial, *, primary: str, constraints: Sequence[Constraint]
) -> dict[str, Json]:
    """What one trial gave. What holdout said stands apart: no editor was told of it."""
    row, record = trial.row, trial.row.trial
    held = record.holdout
    return {
        "schema": _SCHEMA,
        "trial": row.number,
        "iteration": record.cycle,
        "at": row.at,
        "candidate": None if trial.after is None else record.candidate.id,
        "parent": None if trial.parent is None else trial.parent.id,
        "decision": _decision_word(record),
        "reason": _reason(record),
        "rationale": EditDetails.of(record).rationale or "",
        **_measured(record.train, primary, constraints),
        "holdout": None if held is None else _measured(held, primary, constraints),
        "changes": [
            {"path": path, "added": count.added, "removed": count.removed}
            for path, count in trial.diff.files.items()
        ],
        "hashes": {
            "baseline": _hashes(trial.before) if trial.parent else None,
            "candidate": None if trial.after is None else _hashes(trial.after),
        },
        "seconds": round(row.seconds, 3),
    }


def _decision_word(trial: Trial) -> str:
    """`baseline`, `keep`, `discard` or `crash`."""
    if trial.phase == BASELINE:
        return BASELINE
    return EditDetails.of(trial).decision or (KEEP if trial.accepted else DISCARD)


def _reason(trial: Trial) -> str:
    if trial.problems:
        return "; ".join(map(str, trial.problems))
    return trial.decision.reason if trial.decision else ""


def _measured(
    result: SplitResult | None, primary: str, constraints: Sequence[Constraint]
) -> dict[str, Json]:
    values: Mapping[str, float] = {} if result is None else result.measurement.values
    return {
        "primary_metric": primary,
        "score": values.get(primary),
        "metrics": {**values},
        "constraints": [
            {"constraint": str(each), "value": values.get(each.metric), "holds": each.holds(values)}
            for each in constraints
        ],
    }


def _hashes(files: Mapping[str, bytes]) -> dict[str, Json]:
    return {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}


PATCH, PROBLEMS, FILES = "diff.patch", "problems.txt", "files"


def _candidate_name(row: TrialRow) -> str:
    """`iter-03`, as in the run's own folder."""
    return f"iter-{row.number:02d}"


def write_candidate(home: Path, trial: TaskTrial) -> None:
    """The files of a trial and its diff, kept or not; where it has none, why."""
    folder = home / _candidate_name(trial.row)
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


_KEPT = "task"
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
        data = config.get(_KEPT)
        return codec(TaskLog).decode(data) if isinstance(data, dict) else None

    @property
    def results(self) -> Path:
        """The file of rows."""
        return Path(self.folder) / self.results_file

    def candidates(self, run: str) -> Path:
        """A run's candidates."""
        return Path(self.folder) / self.candidate_dir / run


class TaskResults:
    """Listens to a run over a task and writes what each trial gave."""

    def __init__(self, folder: Path, log: TaskLog, files_of: _FilesOf) -> None:
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
        row: dict[str, Json] = {
            "task": log.task,
            "run": run,
            **result_row(trial, primary=log.primary, constraints=log.constraints),
            "repeats": log.repeats,
            "folder": f"{log.candidate_dir.rstrip('/')}/{run}/{_candidate_name(trial.row)}",
        }
        return json.dumps(row, ensure_ascii=False)


def _numbers_there(path: Path, run: str) -> set[int]:
    """The trials of this run whose rows are in the file."""
    numbers: set[int] = set()
    for line in whole_lines(path):
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            fields = cast("dict[str, Any]", row)
            if fields.get("run") == run and isinstance(fields.get("trial"), int):
                numbers.add(fields["trial"])
    return numbers


# -- The files of a task as the homes of its values -----------------------------------------------


def task_record(log: TaskLog, target: ArtifactsTarget) -> dict[str, Json]:
    """The files with their hashes, and how the run is logged."""
    hashes = {path: digest(text.encode()) for path, text in target.texts.items()}
    return {_KEPT: log.to_json(), HOME_FILES: {**hashes}}


@dataclass(frozen=True, kw_only=True)
class TaskHomes(FileHomes):
    """Files by their path in the task's folder; the scripts are the user's own affair."""

    @classmethod
    def of(cls, header: Header) -> "TaskHomes | None":
        """Those of a run over a task; None where it was about something else."""
        log, hashes = TaskLog.of(header.project.config), measured_hashes(header)
        if log is None or not hashes:
            return None
        folder = Path(log.folder)
        homes = {name: FileHome(path=folder / name, name=name) for name in hashes}
        return cls(homes=homes, hashes=hashes)

    def home(self, surface: str) -> FileHome:
        """A whole file, or a place in one."""
        file, place = file_and_place(surface)
        if surface in self.homes or file not in self.homes:
            return super().home(surface)
        return FileHome(path=self.homes[file].path, place=place, name=file)
