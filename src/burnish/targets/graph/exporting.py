"""A candidate of a graph as files that load from where they lie, laid out as the user's are."""

import copy
import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, cast

from burnish.core.surfaces import Value
from burnish.system import YamlTree
from burnish.system.yaml import write_yaml
from burnish.targets.agent.demonstrating import written
from burnish.targets.agent.editing import EditedAgent
from burnish.targets.agent.exporting import (
    PROMPTS,
    copied,
    export_agent,
    rebased,
    way_back,
    write_values,
)
from burnish.targets.graph.graphs import Graph
from burnish.targets.graph.nodes import AgentNode, FunctionNode

AGENTS = "agents"
SKILLS = "skills"
SURFACES = "surfaces.yaml"
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
    return {SURFACES: write_yaml(data, like="").encode()}


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
        told = any(skills.get(s.name, s.content.text) != s.content.text for s in node.skills)
        return self.way != "." or told or _is_changed(node, self.edited.agents[node.name])

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
        block, told = root.get("global_instructions"), self.edited.graph.global_instructions
        text = self.edited.global_instructions
        if block is None or "file" not in block:
            if text != told.text:
                root["global_instructions"]["inline"] = text
        elif text == told.text:
            block["file"] = rebased(str(block["file"]), self.way)
        else:
            content = told.with_text(text).encode()
            block["file"] = self._put(_inside(str(block["file"]), PROMPTS), content, "global")

    def _agent_file(self, node: AgentNode, edited: EditedAgent) -> str:
        agent = node.agent
        if not _is_changed(node, edited):
            return rebased(node.file, self.way)
        place = _inside(node.file, AGENTS)
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
        return self._put(_inside(path, f"{SKILLS}/{name}"), content, node.name)

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
    told = edited.instructions != node.agent.instructions.text
    return told or bool(edited.changes) or edited.demonstrations is not None


def _inside(path: str, otherwise: str) -> str:
    """The path where it lies in the graph's folder; else its name in a folder of ours."""
    plain = PurePosixPath(os.path.normpath(path))
    if plain.is_absolute() or ".." in plain.parts:
        return f"{otherwise}/{plain.name}"
    return str(plain)


def _skill_paths(node: AgentNode) -> dict[str, str]:
    return {skill.name: skill.path for skill in node.skills}


def _names_functions(graph: Graph) -> bool:
    asked = any(edge.when is not None and edge.when.function for edge in graph.edges)
    return asked or any(isinstance(node, FunctionNode) for node in graph.nodes.values())
