"""Measuring a graph as it stands: from a graph file to a measurement."""

from dataclasses import replace
from pathlib import Path

from burnish.core.cases import Case, Dataset
from burnish.core.objectives import Objective
from burnish.evaluation.datasets.formats import read_some_cases
from burnish.models.factory import Models
from burnish.models.model_block import ModelBlock
from burnish.projects.describing import describe
from burnish.projects.dialects import Document
from burnish.projects.evaluating import RESULTS, Measurement, Wanted
from burnish.projects.file_kinds import GraphFile
from burnish.projects.graph.plugin import graph_of, graph_target, pinned_cases
from burnish.projects.measures import metric_blocks, read_metrics, simulated_user
from burnish.runs.building import Description, building_of
from burnish.runs.header import Project
from burnish.runs.parts import Building
from burnish.runs.setup import Setup
from burnish.runs.spec import AnySpec
from burnish.strategies.measure import Measure


def prepare_graph_evaluation(
    path: Path, wanted: Wanted, *, models: Models | None = None
) -> Measurement:
    """A graph file, ready to be measured; everything that is wrong is said at once."""
    described = _described(path, wanted)
    spec, building = described.spec, building_of(described, models=models)
    graph = graph_of(building)
    cases = _cases(building, wanted)
    user = simulated_user(building, cases)
    metrics = read_metrics(building, cases, replies_only=False, names=wanted.metrics)
    notes = metric_blocks(building, wanted.metrics).notes
    target = None if graph is None else graph_target(building, graph, user)
    building.problems.settle()
    assert graph is not None
    assert target is not None
    measure = Measure(repeats=wanted.repeats or spec.strategy.settings.repeats)
    setup = Setup(
        target=target,
        metrics=metrics,
        objective=Objective(weights={metric.name: 1.0 for metric in metrics}),
        dataset=Dataset(train=cases),
        strategy=measure,
        seed=spec.execution.seed,
        budget=spec.budget.budget(),
        concurrency=spec.execution.concurrency,
        case_policy=spec.execution.case_policy(),
        project=Project(kind=GraphFile.kind, file=str(path.resolve())),
        notes=(*target.notes, *notes),
        resources=(target, building.models),
    )
    root = building.folder / RESULTS
    return Measurement(name=graph.name, setup=setup, measure=measure, root=root)


def _described(path: Path, wanted: Wanted) -> Description:
    """The file as it describes itself, with what is wanted of the measurement over it."""
    flags = {"concurrency": wanted.concurrency}
    described = describe(Document.read(path), flags, dialect=GraphFile())
    spec: AnySpec = described.spec
    metrics = spec.metrics
    if wanted.metric_file is not None:
        file = str(wanted.metric_file.resolve())
        metrics = metrics.model_copy(update={"blocks": (), "file": file})
    if wanted.judge is not None:
        judge = ModelBlock.model_validate(wanted.judge)
        metrics = metrics.model_copy(update={"judge": judge})
    return replace(described, spec=spec.model_copy(update={"metrics": metrics}))


def _cases(building: Building, wanted: Wanted) -> tuple[Case, ...]:
    """Those of train unless others are named: whoever reads what fails learns from it."""
    problems, files = building.problems, building.spec.data.train
    if wanted.replaces_cases:
        cases = problems.as_raised(wanted.read_cases, ())
    elif not files:
        remedy = "name a file of cases: train: train.jsonl, or --cases FILE"
        problems.add("data.train", "there are no cases", remedy)
        return ()
    else:
        path = building.path(files[0].file)
        cases = problems.attempt("data.train", lambda: read_some_cases(path), ())
    return pinned_cases(building, cases)
