"""Where the values of a graph are, and how the graph file is read."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, cast

from ruamel.yaml.scalarstring import LiteralScalarString

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.structures import Position, SurfaceType
from burnish.core.surfaces import Candidate, Origin, Value
from burnish.models.factory import Models
from burnish.projects.adopt_files import carried_over
from burnish.projects.agent.homes import changed_files, file_changes, text_change
from burnish.runs.directory import Header
from burnish.runs.homes import FILES, FileChange, Homes, measured_hashes
from burnish.system import read_bytes, read_tree
from burnish.system.restoration import digest
from burnish.system.yaml import YamlTree, parse_tree
from burnish.targets.graph import Graph, GraphTarget, load_graph
from burnish.targets.graph.files import GraphBlock
from burnish.targets.graph.graphs import AgentNode
from burnish.targets.graph.surfaces import by_node, file_keys, node_id, positions_of_graph


def read_graph(path: Path, tree: YamlTree) -> Graph:
    """The graph of a file; all problems are reported at once.

    Other keys belong to the project, which validates them.
    """
    keys = tree.data if isinstance(tree.data, dict) else {}
    return load_graph(path, tree=tree, beside=keys.keys() - GraphBlock.model_fields.keys())


def graph_files(graph: Graph) -> dict[str, Json]:
    """What is kept in run.json; nothing for a graph built in Python, which has no file."""
    return {} if graph.source is None else {FILES: {**_hashes(graph)}}


@dataclass(frozen=True, kw_only=True)
class GraphHomes(Homes):
    """A graph file, and what it names."""

    movable: ClassVar[bool] = True
    path: Path
    hashes: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What the run measured, by path from the graph's folder."""

    @classmethod
    def of(cls, header: Header) -> "GraphHomes | None":
        hashes = measured_hashes(header)
        if hashes is None or not header.project.file:
            return None
        return cls(path=Path(header.project.file), hashes=hashes)

    @cached_property
    def graph(self) -> Graph:
        return read_graph(self.path, read_tree(self.path))

    @property
    def place(self) -> str:
        return str(self.graph.folder)

    @property
    def files(self) -> Sequence[Path]:
        return (self.path,)

    def load(self) -> None:
        assert self.graph

    def changed(self) -> list[str]:
        return changed_files(self.hashes, {**_hashes(self.graph)})

    def value(self, surface: str) -> Value:
        if surface not in self._positions:
            message = "the graph no longer has this position"
            raise ConfigError([Problem(where=surface, message=message)])
        return self._positions[surface].value

    def edited(self, values: Mapping[str, Value]) -> tuple[FileChange, ...]:
        """Each value where it is; a file that several nodes use must suit all of them."""
        changes = [*self._beside(values)]
        _require_alike(changes, self._users)
        inside = {name: value for name, value in values.items() if self._file_of(name) is None}
        whole = _graph_change(self.graph, inside) if inside else None
        beside = {change.path: change for _, change in changes}
        both = [*([whole] if whole else []), *beside.values()]
        return tuple(change for change in both if change.after != change.before)

    @cached_property
    def _positions(self) -> dict[str, Position]:
        return {position.id: position for position in positions_of_graph(self.graph)}

    def _node(self, name: str) -> AgentNode | None:
        """The node of a surface; None for what all agents share."""
        if self._positions[name].type is SurfaceType.GLOBAL_INSTRUCTION:
            return None
        return self.graph.agents[self._paths[self._positions[name].node]]

    @cached_property
    def _paths(self) -> dict[str, str]:
        return {node_id(self.graph, path): path for path in self.graph.agents}

    def _file_of(self, name: str) -> Path | None:
        """The file that contains a value, if it is not the graph's own."""
        node, position = self._node(name), self._positions[name]
        if node is None:
            return _shared_file(self.graph)
        if position.type is SurfaceType.SKILL:
            paths = {skill.name: skill.path for skill in node.skills}
            return self.graph.folder / paths[position.part]
        if node.file:
            return node.agent.path
        file = node.agent.block.instructions.file
        here = position.type is SurfaceType.INSTRUCTION and file is not None
        return node.agent.folder / str(file) if here else None

    def _beside(self, values: Mapping[str, Value]) -> Iterator[tuple[str, FileChange]]:
        for name, value in values.items():
            path, node, position = self._file_of(name), self._node(name), self._positions[name]
            if path is None:
                continue
            user = self._paths.get(position.node, self.graph.name)
            if node is None:
                shared = self.graph.global_instructions
                yield user, text_change(path, shared, str(value))
            elif position.type is SurfaceType.SKILL:
                skill = next(each for each in node.skills if each.name == position.part)
                yield user, text_change(path, skill.content, str(value))
            elif not node.file:
                yield user, text_change(path, node.agent.instructions, str(value))
        for name, parts in by_node(self.graph, self._positions, values).items():
            node = self.graph.agents.get(name)
            if node is not None and node.file and parts.agent:
                yield from ((name, each) for each in file_changes(node.agent, parts.agent))

    @cached_property
    def _users(self) -> dict[Path, set[str]]:
        users: dict[Path, set[str]] = {}
        for name, node in self.graph.agents.items():
            text = node.agent.block.instructions.file
            named = [node.agent.path] if node.file else []
            named += [node.agent.folder / text] if text else []
            named += [self.graph.folder / skill.path for skill in node.skills]
            for path in named:
                users.setdefault(Path(os.path.realpath(path)), set()).add(name)
        return users


def _require_alike(
    changes: Sequence[tuple[str, FileChange]], users: Mapping[Path, set[str]]
) -> None:
    """Reject changing a file for one node if another node uses it unchanged."""
    problems: list[Problem] = []
    for path in dict.fromkeys(change.path for _, change in changes):
        own = {node: change.after for node, change in changes if change.path == path}
        using = users.get(path, set(own))
        if len(set(own.values())) > 1 or using - own.keys():
            names = ", ".join(sorted(using))
            message = f"{names} use this file, but the run changed it only for some of them"
            remedy = "give each node its own file, then adopt with --force"
            problems.append(Problem(where=str(path), message=message, remedy=remedy))
    if problems:
        raise ConfigError(problems)


def _hashes(graph: Graph) -> dict[str, str]:
    paths = {os.path.relpath(path, graph.folder): path for path in _files(graph)}
    return {name: digest(read_bytes(path)) for name, path in paths.items()}


def _files(graph: Graph) -> Iterator[Path]:
    """The graph file, agent files, and the files they name that a candidate may change."""
    assert graph.source is not None
    yield graph.source.path
    if (shared := _shared_file(graph)) is not None:
        yield shared
    for node in graph.agents.values():
        if node.file:
            yield node.agent.path
        yield from (node.agent.folder / name for name in node.agent.contents)
        yield from (graph.folder / skill.path for skill in node.skills)


def _shared_file(graph: Graph) -> Path | None:
    data = graph.source.data if graph.source is not None else None
    block = data.get("global_instructions") if isinstance(data, dict) else None
    name = block.get("file") if isinstance(block, dict) else None
    return graph.folder / name if isinstance(name, str) else None


def _graph_change(graph: Graph, values: Mapping[str, Value]) -> FileChange:
    assert graph.source is not None
    path, original = graph.source.path, graph.source.text
    untouched, made = _exported(graph, {}), _exported(graph, values)
    meant = parse_tree(path, made).data
    # The nicest first: only the lines that must change, texts of several lines as such.
    for written in (_in_lines(parse_tree(path, made), graph), made):
        for text in (carried_over(original, untouched, written), written):
            if text is not None and _data(path, text) == meant:
                return FileChange.of(path, original, text)
    message = "with the new values, the file would not describe the agent that was measured"
    remedy = "take the values from the run's folder and edit the file yourself"
    raise ConfigError([Problem(where=path.name, message=message, remedy=remedy)])


def _exported(graph: Graph, values: Mapping[str, Value]) -> str:
    candidate = Candidate(values=values, origin=Origin(kind="proposal"))
    files = GraphTarget(graph, Models()).export(candidate, graph.folder)
    assert graph.source is not None
    return files[graph.source.path.name].decode()


def _in_lines(tree: YamlTree, graph: Graph) -> str:
    if tree.root is None:
        return tree.dump()
    root = cast("dict[str, Any]", tree.root)
    blocks: list[Any] = []
    for path in graph.agents:
        node: Any = root
        for key in file_keys(graph, path):
            node = node[key]
        blocks.append(node.get("instructions"))
    for block in (*blocks, root.get("global_instructions")):
        texts = cast("dict[str, Any]", block) if isinstance(block, dict) else {}
        if isinstance(text := texts.get("inline"), str) and "\n" in text:
            texts["inline"] = LiteralScalarString(text)
    return tree.dump()


def _data(path: Path, text: str) -> object:
    try:
        return parse_tree(path, text).data
    except ConfigError:
        return None
