"""From a project file to a Setup: the registry of project kinds.

A kind is an entry point in the group `burnish.projects`: a function that takes the file's
path and the overrides and gives a Setup. Other packages add kinds the same way.
"""

import difflib
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TypeAlias

from pydantic import BaseModel

from burnish.core.errors import ConfigError, Problem, ResumeRefused
from burnish.models.keys import load_dotenv
from burnish.projects.overrides import Overrides
from burnish.runs.header import NAME as HEADER
from burnish.runs.header import Header, Project
from burnish.runs.opening import RESULTS
from burnish.runs.setup import Setup
from burnish.system import YamlTree, read_tree, validate_config

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
    load_dotenv(path.resolve().parent, os.environ)
    tree = read_tree(path)
    loaders = _loaders()
    kind = _kind(tree, path, loaders)
    given = Given(
        path=path,
        tree=tree,
        flags=flags,
        environment=Overrides.from_environment(os.environ if environ is None else environ),
    )
    loader: Loader = loaders[kind].load()
    setup = loader(given)
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
    if header.project.kind == "eval":
        raise ResumeRefused(
            f"run {header.id} is a measurement",
            remedy=f"go on with it: `burnish eval {header.project.file} --resume {header.id}`",
        )
    path = Path(header.project.file)
    if not path.exists():
        raise ResumeRefused(
            f"run {header.id} was started from {path}, which is gone",
            remedy="put the file back, or say where it is now: "
            f"`burnish optimize FILE --resume {header.id}`",
        )
    earlier = header.project.config.get("overrides")
    source = f"{folder / HEADER} overrides"
    stored = Overrides.from_json(earlier if isinstance(earlier, dict) else {}, source=source)
    return load_project(path, flags.over(stored))


class _Kinded(BaseModel):
    """As much of a project file as says what the rest is."""

    kind: str


def _kind(tree: YamlTree, path: Path, known: Collection[str]) -> str:
    remedy = f"a project file says what it is, such as `kind: toy`; known kinds: {_listed(known)}"
    try:
        kind = validate_config(tree.data, _Kinded, source=path.name, tree=tree).kind
    except ConfigError as error:
        problems = [replace(problem, remedy="") for problem in error.problems]
        raise ConfigError(problems, remedy=remedy) from None
    if kind not in known:
        likely = difflib.get_close_matches(kind, known, n=1)
        meant = f"did you mean '{likely[0]}'? " if likely else ""
        line = tree.line_of(("kind",))
        unknown = Problem(
            where=f"{path.name}:{line} kind" if line else f"{path.name} kind",
            message=f"unknown kind '{kind}'",
            remedy=f"{meant}known kinds: {_listed(known)}",
        )
        raise ConfigError([unknown])
    return kind


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names))


def _loaders() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
