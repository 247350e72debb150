"""What measures a candidate: the cases of a task, and metrics where metrics score it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from burnish.core.cases import Case, Dataset
from burnish.core.errors import ConfigError, Problem
from burnish.core.protocols import Metric
from burnish.evaluation.configs.agent_making import make_agent_metric
from burnish.evaluation.configs.agent_metrics import metric_name
from burnish.evaluation.configs.making import MetricMaking, check_names
from burnish.evaluation.layers import Layered
from burnish.evaluation.turn_metric import TurnMetric
from burnish.projects.artifacts.step_blocks import ScorerBlock
from burnish.projects.artifacts.task_file import TaskFile
from burnish.targets.artifacts.task import HOLDOUT, TASK, Scoring, Task


def dataset_of(file: TaskFile, name: str) -> Dataset:
    """One case, and one more where something else decides; judges read what the files are for."""
    told = file.description.strip() or name
    train = Case.single(told, name=TASK)
    # No proposer may see the text of a holdout case, so it says nothing of its own.
    held = (Case.single(f"{told} (held out)", name=HOLDOUT),) if file.holdout else ()
    return Dataset(train=(train,), holdout=held)


def metrics_of(
    scorer: ScorerBlock, holdout: ScorerBlock | None, makings: Mapping[str, MetricMaking]
) -> tuple[Metric, ...]:
    """The metrics of a task; a holdout with a scorer of its own has metrics of its own."""
    here = _made(scorer, makings[TASK])
    if holdout is None:
        return tuple(here.values())
    there = _made(holdout, makings[HOLDOUT])
    names = dict.fromkeys((*here, *there))
    return tuple(
        Layered(
            name=name,
            default=None,
            places={TASK: (here.get(name),), HOLDOUT: (there.get(name),)},
        )
        for name in names
    )


def with_reads(task: Task, files: Sequence[str]) -> Task:
    """The task with the file that its metrics read: the one that is named, or the only one."""
    held = task.holdout_scoring
    return replace(
        task,
        scoring=_reading(task.scoring, files),
        holdout_scoring=None if held is None else _reading(held, files),
    )


def judged_by(metrics: Sequence[Metric]) -> Sequence[TurnMetric]:
    """Every metric by itself, those of the holdout too."""
    found: list[TurnMetric] = []
    for metric in metrics:
        if isinstance(metric, Layered):
            found += [each for turns in metric.places.values() for each in turns if each]
        elif isinstance(metric, TurnMetric):
            found.append(metric)
    return found


def _reading(scoring: Scoring, files: Sequence[str]) -> Scoring:
    if scoring.kind != "metrics" or scoring.reads in files:
        return scoring
    if scoring.reads or len(files) != 1:
        told = f"metrics score one file, and '{scoring.reads}' is none of them"
        message = told if scoring.reads else f"metrics score one file, and there are {len(files)}"
        remedy = f"name it: scorer: {{reads: …}}, one of {', '.join(files)}"
        raise ConfigError([Problem(where="scorer.reads", message=message, remedy=remedy)])
    return replace(scoring, reads=files[0])


def _made(scorer: ScorerBlock, making: MetricMaking) -> dict[str, TurnMetric]:
    made: dict[str, TurnMetric] = {}
    problems: list[Problem] = []
    check_names(scorer.names)
    for block in scorer.metrics:
        if not getattr(block, "enabled", True):
            continue
        try:
            made[metric_name(block)] = make_agent_metric(block, making)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return made
