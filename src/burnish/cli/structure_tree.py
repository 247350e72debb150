"""A structure on the terminal: a tree of nodes, and PromptIter's JSON for programs."""

import json
from collections.abc import Iterator
from pathlib import Path

import typer

from burnish.core.formatting import counted, shorten
from burnish.core.structures import Node, Position
from burnish.projects.structures import Anatomy, read_structure
from burnish.system import Redactor
from burnish.targets.graph.functions import Condition


def show_structure(path: Path, *, as_json: bool) -> None:
    """Print the structure of the agent in a file."""
    anatomy, redactor = read_structure(path), Redactor.from_environment()
    if as_json:
        from burnish.compat.promptiter.snapshot import SurfaceMap

        data = {"structure": SurfaceMap.of(anatomy.target).snapshot.to_json()}
        typer.echo(redactor.text(json.dumps(data, indent=2, ensure_ascii=False)))
        return
    for line in _tree(anatomy):
        typer.echo(redactor.text(line))


def _tree(anatomy: Anatomy) -> Iterator[str]:
    structure = anatomy.target.structure
    sizes = [counted(len(structure.nodes), "node"), counted(len(structure.edges), "edge")]
    changed = sum(position.surface in anatomy.targets for position in structure.positions)
    sizes.append(f"{changed} of {counted(len(structure.positions), 'position')} may be changed")
    yield f"{structure.id[:19]} · {', '.join(sizes)}"
    # The whole before its parts, and first of those where it begins.
    for node in sorted(
        structure.nodes, key=lambda node: (node.id.count("/"), node.id != structure.entry, node.id)
    ):
        yield ""
        yield from _node(anatomy, node)


def _node(anatomy: Anatomy, node: Node) -> Iterator[str]:
    entry = ", where it begins" if node.id == anatomy.target.structure.entry else ""
    yield f"{node.id}  {node.kind.value}{entry}"
    for edge in anatomy.target.structure.edges:
        if edge.source == node.id:
            conditions = anatomy.conditions.get((edge.source, edge.to), (None,))
            yield from (f"    → {edge.to}{_when(condition)}" for condition in conditions)
    for position in anatomy.target.structure.positions:
        if position.node == node.id:
            mark = "*" if position.surface in anatomy.targets else " "
            name = position.id.removeprefix(position.node)
            yield f"  {mark} {name:<24} {_value(position)}".rstrip()


def _when(condition: Condition | None) -> str:
    if condition is None:
        return ""
    when = "unless" if condition.negated else "when"
    if condition.function is not None:
        return f"  {when} {condition.function.name} says so"
    return f"  {when} it {condition.kind} '{condition.text}'" if condition.text else "  always"


def _value(position: Position) -> str:
    value = position.value
    if isinstance(value, tuple):
        return counted(len(value), "demonstration")
    if not isinstance(value, str) or position.type.value == "model":
        return str(value)
    size = counted(len(value), "character")
    return f"{size}: {shorten(value, 60)}" if value.strip() else size
