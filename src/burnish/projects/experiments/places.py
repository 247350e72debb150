"""Where experiments lie, and how `EXP:TASK` names a task of one."""

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from burnish.core.content import Json
from burnish.core.errors import ConfigError, FileTrouble, Problem, RunNotFound, SeedRefused
from burnish.projects.experiments.records import (
    EXPERIMENT,
    EXPERIMENT_ID,
    TASK,
    TASK_ID,
    ExperimentRecord,
    Mode,
    TaskInput,
    TaskRecord,
    slug,
)
from burnish.system import FileLock, make_folder, read_bytes, write_atomic

USUAL_ROOT = Path("results") / "experiments"
_VARIABLES = ("BURNISH_EXPERIMENTS_ROOT", "AWP_EXPERIMENTS_ROOT")
Record = TypeVar("Record", bound=BaseModel)


def experiments_root(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of all experiments."""
    named = (environ.get(name, "").strip() for name in _VARIABLES)
    return Path(next((each for each in named if each), USUAL_ROOT))


@dataclass(frozen=True)
class Experiment:
    """The folder of one experiment."""

    folder: Path

    @classmethod
    def new(cls, name: str, *, goal: str = "", root: Path | None = None) -> "Experiment":
        """Make one, under an id that no other has."""
        if not name.strip():
            told = Problem(message="an experiment needs a name", remedy='such as "The heat"')
            raise ConfigError([told])
        home = (root or experiments_root()).resolve()
        record = ExperimentRecord(
            experiment_id=f"exp_{secrets.token_hex(5)}", name=name, goal=goal, created_at=_now()
        )
        _make_parent(home)
        folder = home / record.experiment_id
        make_folder(folder, lambda spare: _write(spare / EXPERIMENT, record))
        return cls(folder)

    @classmethod
    def find(cls, name: str, *, root: Path | None = None) -> "Experiment":
        """By its id; raises RunNotFound where there is none."""
        home = (root or experiments_root()).resolve()
        folder = home / name
        if not EXPERIMENT_ID.fullmatch(name) or not (folder / EXPERIMENT).is_file():
            raise RunNotFound(
                f"there is no experiment '{name}' in {home}",
                remedy='`burnish experiments list` shows them, `burnish experiments new "…"` '
                "makes one",
            )
        return cls(folder)

    @classmethod
    def all(cls, root: Path | None = None) -> "list[Experiment]":
        """Every experiment, by id."""
        home = (root or experiments_root()).resolve()
        found = sorted(home.glob(f"exp_*/{EXPERIMENT}")) if home.is_dir() else []
        return [cls(path.parent) for path in found]

    @property
    def record(self) -> ExperimentRecord:
        """What experiment.json says, with the tasks that are really there."""
        told = _read(self.folder / EXPERIMENT, ExperimentRecord)
        return told.model_copy(update={"task_order": [task.id for task in self.tasks]})

    @property
    def tasks(self) -> "list[ExperimentTask]":
        """Its tasks in order."""
        found = self.folder.glob(f"tasks/*/{TASK}")
        tasks = [ExperimentTask(path.parent) for path in found]
        return sorted(tasks, key=lambda task: (int(task.id.partition("-")[0]), task.id))

    def task(self, name: str) -> "ExperimentTask":
        """By its id; raises RunNotFound where there is none."""
        folder = self.folder / "tasks" / name
        if not TASK_ID.fullmatch(name) or not (folder / TASK).is_file():
            known = ", ".join(task.id for task in self.tasks) or "none"
            raise RunNotFound(
                f"experiment {self.folder.name} has no task '{name}'", remedy=f"its tasks: {known}"
            )
        return ExperimentTask(folder)

    def add_task(
        self, prompt: str, *, mode: Mode = "seed", inputs: tuple[TaskInput, ...] = ()
    ) -> "ExperimentTask":
        """A new task after the others."""
        with FileLock.acquire(self.folder / ".lock", holding=f"experiment {self.folder.name}"):
            numbers = [int(task.id.partition("-")[0]) for task in self.tasks]
            number = max(numbers, default=0) + 1
            record = TaskRecord(
                task_id=f"{number:03d}-{slug(prompt)}",
                experiment_id=self.folder.name,
                task_number=number,
                mode=mode,
                user_prompt=prompt,
                user_feedback=prompt if mode == "continuation" else None,
                inputs=list(inputs),
                created_at=_now(),
            )
            folder = self.folder / "tasks" / record.task_id
            _make_parent(folder.parent)
            make_folder(folder, lambda spare: _write(spare / TASK, record))
            _write(self.folder / EXPERIMENT, self.record)
        return ExperimentTask(folder)


@dataclass(frozen=True)
class ExperimentTask:
    """The folder of one task."""

    folder: Path

    @property
    def id(self) -> str:
        """Its name in the experiment."""
        return self.folder.name

    @property
    def target(self) -> str:
        """`EXP:TASK`."""
        return f"{self.folder.parent.parent.name}:{self.id}"

    @property
    def record(self) -> TaskRecord:
        """What task.json says."""
        return _read(self.folder / TASK, TaskRecord)

    @property
    def runs(self) -> Path:
        """Where its delegations lie."""
        return self.folder / "runs"

    @property
    def refinements(self) -> Path:
        """Where its refinement sessions lie."""
        return self.folder / "refinements"


def find_task(target: str, *, root: Path | None = None) -> ExperimentTask:
    """The task that `EXP:TASK` names; raises SeedRefused, since nothing can be done without it."""
    experiment, colon, task = target.partition(":")
    if not colon or not task:
        raise SeedRefused(f"'{target}' names no task", remedy="write it as EXPERIMENT:TASK")
    try:
        return Experiment.find(experiment, root=root).task(task)
    except RunNotFound as error:
        raise SeedRefused(error.message, remedy=error.remedy) from error


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _write(path: Path, record: ExperimentRecord | TaskRecord) -> None:
    data: dict[str, Json] = record.to_json()
    write_atomic(path, json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def _read(path: Path, kind: type[Record]) -> Record:
    try:
        return kind.model_validate_json(read_bytes(path))
    except ValidationError as error:
        wrong = error.errors()[0]
        where = ".".join(map(str, wrong["loc"]))
        raise FileTrouble(
            f"{path} is damaged: {where} {wrong['msg']}".replace("  ", " "),
            remedy="restore it from a backup",
        ) from error


def _make_parent(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileTrouble(f"cannot make {folder}: {error.strerror}") from error
