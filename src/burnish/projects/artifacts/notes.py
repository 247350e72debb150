"""What a user should know before a task is started."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

from burnish.core.protocols import Metric
from burnish.evaluation.judges import JudgedMetric
from burnish.models.calling import ModelClient
from burnish.projects.artifacts.scoring import judged_by
from burnish.projects.artifacts.task_file import TaskFile

TRAINING = (
    "there is no holdout: what is kept is decided by the numbers that the editor sees, so the "
    "result is a training score"
)


def task_notes(
    file: TaskFile, metrics: Sequence[Metric], *, repeats: int, client: ModelClient | None
) -> Iterator[str]:
    """What is to be said of the measurement and of models that judge."""
    if file.holdout is None:
        yield TRAINING
    judged = [
        cast("JudgedMetric[Any, Any]", metric)
        for metric in judged_by(metrics)
        if isinstance(metric, JudgedMetric)
    ]
    alone = [metric.name for metric in judged if len(metric.panel.judges) == 1]
    if alone:
        told = f"one judge decides on {_listed(alone)}"
        yield f"{told}: files may come to please it; name several, or give the task a holdout"
    if judged and repeats == 1:
        names = _listed([metric.name for metric in judged])
        yield f"every candidate is judged once on {names}: one run cannot tell how verdicts vary"
    same = [
        metric.name
        for metric in judged
        for judge in metric.panel.judges
        if client is not None and judge.client.ref.label == client.ref.label
    ]
    if same and client is not None:
        told = f"{client.ref.label} edits the files and judges {_listed(same)}"
        yield f"{told}: it may come to please itself"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(names))
