"""Reading the graph of a graph file that says more than the graph itself knows of."""

from pathlib import Path

from burnish.system.yaml import YamlTree
from burnish.targets.graph import Graph, load_graph
from burnish.targets.graph.blocks import GraphBlock


def read_graph(path: Path, tree: YamlTree) -> Graph:
    """The graph of a file; everything that is wrong with it is said at once.

    Keys that are none of the graph's belong to the project, which knows them or refuses them.
    """
    keys = tree.data if isinstance(tree.data, dict) else {}
    return load_graph(path, tree=tree, beside=keys.keys() - GraphBlock.model_fields.keys())
