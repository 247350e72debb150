"""The graph file with other values in it, as close to how it stands as can be."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from ruamel.yaml.scalarstring import LiteralScalarString

from burnish.core.candidates import Candidate, Origin
from burnish.core.errors import ConfigError, Problem
from burnish.core.surfaces import Value
from burnish.models.factory import Models
from burnish.projects.adopting_files import FileChange, change_of
from burnish.projects.adopting_lines import carried_over
from burnish.system.yaml import YamlTree, parse_tree
from burnish.targets.graph import Graph, GraphTarget


def graph_change(graph: Graph, values: Mapping[str, Value]) -> FileChange:
    """The change of the graph file that puts these values into it."""
    assert graph.source is not None
    path, original = graph.source.path, graph.source.text
    untouched, made = _exported(graph, {}), _exported(graph, values)
    meant = parse_tree(path, made).data
    for text in _spellings(path, original, untouched, made):
        if _data(path, text) == meant:
            return change_of(path, original, text)
    message = "with the new values in it, it would not say what was measured"
    remedy = "take the values from the run's folder and edit the file yourself"
    raise ConfigError([Problem(where=path.name, message=message, remedy=remedy)])


def _spellings(path: Path, original: str, untouched: str, made: str) -> Iterator[str]:
    """The nicest first: only the lines that must change, texts of several lines as such."""
    for written in (_in_lines(parse_tree(path, made)), made):
        carried = carried_over(original, untouched, written)
        yield from (text for text in (carried, written) if text is not None)


def _exported(graph: Graph, values: Mapping[str, Value]) -> str:
    candidate = Candidate(values=values, origin=Origin(kind="proposal"))
    files = GraphTarget(graph, Models()).export(candidate, graph.folder)
    assert graph.source is not None
    return files[graph.source.path.name].decode()


def _in_lines(tree: YamlTree) -> str:
    """With instructions of several lines as people write them in YAML."""
    if tree.root is None:
        return tree.dump()
    root = cast("dict[str, Any]", tree.root)
    nodes = cast("dict[str, dict[str, Any]]", root.get("nodes") or {})
    blocks: list[Any] = [node.get("instructions") for node in nodes.values()]
    for block in (*blocks, root.get("global_instructions")):
        told = cast("dict[str, Any]", block) if isinstance(block, dict) else {}
        if isinstance(text := told.get("inline"), str) and "\n" in text:
            told["inline"] = LiteralScalarString(text)
    return tree.dump()


def _data(path: Path, text: str) -> object:
    try:
        return parse_tree(path, text).data
    except ConfigError:
        return None
