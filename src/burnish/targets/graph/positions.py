"""The positions of a graph: what can be edited at each node, and where its value stands."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from burnish.core.content import Json
from burnish.core.errors import Problem
from burnish.core.structures import (
    Edge,
    Node,
    Position,
    Structure,
    SurfaceType,
    node_path,
    position_id,
)
from burnish.core.surfaces import Value
from burnish.models.model_block import model_keys
from burnish.system.config_errors import nearest
from burnish.targets.agent.positions import positions_of
from burnish.targets.graph.graphs import Graph
from burnish.targets.graph.nodes import AgentNode
from burnish.targets.graph.skills import Skill

_OF_THE_PROVIDER = ("base_url", "endpoint", "api_key", "api_version")
"""What a model of another provider has no use for."""


@dataclass(kw_only=True)
class NodeValues:
    """The values that a candidate has for one node."""

    agent: dict[str, Value] = field(default_factory=dict[str, Value])
    """By path in the agent's file."""
    skills: dict[str, str] = field(default_factory=dict[str, str])


def node_id(graph: Graph, node: str) -> str:
    """What a node is called in structures and traces."""
    return node_path(graph.name, node)


def root_position(graph: Graph) -> str:
    """The id of the instructions that all agents share."""
    return position_id(node_path(graph.name), SurfaceType.GLOBAL_INSTRUCTION)


def positions_of_graph(
    graph: Graph, schemas: Mapping[str, Mapping[str, Json]] | None = None
) -> tuple[Position, ...]:
    """Every position with its value of now, node by node; `surface` is its own id."""
    found = [_shared(graph)] if graph.global_instructions.text.strip() else []
    for node in graph.nodes.values():
        if isinstance(node, AgentNode):
            found += _of_node(graph, node, (schemas or {}).get(node.name, {}))
    return tuple(replace(position, surface=position.id) for position in found)


def structure_of(
    graph: Graph, positions: Mapping[str, Position], offered: Mapping[str, object]
) -> Structure:
    """The snapshot of a graph; positions that are not offered have no surface."""
    root = node_path(graph.name)
    nodes = [Node(id=root, name=graph.name)]
    nodes += [
        Node(id=node_id(graph, n.name), kind=n.kind, name=n.name) for n in graph.nodes.values()
    ]
    edges = [Edge(source=node_id(graph, e.source), to=node_id(graph, e.to)) for e in graph.edges]
    shown = [p if p.id in offered else replace(p, surface="") for p in positions.values()]
    return Structure.of(node_id(graph, graph.entry), nodes, edges, shown)


def by_node(
    graph: Graph, positions: Mapping[str, Position], values: Mapping[str, Value]
) -> dict[str, NodeValues]:
    """A candidate's values where each belongs; the shared instructions apart."""
    names = {node_id(graph, name): name for name in graph.nodes}
    found = {name: NodeValues() for name in graph.nodes}
    for name, value in values.items():
        position = positions[name]
        if position.node not in names:
            continue
        place = found[names[position.node]]
        if position.type is SurfaceType.SKILL:
            place.skills[position.part] = str(value)
        else:
            node = cast("AgentNode", graph.nodes[names[position.node]])
            place.agent |= _in_file(node, position, value)
    return found


def unknown_position(name: str, known: Collection[str]) -> Problem:
    """That there is no such position, and which was probably meant."""
    # Most often the name of the graph was left out.
    near = next((each for each in known if each.endswith(f"/{name}")), None)
    near = near or nearest(name, list(known))
    remedy = f"did you mean '{near}'?" if near else f"there are: {', '.join(known)}"
    return Problem(where=name, message="there is no such position", remedy=remedy)


def _shared(graph: Graph) -> Position:
    text, root = graph.global_instructions.text, node_path(graph.name)
    kind = SurfaceType.GLOBAL_INSTRUCTION
    return Position(id=root_position(graph), node=root, type=kind, value=text)


def _of_node(graph: Graph, node: AgentNode, schemas: Mapping[str, Json]) -> Iterator[Position]:
    name = node_id(graph, node.name)
    for position in positions_of(node.agent, name, schemas):
        is_model = position.type is SurfaceType.MODEL and not position.part
        yield replace(position, value=_label(node)) if is_model else position
    yield from (_skill(name, skill) for skill in node.skills)


def _skill(node: str, skill: Skill) -> Position:
    kind, name = SurfaceType.SKILL, skill.name
    return Position(
        id=position_id(node, kind, name), node=node, type=kind, value=skill.content.text, part=name
    )


def _label(node: AgentNode) -> str:
    return node.agent.block.model.reference().label


def _in_file(node: AgentNode, position: Position, value: Value) -> dict[str, Value]:
    """The value by the path of the agent's file that holds it."""
    match position.type:
        case SurfaceType.INSTRUCTION:
            return {"instructions": value}
        case SurfaceType.FEW_SHOT:
            return {"demonstrations": value}
        case SurfaceType.TOOL:
            return {f"tools[name={position.part}].description": value}
        case _ if position.part:
            return {f"model.{position.part}": value}
        case _:
            return _model(node, str(value))


def _model(node: AgentNode, label: str) -> dict[str, Value]:
    if label == _label(node):
        return {}
    model, keys = node.agent.block.model, model_keys(label)
    found: dict[str, Value] = {f"model.{key}": value for key, value in keys.items()}
    if keys["provider"] != model.provider:
        gone = [key for key in _OF_THE_PROVIDER if getattr(model, key) is not None]
        # Left empty in the file, which no surface can be.
        found |= cast("dict[str, Value]", {f"model.{key}": None for key in gone})
    return found
