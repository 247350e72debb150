"""Graphs of agents and functions, defined in YAML or in Python.

A turn runs through the graph in rounds. In a round every node runs at most once, as soon as no
running node can still reach it; an edge back along a cycle starts the next round. So the steps and
their order do not depend on which branch is faster.
"""

from burnish.targets.graph.files import load_graph
from burnish.targets.graph.graphs import Graph, NodeInput, graph
from burnish.targets.graph.surfaces import all_surfaces, surfaces_of
from burnish.targets.graph.target import GraphTarget

__all__ = [
    "Graph",
    "GraphTarget",
    "NodeInput",
    "all_surfaces",
    "graph",
    "load_graph",
    "surfaces_of",
]
