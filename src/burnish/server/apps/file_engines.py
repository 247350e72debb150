"""A PromptIter engine made from a graph file or an agent file.

Eval sets lie beside the file as `data/<app>/<set>.evalset.json`; the stages are the models that
the file's `optimizer` names. Metrics, judge and budget are those of the file, as for
`burnish optimize`; without metrics of its own, each set has a `<set>.metrics.json`.
"""

from pathlib import Path

from burnish.compat.promptiter import Engine, EvaluationStack
from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.core.protocols import Metric
from burnish.models.references import ModelRef
from burnish.projects.agent_files import agent_judge
from burnish.projects.called_parts import CalledParts
from burnish.projects.gathering import Gathering
from burnish.projects.graph.graph_file import GraphFile
from burnish.projects.graph.project_files import read_file
from burnish.projects.graph.reaching import check_reach
from burnish.projects.loading import GRAPH, Given
from burnish.projects.overrides import Overrides
from burnish.projects.structures import read_structure
from burnish.targets.graph import Graph, GraphTarget, all_surfaces
from burnish.targets.graph.nodes import AgentNode

_STAGES = ("backwarder", "aggregator", "patcher")


def has_structure(path: Path) -> bool:
    """Whether PromptIter can say anything of the file."""
    try:
        read_structure(path)
    except BurnishError:
        return False
    return True


def engine_of(path: Path, app_name: str, *, data_dir: Path | None = None) -> Engine:
    """An engine for a graph file; eval sets lie in `data` beside it, unless `data_dir` says."""
    given = Given.read(path, Overrides())
    data = given.tree.data if isinstance(given.tree.data, dict) else {}
    if data.get("kind") != GRAPH:
        message = "PromptIter's requests are for graph files"
        remedy = "write `kind: graph`, serve an engine from Python, or use /api/v1"
        raise ConfigError([Problem(where=path.name, message=message, remedy=remedy)])
    file, graph = read_file(given)
    wrong = Gathering(tree=given.tree)
    parts = CalledParts(file, given.folder, None, wrong)
    target = GraphTarget(graph, parts.models, surfaces=all_surfaces(graph))
    check_reach(target, parts.models, wrong)
    stages = [_stage(file, graph, name, path) for name in _STAGES]
    stack = EvaluationStack(
        app_name=app_name,
        data_dir=data_dir or given.folder / "data",
        metrics=_metrics(file, parts),
        judge=None if file.judge is None else wrong.of(("judge",), file.judge.reference, None),
        models=parts.models,
    )
    wrong.settle()
    return Engine(
        target,
        stack,
        backwarder=stages[0],
        aggregator=stages[1],
        optimizer=stages[2],
        budget=file.budget.budget(given.flags, given.environment),
    )


def _metrics(file: GraphFile, parts: CalledParts) -> tuple[Metric, ...]:
    """The metrics of the file; none where it leaves them to the sets."""
    if not file.metrics and file.metrics_file is None:
        return ()
    # No case of an eval set has metrics of its own, so that none need be known here.
    return parts.metrics(parts.read_metrics(None, replies_only=False), ())


def _stage(file: GraphFile, graph: Graph, name: str, path: Path) -> ModelRef:
    """The model of a stage: its own, that of all stages, or the first of the graph."""
    named = getattr(file.optimizer, name) or file.optimizer.proposer
    if named is not None:
        return named.reference()
    agents = (node.agent for node in graph.nodes.values() if isinstance(node, AgentNode))
    first = next(agents, None)
    if first is None:
        message = f"nobody is named for the stage '{name}'"
        remedy = "name a model as optimizer.proposer in the file"
        raise ConfigError([Problem(where=path.name, message=message, remedy=remedy)])
    return agent_judge(first)
