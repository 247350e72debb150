"""A PromptIter engine made from the description of a graph file.

Eval sets lie beside the file as `data/<app>/<set>.evalset.json`; the stages are the models that
the file's `optimizer` names. Everything else is that of the file, as for `burnish optimize`;
without metrics of its own, each set has a `<set>.metrics.json`.
"""

from pathlib import Path

from burnish.compat.promptiter import Engine, EvaluationStack, RunDefaults
from burnish.core.cases import Dataset
from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.core.protocols import Metric
from burnish.models.references import ModelRef
from burnish.projects.describing import STRATEGY, describe
from burnish.projects.dialects import Document
from burnish.projects.file_kinds import GraphFile
from burnish.projects.graph.plugin import graph_of, graph_parts, graph_target
from burnish.projects.measures import named_user, read_metrics
from burnish.projects.structures import read_structure
from burnish.runs.building import building_of
from burnish.runs.parts import Building, TargetParts
from burnish.strategies.backprop.building import role_models, whole_names
from burnish.strategies.backprop.strategy import Backprop
from burnish.strategies.backprop.wording import AGGREGATOR, BACKWARDER, PATCHER


def has_structure(path: Path) -> bool:
    """Whether PromptIter can say anything of the file."""
    try:
        read_structure(path)
    except BurnishError:
        return False
    return True


def engine_of(path: Path, app_name: str, *, data_dir: Path | None = None) -> Engine:
    """An engine for a graph file; eval sets lie in `data` beside it, unless `data_dir` says.

    Everything that is wrong with the file is said at once, models out of reach included.
    """
    document = Document.read(path)
    if document.data.get("kind") != GraphFile.kind:
        message = "PromptIter's requests are for graph files"
        remedy = "write `kind: graph`, serve an engine from Python, or use /api/v1"
        raise ConfigError([Problem(where=path.name, message=message, remedy=remedy)])
    described = describe(document, {STRATEGY: Backprop.name}, dialect=GraphFile())
    building = building_of(described)
    parts, judge = _parts(building), _judge(building)
    stages = {} if parts is None else _stages(building, parts)
    building.problems.settle()
    assert parts is not None
    spec = described.spec
    stack = EvaluationStack(
        app_name=app_name,
        data_dir=data_dir or building.folder / "data",
        metrics=parts.metrics,
        judge=judge,
        models=building.models,
        scenarios=spec.metrics.user_simulator is not None,
    )
    return Engine(
        parts.target,
        stack,
        backwarder=stages[BACKWARDER],
        aggregator=stages[AGGREGATOR],
        optimizer=stages[PATCHER],
        budget=spec.budget.budget(),
        defaults=RunDefaults(
            settings=whole_names(spec.strategy.settings, parts),
            seed=spec.execution.seed,
            concurrency=spec.execution.concurrency,
            case_policy=spec.execution.case_policy(),
        ),
    )


def _parts(building: Building) -> TargetParts | None:
    """The graph and its metrics; the cases come with each request."""
    graph, metrics = graph_of(building), _metrics(building)
    user = named_user(building)
    target = None if graph is None else graph_target(building, graph, user)
    return None if target is None else graph_parts(building, target, Dataset(train=()), metrics)


def _metrics(building: Building) -> tuple[Metric, ...]:
    """The metrics of the file; none where it leaves them to the sets."""
    spec = building.spec.metrics
    if not spec.blocks and spec.file is None:
        return ()
    # No case of an eval set has metrics of its own, so that none need be known here.
    return read_metrics(building, (), replies_only=False)


def _judge(building: Building) -> ModelRef | None:
    block = building.spec.metrics.judge
    if block is None:
        return None
    return building.problems.attempt("metrics.judge", block.reference, None)


def _stages(building: Building, parts: TargetParts) -> dict[str, ModelRef | None]:
    """The model of each stage, seen to be within reach."""
    models = role_models(building, parts)
    for name, ref in models.items():
        if ref is not None:
            building.asked(name, ref)
    return models
