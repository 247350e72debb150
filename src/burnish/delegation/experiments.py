"""Experiments: tasks that belong together, their runs and the best of each."""

import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from burnish.core.content import Json
from burnish.core.errors import (
    ConfigError,
    FileTrouble,
    Problem,
    RunNotFound,
    SeedRefused,
    in_shell,
)
from burnish.core.formatting import counted
from burnish.delegation.policy import now
from burnish.delegation.refine.gradients import (
    COMPLETION,
    mapping,
    read_json,
    run_id_in,
    run_signals,
    text,
)
from burnish.delegation.refine.seeds import deliverable_of
from burnish.delegation.refine.sessions import (
    DELIVERED,
    Best,
    Session,
    SessionFiles,
    best_so_far,
    graded_apart,
    is_lower,
    loss_of,
    path_within,
    put_best,
)
from burnish.system import FileLock, make_folder, read_bytes, write_atomic

EXPERIMENT, TASK = "experiment.json", "task.json"
_EXPERIMENT_ID = re.compile(r"exp_[a-z0-9]{6,16}")
_TASK_ID = re.compile(r"\d{3,}-[a-z0-9-]{1,50}")
_Mode: TypeAlias = Literal["seed", "continuation"]


class _StoredRecord(BaseModel):
    """A stored record; keys of other versions are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    def to_json(self) -> dict[str, Json]:
        return self.model_dump(mode="json")


class _ExperimentRecord(_StoredRecord):
    """An experiment."""

    experiment_id: Annotated[str, Field(pattern=_EXPERIMENT_ID.pattern)]
    name: str
    goal: str = ""
    created_at: str = ""
    task_order: list[str] = Field(default_factory=list[str])


class TaskInput(_StoredRecord):
    """What a task starts from."""

    role: str = "primary"
    task_id: str = ""
    run_id: str = ""


class _TaskRecord(_StoredRecord):
    """A task of an experiment."""

    task_id: str
    experiment_id: str
    task_number: int
    mode: _Mode
    user_prompt: str
    user_feedback: str | None = None
    """What should change in the primary input; only for continuations."""
    inputs: list[TaskInput] = Field(default_factory=list[TaskInput])
    created_at: str = ""


Record = TypeVar("Record", bound=BaseModel)


def experiments_root(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of all experiments."""
    variables = ("BURNISH_EXPERIMENTS_ROOT", "AWP_EXPERIMENTS_ROOT")
    named = (environ.get(name, "").strip() for name in variables)
    return Path(next(filter(None, named), Path("results") / "experiments"))


@dataclass(frozen=True)
class Experiment:
    """The folder of one experiment."""

    folder: Path

    @classmethod
    def new(cls, name: str, *, goal: str = "", root: Path | None = None) -> "Experiment":
        """Create an experiment with a new id."""
        if not name.strip():
            problem = Problem(message="an experiment needs a name", remedy='for example "The heat"')
            raise ConfigError([problem])
        home = (root or experiments_root()).resolve()
        record = _ExperimentRecord(
            experiment_id=f"exp_{secrets.token_hex(5)}", name=name, goal=goal, created_at=now()
        )
        return cls(_make(home / record.experiment_id, EXPERIMENT, record))

    @classmethod
    def find(cls, name: str, *, root: Path | None = None) -> "Experiment":
        """Find one by its id; raises RunNotFound."""
        home = (root or experiments_root()).resolve()
        folder = home / name
        if not _EXPERIMENT_ID.fullmatch(name) or not (folder / EXPERIMENT).is_file():
            raise RunNotFound(
                f"there is no experiment '{name}' in {home}",
                remedy='`burnish experiments list` shows them, `burnish experiments new "…"` '
                "creates one",
            )
        return cls(folder)

    @classmethod
    def all(cls, root: Path | None = None) -> "list[Experiment]":
        """Every experiment, by id."""
        home = (root or experiments_root()).resolve()
        records = sorted(home.glob(f"exp_*/{EXPERIMENT}")) if home.is_dir() else []
        return [cls(path.parent) for path in records]

    @property
    def record(self) -> _ExperimentRecord:
        """The content of experiment.json, with the tasks that actually exist."""
        stored = _read(self.folder / EXPERIMENT, _ExperimentRecord)
        return stored.model_copy(update={"task_order": [task.id for task in self.tasks]})

    @property
    def tasks(self) -> "list[ExperimentTask]":
        records = self.folder.glob(f"tasks/*/{TASK}")
        tasks = [ExperimentTask(path.parent) for path in records]
        return sorted(tasks, key=lambda task: (int(task.id.partition("-")[0]), task.id))

    def task(self, name: str) -> "ExperimentTask":
        """Find one by its id; raises RunNotFound."""
        folder = self.folder / "tasks" / name
        if not _TASK_ID.fullmatch(name) or not (folder / TASK).is_file():
            names = ", ".join(task.id for task in self.tasks) or "none"
            raise RunNotFound(
                f"experiment {self.folder.name} has no task '{name}'", remedy=f"tasks: {names}"
            )
        return ExperimentTask(folder)

    def add_task(
        self, prompt: str, *, mode: _Mode = "seed", inputs: tuple[TaskInput, ...] = ()
    ) -> "ExperimentTask":
        """Add a task after the others."""
        with FileLock.acquire(self.folder / ".lock", holding=f"experiment {self.folder.name}"):
            numbers = [int(task.id.partition("-")[0]) for task in self.tasks]
            number = max(numbers, default=0) + 1
            slug = re.sub(r"[^a-z0-9]+", "-", prompt.lower()).strip("-")[:50].strip("-")
            record = _TaskRecord(
                task_id=f"{number:03d}-{slug or 'task'}",
                experiment_id=self.folder.name,
                task_number=number,
                mode=mode,
                user_prompt=prompt,
                user_feedback=prompt if mode == "continuation" else None,
                inputs=list(inputs),
                created_at=now(),
            )
            folder = _make(self.folder / "tasks" / record.task_id, TASK, record)
            _write(self.folder / EXPERIMENT, self.record)
        return ExperimentTask(folder)


@dataclass(frozen=True)
class ExperimentTask:
    """The folder of one task."""

    folder: Path

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def target(self) -> str:
        return f"{self.folder.parent.parent.name}:{self.id}"

    @property
    def record(self) -> _TaskRecord:
        return _read(self.folder / TASK, _TaskRecord)

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    @property
    def refinements(self) -> Path:
        return self.folder / "refinements"


def find_task(target: str, *, root: Path | None = None) -> ExperimentTask:
    """The task named by `EXP:TASK`; raises SeedRefused if there is none."""
    experiment, colon, task = target.partition(":")
    if not colon or not task:
        raise SeedRefused(f"'{target}' is not a task", remedy="write it as EXPERIMENT:TASK")
    try:
        return Experiment.find(experiment, root=root).task(task)
    except RunNotFound as error:
        raise SeedRefused(error.message, remedy=error.remedy) from error


def _write(path: Path, record: _ExperimentRecord | _TaskRecord) -> None:
    write_atomic(path, json.dumps(record.to_json(), indent=2, ensure_ascii=False) + "\n")


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


def _make(folder: Path, name: str, record: _ExperimentRecord | _TaskRecord) -> Path:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileTrouble(f"cannot create {folder.parent}: {error.strerror}") from error
    make_folder(folder, lambda spare: _write(spare / name, record))
    return folder


_Reason: TypeAlias = Literal["auto_loss", "user_override"]
_OVERRIDE: _Reason = "user_override"


@dataclass(frozen=True)
class TaskBest:
    """BEST in the folder of a task."""

    task: ExperimentTask

    @property
    def manifest(self) -> Mapping[str, Json] | None:
        """Its manifest; None if there is no BEST yet."""
        return best_so_far(self.task.folder)

    def winner(self) -> Path:
        """The run that it comes from; raises SeedRefused if there is none or it is gone."""
        manifest = self.manifest
        if manifest is None:
            raise SeedRefused(
                f"task {self.task.target} has no BEST yet",
                remedy="run the task until a run delivers something",
            )
        run = self.task.folder / text(manifest.get("winner_source"))
        if not (run / COMPLETION).is_file():
            raise SeedRefused(
                f"the best run of {self.task.target} is gone: {run}",
                remedy="choose another: "
                f"`burnish experiments best {in_shell(self.task.target)} RUN`",
            )
        return run

    def promote(self, best: Best, session: Session) -> str:
        """Make it BEST if its loss is strictly lower and nobody chose another."""
        current = self.manifest
        if current is not None:
            own = session.session_id in Path(text(current.get("winner_source"))).parts
            if current.get("winner_run_id") == best.run_id:
                return ""
            if current.get("reason") == _OVERRIDE:
                return "BEST was chosen by hand and is kept"
            # Where BEST is the seed of this session, the session has graded it, too.
            seed = current.get("winner_run_id") == session.seed_run_id
            loss = session.seed_loss if seed else loss_of(current)
            if not seed and (apart := graded_apart(current, session)):
                return apart
            if loss is not None and not is_lower(best.loss, loss):
                return "" if own else f"BEST already has a loss of {loss:.4f}"
        self._put(best, "auto_loss", ruler=session.ruler)
        return ""

    def offer(self, run: Path) -> str:
        """Make a finished run BEST if it is better; returns why not."""
        best = _as_best(run)
        if best is None or best.signals.status not in DELIVERED:
            return "it delivered nothing"
        nobody = Session(session_id="", seed_run_id="", started_at="")
        return self.promote(best, nobody)

    def choose(self, name: str) -> Path:
        """Choose BEST by hand; a lower loss does not replace it."""
        for best in self._finished():
            if name in (best.run_id, str(best.run), best.run.name):
                return self._put(best, _OVERRIDE)
        names = ", ".join(best.run_id for best in self._finished())
        raise RunNotFound(
            f"task {self.task.target} has no run '{name}' with a deliverable",
            remedy=f"runs: {names or 'none'}",
        )

    def choose_by_loss(self) -> Path:
        """Choose the run with the lowest loss, whatever was chosen before."""
        ready = [each for each in self._finished() if each.signals.status in DELIVERED]
        if not ready:
            raise RunNotFound(f"no run of task {self.task.target} delivered anything")
        return self._put(min(ready, key=lambda each: each.loss), "auto_loss")

    def runs(self) -> Iterator[Path]:
        """Every finished run of the task, including iterations of refinements."""
        folder = self.task.folder
        for pattern in ("runs/*", "refinements/*/iter_*/run", "runs/*/refinement_sessions/*/*/run"):
            for path in sorted(folder.glob(f"{pattern}/{COMPLETION}")):
                yield path.parent

    def _finished(self) -> Iterator[Best]:
        return filter(None, map(_as_best, self.runs()))

    def _put(self, best: Best, reason: _Reason, *, ruler: str = "") -> Path:
        loss = best.signals.loss
        return put_best(
            self.task.folder,
            best.deliverable,
            {
                "winner_run_id": best.run_id,
                "winner_source": path_within(best.run, self.task.folder),
                "reason": reason,
                "loss": loss.total,
                "loss_breakdown": loss.to_json(),
                "raw_signals": best.signals.to_json(),
                "updated_at": now(),
                **({"ruler": ruler} if ruler else {}),
            },
        )


def _as_best(run: Path) -> Best | None:
    """A finished run as a candidate for BEST; None without a deliverable."""
    run_id = run_id_in(mapping(read_json(run / COMPLETION)), run)
    deliverable, signals = deliverable_of(run, run_id), run_signals(run)
    if deliverable is None:
        return None
    return Best(run=run, run_id=run_id, signals=signals, deliverable=deliverable)


def summary(experiment: Experiment) -> Json:
    """An experiment as JSON."""
    tasks: list[Json] = []
    for task in experiment.tasks:
        best = TaskBest(task)
        row: dict[str, Json] = {
            **task.record.to_json(),
            "runs": [str(run.relative_to(task.folder)) for run in best.runs()],
            "best": None if best.manifest is None else dict(best.manifest),
            "refinement_sessions": list[Json](SessionFiles(folder=task.refinements).rows()),
        }
        tasks.append(row)
    return {**experiment.record.to_json(), "tasks": tasks}


def summary_lines(experiment: Experiment) -> Iterator[str]:
    """An experiment as lines for people."""
    record = experiment.record
    yield f"{record.experiment_id}  {record.name}"
    if record.goal:
        yield f"goal     {record.goal}"
    if not experiment.tasks:
        target = in_shell(record.experiment_id)
        yield f"no task yet: burnish delegate FILE --task … --target {target}"
    for task in experiment.tasks:
        best, entry = TaskBest(task), task.record
        runs = len(list(best.runs()))
        inputs = ", ".join(each.task_id for each in entry.inputs)
        origin = f" from {inputs}" if inputs else ""
        yield f"{task.id}  {entry.mode}{origin}, {counted(runs, 'run')}, {_best(best)}"


def _best(best: TaskBest) -> str:
    manifest = best.manifest
    if manifest is None:
        return "no BEST"
    loss = manifest.get("loss")
    shown = f"{loss:.4f}" if isinstance(loss, int | float) else "unknown"
    return f"best {manifest.get('winner_run_id')} with loss {shown} ({manifest.get('reason')})"
