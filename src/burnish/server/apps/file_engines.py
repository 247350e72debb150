"""A PromptIter engine made from a graph file or an agent file.

Eval sets lie beside the file as `data/<app>/<set>.evalset.json`; the stages are the models that
the file's `optimizer` names.
"""

from pathlib import Path

from burnish.compat.promptiter import Engine, EvaluationStack
from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.models.references import ModelRef
from burnish.projects.agent_files import agent_judge
from burnish.projects.graph.graph_file import GraphFile
from burnish.projects.graph.reading import read_graph
from burnish.projects.loading import GRAPH
from burnish.projects.structures import read_structure
from burnish.system import read_tree, validate_config
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
    tree = read_tree(path)
    data = tree.data if isinstance(tree.data, dict) else {}
    if data.get("kind") != GRAPH:
        message = "PromptIter's requests are for graph files"
        remedy = "write `kind: graph`, serve an engine from Python, or use /api/v1"
        raise ConfigError([Problem(where=path.name, message=message, remedy=remedy)])
    file = validate_config(tree.data, GraphFile, source=path.name, tree=tree)
    graph, models = read_graph(path, tree), file.models.models()
    stages = [_stage(file, graph, name, path) for name in _STAGES]
    stack = EvaluationStack(
        app_name=app_name, data_dir=data_dir or path.resolve().parent / "data", models=models
    )
    target = GraphTarget(graph, models, surfaces=all_surfaces(graph))
    return Engine(target, stack, backwarder=stages[0], aggregator=stages[1], optimizer=stages[2])


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
