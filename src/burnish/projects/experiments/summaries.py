"""An experiment at a glance: its tasks, their runs, and the best of each."""

from collections.abc import Iterator

from burnish.core.content import Json
from burnish.core.words import counted
from burnish.projects.experiments.places import Experiment, ExperimentTask
from burnish.projects.experiments.task_best import TaskBest
from burnish.strategies.refine.sessions import SessionFiles


def summary(experiment: Experiment) -> Json:
    """As data, for programs."""
    tasks: list[Json] = [_task(task) for task in experiment.tasks]
    return {**experiment.record.to_json(), "tasks": tasks}


def summary_lines(experiment: Experiment) -> Iterator[str]:
    """For people."""
    record = experiment.record
    yield f"{record.experiment_id}  {record.name}"
    if record.goal:
        yield f"goal     {record.goal}"
    if not experiment.tasks:
        yield f"no task yet: burnish delegate FILE --task … --target {record.experiment_id}"
    for task in experiment.tasks:
        best, told = TaskBest(task), task.record
        runs = len(list(best.runs()))
        inputs = ", ".join(each.task_id for each in told.inputs)
        origin = f" from {inputs}" if inputs else ""
        yield f"{task.id}  {told.mode}{origin}, {counted(runs, 'run')}, {_best(best)}"


def _best(best: TaskBest) -> str:
    manifest = best.manifest
    if manifest is None:
        return "no BEST"
    loss = manifest.get("loss")
    shown = f"{loss:.4f}" if isinstance(loss, int | float) else "unknown"
    return f"best {manifest.get('winner_run_id')} with loss {shown} ({manifest.get('reason')})"


def _task(task: ExperimentTask) -> Json:
    best = TaskBest(task)
    manifest = best.manifest
    sessions: list[Json] = list(SessionFiles(folder=task.refinements).rows())
    return {
        **task.record.to_json(),
        "runs": [str(run.relative_to(task.folder)) for run in best.runs()],
        "best": None if manifest is None else dict(manifest),
        "refinement_sessions": sessions,
    }
