"""Candidates of a graph in a run's folder: their graph file finds its cases from there too."""

from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any, cast

from burnish.core.candidates import Candidate
from burnish.runs.exporting import BEST, CANDIDATES, Exported, Exporter
from burnish.system.yaml import parse_tree
from burnish.targets.agent.exporting import rebased, way_back
from burnish.targets.graph import GraphTarget

_PATHS = ("train", "holdout", "sealed", "metrics_file")


def exporter_of(target: GraphTarget) -> Exporter:
    """A folder for each candidate, and `candidates/best` to the leader."""

    def export(candidate: Candidate, folder: Path, number: int) -> Exported:
        name = f"iter-{number:02d}"
        home = folder / CANDIDATES / name
        files = _found_from(home, target, target.export(candidate, home))
        return Exported(
            files={f"{CANDIDATES}/{name}/{path}": content for path, content in files.items()},
            links={f"{CANDIDATES}/{BEST}": name},
        )

    return export


def _found_from(home: Path, target: GraphTarget, files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """The files, with the paths of the project as they are spelled from `home`."""
    source = target.graph.source
    if source is None:
        return files
    name = source.path.name
    tree = parse_tree(source.path, files[name].decode())
    root = cast("MutableMapping[str, Any]", tree.root if tree.root is not None else tree.data)
    way = way_back(home, target.graph.folder)
    for key in _PATHS:
        if isinstance(root.get(key), str):
            root[key] = rebased(root[key], way)
    return {**files, name: tree.dump().encode()}
