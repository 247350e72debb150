"""Graphs of agents and functions: told in YAML or in Python, run by one runtime.

A turn goes through the graph in rounds. In a round every node runs at most once, as soon as
nothing that is still under way can reach it; what goes back over a cycle starts the next round.
So the steps and their order are the same whichever branch was faster.
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
