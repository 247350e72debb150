"""A PromptIter engine made from a graph file or an agent file.

Eval sets lie beside the file as `data/<app>/<set>.evalset.json`; the stages are the models that
the file's `optimizer` names.
"""

from pathlib import Path

from burnish.compat.promptiter import Engine, EvaluationStack
from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.models.references import ModelRef
from burnish.projects.graph.graph_file import GraphFile
from burnish.projects.graph.reading import read_graph
from burnish.projects.loading import GRAPH
from burnish.projects.structures import read_structure
from burnish.system import YamlTree, read_tree, validate_config
from burnish.targets.graph import GraphTarget, all_surfaces

_STAGES = ("backwarder", "aggregator", "patcher")


def has_structure(path: Path) -> bool:
    """Whether PromptIter can say anything of the file."""
    try:
        read_structure(path)
    except BurnishError:
        return False
    return True


def engine_of(path: Path, app_name: str) -> Engine:
    """An engine for a graph file, made anew for each run."""
    tree = read_tree(path)
    data = tree.data if isinstance(tree.data, dict) else {}
    if data.get("kind") != GRAPH:
        message = "PromptIter's requests are for graph files"
        remedy = "write `kind: graph`, serve an engine from Python, or use /api/v1"
        raise ConfigError([Problem(where=path.name, message=message, remedy=remedy)])
    return _of_graph(path, tree, app_name)


def _of_graph(path: Path, tree: YamlTree, app_name: str) -> Engine:
    file = validate_config(tree.data, GraphFile, source=path.name, tree=tree)
    graph, models = read_graph(path, tree), file.models.models()
    stages = [_stage(file, name, path) for name in _STAGES]
    home = path.resolve().parent
    stack = EvaluationStack(app_name=app_name, data_dir=home / "data", models=models)
    target = GraphTarget(graph, models, surfaces=all_surfaces(graph))
    backwarder, aggregator, optimizer = stages
    return Engine(target, stack, backwarder=backwarder, aggregator=aggregator, optimizer=optimizer)


def _stage(file: GraphFile, name: str, path: Path) -> ModelRef:
    named = getattr(file.optimizer, name) or file.optimizer.proposer
    if named is None:
        message = f"nobody is named for the stage '{name}'"
        remedy = "name a model as optimizer.proposer in the file"
        raise ConfigError([Problem(where=path.name, message=message, remedy=remedy)])
    return named.reference()
