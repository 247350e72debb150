"""Adopting a graph: values put into the graph file, its agents' files, and the texts they name."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from burnish.core.candidates import Change
from burnish.core.errors import ConfigError, Problem
from burnish.core.structures import Position, SurfaceType
from burnish.core.surfaces import Value
from burnish.projects.adopting_files import FileChange, file_changes, text_change
from burnish.projects.adopting_values import to_put
from burnish.projects.graph.graph_texts import graph_change
from burnish.projects.graph.originals import changed_graph_files, shared_file
from burnish.runs.header import Header
from burnish.targets.graph import Graph
from burnish.targets.graph.nodes import AgentNode
from burnish.targets.graph.positions import by_node, node_id, positions_of_graph


@dataclass(frozen=True)
class GraphHome:
    """A graph file."""

    graph: Graph

    @property
    def place(self) -> str:
        """The graph's folder."""
        return str(self.graph.folder)

    def changed_since(self, header: Header) -> list[str]:
        """The file, the files of its agents, and what they name."""
        return changed_graph_files(header, self.graph)

    def put(self, changes: Sequence[Change]) -> tuple[FileChange, ...]:
        """Each value where it stands; a file that several nodes use must suit all of them."""
        values = to_put(changes, self._now)
        found = [*self._beside(values)]
        _require_alike(found, self._users)
        inside = {name: value for name, value in values.items() if self._file_of(name) is None}
        whole = graph_change(self.graph, inside) if inside else None
        beside = {change.path: change for _, change in found}
        both = [*([whole] if whole else []), *beside.values()]
        return tuple(change for change in both if change.after != change.before)

    @cached_property
    def _positions(self) -> dict[str, Position]:
        return {position.id: position for position in positions_of_graph(self.graph)}

    def _now(self, name: str) -> Value:
        if name not in self._positions:
            message = "the graph has no such position any more"
            raise ConfigError([Problem(where=name, message=message)])
        return self._positions[name].value

    def _node(self, name: str) -> AgentNode | None:
        """The node of a surface; None for what all agents share."""
        there = (n for n in self.graph.nodes.values() if isinstance(n, AgentNode))
        home = self._positions[name].node
        return next((node for node in there if node_id(self.graph, node.name) == home), None)

    def _file_of(self, name: str) -> Path | None:
        """The file that holds a value, where that is another than the graph's own."""
        node, position = self._node(name), self._positions[name]
        if node is None:
            return shared_file(self.graph)
        if position.type is SurfaceType.SKILL:
            paths = {skill.name: skill.path for skill in node.skills}
            return self.graph.folder / paths[position.part]
        if node.file:
            return node.agent.path
        told = node.agent.block.instructions.file
        here = position.type is SurfaceType.INSTRUCTION and told is not None
        return node.agent.folder / str(told) if here else None

    def _beside(self, values: Mapping[str, Value]) -> Iterator[tuple[str, FileChange]]:
        """By node, the changes of files other than the graph's own."""
        for name, value in values.items():
            path, node, position = self._file_of(name), self._node(name), self._positions[name]
            if path is None:
                continue
            if node is None:
                told = self.graph.global_instructions
                yield self.graph.name, text_change(path, told, str(value))
            elif position.type is SurfaceType.SKILL:
                skill = next(each for each in node.skills if each.name == position.part)
                yield node.name, text_change(path, skill.content, str(value))
            elif not node.file:
                yield node.name, text_change(path, node.agent.instructions, str(value))
        yield from self._of_agents(values)

    def _of_agents(self, values: Mapping[str, Value]) -> Iterator[tuple[str, FileChange]]:
        for name, told in by_node(self.graph, self._positions, values).items():
            node = self.graph.nodes[name]
            if isinstance(node, AgentNode) and node.file and told.agent:
                yield from ((name, each) for each in file_changes(node.agent, told.agent))

    @cached_property
    def _users(self) -> dict[Path, set[str]]:
        """Which nodes use which file."""
        found: dict[Path, set[str]] = {}
        for node in self.graph.nodes.values():
            if isinstance(node, AgentNode):
                told = node.agent.block.instructions.file
                named = [node.agent.path] if node.file else []
                named += [node.agent.folder / told] if told else []
                named += [self.graph.folder / skill.path for skill in node.skills]
                for path in named:
                    found.setdefault(Path(os.path.realpath(path)), set()).add(node.name)
        return found


def _require_alike(
    changes: Sequence[tuple[str, FileChange]], users: Mapping[Path, set[str]]
) -> None:
    """Refuse to change a file for one node where another uses it as it is."""
    problems: list[Problem] = []
    for path in dict.fromkeys(change.path for _, change in changes):
        own = {node: change.after for node, change in changes if change.path == path}
        using = users.get(path, set(own))
        if len(set(own.values())) > 1 or using - own.keys():
            message = f"{', '.join(sorted(using))} use it, and the run changed it for some only"
            remedy = "give each node a file of its own, then adopt with --force"
            problems.append(Problem(where=str(path), message=message, remedy=remedy))
    if problems:
        raise ConfigError(problems)
