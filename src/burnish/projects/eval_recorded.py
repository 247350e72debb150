"""Measuring what an agent once said: a file of cases that carry their recorded replies."""

from collections.abc import Iterator
from pathlib import Path

from burnish.core.cases import Case, Dataset
from burnish.core.errors import ConfigError, Problem
from burnish.core.objectives import Objective
from burnish.evaluation.configs.layering import make_agent_metrics
from burnish.evaluation.configs.making import MetricMaking
from burnish.evaluation.configs.reading import read_metric_file
from burnish.evaluation.datasets.formats import read_some_cases
from burnish.evaluation.judges.judged import check_judges
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.projects.evaluating import RESULTS, Measurement, Wanted
from burnish.projects.settings import DEFAULT_CONCURRENCY
from burnish.runs.setup import Setup
from burnish.strategies.measure import Measure
from burnish.targets.recorded import RecordedTarget

METRICS = "test_config.json"
"""Where the metrics of recorded cases are looked for, beside them."""


def prepare_recorded(path: Path, wanted: Wanted) -> Measurement:
    """Recorded cases with their metrics; nothing is run, and only judges cost anything."""
    cases = read_some_cases(path)
    metric_file = wanted.metric_file or path.parent / METRICS
    _refuse(path, cases, wanted, metric_file)
    read = read_metric_file(metric_file).only(wanted.metrics)
    models = Models()
    judge = ModelRef.parse(wanted.judge) if wanted.judge else read.judge
    making = MetricMaking(models=models, folder=metric_file.resolve().parent, judge=judge)
    metrics = make_agent_metrics(read.blocks, cases, making)
    check_judges(metrics)
    measure = Measure(repeats=wanted.repeats or 1)
    setup = Setup(
        target=RecordedTarget(),
        metrics=metrics,
        objective=Objective(weights={metric.name: 1.0 for metric in metrics}),
        dataset=Dataset(train=cases),
        strategy=measure,
        concurrency=wanted.concurrency or DEFAULT_CONCURRENCY,
        notes=(*read.notes, *_repeated(wanted)),
        resources=(models,),
    )
    name = path.name.partition(".")[0]
    root = path.resolve().parent / RESULTS
    return Measurement(name=name, setup=setup, measure=measure, root=root)


def _repeated(wanted: Wanted) -> Iterator[str]:
    if (wanted.repeats or 1) > 1:
        yield "what was recorded does not vary: every repeat gives the same, and there is no noise"


def _refuse(path: Path, cases: tuple[Case, ...], wanted: Wanted, metric_file: Path) -> None:
    """Everything that keeps these cases from being measured, said at once."""
    problems: list[Problem] = []
    bare = [case.id for case in cases if case.recorded is None]
    if bare:
        few = ", ".join(bare[:3])
        told = f"{len(bare)} of {len(cases)} cases carry no recorded reply ({few}, …)"
        remedy = "name the agent that should answer them: burnish eval AGENT --cases FILE"
        problems.append(Problem(where=path.name, message=told, remedy=remedy))
    if wanted.replaces_cases:
        told = f"{path.name} holds recorded cases itself, so --cases has no meaning"
        problems.append(Problem(where="--cases", message=told))
    if not metric_file.exists():
        remedy = f"name a file that has them: --metrics FILE, or put {METRICS} beside the cases"
        message = f"there are no metrics: {metric_file} does not exist"
        problems.append(Problem(where=path.name, message=message, remedy=remedy))
    if problems:
        raise ConfigError(problems)
