"""Whether a graph hangs together: everything that is wrong with it, said at once."""

from collections.abc import Iterator

from burnish.core.errors import ConfigError, Problem
from burnish.system.config_errors import nearest
from burnish.targets.graph.flow import Flow, reachable
from burnish.targets.graph.graphs import Graph
from burnish.targets.graph.inputs import template_problems


def flow_of(graph: Graph) -> Flow:
    """How the graph flows, or a ConfigError with all that is wrong with it."""
    if problems := list(graph_problems(graph)):
        raise ConfigError(problems)
    return Flow.of(graph.entry, {node: graph.after(node) for node in graph.nodes})


def graph_problems(graph: Graph) -> Iterator[Problem]:
    """What does not fit together."""
    if not graph.nodes:
        yield Problem(where=f"graph '{graph.name}'", message="there are no nodes")
        return
    found = [*_unknown(graph)]
    yield from found
    if not found:
        yield from _unreached(graph)
    for node in graph.nodes.values():
        yield from template_problems(node.input, graph.nodes, f"nodes.{node.name}.input")


def _unknown(graph: Graph) -> Iterator[Problem]:
    named = [("entry", graph.entry), ("output", graph.output or graph.entry)]
    named += [
        (f"edge {e.source} -> {e.to}", name) for e in graph.edges for name in (e.source, e.to)
    ]
    known = list(graph.nodes)
    for where, name in dict.fromkeys(named):
        if name not in known:
            near = nearest(name, known)
            remedy = f"did you mean '{near}'?" if near else f"there are: {', '.join(known)}"
            yield Problem(where=where, message=f"there is no node '{name}'", remedy=remedy)


def _unreached(graph: Graph) -> Iterator[Problem]:
    there = reachable(graph.entry, {node: graph.after(node) for node in graph.nodes})
    for name in graph.nodes:
        if name not in there:
            remedy = "add an edge to it, or remove it"
            message = f"no way leads to it from the entry '{graph.entry}'"
            yield Problem(where=f"nodes.{name}", message=message, remedy=remedy)
