"""The positions of a graph as surfaces, and candidates exported as files."""

import copy
import os
from collections.abc import Collection, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, cast

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.structures import (
    Edge,
    Node,
    Position,
    Structure,
    SurfaceType,
    node_path,
    position_id,
)
from burnish.core.surfaces import (
    ChoiceSurface,
    DemosSurface,
    NumberSurface,
    Surface,
    TextSurface,
    Value,
    placeholders_in,
)
from burnish.models.model_block import model_keys
from burnish.models.references import ModelRef
from burnish.system import YamlTree
from burnish.system.config_errors import nearest
from burnish.system.yaml import write_yaml
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
from burnish.targets.agent.paths import written
from burnish.targets.graph.functions import Skill
from burnish.targets.graph.graphs import AgentNode, FunctionNode, Graph

_AGENTS = "agents"
_SKILLS = "skills"
_SURFACES = "surfaces.yaml"
"""What a graph that is told in Python is exported as: values by the id of their surface."""


@dataclass(frozen=True, kw_only=True)
class EditedGraph:
    """A graph with other values in it."""

    graph: Graph
    agents: Mapping[str, EditedAgent]
    skills: Mapping[str, Mapping[str, str]]
    """New texts, by node and skill."""
    global_instructions: str


def export_graph(edited: EditedGraph, source: YamlTree, home: Path) -> dict[str, bytes]:
    """The graph file under its own name, and what it names where that has changed."""
    tree = copied(source)
    root = cast("MutableMapping[str, Any]", tree.root if tree.root is not None else tree.data)
    layout = _Layout(edited=edited, home=home, way=way_back(home, edited.graph.folder))
    for node in edited.graph.nodes.values():
        if isinstance(node, AgentNode) and layout.touches(node):
            # Nodes may share a block by an alias: what is written for one is not the other's.
            root["nodes"][node.name] = copy.deepcopy(root["nodes"][node.name])
            layout.write_node(node, root["nodes"][node.name])
    layout.write_global(root)
    if layout.way != "." and _names_functions(edited.graph):
        root["python_path"] = rebased(str(root.get("python_path", ".")), layout.way)
    return {source.path.name: tree.dump().encode(), **layout.files}


def export_values(values: Mapping[str, Value]) -> dict[str, bytes]:
    """Values by the id of their surface, as YAML."""
    data = {
        name: [written(demo) for demo in value] if isinstance(value, tuple) else value
        for name, value in sorted(values.items())
    }
    return {_SURFACES: write_yaml(data, like="").encode()}


@dataclass(frozen=True, kw_only=True)
class _Layout:
    """The files beside an exported graph, each where the user's own lies."""

    edited: EditedGraph
    home: Path
    way: str
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def touches(self, node: AgentNode) -> bool:
        """Whether anything of a node is to be written otherwise than it is."""
        skills = self.edited.skills.get(node.name, {})
        changed = any(skills.get(s.name, s.content.text) != s.content.text for s in node.skills)
        return self.way != "." or changed or _is_changed(node, self.edited.agents[node.name])

    def write_node(self, node: AgentNode, holder: MutableMapping[str, Any]) -> None:
        """An agent: into the graph, or into a file of its own where it has one."""
        edited = self.edited.agents[node.name]
        if node.file:
            holder["agent"] = self._agent_file(node, edited)
        else:
            named, text = node.agent.block.instructions.file, edited.instructions
            content = node.agent.instructions.with_text(text).encode()
            place = self._free(_inside(named, PROMPTS), content, node.name) if named else ""
            agent = node.agent
            self.files.update(write_values(holder, agent, edited, way=self.way, prompt=place))
        if node.skills:
            holder["skills"] = [
                self._skill(node, name, path) for name, path in _skill_paths(node).items()
            ]

    def write_global(self, root: MutableMapping[str, Any]) -> None:
        """The instructions that all agents share."""
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
        place = _inside(node.file, _AGENTS)
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

    def _skill(self, node: AgentNode, name: str, path: str) -> str:
        skill = next(each for each in node.skills if each.name == name)
        text = self.edited.skills.get(node.name, {}).get(name, skill.content.text)
        if text == skill.content.text:
            return rebased(path, self.way)
        content = skill.content.with_text(text).encode()
        return self._put(_inside(path, f"{_SKILLS}/{name}"), content, node.name)

    def _put(self, path: str, content: bytes, node: str) -> str:
        place = self._free(path, content, node)
        self.files[place] = content
        return place

    def _free(self, path: str, content: bytes, node: str) -> str:
        """The path, or one with the node's name where two nodes made two files of one."""
        if self.files.get(path, content) == content:
            return path
        name = PurePosixPath(path)
        return str(name.with_name(f"{name.stem}.{node}{name.suffix}"))


def _is_changed(node: AgentNode, edited: EditedAgent) -> bool:
    reworded = edited.instructions != node.agent.instructions.text
    return reworded or bool(edited.changes) or edited.demonstrations is not None


def _inside(path: str, otherwise: str) -> str:
    """The path where it lies in the graph's folder; else its name in a folder of ours."""
    plain = PurePosixPath(os.path.normpath(path))
    if plain.is_absolute() or ".." in plain.parts:
        return f"{otherwise}/{plain.name}"
    return str(plain)


def _skill_paths(node: AgentNode) -> dict[str, str]:
    return {skill.name: skill.path for skill in node.skills}


def _names_functions(graph: Graph) -> bool:
    conditional = any(edge.when is not None and edge.when.function for edge in graph.edges)
    return conditional or any(isinstance(node, FunctionNode) for node in graph.nodes.values())


# -- The positions of a graph ---------------------------------------------------------------------


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
    positions = [_shared(graph)] if graph.global_instructions.text.strip() else []
    for node in graph.nodes.values():
        if isinstance(node, AgentNode):
            positions += _of_node(graph, node, (schemas or {}).get(node.name, {}))
    return tuple(replace(position, surface=position.id) for position in positions)


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
    per_node = {name: NodeValues() for name in graph.nodes}
    for name, value in values.items():
        position = positions[name]
        if position.node not in names:
            continue
        place = per_node[names[position.node]]
        if position.type is SurfaceType.SKILL:
            place.skills[position.part] = str(value)
        else:
            node = cast("AgentNode", graph.nodes[names[position.node]])
            place.agent |= _in_file(node, position, value)
    return per_node


def unknown_position(name: str, positions: Collection[str]) -> Problem:
    """That there is no such position, and which was probably meant."""
    # Most often the name of the graph was left out.
    near = next((each for each in positions if each.endswith(f"/{name}")), None)
    near = near or nearest(name, list(positions))
    remedy = f"did you mean '{near}'?" if near else f"there are: {', '.join(positions)}"
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
    values: dict[str, Value] = {f"model.{key}": value for key, value in keys.items()}
    if keys["provider"] != model.provider:
        gone = [key for key in _OF_THE_PROVIDER if getattr(model, key) is not None]
        # Left empty in the file, which no surface can be.
        values |= cast("dict[str, Value]", {f"model.{key}": None for key in gone})
    return values


# -- The surfaces of a graph, each under the id of the position that it edits ---------------------


_ROOM = 4
"""A text may grow to so many times its length,"""
_LEAST_ROOM = 2000
"""and to so many characters in any case."""


def all_surfaces(graph: Graph) -> list[Surface]:
    """Every text and every place for demonstrations; models and numbers need choices, ranges."""
    made = [_plain(position) for position in positions_of_graph(graph)]
    return [surface for surface in made if surface is not None]


def surfaces_of(
    graph: Graph,
    names: Sequence[str] | None = None,
    *,
    choices: Mapping[str, Sequence[str]] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> list[Surface]:
    """The surfaces of these ids, or all; a model with its choices, a number with its range.

    Raises a ConfigError that names the nearest known id for one that is not there.
    """
    positions = {position.id: position for position in positions_of_graph(graph)}
    choices, ranges = choices or {}, ranges or {}
    chosen = [s.id for s in all_surfaces(graph)] if names is None else list(names)
    chosen = list(dict.fromkeys([*chosen, *choices, *ranges]))
    problems = [unknown_position(name, positions) for name in chosen if name not in positions]
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
            raise _wrong(position, "it is no model and no number: it has no choices or range")
        if surface is None:
            raise _wrong(position, "there is no text yet", "write one first")
        return surface
    return _number(position, bounds) if position.part else _choice(position, choices)


def _plain(position: Position) -> Surface | None:
    """A text or demonstrations; None for what has neither."""
    value = position.value
    if isinstance(value, tuple):
        return DemosSurface(id=position.id, max_demos=max(8, len(value)))
    if position.type is SurfaceType.MODEL or not isinstance(value, str) or not value.strip():
        return None
    room = max(_ROOM * len(value), _LEAST_ROOM)
    return TextSurface(id=position.id, max_chars=room, placeholders=placeholders_in(value))


def _choice(position: Position, choices: Sequence[str] | None) -> ChoiceSurface:
    """The model of now is always among them."""
    if not choices:
        raise _wrong(position, "say which models there are to choose from", "give choices")
    for each in choices:
        ModelRef.parse(each)
    return ChoiceSurface(
        id=position.id, choices=tuple(dict.fromkeys([str(position.value), *choices]))
    )


def _number(position: Position, bounds: tuple[float, float] | None) -> NumberSurface:
    if bounds is None:
        raise _wrong(position, "say in which range it may be", "give ranges")
    low, high = bounds
    if not low <= high:
        raise _wrong(position, f"the range [{low:g}, {high:g}] is empty")
    made = NumberSurface(id=position.id, low=low, high=high, integer=position.part == "max_tokens")
    if problems := made.problems(position.value):
        raise _wrong(position, f"the value of now: {problems[0].message}", "widen the range")
    return made


def _wrong(position: Position, message: str, remedy: str = "") -> ConfigError:
    return ConfigError([Problem(where=position.id, message=message, remedy=remedy)])
