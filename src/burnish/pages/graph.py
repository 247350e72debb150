"""The graph of an agent's steps as a drawing, with a weight on each node."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from burnish.core.content import codec
from burnish.core.formatting import visible
from burnish.core.outcomes import Outcome, Trace
from burnish.runs.directory import RunRecord, look_into

_RUNS = 40
"""Runs of cases whose steps are looked at: together they go most of the ways through a graph."""
_MOST = 30
"""Nodes of a drawing that can still be read."""
_WIDE, _HIGH, _STEP_X, _STEP_Y, _EDGE = 150, 46, 200, 72, 12


@dataclass(frozen=True, kw_only=True)
class DrawnNode:
    """A box of the drawing."""

    name: str
    words: str
    """What it weighs."""
    x: int
    y: int
    stroke: float
    """The width of its border: the more weight, the wider."""
    marked: bool


@dataclass(frozen=True, kw_only=True)
class GraphPicture:
    """Boxes and arrows with their places."""

    title: str
    unit: str
    nodes: tuple[DrawnNode, ...]
    lines: tuple[tuple[int, int, int, int], ...]
    width: int
    height: int
    box: tuple[int, int] = (_WIDE, _HIGH)


@dataclass(frozen=True, kw_only=True)
class StepGraph:
    """Which node followed which, and which surfaces each of them used."""

    nodes: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]
    surfaces: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, traces: Sequence[Trace]) -> "StepGraph":
        """From the steps of some runs."""
        nodes: dict[str, frozenset[str]] = {}
        edges: dict[tuple[str, str], None] = {}
        for trace in traces:
            names = {step.id: step.node for step in trace.steps}
            for step in trace.steps:
                nodes[step.node] = nodes.get(step.node, frozenset()) | {*step.surfaces}
                before = (names[each] for each in step.predecessors if each in names)
                edges.update(((node, step.node), None) for node in before if node != step.node)
        return cls(nodes=tuple(nodes), edges=tuple(edges), surfaces=nodes)

    @property
    def columns(self) -> dict[str, int]:
        """How many steps after the first each node comes at the earliest."""
        entered = {end for _, end in self.edges}
        level = [node for node in self.nodes if node not in entered] or [*self.nodes[:1]]
        columns: dict[str, int] = {}
        while level:
            depth = max(columns.values(), default=-1) + 1
            columns.update(dict.fromkeys(level, depth))
            reached = dict.fromkeys(end for start, end in self.edges if start in level)
            level = [node for node in reached if node not in columns]
        return columns


def blame_picture(
    run: RunRecord, weights: Mapping[str, float], *, title: str, unit: str
) -> GraphPicture | None:
    """Weights of surfaces on the nodes that use them; None if the agent has no graph."""
    graph = StepGraph.of([*_traces(run)])
    if not 2 <= len(graph.nodes) <= _MOST:
        return None
    by_node = {
        node: sum(weight for surface, weight in weights.items() if surface in graph.surfaces[node])
        for node in graph.nodes
    }
    return picture(graph, by_node, title=title, unit=unit)


def _traces(run: RunRecord) -> Iterator[Trace]:
    """The steps of the first runs of the baseline."""
    if run.baseline is None:
        return
    with look_into(run.folder) as journal:
        results = [*journal.values({run.baseline.number}, kinds=("run",))]
    for result in results[:_RUNS]:
        with suppress(ValueError):  # of an earlier version
            yield codec(Outcome).decode(result.value).trace


def picture(
    graph: StepGraph, weights: Mapping[str, float], *, title: str, unit: str
) -> GraphPicture:
    """Nodes from left to right in the order in which they are reached."""
    places: dict[str, tuple[int, int]] = {}
    filled: dict[int, int] = {}
    for node, column in graph.columns.items():
        row = filled.get(column, 0)
        filled[column] = row + 1
        places[node] = (_EDGE + column * _STEP_X, _EDGE + row * _STEP_Y)
    most = max(weights.values(), default=0.0)
    nodes = tuple(
        DrawnNode(
            name=visible(node),
            words=f"{weights[node]:g} {unit}" if weights[node] else f"no {unit}",
            x=x,
            y=y,
            stroke=round(1 + 5 * weights[node] / most, 1) if most else 1.0,
            marked=weights[node] > 0,
        )
        for node, (x, y) in places.items()
    )
    return GraphPicture(
        title=title,
        unit=unit,
        nodes=nodes,
        lines=tuple(_line(places[a], places[b]) for a, b in graph.edges if {a, b} <= {*places}),
        width=2 * _EDGE + max(filled) * _STEP_X + _WIDE,
        height=2 * _EDGE + (max(filled.values()) - 1) * _STEP_Y + _HIGH,
    )


def _line(start: tuple[int, int], end: tuple[int, int]) -> tuple[int, int, int, int]:
    """From the right side of one box to the left side of another; backwards below them."""
    (x, y), (to_x, to_y) = start, end
    if to_x > x:
        return x + _WIDE, y + _HIGH // 2, to_x, to_y + _HIGH // 2
    return x + _WIDE // 2, y + _HIGH, to_x + _WIDE // 2, to_y + _HIGH
