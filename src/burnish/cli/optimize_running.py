"""Running `burnish optimize`: from flags to a run, a plan, a report or a block to paste."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import typer

from burnish.cli.naming import file_name, run_name
from burnish.cli.optimize_asking import USUAL_FILE, Asked
from burnish.cli.optimize_rationales import Rationales
from burnish.cli.running import Way, run_project
from burnish.core.errors import ConfigError, Problem
from burnish.models.factory import Models
from burnish.projects import LoadedProject, Overrides, load_project
from burnish.projects.loading import (
    GRAPH,
    OPTIMIZER,
    PROMPTS,
    is_agent_file,
    reload_project,
    stored_overrides,
)
from burnish.reports.report import write_report
from burnish.reports.terminal import show
from burnish.runs.events import Listener
from burnish.runs.header import Header
from burnish.runs.index import find_run
from burnish.runs.outputs import BASELINE_ONLY
from burnish.runs.plugins import TargetPlugin, strategy_plugin, target_plugin
from burnish.runs.record import RunRecord
from burnish.runs.run import Run
from burnish.system import read_tree
from burnish.system.settings import Limits

Preparing: TypeAlias = Callable[[Path, Overrides], LoadedProject]


def optimize_project(
    asked: Asked, *, prepare: Preparing = load_project, models: Models | None = None
) -> None:
    """Do what is asked; ends with exit code 2 when a run was interrupted.

    `models` stand in for the real ones, where a run goes on or a request is laid over a file.
    """
    asked.check()
    if asked.report_only is not None:
        typer.echo(f"report   {write_report(find_run(asked.report_only))}")
    elif asked.suggest_axes:
        typer.echo(_starter(_file(asked)), nl=False)
    elif asked.dry_run:
        _show(_prepared(asked, prepare, models))
    else:
        _run(_prepared(asked, prepare, models), asked)


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


def _prepared(asked: Asked, prepare: Preparing, models: Models | None) -> LoadedProject:
    """The project; a run that goes on keeps what it was started with where nothing is said now."""
    if asked.way.resume is not None:
        folder = find_run(asked.way.resume)
        project = Header.read(folder).project
        if project.spec:
            return reload_project(folder, asked.flags, file=asked.file, models=models)
        file = asked.file or Path(project.file)
        return prepare(file, asked.flags.over(stored_overrides(folder)))
    if asked.request is not None:
        from burnish.compat.promptiter.patches import RequestFile

        request = RequestFile.read(asked.request)
        for warning in request.warnings:
            typer.echo(f"! {asked.request.name}: {warning}", err=True)
        return load_project(_file(asked), asked.flags, models=models, request=request)
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
    run = RunRecord.read(opened[0])
    target = target_plugin(project.setup.target.description.kind)
    if not asked.quiet:
        _print(target.last_words(run))
    if BASELINE_ONLY in project.setup.stop_callbacks:
        _show_baseline(run, target, quiet=asked.quiet)


def _show(project: LoadedProject) -> None:
    """Say what would run; nothing is paid."""
    setup = project.setup
    setup.check()
    target = target_plugin(setup.target.description.kind)
    _print(target.plan(setup, strategy_plugin(setup.strategy.name)))


def _show_baseline(run: RunRecord, target: TargetPlugin, *, quiet: bool) -> None:
    """Where the search would start, and how to go on from there."""
    strategy = strategy_plugin(run.header.strategy)
    sections = target.baseline(run, strategy, quiet=quiet)
    if not sections:
        typer.echo("the baseline was not measured: see `stopped` above")
        return
    typer.echo("")
    show(sections)
    if target.offers_fork(strategy):
        file = file_name(run.header.project.file)
        typer.echo(f"go on    burnish optimize {file} --fork {run_name(run.folder)}")
        typer.echo("         (a new run, which does not pay for the baseline again)")


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line)


def _starter(path: Path) -> str:
    from burnish.projects.agent.starter import starter
    from burnish.targets.agent.loading import load_agent

    if not is_agent_file(read_tree(path)):
        told = "only an agent file has axes to suggest"
        raise ConfigError([Problem(where=str(path), message=told)])
    return starter(load_agent(path), Models())
