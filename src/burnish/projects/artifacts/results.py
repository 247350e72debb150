"""results.jsonl and the candidates of a task, and the files that hold its values."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias, cast

from pydantic import Field

from burnish.core.content import Json, codec, from_json
from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.core.evaluations import Constraint
from burnish.core.surfaces import Candidate, Change
from burnish.core.trials import SplitResult, Trial, TrialRow
from burnish.runs.directory import Header, look_into, trial_rows
from burnish.runs.events import BASELINE, Event, Tick, leads
from burnish.runs.homes import FILES, FileChange, FileHome, FileHomes, measured_hashes
from burnish.strategies.edits.attempts import EditDetails
from burnish.system import read_bytes, write_atomic
from burnish.system.files import add_lines, file_trouble, whole_lines
from burnish.system.redaction import MARKER
from burnish.system.restoration import digest
from burnish.system.workspaces import DiffSummary, shown, summarize_diff
from burnish.targets.artifacts.safeguards import addition_problem
from burnish.targets.artifacts.target import ArtifactsTarget
from burnish.targets.artifacts.task import file_and_place

_FilesOf: TypeAlias = Callable[[Candidate], Mapping[str, str]]


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
        after = self.before if self.after is None or self.parent is None else self.after
        # A patch that leaves something out could not be applied.
        return summarize_diff(self.before, after, max_chars=2**31)


def task_trials(rows: Sequence[TrialRow], files_of: _FilesOf) -> list[TaskTrial]:
    """Every trial of a run."""
    trials: list[TaskTrial] = []
    leaders: list[Candidate] = []
    for row in rows:
        candidate, parent = row.trial.candidate, None
        if row.trial.phase != BASELINE and leaders:
            named = [each for each in leaders if each.id in candidate.parents[:1]]
            parent = [*leaders, *named][-1]
        is_new = all(each.id != candidate.id for each in leaders)
        trials.append(
            TaskTrial(
                row=row,
                parent=parent,
                before={} if parent is None else _encoded(files_of(parent)),
                after=_encoded(files_of(candidate)) if is_new else None,
            )
        )
        if leads(row):
            leaders.append(candidate)
    return trials


def _encoded(texts: Mapping[str, str]) -> dict[str, bytes]:
    return {path: text.encode() for path, text in texts.items()}


def result_row(
    trial: TaskTrial, *, primary: str, constraints: Sequence[Constraint]
) -> dict[str, Json]:
    """The result of one trial; holdout numbers are separate, since no editor saw them."""
    row, record = trial.row, trial.row.trial
    held, reason = record.holdout, record.decision.reason if record.decision else ""
    return {
        "schema": 1,
        "trial": row.number,
        "iteration": record.cycle,
        "at": row.at,
        "candidate": None if trial.after is None else record.candidate.id,
        "parent": None if trial.parent is None else trial.parent.id,
        "decision": _decision_word(record),
        "reason": "; ".join(map(str, record.problems)) or reason,
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
    return EditDetails.of(trial).decision or ("keep" if trial.accepted else "discard")


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


def _candidate_name(row: TrialRow) -> str:
    return f"iter-{row.number:02d}"


def write_candidate(home: Path, trial: TaskTrial) -> None:
    """Write the files of a trial and its diff, accepted or not; if it has none, the reasons."""
    folder = home / _candidate_name(trial.row)
    problems = trial.row.trial.problems
    if problems:
        _write(folder / "problems.txt", "".join(f"{problem}\n" for problem in problems))
    if trial.after is None:
        return
    for path, content in trial.after.items():
        _write(folder / "files" / path, content)
    if trial.parent is not None:
        _write(folder / "diff.patch", trial.diff.text)


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
    """Where a task writes its results, stored in the header of its runs."""

    task: str
    folder: str
    results_file: str
    candidate_dir: str
    primary: str = "score"
    direction: str = "maximize"
    constraints: tuple[Constraint, ...] = ()
    repeats: int = 1
    # Left out when empty, so that other runs are described as before there were any.
    new_files: Annotated[tuple[str, ...], Field(exclude_if=lambda patterns: not patterns)] = ()
    """Patterns of the files that edits may add."""

    @classmethod
    def of(cls, config: Mapping[str, Json]) -> "TaskLog | None":
        data = config.get(_KEPT)
        return codec(TaskLog).decode(data) if isinstance(data, dict) else None


class TaskResults:
    """Writes the result of each trial while a run goes on."""

    def __init__(self, folder: Path, log: TaskLog, files_of: _FilesOf) -> None:
        self._folder = folder
        self._log = log
        self._files_of = files_of

    def event(self, event: Event) -> None:
        """Write new results. What cannot be written now is written at the end."""
        if event.kind == "trial_recorded":
            try:
                self.finish()
            except BurnishError:
                return

    def tick(self, tick: Tick) -> None:
        """Cases are too many for files."""

    def finish(self) -> None:
        """Write every row and candidate that is still missing."""
        run = Header.read(self._folder).id
        with look_into(self._folder) as journal:
            rows = list(trial_rows(journal))
        home = Path(self._log.folder)
        results = home / self._log.results_file
        there = _numbers_there(results, run)
        trials = task_trials(rows, self._files_of)
        new = [trial for trial in trials if trial.row.number not in there]
        for trial in new:
            write_candidate(home / self._log.candidate_dir / run, trial)
        # The rows come last: where one is, its candidate is whole.
        add_lines(results, [self._line(trial, run) for trial in new])

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
    numbers: set[int] = set()
    for line in whole_lines(path):
        try:
            row = from_json(line)
        except ValueError:
            continue
        fields = cast("dict[str, Any]", row if isinstance(row, dict) else {})
        if fields.get("run") == run and isinstance(fields.get("trial"), int):
            numbers.add(fields["trial"])
    return numbers


def task_record(log: TaskLog, target: ArtifactsTarget) -> dict[str, Json]:
    """The files with their hashes, and how the run is logged."""
    hashes = {path: digest(text.encode()) for path, text in target.texts.items()}
    return {_KEPT: codec(TaskLog).encode(log), FILES: {**hashes}}


@dataclass(frozen=True, kw_only=True)
class TaskHomes(FileHomes):
    """The files of a task by their path in its folder; scripts belong to the user."""

    folder: Path = Path()
    new_files: tuple[str, ...] = ()

    @classmethod
    def of(cls, header: Header) -> "TaskHomes | None":
        log, hashes = TaskLog.of(header.project.config), measured_hashes(header)
        if log is None or not hashes:
            return None
        folder = Path(log.folder)
        homes = {name: FileHome(path=folder / name, name=name) for name in hashes}
        return cls(homes=homes, hashes=hashes, folder=folder, new_files=log.new_files)

    def home(self, surface: str) -> FileHome:
        file, place = file_and_place(surface)
        if surface in self.homes or file not in self.homes:
            return super().home(surface)
        return FileHome(path=self.homes[file].path, place=place, name=file)

    def file_added(self, change: Change) -> FileChange | None:
        text = str(change.after if change.before is None else change.before)
        if not text.strip():
            return None  # It was added, and taken out again.
        path = self._new_path(change.surface)
        now = read_bytes(path) if path.is_file() and not path.is_symlink() else None
        if change.before is None:
            return _addition(path, now, text)
        return _removal(path, now, text)

    def _new_path(self, name: str) -> Path:
        """The place of a file that is not there at the start, inside the folder through no link."""
        problem = addition_problem(self.new_files, name)
        home = Path(os.path.realpath(self.folder))
        path = home / name
        if not problem and Path(os.path.realpath(path.parent)) != path.parent:
            problem = "a link is on the way to it"
        if problem:
            remedy = "copy it from the run's folder yourself"
            raise ConfigError([Problem(where=shown(name), message=problem, remedy=remedy)])
        return path


def _addition(path: Path, now: bytes | None, text: str) -> FileChange | None:
    if now == text.encode():
        return None
    message = remedy = ""
    if os.path.lexists(path):
        message = "the run adds this file, and there is something of that name now"
        remedy = "move it away, then run the command again"
    elif MARKER in text:
        message = f"the run stored this text with {MARKER} in place of what looked like a secret"
        remedy = "take the new text from the run's folder and write the file yourself"
    if message:
        raise ConfigError([Problem(where=str(path), message=message, remedy=remedy)])
    return FileChange(path=path, before=b"", after=text.encode(), adds=True)


def _removal(path: Path, now: bytes | None, text: str) -> FileChange | None:
    if not os.path.lexists(path):
        return None
    if now != text.encode():
        message = "the run added this file, and it was changed since"
        remedy = "keep it, or remove it yourself"
        raise ConfigError([Problem(where=str(path), message=message, remedy=remedy)])
    return FileChange(path=path, before=text.encode(), after=b"", removes=True)
