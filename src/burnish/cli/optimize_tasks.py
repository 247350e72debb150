"""`burnish optimize` over the files of a task: the plan of a dry run, and the baseline."""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import typer

from burnish.cli.optimize_planning import surface_words
from burnish.core.cases import Split
from burnish.core.money import total
from burnish.core.surfaces import ChoiceSurface, NumberSurface
from burnish.core.words import counted, spending
from burnish.reports.task_results import TaskLog
from burnish.reports.terminal import Columns
from burnish.runs.record import RunRecord, result_of
from burnish.runs.setup import Setup
from burnish.strategies.coordinate.costs import asking
from burnish.strategies.coordinate.strategy import Coordinate
from burnish.strategies.edits.strategy import Edits
from burnish.targets.artifacts.target import ArtifactsTarget
from burnish.targets.artifacts.task import Runner, Scoring

_SPLITS = ("train", "holdout")


def show_task_plan(setup: Setup) -> None:
    """Say what would run; nothing is paid and no command is started."""
    setup.check()
    assert isinstance(setup.target, ArtifactsTarget)
    parts = (
        _files(setup, setup.target),
        _steps(setup.target),
        _decision(setup),
        _bounds(setup),
        _limits(setup),
        _costs(setup),
        (f"! {note}" for note in setup.notes if note not in setup.target.notes),
    )
    for line in (line for part in parts for line in part):
        typer.echo(line)
    typer.echo("nothing was run or paid; leave out --dry-run to start")


def show_task_baseline(folder: Path) -> None:
    """Every number of the files as they are."""
    run = RunRecord.read(folder)
    results = {split: result_of(run.baseline, split) for split in _SPLITS}
    there = {split: result for split, result in results.items() if result is not None}
    if not there:
        typer.echo("the baseline was not measured: see `stopped` above")
        return
    typer.echo("")
    table = Columns("", *there)
    for name in sorted({name for each in there.values() for name in each.measurement.values}):
        values = (each.measurement.values.get(name) for each in there.values())
        table.add(name, *("—" if value is None else f"{value:g}" for value in values))
    table.show()
    for result in there.values():
        for error in result.errors.values():
            typer.echo(f"! the files as they are do not run: {error}")


def _files(setup: Setup, target: ArtifactsTarget) -> Iterator[str]:
    yield f"folder    {target.task.folder}"
    yield f"strategy  {setup.strategy.name}, seed {setup.seed}{_editor(setup)}"
    values = setup.target.baseline.values
    yield f"files     {len(target.texts)}"
    for path, text in target.texts.items():
        yield f"  {path}: {counted(len(text.splitlines()), 'line')}"
    for surface in setup.target.surfaces:
        if isinstance(surface, NumberSurface | ChoiceSurface):
            yield f"  {surface.id}: {surface_words(surface, values[surface.id])}"


def _editor(setup: Setup) -> str:
    if not isinstance(setup.strategy, Edits):
        return ""
    role = setup.strategy.editor
    label = getattr(getattr(getattr(role, "client", None), "ref", None), "label", "")
    return f", editor {label or getattr(role, 'command', '')}".rstrip()


def _steps(target: ArtifactsTarget) -> Iterator[str]:
    task = target.task
    if task.runner is not None:
        yield f"runner    {_runner(task.runner)}"
    yield f"scorer    {_scorer(task.scoring)}"
    if task.holdout_runner is not None:
        yield f"holdout   runner {_runner(task.holdout_runner)}"
    if task.holdout_scoring is not None:
        yield f"holdout   scorer {_scorer(task.holdout_scoring)}"
    yield f"sandbox   {target.sandbox.isolation.told}"
    if task.env:
        yield f"variables {', '.join(task.env)}"


def _runner(step: Runner) -> str:
    place = "" if step.cwd == "." else f" in {step.cwd}"
    return f"{step.command}{place}, at most {step.timeout_seconds:g} s"


def _scorer(step: Scoring) -> str:
    if step.kind == "metrics":
        return f"metrics over {step.reads}"
    return f"{step.command or step.function}, at most {step.timeout_seconds:g} s"


def _decision(setup: Setup) -> Iterator[str]:
    log = TaskLog.of(setup.project.config)
    if isinstance(setup.strategy, Edits):
        settings = setup.strategy.settings
        tie = f"; within {settings.tolerance:g} is a tie" if settings.tolerance else ""
        yield f"keeps     what has a better {settings.primary} ({settings.direction}){tie}"
    elif log is not None:
        yield f"keeps     what has a better {log.primary}"
    if setup.metrics:
        yield f"metrics   {', '.join(metric.name for metric in setup.metrics)}"
    if setup.objective.constraints:
        yield f"only if   {', '.join(map(str, setup.objective.constraints))}"
    breakers = [f"{each.prefer} {each.metric}" for each in setup.objective.tie_breakers]
    if breakers:
        yield f"at a tie  {', then '.join(breakers)}"
    if log is not None:
        yield f"results   {log.results_file}, candidates in {log.candidate_dir}"


def _bounds(setup: Setup) -> Iterator[str]:
    if not isinstance(setup.strategy, Edits):
        return
    settings = setup.strategy.settings
    files = counted(settings.max_files or 0, "file")
    lines = counted(settings.max_changed_lines or 0, "changed line")
    yield f"an edit   at most {files} and {lines}"
    many = settings.candidates_per_iteration
    if many > 1:
        yield f"          {many} edits an iteration, side by side"
    noise = f"; within {settings.accept_sigma:g} × its noise is a tie"
    yield f"repeats   {settings.repeats}{noise if settings.repeats > 1 else ''}"


def _limits(setup: Setup) -> Iterator[str]:
    budget = setup.budget
    values = ((each.name, getattr(budget, each.name)) for each in fields(budget))
    told = [f"{name} {value}" for name, value in values if value not in (None, (), {})]
    if isinstance(setup.strategy, Edits) and setup.strategy.settings.max_failures:
        told.append(f"max_failures {setup.strategy.settings.max_failures}")
    if isinstance(setup.strategy, Coordinate):
        told.insert(0, f"max_cycles {setup.strategy.settings.max_cycles}")
    yield f"limits    {', '.join(told) or 'none'}"


def _costs(setup: Setup) -> Iterator[str]:
    repeats = (
        setup.strategy.settings.repeats if isinstance(setup.strategy, Edits | Coordinate) else 1
    )
    runs = counted(repeats, "run")
    yield f"a trial   {runs} of the task{_judging(setup, Split.TRAIN, repeats)}"
    if setup.dataset.holdout:
        told = f"{runs} of the holdout where that is better"
        yield f"          + {told}{_judging(setup, Split.HOLDOUT, repeats)}"
    if setup.strategy.roles:
        yield f"          + about {spending(asking(setup.strategy.roles))} for the edit"
    yield "          what your own commands cost is not known here"


def _judging(setup: Setup, split: Split, repeats: int) -> str:
    cases = setup.dataset.cases(split)
    spend = total(metric.estimate(case) for metric in setup.metrics for case in cases)
    return f", about {spending(spend.times(repeats))} for judges" if spend.calls else ""
