"""A structure on the terminal: a tree of nodes, and PromptIter's JSON for programs."""

import json
from collections.abc import Iterator
from pathlib import Path

import typer

from burnish.core.formatting import counted, shorten
from burnish.core.structures import Node, Position
from burnish.projects.structures import Anatomy, read_structure
from burnish.system import Redactor
from burnish.targets.graph.graphs import Condition

_WORDS = 60
"""Columns of a value that are shown."""


def show_structure(path: Path, *, as_json: bool) -> None:
    """Print what the agent of a file is made of."""
    anatomy, redactor = read_structure(path), Redactor.from_environment()
    if as_json:
        typer.echo(redactor.text(json.dumps(_snapshot(anatomy), indent=2, ensure_ascii=False)))
        return
    for line in _tree(anatomy):
        typer.echo(redactor.text(line))


def _snapshot(anatomy: Anatomy) -> object:
    """The answer of PromptIter's structure endpoint."""
    from burnish.compat.promptiter.snapshot import SurfaceMap

    return {"structure": SurfaceMap.of(anatomy.target).snapshot.to_json()}


def _tree(anatomy: Anatomy) -> Iterator[str]:
    structure = anatomy.structure
    sizes = [counted(len(structure.nodes), "node"), counted(len(structure.edges), "edge")]
    changed = sum(position.surface in anatomy.targets for position in structure.positions)
    sizes.append(f"{changed} of {counted(len(structure.positions), 'position')} may be changed")
    yield f"{structure.id[:19]} · {', '.join(sizes)}"
    for node in sorted(structure.nodes, key=lambda node: _place(node, structure.entry)):
        yield ""
        yield from _node(anatomy, node)


def _place(node: Node, entry: str) -> tuple[int, bool, str]:
    """The whole before its parts, and first of those where it begins."""
    return node.id.count("/"), node.id != entry, node.id


def _node(anatomy: Anatomy, node: Node) -> Iterator[str]:
    entry = ", where it begins" if node.id == anatomy.structure.entry else ""
    yield f"{node.id}  {node.kind.value}{entry}"
    for edge in anatomy.structure.edges:
        if edge.source == node.id:
            conditions = anatomy.conditions.get((edge.source, edge.to), (None,))
            yield from (f"    → {edge.to}{_when(condition)}" for condition in conditions)
    for position in anatomy.structure.positions:
        if position.node == node.id:
            yield f"  {_position(position, anatomy.targets)}"


def _when(condition: Condition | None) -> str:
    if condition is None:
        return ""
    if condition.function is not None:
        return f"  when {condition.function.name} says so"
    return f"  when it {condition.kind} '{condition.text}'" if condition.text else "  always"


def _position(position: Position, targets: frozenset[str]) -> str:
    mark = "*" if position.surface in targets else " "
    name = position.id.removeprefix(position.node)
    return f"{mark} {name:<24} {_value(position)}".rstrip()


def _value(position: Position) -> str:
    value = position.value
    if isinstance(value, tuple):
        return counted(len(value), "demonstration")
    if not isinstance(value, str) or position.type.value == "model":
        return str(value)
    size = counted(len(value), "character")
    return f"{size}: {shorten(value, _WORDS)}" if value.strip() else size
