"""From a project file to a Setup: the registry of project kinds.

A kind is an entry point in the group `burnish.projects`: a function that takes the file's
path and the overrides and gives a Setup. Other packages add kinds the same way.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import TypeAlias

from burnish.core.errors import ConfigError, Problem, ResumeRefused
from burnish.projects.overrides import Overrides
from burnish.runs.header import Header, Project
from burnish.runs.opening import RESULTS
from burnish.runs.setup import Setup
from burnish.system import YamlTree, read_tree

GROUP = "burnish.projects"


@dataclass(frozen=True, kw_only=True)
class Given:
    """What a project kind's loader is given."""

    path: Path
    tree: YamlTree
    flags: Overrides
    environment: Overrides


Loader: TypeAlias = Callable[[Given], Setup]


@dataclass(frozen=True, kw_only=True)
class LoadedProject:
    """A project ready to run, and where its runs lie."""

    setup: Setup
    root: Path
    """`results/optimizer` beside the file."""


def load_project(
    path: Path, flags: Overrides, *, environ: Mapping[str, str] | None = None
) -> LoadedProject:
    """Read a project file; everything that is wrong with it is said at once."""
    tree = read_tree(path)
    kind = _kind(tree, path)
    given = Given(
        path=path,
        tree=tree,
        flags=flags,
        environment=Overrides.from_environment(os.environ if environ is None else environ),
    )
    setup = _loader(kind, path)(given)
    project = Project(
        kind=kind, file=str(path.resolve()), config={"overrides": dict(flags.to_json())}
    )
    root = path.resolve().parent / RESULTS
    return LoadedProject(setup=replace(setup, project=project), root=root)


def reload_project(folder: Path, flags: Overrides) -> LoadedProject:
    """Set a run's project up again, as its header says, with newer flags on top."""
    header = Header.read(folder)
    if header.project.kind == "python":
        raise ResumeRefused(
            f"run {header.id} was started from a Python program",
            remedy=f"run that program again with the folder {folder} to go on",
        )
    path = Path(header.project.file)
    if not path.exists():
        raise ResumeRefused(
            f"run {header.id} was started from {path}, which is gone",
            remedy="put the file back to go on with this run",
        )
    earlier = header.project.config.get("overrides")
    stored = Overrides.from_json(earlier if isinstance(earlier, dict) else {})
    return load_project(path, flags.over(stored))


def _kind(tree: YamlTree, path: Path) -> str:
    data = tree.data
    kind = data.get("kind") if isinstance(data, dict) else None
    if isinstance(kind, str):
        return kind
    known = ", ".join(sorted(point.name for point in entry_points(group=GROUP)))
    raise ConfigError(
        [
            Problem(
                where=path.name,
                message="this is not a project file: it has no 'kind'",
                remedy=f"say at the top what it is, such as `kind: toy`; known kinds: {known}",
            )
        ]
    )


def _loader(kind: str, path: Path) -> Loader:
    points = {point.name: point for point in entry_points(group=GROUP)}
    if kind not in points:
        raise ConfigError(
            [
                Problem(
                    where=f"{path.name} kind",
                    message=f"unknown kind '{kind}'",
                    remedy=f"known kinds: {', '.join(sorted(points))}",
                )
            ]
        )
    loader: Loader = points[kind].load()
    return loader
