"""Reading the graph of a graph file that says more than the graph itself knows of."""

from pathlib import Path

from burnish.projects.graph.graph_file import OWN_KEYS
from burnish.system import YamlTree
from burnish.targets.graph import Graph, load_graph


def read_graph(path: Path, tree: YamlTree) -> Graph:
    """The graph of a file; everything that is wrong with it is said at once."""
    return load_graph(path, tree=tree, beside=OWN_KEYS)
