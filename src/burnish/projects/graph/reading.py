"""Reading the graph of a graph file that says more than the graph itself knows of."""

from dataclasses import replace
from pathlib import Path

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.projects.graph.graph_file import OWN_KEYS
from burnish.system import YamlTree, validate_config
from burnish.targets.agent.variables import expanded
from burnish.targets.graph import Graph
from burnish.targets.graph.blocks import GraphBlock

# `load_graph` refuses the keys of a project, so its reader is driven from here.
from burnish.targets.graph.loading import _Reader as Reader  # pyright: ignore[reportPrivateUsage]
from burnish.targets.graph.sound import graph_problems


def read_graph(path: Path, tree: YamlTree) -> Graph:
    """The graph of a file; everything that is wrong with it is said at once."""
    path = path.resolve() if path.is_symlink() else path
    found = _read(path, tree)
    problems = [*found[1]]
    problems += [] if problems else [_at(path, each) for each in graph_problems(found[0])]
    if problems:
        raise ConfigError(problems)
    return found[0]


def _read(path: Path, tree: YamlTree) -> tuple[Graph, list[Problem]]:
    source = path.name
    data = expanded(graph_keys(tree), where=source)
    block = validate_config(data, GraphBlock, source=source, tree=tree)
    reader = Reader(path=path, tree=tree, block=block)
    graph = reader.python_graph() if block.graph is not None else reader.told_graph()
    return graph, reader.problems


def graph_keys(tree: YamlTree) -> dict[str, Json]:
    """What the file says of the graph itself."""
    data = tree.data if isinstance(tree.data, dict) else {}
    return {key: value for key, value in data.items() if key not in OWN_KEYS}


def _at(path: Path, problem: Problem) -> Problem:
    return replace(problem, where=f"{path.name} {problem.where}")
