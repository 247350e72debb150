"""The positions of a graph as surfaces, and candidates exported as files."""

import copy
import os
from collections.abc import Collection, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, cast

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem, first_problems
from burnish.core.surfaces import (
    ChoiceSurface,
    DemosSurface,
    Edge,
    Node,
    NumberSurface,
    Position,
    Structure,
    Surface,
    SurfaceType,
    TextSurface,
    Value,
    node_path,
    placeholders_in,
    position_id,
)
from burnish.models.factory import model_keys
from burnish.models.references import ModelRef
from burnish.system import YamlTree
from burnish.system.config import near
from burnish.system.yaml import write_yaml
from burnish.targets.agent.blocks import written
from burnish.targets.agent.files import (
    PROMPTS,
    EditedAgent,
    copied,
    export_agent,
    positions_of,
    rebased,
    way_back,
    write_values,
)
from burnish.targets.graph.elements import Condition, Skill
from burnish.targets.graph.graphs import AgentNode, Graph, GroupNode


@dataclass(frozen=True, kw_only=True)
class EditedGraph:
    """A graph with other values in it."""

    graph: Graph
    agents: Mapping[str, EditedAgent]
    skills: Mapping[str, Mapping[str, str]]
    """New texts, by node and skill."""
    global_instructions: str


def export_graph(edited: EditedGraph, source: YamlTree, home: Path) -> dict[str, bytes]:
    """The graph file under its own name, and the changed files that it names."""
    tree = copied(source)
    root = cast("MutableMapping[str, Any]", tree.root if tree.root is not None else tree.data)
    layout = _Layout(edited=edited, home=home, way=way_back(home, edited.graph.folder))
    for path, node in edited.graph.agents.items():
        if layout.touches(path, node):
            layout.write_node(path, node, _own_block(root, edited.graph, path))
    layout.write_global(root)
    edges = [edge for graph in edited.graph.graphs.values() for edge in graph.edges]
    conditional = any(edge.when is not None and edge.when.function for edge in edges)
    has_functions = conditional or len(edited.graph.leaves) > len(edited.graph.agents)
    if layout.way != "." and has_functions:
        root["python_path"] = rebased(str(root.get("python_path", ".")), layout.way)
    return {source.path.name: tree.dump().encode(), **layout.files}


def _own_block(root: MutableMapping[str, Any], graph: Graph, path: str) -> MutableMapping[str, Any]:
    """The block of a node, copied on the way: nodes may share one by an alias."""
    first, *keys = file_keys(graph, path)
    block: MutableMapping[str, Any] = root[first]
    for key in keys:
        block[key] = copy.deepcopy(block[key])
        block = block[key]
    return block


def file_keys(graph: Graph, path: str) -> tuple[str, ...]:
    """Where a node is in the graph's file: `nodes`, `team`, `chain`, `writer`."""
    name, _, rest = path.partition("/")
    group = graph.nodes[name]
    if not isinstance(group, GroupNode):
        return ("nodes", name)
    inner = file_keys(group.members, rest)
    return ("nodes", name, "nodes" if group.order == "graph" else group.order, *inner[1:])


def export_values(values: Mapping[str, Value]) -> dict[str, bytes]:
    """Values by the id of their surface, as YAML."""
    data = {
        name: [written(demo) for demo in value] if isinstance(value, tuple) else value
        for name, value in sorted(values.items())
    }
    return {"surfaces.yaml": write_yaml(data, like="").encode()}


@dataclass(frozen=True, kw_only=True)
class _Layout:
    """The files beside an exported graph, each at the path of the original."""

    edited: EditedGraph
    home: Path
    way: str
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def touches(self, path: str, node: AgentNode) -> bool:
        """Whether anything of a node has to be rewritten."""
        skills = self.edited.skills.get(path, {})
        changed = any(skills.get(s.name, s.content.text) != s.content.text for s in node.skills)
        return self.way != "." or changed or _is_changed(node, self.edited.agents[path])

    def write_node(self, path: str, node: AgentNode, holder: MutableMapping[str, Any]) -> None:
        """Write an agent into the graph, or into its own file if it has one."""
        edited = self.edited.agents[path]
        if node.file:
            holder["agent"] = self._agent_file(node, edited)
        else:
            named, text = node.agent.block.instructions.file, edited.instructions
            content = node.agent.instructions.with_text(text).encode()
            place = self._free(_inside(named, PROMPTS), content, node.name) if named else ""
            agent = node.agent
            self.files.update(write_values(holder, agent, edited, way=self.way, prompt=place))
        if node.skills:
            holder["skills"] = [self._skill(path, node, skill) for skill in node.skills]

    def write_global(self, root: MutableMapping[str, Any]) -> None:
        """Write the instructions that all agents share."""
        block, instructions = root.get("global_instructions"), self.edited.graph.global_instructions
        text = self.edited.global_instructions
        if block is None or "file" not in block:
            if text != instructions.text:
                root["global_instructions"]["inline"] = text
        elif text == instructions.text:
            block["file"] = rebased(str(block["file"]), self.way)
        else:
            content = instructions.with_text(text).encode()
            block["file"] = self._put(_inside(str(block["file"]), PROMPTS), content, "global")

    def _agent_file(self, node: AgentNode, edited: EditedAgent) -> str:
        agent = node.agent
        if not _is_changed(node, edited):
            return rebased(node.file, self.way)
        place = _inside(node.file, "agents")
        folder, prompt = str(PurePosixPath(place).parent), ""
        if edited.instructions != agent.instructions.text and agent.block.instructions.file:
            named = str(PurePosixPath(node.file).parent / agent.block.instructions.file)
            content = agent.instructions.with_text(edited.instructions).encode()
            beside = self._free(_inside(named, PROMPTS), content, node.name)
            prompt = os.path.relpath(beside, folder)
        made = export_agent(agent, edited, self.home / folder, prompt=prompt)
        for name, content in made.items():
            if name != agent.path.name:
                self.files[os.path.normpath(f"{folder}/{name}")] = content
        return self._put(place, made[agent.path.name], node.name)

    def _skill(self, path: str, node: AgentNode, skill: Skill) -> str:
        text = self.edited.skills.get(path, {}).get(skill.name, skill.content.text)
        if text == skill.content.text:
            return rebased(skill.path, self.way)
        content = skill.content.with_text(text).encode()
        return self._put(_inside(skill.path, f"skills/{skill.name}"), content, node.name)

    def _put(self, path: str, content: bytes, node: str) -> str:
        place = self._free(path, content, node)
        self.files[place] = content
        return place

    def _free(self, path: str, content: bytes, node: str) -> str:
        """The path, or one with the node's name where two nodes need different files."""
        if self.files.get(path, content) == content:
            return path
        name = PurePosixPath(path)
        return str(name.with_name(f"{name.stem}.{node}{name.suffix}"))


def _is_changed(node: AgentNode, edited: EditedAgent) -> bool:
    reworded = edited.instructions != node.agent.instructions.text
    return reworded or bool(edited.changes) or edited.demonstrations is not None


def _inside(path: str, otherwise: str) -> str:
    """The path if it is in the graph's folder; else its name in another folder."""
    plain = PurePosixPath(os.path.normpath(path))
    if plain.is_absolute() or ".." in plain.parts:
        return f"{otherwise}/{plain.name}"
    return str(plain)


@dataclass(kw_only=True)
class NodeValues:
    """A candidate's values for one node."""

    agent: dict[str, Value] = field(default_factory=dict[str, Value])
    """By path in the agent's file."""
    skills: dict[str, str] = field(default_factory=dict[str, str])


def node_id(graph: Graph, path: str) -> str:
    """The id of a node in structures and traces; an agent alone with its own name is the root."""
    alone = [graph.name] == [*graph.nodes]
    return node_path(*([] if alone else [graph.name]), *path.split("/"))


def root_position(graph: Graph) -> str:
    """The id of the instructions that all agents share."""
    return position_id(node_path(graph.name), SurfaceType.GLOBAL_INSTRUCTION)


def positions_of_graph(
    graph: Graph, schemas: Mapping[str, Mapping[str, Json]] | None = None
) -> tuple[Position, ...]:
    """Every position with its current value, node by node; `surface` is its own id."""
    positions: list[Position] = []
    text, kind = graph.global_instructions.text, SurfaceType.GLOBAL_INSTRUCTION
    if text.strip():
        root = node_path(graph.name)
        positions.append(Position(id=root_position(graph), node=root, type=kind, value=text))
    for path, node in graph.agents.items():
        positions += _of_node(node_id(graph, path), node, (schemas or {}).get(path, {}))
    return tuple(replace(position, surface=position.id) for position in positions)


def structure_of(
    graph: Graph, positions: Mapping[str, Position], offered: Collection[str]
) -> Structure:
    """The structure of a graph; positions that are not offered have no surface."""
    nodes = {
        node_id(graph, path + n.name): Node(
            id=node_id(graph, path + n.name), kind=n.kind, name=n.name
        )
        for path, members in graph.graphs.items()
        for n in members.nodes.values()
    }
    root = node_path(graph.name)
    nodes.setdefault(root, Node(id=root, name=graph.name))
    edges = [Edge(source=source, to=to) for source, to in edges_of(graph)]
    shown = [p if p.id in offered else replace(p, surface="") for p in positions.values()]
    return Structure.of(node_id(graph, graph.entry), nodes.values(), edges, shown)


def edges_of(graph: Graph) -> dict[tuple[str, str], tuple[Condition | None, ...]]:
    """The edges between the ids of nodes, each with its conditions.

    An edge to a group leads to the group, from there to the members that run first, and on from the
    members where it may end.
    """
    edges: dict[tuple[str, str], tuple[Condition | None, ...]] = {}
    for path, members in graph.graphs.items():
        group = path.removesuffix("/")
        ways = [(group, path + name, None) for name in members.entries if group]
        for edge in members.edges:
            ends = _ends(members, edge.source, path)
            ways += [(source, path + edge.to, edge.when) for source in ends]
        for source, to, when in ways:
            way = (node_id(graph, source), node_id(graph, to))
            edges[way] = (*edges.get(way, ()), when)
    return edges


def _ends(graph: Graph, name: str, path: str) -> list[str]:
    """The paths of the leaves with which a node may end."""
    node = graph.nodes[name]
    if not isinstance(node, GroupNode):
        return [path + name]
    members = node.members
    surely = {e.source for e in members.edges if e.when is None} - {
        source for source, _ in node.flow.back
    }
    last = [members.output] if members.output else [n for n in members.nodes if n not in surely]
    return [end for each in last for end in _ends(members, each, f"{path}{name}/")]


def by_node(
    graph: Graph, positions: Mapping[str, Position], values: Mapping[str, Value]
) -> dict[str, NodeValues]:
    """A candidate's values by the path of the node, without the shared instructions."""
    names = {node_id(graph, path): path for path in graph.leaves}
    per_node = {path: NodeValues() for path in names.values()}
    for name, value in values.items():
        position = positions[name]
        if position.type is SurfaceType.GLOBAL_INSTRUCTION:
            continue
        place = per_node[names[position.node]]
        if position.type is SurfaceType.SKILL:
            place.skills[position.part] = str(value)
        else:
            place.agent |= _in_file(graph.agents[names[position.node]], position, value)
    return per_node


def unknown_position(name: str, positions: Collection[str]) -> Problem:
    """The error for an unknown position, with the most likely one."""
    remedy = near(name, [*positions])
    return Problem(where=name, message="there is no such position", remedy=remedy)


def _of_node(name: str, node: AgentNode, schemas: Mapping[str, Json]) -> Iterator[Position]:
    for position in positions_of(node.agent, name, schemas):
        is_model = position.type is SurfaceType.MODEL and not position.part
        yield replace(position, value=_label(node)) if is_model else position
    for skill in node.skills:
        kind = SurfaceType.SKILL
        id_, text = position_id(name, kind, skill.name), skill.content.text
        yield Position(id=id_, node=name, type=kind, value=text, part=skill.name)


def _label(node: AgentNode) -> str:
    return node.agent.block.model.reference().label


def _in_file(node: AgentNode, position: Position, value: Value) -> dict[str, Value]:
    """The value by its path in the agent's file."""
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
    model, new = node.agent.block.model, model_keys(label)
    values: dict[str, Value] = {f"model.{key}": value for key, value in new.items()}
    if new["provider"] != model.provider:
        keys = ("base_url", "endpoint", "api_key", "api_version")
        gone = [key for key in keys if getattr(model, key) is not None]
        # Left empty in the file, which no surface can be.
        values |= cast("dict[str, Value]", {f"model.{key}": None for key in gone})
    return values


def all_surfaces(graph: Graph) -> list[Surface]:
    """Every text and every place for demonstrations; models and numbers need choices and ranges."""
    made = [_plain(position) for position in positions_of_graph(graph)]
    return [surface for surface in made if surface is not None]


def surfaces_of(
    graph: Graph,
    names: Sequence[str] | None = None,
    *,
    choices: Mapping[str, Sequence[str]] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> list[Surface]:
    """The surfaces with these ids, or all; models need choices, numbers a range.

    Raises a ConfigError with the nearest known id for an unknown one.
    """
    positions = {position.id: position for position in positions_of_graph(graph)}
    choices, ranges = choices or {}, ranges or {}
    chosen = [s.id for s in all_surfaces(graph)] if names is None else list(names)
    chosen = list(dict.fromkeys([*chosen, *choices, *ranges]))
    unknown = [name for name in chosen if name not in positions]
    problems = first_problems(unknown, lambda name: unknown_position(name, positions))
    surfaces: list[Surface] = []
    for position in (positions[name] for name in chosen if name in positions):
        try:
            surfaces.append(_surface(position, choices.get(position.id), ranges.get(position.id)))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return surfaces


def _surface(
    position: Position, choices: Sequence[str] | None, bounds: tuple[float, float] | None
) -> Surface:
    if position.type is not SurfaceType.MODEL:
        surface = _plain(position)
        if choices is not None or bounds is not None:
            raise _wrong(position, "choices are for models and ranges for numbers; this is neither")
        if surface is None:
            raise _wrong(position, "there is no text yet", "write one first")
        return surface
    return _number(position, bounds) if position.part else _choice(position, choices)


def _plain(position: Position) -> Surface | None:
    """A text or demonstrations; None for anything else."""
    value = position.value
    if isinstance(value, tuple):
        return DemosSurface(id=position.id, max_demos=max(8, len(value)))
    if position.type is SurfaceType.MODEL or not isinstance(value, str) or not value.strip():
        return None
    room = max(4 * len(value), 2000)
    return TextSurface(id=position.id, max_chars=room, placeholders=placeholders_in(value))


def _choice(position: Position, choices: Sequence[str] | None) -> ChoiceSurface:
    """The current model is always among them."""
    if not choices:
        raise _wrong(position, "a model needs choices", "give choices")
    for each in choices:
        ModelRef.parse(each)
    return ChoiceSurface(
        id=position.id, choices=tuple(dict.fromkeys([str(position.value), *choices]))
    )


def _number(position: Position, bounds: tuple[float, float] | None) -> NumberSurface:
    if bounds is None:
        raise _wrong(position, "a number needs a range", "give ranges")
    low, high = bounds
    if not low <= high:
        raise _wrong(position, f"the range [{low:g}, {high:g}] is empty")
    made = NumberSurface(id=position.id, low=low, high=high, integer=position.part == "max_tokens")
    if problems := made.problems(position.value):
        raise _wrong(position, f"the current value: {problems[0].message}", "widen the range")
    return made


def _wrong(position: Position, message: str, remedy: str = "") -> ConfigError:
    return ConfigError([Problem(where=position.id, message=message, remedy=remedy)])
