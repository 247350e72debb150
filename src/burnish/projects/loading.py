"""From a project file to a Setup: the registry of project kinds.

A kind is an entry point in the group `burnish.projects`: a function that takes the file's
path and the overrides and gives a Setup. Other packages add kinds the same way. A file says
which kind it is; an agent file does not, and is known by its keys.
"""

import difflib
import os
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TypeAlias, cast

from pydantic import BaseModel

from burnish.core.errors import ConfigError, Problem, ResumeRefused
from burnish.models.factory import Models
from burnish.models.keys import load_dotenv
from burnish.projects.describing import Flags, Request, describe, described_again
from burnish.projects.dialects import Dialect, Document
from burnish.projects.overrides import (
    AGENT_FOLDER,
    AgentOverrides,
    BackpropOverrides,
    Overrides,
    PromptOverrides,
    SuiteOverrides,
    TaskOverrides,
    flag_of,
)
from burnish.runs.building import build
from burnish.runs.header import NAME as HEADER
from burnish.runs.header import Header, Project
from burnish.runs.opening import RESULTS
from burnish.runs.plugins import strategy_plugin
from burnish.runs.setup import Setup
from burnish.system import YamlTree, read_tree, validate_config

GROUP = "burnish.projects"
AGENT = "agent"
"""The kind of agent files."""
OPTIMIZER = "optimizer"
"""The kind of optimizer.json."""
PROMPTS = "prompts"
"""The kind of files about the prompts of an agent, and of flags without a file."""
TASK = "task"
"""The kind of task files."""
GRAPH = "graph"
"""The kind of graph files."""
SUITE = "suite"
"""The kind of suites of tasks to delegate."""
FOUND = "found"
"""Where `Project.config` keeps what a loader found, and a resume must find again."""

_NUMERIC = {"numeric_max_trials", "numeric_patience"}
_PROPOSING = {"proposer", "max_rounds"}
_TOLD: Mapping[str, Set[str]] = {
    AGENT: {*AgentOverrides.model_fields, *_PROPOSING},
    GRAPH: {
        *AgentOverrides.model_fields,
        *BackpropOverrides.model_fields,
        *("train_cases", "holdout_cases", "metric_file", "update_source"),
    },
    SUITE: {*AgentOverrides.model_fields, *SuiteOverrides.model_fields, "proposer"}
    - {*_NUMERIC, "sealed_cases"},
}
"""By kind, what a command may say beside limits."""


_COMMAND_LINE = YamlTree(path=Path("the command line"), data={"kind": PROMPTS}, text="")


@dataclass(frozen=True, kw_only=True)
class Given:
    """What a project kind's loader is given."""

    path: Path
    tree: YamlTree
    flags: Overrides
    environment: Overrides

    @property
    def folder(self) -> Path:
        """Where the file lies."""
        path = self.path.resolve()
        return path if path.is_dir() else path.parent

    @classmethod
    def read(
        cls, path: Path, flags: Overrides, *, environ: Mapping[str, str] | None = None
    ) -> "Given":
        """A project file as it stands, with flags and the environment.

        A folder stands for flags that say everything; what they name is found from there.
        """
        flags_alone = path.is_dir()
        load_dotenv(path.resolve() if flags_alone else path.resolve().parent, os.environ)
        return cls(
            path=path,
            tree=_COMMAND_LINE if flags_alone else read_tree(path),
            flags=flags,
            environment=Overrides.from_environment(os.environ if environ is None else environ),
        )


Loader: TypeAlias = Callable[[Given], Setup]


@dataclass(frozen=True, kw_only=True)
class LoadedProject:
    """A project ready to run, and where its runs lie."""

    setup: Setup
    root: Path
    """`results/optimizer` beside the file."""


def load_project(
    path: Path,
    flags: Overrides | Flags,
    *,
    environ: Mapping[str, str] | None = None,
    models: Models | None = None,
    request: Request | None = None,
) -> LoadedProject:
    """Read a project file; everything that is wrong with it is said at once.

    A `request` is laid over the file, and `models` stand in for the real ones.
    """
    flags = flags if isinstance(flags, Overrides) else Overrides.from_doors(flags)
    given = Given.read(path, flags, environ=environ)
    loaders = _loaders()
    kind = _kind(given.tree, path, loaders)
    loader = loaders[kind].load()
    if isinstance(loader, type):
        document = Document(path=path, tree=given.tree)
        dialect = cast("type[Dialect]", loader)()
        described = describe(
            document, flags.by_door(), environ=environ, dialect=dialect, request=request
        )
        return LoadedProject(setup=build(described, models=models), root=given.folder / RESULTS)
    _refuse_misplaced(flags, kind)
    return loaded_from(given, kind, cast("Loader", loader)(given))


def loaded_from(given: Given, kind: str, setup: Setup) -> LoadedProject:
    """The project, with what it takes to set it up again kept in its run's header."""
    path = given.path.resolve()
    config = {**setup.project.config, "overrides": given.flags.to_json()}
    project = Project(kind=kind, file=str(path), config=config)
    return LoadedProject(setup=replace(setup, project=project), root=given.folder / RESULTS)


def reload_project(
    folder: Path, flags: Overrides, *, file: Path | None = None, models: Models | None = None
) -> LoadedProject:
    """Set a run's project up again, as its header says, with newer flags on top.

    `file` is where the project file lies now, where it was moved.
    """
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
    strategy = strategy_plugin(header.strategy)
    if not strategy.described:
        _refuse_flags(header.project.kind, flags)
        return LoadedProject(setup=strategy.reload(folder), root=folder.parent)
    if header.project.spec:
        described = described_again(folder, flags.by_door(), file=file)
        home = Path(described.spec.source.folder)
        return LoadedProject(setup=build(described, models=models), root=home / RESULTS)
    path = Path(header.project.file)
    if not path.exists():
        raise ResumeRefused(
            f"run {header.id} was started from {path}, which is gone",
            remedy="put the file back, or say where it is now: "
            f"`burnish optimize FILE --resume {header.id}`",
        )
    return load_project(path, flags.over(stored_overrides(folder)))


def _refuse_flags(kind: str, flags: Overrides) -> None:
    """A run that is set up from its folder is as it was started."""
    if settings := flags.to_json():
        message = f"a {kind} keeps what it was started with"
        raise ConfigError([Problem(where=flag_of(name), message=message) for name in settings])


def stored_overrides(folder: Path) -> Overrides:
    """What the command said that started a run."""
    config = Header.read(folder).project.config
    found, said = config.get(FOUND), config.get("overrides")
    known = {
        **(found if isinstance(found, dict) else {}),
        **(said if isinstance(said, dict) else {}),
    }
    return Overrides.from_json(known, source=f"{folder / HEADER} overrides")


def is_agent_file(tree: YamlTree) -> bool:
    """Whether the keys are those of an agent file."""
    keys = tree.data if isinstance(tree.data, dict) else {}
    return "kind" not in keys and ("model" in keys or "instructions" in keys)


def is_optimizer_file(tree: YamlTree) -> bool:
    """Whether the keys are those of an optimizer.json."""
    keys = tree.data if isinstance(tree.data, dict) else {}
    return "kind" not in keys and "evaluate" in keys and "optimize" in keys


def is_task_file(tree: YamlTree) -> bool:
    """Whether the keys are those of a task file."""
    keys = tree.data if isinstance(tree.data, dict) else {}
    return "kind" not in keys and "artifacts" in keys and ("runner" in keys or "scorer" in keys)


def is_suite_file(tree: YamlTree) -> bool:
    """Whether the keys are those of a suite."""
    keys = tree.data if isinstance(tree.data, dict) else {}
    return "kind" not in keys and "name" in keys and "tasks" in keys


class _Kinded(BaseModel):
    """As much of a project file as says what the rest is."""

    kind: str


def _refuse_misplaced(flags: Overrides, kind: str) -> None:
    blocks = (AgentOverrides, PromptOverrides, BackpropOverrides, TaskOverrides, SuiteOverrides)
    special = [name for block in blocks for name in block.model_fields]
    said = [name for name in special if getattr(flags, name) is not None and name != AGENT_FOLDER]
    wrong = [name for name in said if name not in _TOLD.get(kind, ())]
    if wrong:
        message = f"a project of kind '{kind}' cannot be told this"
        raise ConfigError([Problem(where=flag_of(name), message=message) for name in wrong])


def _kind(tree: YamlTree, path: Path, kinds: Collection[str]) -> str:
    if is_agent_file(tree):
        return AGENT
    if is_optimizer_file(tree):
        return OPTIMIZER
    if is_task_file(tree):
        return TASK
    if is_suite_file(tree):
        return SUITE
    known = [kind for kind in kinds if kind not in (AGENT, OPTIMIZER, TASK, SUITE)]
    remedy = (
        f"a project file says what it is, such as `kind: toy`; known kinds: {_listed(known)}; "
        "an agent file is known by its model and instructions, an optimizer.json by evaluate and "
        "optimize, a task file by artifacts and scorer, a suite by name and tasks"
    )
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
