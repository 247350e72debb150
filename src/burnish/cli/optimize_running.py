"""Running `burnish optimize`: from flags to a run, a plan, a report or a block to paste."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import typer

from burnish.cli.estimating import show_estimate
from burnish.cli.optimize_asking import USUAL_FILE, Asked
from burnish.cli.optimize_backprop import show_backprop_plan
from burnish.cli.optimize_baseline import show_baseline
from burnish.cli.optimize_planning import show_plan
from burnish.cli.optimize_prompts import show_reflective_baseline, show_reflective_plan
from burnish.cli.optimize_rationales import Rationales
from burnish.cli.optimize_suites import show_suite_plan, tell_policy
from burnish.cli.optimize_tasks import show_task_baseline, show_task_plan
from burnish.cli.running import Way, run_project
from burnish.core.errors import ConfigError, Problem
from burnish.projects import LoadedProject, Overrides, load_project
from burnish.projects.loading import (
    GRAPH,
    OPTIMIZER,
    PROMPTS,
    is_agent_file,
    stored_overrides,
)
from burnish.reports.report import write_report
from burnish.runs.events import Listener
from burnish.runs.header import Header
from burnish.runs.index import find_run
from burnish.runs.outputs import BASELINE_ONLY
from burnish.runs.run import Run
from burnish.strategies.backprop.strategy import Backprop
from burnish.strategies.coordinate.strategy import Coordinate
from burnish.strategies.epochs.strategy import Epochs
from burnish.strategies.reflective.strategy import Reflective
from burnish.system import read_tree
from burnish.system.settings import Limits
from burnish.targets.artifacts.target import ArtifactsTarget
from burnish.targets.delegation.target import DelegationTarget

Preparing: TypeAlias = Callable[[Path, Overrides], LoadedProject]


def optimize_project(asked: Asked, *, prepare: Preparing = load_project) -> None:
    """Do what is asked; ends with exit code 2 when a run was interrupted."""
    asked.check()
    if asked.report_only is not None:
        typer.echo(f"report   {write_report(find_run(asked.report_only))}")
    elif asked.suggest_axes:
        typer.echo(_starter(_file(asked)), nl=False)
    elif asked.dry_run:
        _show(_prepared(asked, prepare))
    else:
        _run(_prepared(asked, prepare), asked)


@dataclass(frozen=True, kw_only=True)
class Watched(Way):
    """A way to open a run that somebody else listens to as well."""

    listeners: Sequence[Listener] = ()
    opened: list[Path]

    def open(self, project: LoadedProject) -> Run:
        """The run, open for driving."""
        run = super().open(project)
        self.opened.append(run.directory.folder)
        for listener in self.listeners:
            run.listen(listener)
        return run


def _prepared(asked: Asked, prepare: Preparing) -> LoadedProject:
    """The project; a run that goes on keeps what it was started with where nothing is said now."""
    if asked.way.resume is not None:
        folder = find_run(asked.way.resume)
        file = asked.file or Path(Header.read(folder).project.file)
        return prepare(file, asked.flags.over(stored_overrides(folder)))
    if asked.request is not None:
        from burnish.cli.optimize_requests import with_request

        asked = with_request(asked, _file(asked))
    if asked.way.fork is not None:
        return prepare(*_forked(asked, find_run(asked.way.fork)))
    return prepare(_file(asked), asked.flags)


def _forked(asked: Asked, parent: Path) -> tuple[Path, Overrides]:
    """A fork over prompts takes over what they were: flags alone may have named them."""
    project = Header.read(parent).project
    if project.kind not in (OPTIMIZER, PROMPTS, GRAPH):
        return _file(asked), asked.flags
    own = {*Limits.model_fields, "baseline_only", "keep_best_only", "update_source", "in_place"}
    kept = {k: v for k, v in stored_overrides(parent).to_json().items() if k not in own}
    return asked.file or Path(project.file), asked.flags.over(Overrides.from_json(kept))


def _file(asked: Asked) -> Path:
    """The file that is named, else the usual one if it is there; a folder for flags alone."""
    if asked.file is None and asked.overrides.get("agent") is not None:
        return Path.cwd()
    if asked.file is None and not USUAL_FILE.exists():
        message = f"no file is named, and there is no {USUAL_FILE} here"
        remedy = "name one; see `burnish optimize --help`"
        raise ConfigError([Problem(message=message, remedy=remedy)])
    if asked.file is not None and asked.file.is_dir():
        message = "it is a folder, not a file"
        raise ConfigError([Problem(where=str(asked.file), message=message, remedy="name a file")])
    return asked.file or USUAL_FILE


def _run(project: LoadedProject, asked: Asked) -> None:
    way, opened = asked.way, list[Path]()
    watched = Watched(
        resume=way.resume,
        fork=way.fork,
        retry_missing=way.retry_missing,
        output_dir=way.output_dir,
        listeners=[Rationales(typer.echo)] if asked.verbose else (),
        opened=opened,
    )
    run_project(project, watched, progress="none" if asked.quiet else asked.progress)
    if isinstance(project.setup.target, DelegationTarget) and not asked.quiet:
        tell_policy(opened[0])
    if BASELINE_ONLY not in project.setup.stop_callbacks:
        return
    if isinstance(project.setup.target, ArtifactsTarget):
        show_task_baseline(opened[0])
    elif isinstance(project.setup.strategy, Reflective | Backprop):
        show_reflective_baseline(opened[0])
    else:
        show_baseline(opened[0], told=not asked.quiet)


def _show(project: LoadedProject) -> None:
    strategy = project.setup.strategy
    if isinstance(project.setup.target, ArtifactsTarget):
        show_task_plan(project.setup)
    elif isinstance(strategy, Coordinate):
        show_plan(project.setup, strategy)
    elif isinstance(strategy, Reflective):
        show_reflective_plan(project.setup, strategy)
    elif isinstance(strategy, Backprop):
        show_backprop_plan(project.setup, strategy)
    elif isinstance(strategy, Epochs):
        show_suite_plan(project.setup, strategy)
    else:
        show_estimate(project)


def _starter(path: Path) -> str:
    from burnish.models.factory import Models
    from burnish.projects.optimizer_starter import starter
    from burnish.targets.agent.loading import load_agent

    if not is_agent_file(read_tree(path)):
        told = "only an agent file has axes to suggest"
        raise ConfigError([Problem(where=str(path), message=told)])
    return starter(load_agent(path), Models())
