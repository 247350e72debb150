"""Measuring a graph as it stands: from a graph file to a measurement."""

from pathlib import Path

from burnish.core.cases import Case, Dataset
from burnish.core.objectives import Objective
from burnish.evaluation.datasets.formats import read_some_cases
from burnish.models.factory import Models
from burnish.projects.called_parts import CalledParts
from burnish.projects.evaluating import RESULTS, Measurement, Wanted
from burnish.projects.gathering import Gathering
from burnish.projects.graph.graph_file import GraphFile
from burnish.projects.graph.project_files import read_file
from burnish.projects.graph.reaching import check_reach
from burnish.projects.loading import GRAPH, Given
from burnish.projects.overrides import Overrides
from burnish.projects.settings import DEFAULT_CONCURRENCY, DEFAULT_SEED
from burnish.runs.header import Project
from burnish.runs.setup import Setup
from burnish.strategies.measure import Measure
from burnish.targets.agent.documents_checks import check_attachments, pinned
from burnish.targets.graph import GraphTarget, all_surfaces


def prepare_graph_evaluation(
    path: Path, wanted: Wanted, *, models: Models | None = None
) -> Measurement:
    """A graph file, ready to be measured; everything that is wrong is said at once."""
    given = Given.read(path, Overrides(concurrency=wanted.concurrency))
    file, graph = read_file(given)
    wrong = Gathering(tree=given.tree)
    parts = CalledParts(file, given.folder, models, wrong)
    cases = _cases(given, file, wanted, wrong)
    user = parts.user(cases)
    read = parts.read_metrics(wanted.metric_file, names=tuple(wanted.metrics), replies_only=False)
    metrics = parts.metrics(read, cases, judge=wanted.judge)
    target = GraphTarget(graph, parts.models, surfaces=all_surfaces(graph), user=user)
    check_reach(target, parts.models, wrong)
    wrong.settle()
    flags, weak = given.flags, given.environment
    measure = Measure(repeats=wanted.repeats or file.optimizer.repeats or file.repeats)
    setup = Setup(
        target=target,
        metrics=metrics,
        objective=Objective(weights={metric.name: 1.0 for metric in metrics}),
        dataset=Dataset(train=cases),
        strategy=measure,
        seed=flags.choose("seed", file.seed, weak, DEFAULT_SEED),
        budget=file.budget.budget(flags, weak),
        concurrency=flags.choose("concurrency", file.concurrency, weak, DEFAULT_CONCURRENCY),
        case_policy=file.case_policy(),
        project=Project(kind=GRAPH, file=str(path.resolve())),
        notes=(*target.notes, *read.notes),
        resources=(target, parts.models),
    )
    return Measurement(name=graph.name, setup=setup, measure=measure, root=given.folder / RESULTS)


def _cases(given: Given, file: GraphFile, wanted: Wanted, wrong: Gathering) -> tuple[Case, ...]:
    """Those of train unless others are named: whoever reads what fails learns from it."""
    if wanted.replaces_cases:
        cases = wrong.as_told(wanted.read_cases, ())
    elif file.train is None:
        remedy = "name a file of cases: train: train.jsonl, or --cases FILE"
        wrong.add(("train",), "there are no cases", remedy)
        return ()
    else:
        path = given.folder / file.train
        cases = wrong.of(("train",), lambda: read_some_cases(path), ())
    if problems := check_attachments(cases, given.folder):
        wrong.problems += problems
        return cases
    return pinned(cases, given.folder)
