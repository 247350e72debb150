"""A delegation as a task of an experiment: where its run lies, and what it starts from."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.projects.experiments.places import Experiment, ExperimentTask, find_task
from burnish.projects.experiments.records import TaskInput
from burnish.projects.experiments.task_best import TaskBest
from burnish.strategies.refine.run_files import mapping, text
from burnish.strategies.refine.seeds import read_seed
from burnish.targets.delegation.home import new_run_id

_KEY = "experiment"


@dataclass(frozen=True, kw_only=True)
class Attached:
    """A new task with its first run."""

    folder: Path
    """Of the run."""
    task: Path
    """Of the task."""
    seed_deliverable: Path | None = None
    steer: str = ""


def attach(target: str, prompt: str, *, primary: str | None = None) -> Attached:
    """Add a task to an experiment; with `primary`, a task whose BEST it goes on from."""
    experiment, before = _found(target, primary)
    if before is None:
        return _attached(experiment.add_task(prompt))
    seed = read_seed(TaskBest(before).winner())
    given = TaskInput(task_id=before.id, run_id=seed.run_id)
    task = experiment.add_task(prompt, mode="continuation", inputs=(given,))
    return _attached(task, seed_deliverable=seed.deliverable, steer=_steer(before))


def would_attach(target: str, *, primary: str | None = None) -> str:
    """What `attach` would do, in words; it raises where that would, and changes nothing."""
    experiment, before = _found(target, primary)
    if before is None:
        return f"a new one of {experiment.folder.name}"
    best = read_seed(TaskBest(before).winner())
    return f"a new one of {experiment.folder.name}, from run {best.run_id} of {before.id}"


def _found(target: str, primary: str | None) -> tuple[Experiment, ExperimentTask | None]:
    if ":" in target:
        told = "a delegation adds a task to an experiment"
        remedy = "name the experiment alone; `burnish refine --target EXP:TASK` refines a task"
        raise ConfigError([Problem(where="--target", message=told, remedy=remedy)])
    experiment = Experiment.find(target)
    if primary is None:
        return experiment, None
    return experiment, find_task(primary) if ":" in primary else experiment.task(primary)


def attachment(task: str) -> dict[str, Json]:
    """What the manifest of a run says of the task of an experiment, by its folder."""
    return {_KEY: {"task": task}}


def offer(kept: Mapping[str, Json], run: Path) -> str:
    """Offer a finished run to its task, in one line; empty where it belongs to none."""
    folder = text(mapping(kept.get(_KEY)).get("task"))
    if not folder:
        return ""
    task = ExperimentTask(Path(folder))
    why_not = TaskBest(task).offer(run)
    return f"{task.target}, {f'not its BEST: {why_not}' if why_not else 'its BEST'}"


def _attached(
    task: ExperimentTask, *, seed_deliverable: Path | None = None, steer: str = ""
) -> Attached:
    return Attached(
        folder=task.runs / new_run_id(),
        task=task.folder.resolve(),
        seed_deliverable=seed_deliverable,
        steer=steer,
    )


def _steer(before: ExperimentTask) -> str:
    return (
        "## CONTINUATION\n"
        f"This task goes on from the result of an earlier one, {before.id}:\n"
        f"{before.record.user_prompt}\n"
        "Its deliverable is available at: input/\n"
        "Start from these files; keep what the task below does not ask to change.\n"
    )
