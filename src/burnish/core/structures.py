"""The structure of an agent: its nodes, how they are joined, and what can be edited at each."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Protocol, runtime_checkable

from burnish.core.content import Json, canonical, codec
from burnish.core.errors import ConfigError, Problem
from burnish.core.surfaces import Demonstration, Value


class NodeKind(StrEnum):
    """The kind of a node."""

    AGENT = "agent"
    LLM = "llm"
    FUNCTION = "function"
    TOOL = "tool"


class SurfaceType(StrEnum):
    """The part of a node that a position edits."""

    INSTRUCTION = "instruction"
    GLOBAL_INSTRUCTION = "global_instruction"
    FEW_SHOT = "few_shot"
    MODEL = "model"
    TOOL = "tool"
    SKILL = "skill"


@dataclass(frozen=True, kw_only=True, order=True)
class Node:
    """One node of the graph."""

    id: str
    """The path from the root: `recap/planner`."""
    kind: NodeKind = NodeKind.AGENT
    name: str = ""


@dataclass(frozen=True, kw_only=True, order=True)
class Edge:
    """A connection from one node to another."""

    source: str
    to: str


@dataclass(frozen=True, kw_only=True)
class Position:
    """One editable position of a node: `planner#instruction`, `planner#tool.lookup`."""

    id: str
    node: str
    type: SurfaceType
    value: Value
    surface: str = ""
    """The target's surface that edits it; empty if there is none."""
    part: str = ""
    """The tool, skill or model setting."""
    about: Json = None
    """Data of the position that cannot be edited, such as a tool's schemas."""


@dataclass(frozen=True, kw_only=True)
class Structure:
    """A snapshot: the same structure has the same id, whatever its order."""

    entry: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...] = ()
    positions: tuple[Position, ...] = ()

    @classmethod
    def of(
        cls,
        entry: str,
        nodes: Iterable[Node],
        edges: Iterable[Edge] = (),
        positions: Iterable[Position] = (),
    ) -> "Structure":
        """Create a sorted structure; raises with everything that does not fit together."""
        structure = cls(
            entry=entry,
            nodes=tuple(sorted(nodes)),
            edges=tuple(sorted(set(edges))),
            positions=tuple(sorted(positions, key=lambda position: position.id)),
        )
        if problems := structure.problems():
            raise ConfigError(problems)
        return structure

    @cached_property
    def id(self) -> str:
        """A hash of nodes, edges and values."""
        data: Json = [
            self.entry,
            [[node.id, node.kind.value, node.name] for node in self.nodes],
            [[edge.source, edge.to] for edge in self.edges],
            [[p.id, p.node, p.type.value, _plain(p.value), p.about] for p in self.positions],
        ]
        return f"struct_{hashlib.sha256(canonical(data)).hexdigest()}"

    def position(self, name: str) -> Position | None:
        """The position of this id, if there is one."""
        return self._by_id.get(name)

    def of_surface(self, surface: str) -> Position | None:
        """The position that a surface of the target edits."""
        return self._by_surface.get(surface)

    def problems(self) -> list[Problem]:
        """What does not fit together."""
        nodes = {node.id for node in self.nodes}
        messages = [f"two nodes are called '{name}'" for name in _twice(self.nodes)]
        messages += [f"two positions are called '{name}'" for name in _twice(self.positions)]
        if self.entry not in nodes:
            messages.append(f"the entry '{self.entry}' is not a node")
        ends = {end for edge in self.edges for end in (edge.source, edge.to)}
        homes = {position.node for position in self.positions}
        for kind, names in (("an edge", ends), ("a position", homes)):
            messages += [
                f"{kind} names the node '{name}', which does not exist"
                for name in sorted(names - nodes)
            ]
        return [Problem(where="structure", message=message) for message in messages]

    @cached_property
    def _by_id(self) -> dict[str, Position]:
        return {position.id: position for position in self.positions}

    @cached_property
    def _by_surface(self) -> dict[str, Position]:
        return {p.surface: p for p in self.positions if p.surface}


@runtime_checkable
class Structured(Protocol):
    """A target that knows its structure before it is run."""

    @property
    def structure(self) -> Structure:
        """Nodes, edges, and what can be edited at each."""
        ...


def node_path(*names: str) -> str:
    """The id of a node: the names from the root, escaped and joined."""
    return "/".join(name.replace("~", "~0").replace("/", "~1") or "_" for name in names)


def position_id(node: str, kind: SurfaceType, part: str = "") -> str:
    """The id of a position: `<node>#<type>`, with `.part` if a node has several."""
    return f"{node}#{kind.value}.{part}" if part else f"{node}#{kind.value}"


def _twice(items: Sequence[Node] | Sequence[Position]) -> list[str]:
    names = [item.id for item in items]
    return sorted({name for name in names if names.count(name) > 1})


def _plain(value: Value) -> Json:
    if isinstance(value, tuple):
        return [codec(Demonstration).encode(demo) for demo in value]
    return value
