"""The files of a graph that a run measured: their hashes, by path from the graph's folder."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from burnish.core.content import Json
from burnish.projects.adopting_originals import FILES
from burnish.runs.header import Header
from burnish.system import read_bytes
from burnish.targets.graph import Graph
from burnish.targets.graph.nodes import AgentNode


def graph_files(graph: Graph) -> dict[str, Json]:
    """What is kept in run.json; nothing of a graph that is told in Python, which has no file."""
    return {} if graph.source is None else {FILES: {**_hashes(graph)}}


def has_files(header: Header) -> bool:
    """Whether a run was about a graph that lies in files."""
    return isinstance(header.project.config.get(FILES), dict)


def changed_graph_files(header: Header, graph: Graph) -> list[str]:
    """The files that are not what the run measured."""
    kept = header.project.config.get(FILES)
    known = kept if isinstance(kept, dict) else {}
    now = _hashes(graph)
    return sorted(name for name in {*known, *now} if known.get(name) != now.get(name))


def _hashes(graph: Graph) -> dict[str, str]:
    paths = {os.path.relpath(path, graph.folder): path for path in _files(graph)}
    return {name: hashlib.sha256(read_bytes(path)).hexdigest() for name, path in paths.items()}


def _files(graph: Graph) -> Iterator[Path]:
    """The graph file, the files of agents, and what either names and a candidate may change."""
    assert graph.source is not None
    yield graph.source.path
    if (shared := shared_file(graph)) is not None:
        yield shared
    for node in graph.nodes.values():
        if not isinstance(node, AgentNode):
            continue
        if node.file:
            yield node.agent.path
        yield from (node.agent.folder / name for name in node.agent.contents)
        yield from (graph.folder / skill.path for skill in node.skills)


def shared_file(graph: Graph) -> Path | None:
    """The file of the instructions that all agents share, if they have one."""
    data = graph.source.data if graph.source is not None else None
    block = data.get("global_instructions") if isinstance(data, dict) else None
    name = block.get("file") if isinstance(block, dict) else None
    return graph.folder / name if isinstance(name, str) else None
