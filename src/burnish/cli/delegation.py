"""Running `burnish delegate` and `burnish refine`: from flags to a run, its progress, its end."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import typer
from pydantic import JsonValue

from burnish.cli.output import this_program
from burnish.cli.progress import file_name
from burnish.core.content import Json
from burnish.core.errors import (
    BurnishError,
    ConfigError,
    Interrupted,
    Problem,
    ResumeRefused,
    RunNotFound,
    SeedRefused,
    in_shell,
)
from burnish.core.formatting import counted, paid, shorten
from burnish.delegation.experiments import find_task
from burnish.delegation.plugin import Delegate, attach, would_attach
from burnish.delegation.record import COMPLETION, is_delegation, new_run_id
from burnish.delegation.refine.gradients import RunGradient
from burnish.delegation.refine.loop import EMPTY, MOST_ITERATIONS, Refine
from burnish.delegation.refine.plugin import (
    OpenRefinement,
    RefineOptions,
    Seat,
    open_refinement,
    plan_json,
    plan_lines,
)
from burnish.delegation.refine.sessions import Iteration, Session
from burnish.delegation.refine.setup import RefineSettings
from burnish.delegation.result import DelegationResult, ending_words, next_step
from burnish.delegation.runs import describe_task, outcome, run_delegation
from burnish.delegation.team import Workflow, workflow_document
from burnish.delegation.workspace import StartingFiles
from burnish.models.addresses import addresses_of
from burnish.models.factory import Models
from burnish.projects.description import Doors
from burnish.projects.dialects import Flags
from burnish.projects.launch import reload_project
from burnish.runs.build import build
from burnish.runs.directory import NAME as HEADER
from burnish.runs.directory import find_run
from burnish.runs.events import Event, Stopping, Tick
from burnish.runs.plugins import strategy_plugin
from burnish.runs.progress import model_lines
from burnish.runs.setup import Setup
from burnish.system import read_text
from burnish.system.sandbox import resolve
from burnish.system.shutdown import run_to_end

_ROOT = Path("results") / "delegations"
"""Where runs lie, beside the workflow file, when nobody says otherwise."""


@dataclass(frozen=True, kw_only=True)
class DelegateRequest:
    """The arguments of the command."""

    file: Path | None = None
    flags: Flags = field(default_factory=dict[str, JsonValue])
    task_file: Path | None = None
    target: str | None = None
    primary: str | None = None
    """The task whose BEST it goes on from."""
    db: Path | None = None
    output_dir: Path | None = None
    resume: str | None = None
    dry_run: bool = False
    as_json: bool = False
    quiet: bool = False

    def check(self) -> None:
        problems: list[Problem] = []
        if self.resume is not None:
            message = "a resumed run keeps the settings it was started with"
            problems += [Problem(where=flag, message=message) for flag in self._of_new_runs()]
        elif self.file is None:
            problems.append(Problem(message="there is no workflow file", remedy="name one"))
        has_task = self.flags.get("task") is not None
        if self.resume is None and has_task == (self.task_file is not None):
            remedy = 'give either --task "…" or --task-file FILE'
            problems.append(Problem(message="a delegation needs exactly one task", remedy=remedy))
        if self.primary is not None and self.target is None:
            message = "--primary needs --target: a task can only be continued in an experiment"
            problems.append(Problem(where="--primary", message=message))
        if self.target is not None and self.output_dir is not None:
            problems.append(
                Problem(where="-o", message="with --target, the run is stored in its task")
            )
        if problems:
            raise ConfigError(problems)

    def _of_new_runs(self) -> Iterator[str]:
        doors = Doors.of("delegation", Delegate.name)
        named = [name for name, value in self.flags.items() if value is not None]
        yield from (doors.named()[name].flag for name in named if name in doors.named())
        own = {
            "--task-file": self.task_file,
            "-o": self.output_dir,
            "--target": self.target,
            "--primary": self.primary,
            "--db": self.db,
        }
        yield from (flag for flag, value in own.items() if value is not None)

    def task(self) -> str:
        if self.task_file is not None:
            where, task = str(self.task_file), read_text(self.task_file)
        else:
            where, task = "--task", str(self.flags.get("task"))
        if not task.strip():
            raise ConfigError(
                [Problem(where=where, message="the task is empty", remedy="say what to do")]
            )
        return task


def delegate_task(request: DelegateRequest, *, models: Models | None = None) -> None:
    """Delegate one task; exit code 1 if the gates were not passed, 2 when interrupted."""
    request.check()
    if request.resume is not None:
        folder = _run_named(request.resume, request.file)
        setup = reload_project(folder, {}, file=request.file, models=models).setup
    else:
        folder, setup = _new(request, models)
    for note in setup.notes if not (request.as_json or request.dry_run) else ():
        typer.echo(f"! {note}")
    strategy = setup.strategy
    assert isinstance(strategy, Delegate)
    if request.dry_run:
        place, task = str(folder), ""
        if request.target is not None:
            place, task = "in its task", would_attach(request.target, primary=request.primary)
        workflow = strategy.delegation.workflow
        _show_plan(workflow, setup, folder=place, task=task, as_json=request.as_json)
        return
    if not (request.quiet or request.as_json):
        _print_models(setup)
    strategy.listen = None if request.quiet or request.as_json else _say
    result = run_to_end(_driven(setup, folder))
    if request.as_json:
        typer.echo(read_text(result.run_dir / COMPLETION).rstrip())
    else:
        _last_words(result, task=strategy.notice)
    if result.status != "complete":
        raise typer.Exit(1)


def _new(request: DelegateRequest, models: Models | None) -> tuple[Path, Setup]:
    assert request.file is not None
    task = request.task()
    here, inputs = Path.cwd(), map(Path, cast("list[str]", request.flags.get("input") or ()))
    shown = (each.relative_to(here) if each.is_relative_to(here) else each for each in inputs)
    StartingFiles(inputs=tuple(shown)).check()
    flags = {**request.flags, "task": task}
    fields: dict[str, Any] = {
        "db": None if request.db is None else str(request.db.absolute()),
        "experiment": request.target,
    }
    fields = {name: value for name, value in fields.items() if value is not None}
    document = workflow_document(request.file)
    setup = build(describe_task(document, flags, target=fields), models=models)
    run_id = "<run id>" if request.dry_run else new_run_id()
    folder = request.output_dir or request.file.resolve().parent / _ROOT / run_id
    if request.target is None or request.dry_run:
        return folder, setup
    # Only what is sound becomes a task of the experiment.
    attached = attach(request.target, task, primary=request.primary)
    seed = attached.seed_deliverable
    fields |= {
        "experiment_task": str(attached.task),
        "steer": attached.steer,
        "seed_deliverable": None if seed is None else str(seed.resolve()),
    }
    setup = build(describe_task(document, flags, target=fields), models=models)
    return attached.folder, setup


def _run_named(name: str, file: Path | None) -> Path:
    """Find a delegation by its path, by its name next to the workflow file, or like any run."""
    beside = [] if file is None else [file.resolve().parent / _ROOT / name]
    for folder in (Path(name), _ROOT / name, *beside):
        if is_delegation(folder) and not (folder / HEADER).is_file():
            raise ResumeRefused(
                f"{folder} was not made by this version of burnish, and cannot be resumed",
                remedy="delegate its task again; its deliverables can be refined",
            )
        if is_delegation(folder):
            return folder.resolve()
    with contextlib.suppress(RunNotFound):
        if is_delegation(folder := find_run(name)):
            return folder
    raise RunNotFound(
        f"there is no delegation '{name}'",
        remedy=f"give the path to its folder, or its name under {_ROOT}",
    )


async def _driven(setup: Setup, folder: Path) -> DelegationResult:
    """Run it; the first signal stops it after the iteration, the second at once."""
    try:
        return await run_delegation(setup, folder, listeners=(StopNotice(Delegate.name),))
    except Interrupted as error:
        go_on = f"go on    {this_program()} delegate --resume {_shown_path(folder)}"
        raise Interrupted(error.message, remedy=go_on) from error


_MOST = 400
"""Columns of one line about an event; the whole text is in the run's folder."""


def _print_models(setup: Setup, *, asked: int = 0) -> None:
    """Where the models are that will be asked, before the first of them is."""
    for line in model_lines(setup.model_uses(), asked=asked, column=9):
        typer.echo(line)


def _show_plan(workflow: Workflow, setup: Setup, *, folder: str, task: str, as_json: bool) -> None:
    """Print what would run; `task` is the place in an experiment, if any."""
    metrics = [metric.name for metric in workflow.metrics]
    sandbox = resolve(workflow.sandbox).notice
    if as_json:
        plan = {
            "dry_run": True,
            "workflow": workflow.name,
            "models": workflow.models,
            "addresses": [each.to_json() for each in addresses_of(setup.model_uses())],
            "answers": workflow.answer_forms,
            "budget": workflow.envelope.to_json(),
            "metrics": metrics,
            "sandbox": sandbox,
            "notes": workflow.notes(),
            "folder": folder,
        }
        typer.echo(json.dumps(plan, ensure_ascii=False, indent=2))
        return
    typer.echo(f"workflow {workflow.name}")
    for role, label in workflow.models.items():
        typer.echo(f"{role:<8} {label}")
    _print_models(setup, asked=len(setup.preflight()))
    for label, words in workflow.answer_forms.items():
        typer.echo(f"answers  {label}: {words}")
    for line in workflow.envelope.lines():
        typer.echo(line)
    typer.echo(f"metrics  {', '.join(metrics) or 'none'}")
    typer.echo(f"sandbox  {sandbox}")
    for note in workflow.notes():
        typer.echo(f"! {note}")
    if task:
        typer.echo(f"task     {task}")
    typer.echo(f"folder   {folder}")
    typer.echo("nothing was run or paid; leave out --dry-run to start")


def _say(event: Mapping[str, Json]) -> None:
    """Print an event on one line."""
    fields = event["fields"]
    number = fields.get("iteration", "") if isinstance(fields, dict) else ""
    message = shorten(str(event["msg"]), _MOST)
    typer.echo(f"{number!s:>4}  {event['category']!s:<10} {message}")


class StopNotice:
    """Reports on stderr that a signal arrived, and when the run will stop."""

    def __init__(self, strategy: str) -> None:
        self._lines = strategy_plugin(strategy).progress()

    def event(self, event: Event) -> None:
        words = self._lines.lines(event, _MOST)
        if event.read(Stopping):
            typer.echo("\n".join(words), err=True)

    def tick(self, tick: Tick) -> None:
        """Nothing to say."""


def _last_words(result: DelegationResult, *, task: str) -> None:
    why = "" if result.reason == result.status else f"{ending_words(result.reason)}, "
    if why and result.reason == "fail" and result.result:
        why = f"{ending_words(result.reason)}: {shorten(result.result, _MOST)}, "
    typer.echo(f"{result.status:<8} {why}{counted(result.iterations, 'iteration')}")
    total = None if result.evaluation is None else result.evaluation.total
    scores = (("metrics", total), ("critic", result.critique))
    parts = ", ".join(f"{name} {value:.3f}" for name, value in scores if value is not None)
    typer.echo(f"loss     {result.loss.total:.4f}" + (f" ({parts})" if parts else ""))
    typer.echo(f"spent    {paid(result.billed, used=result.spent)}")
    for note in result.notes:
        typer.echo(f"! {note}")
    for path in result.deliverables:
        typer.echo(f"file     {path}")
    typer.echo(f"report   {result.run_dir / 'RUN_SUMMARY.md'}")
    if task:
        typer.echo(f"task     {task}")
    if step := _next(result, in_task=bool(task)):
        typer.echo(f"next     {step}")


def _next(result: DelegationResult, *, in_task: bool) -> str:
    if not result.deliverables:
        return next_step(result.reason)
    scores = () if result.evaluation is None else result.evaluation.measured
    lacking = [each for each in scores if each.below()]
    if in_task or not (result.defects or result.rejections or lacking):
        return ""
    return f"{this_program()} refine {_shown_path(result.run_dir)}"


def _shown_path(path: Path) -> str:
    return file_name(str(path.resolve()))


@dataclass(frozen=True, kw_only=True)
class RefineRequest:
    """The arguments of the command."""

    run: Path | None = None
    target: str | None = None
    flags: Flags = field(default_factory=dict[str, JsonValue])
    resume: str | None = None
    dry_run: bool = False
    as_json: bool = False
    quiet: bool = False

    def seat(self) -> Seat:
        if (self.run is None) == (self.target is None):
            raise SeedRefused(
                "one result to refine is needed",
                remedy="name either the folder of a run or --target EXP:TASK",
            )
        return Seat.beside(self.run) if self.run else Seat.in_task(find_task(str(self.target)))


class _StoppedRefining(Interrupted):
    """An interrupted refinement: AWP refine exits with 130."""

    exit_code = 130


def refine_run(request: RefineRequest, *, options: RefineOptions | None = None) -> None:
    """Refine one result; the exit code says how it went. `options` are for tests."""
    settings = RefineSettings.model_validate(dict(request.flags))
    try:
        _refine_run(request, settings, options or RefineOptions())
    except KeyboardInterrupt:
        remedy = "if a session had started, continue it with --resume last"
        raise _StoppedRefining("interrupted", remedy=remedy) from None


def _refine_run(request: RefineRequest, settings: RefineSettings, options: RefineOptions) -> None:
    seat = request.seat()
    if request.flags.get("iterations") not in (None, settings.iterations):
        made = counted(settings.iterations, "iteration")
        typer.echo(f"! --iterations goes from 1 to {MOST_ITERATIONS}: {made}", err=True)
    if request.dry_run:
        _show_refinement_plan(seat, settings, options, as_json=request.as_json)
        return
    loud = not (request.quiet or request.as_json)
    options = replace(options, listen=_SessionView(seat.seed.gradient, loud=loud))
    opened = open_refinement(seat, settings, resume=request.resume, options=options)
    if loud:
        for note in opened.setup.notes:
            typer.echo(f"! {note}")
        _print_models(opened.setup)
        if opened.others and request.resume is None:
            names = ", ".join(each.session_id for each in opened.others)
            typer.echo(f"! unfinished: {names}; use --resume SESSION to continue one")
    run = f"--target {in_shell(request.target)}"
    if request.run is not None:
        run = file_name(str(request.run.resolve()))
    go_on = f"go on    {this_program()} refine {run} --resume {opened.session.session_id}"
    try:
        session = run_to_end(opened.run((StopNotice(Refine.name),)))
    except Interrupted as error:
        raise _StoppedRefining(error.message, remedy=go_on) from error
    except KeyboardInterrupt:
        raise _StoppedRefining("stopped at once", remedy=go_on) from None
    _closing_words(opened, session, seat, as_json=request.as_json)


def _show_refinement_plan(
    seat: Seat, settings: RefineSettings, options: RefineOptions, *, as_json: bool
) -> None:
    if as_json:
        plan = plan_json(seat, settings, options)
        typer.echo(json.dumps(plan, ensure_ascii=False, indent=2))
        return
    for line in plan_lines(seat, settings, options):
        typer.echo(line)


@dataclass
class _SessionView:
    gradient: RunGradient
    loud: bool
    shown: int = -1
    best: float = 0.0

    def __call__(self, session: Session) -> None:
        if not self.loud or not session.unfinished:
            return
        if self.shown < 0:
            counts = (
                (len(self.gradient.defects), "defect"),
                (len(self.gradient.rejected_gates), "rejection"),
                (len(self.gradient.eval_deltas), "metric gap"),
            )
            wrong = ", ".join(counted(n, what) for n, what in counts if n) or "nothing is wrong"
            typer.echo(f"session  {session.session_id}")
            typer.echo(f"seed     loss {session.seed_loss:.4f} · {wrong}")
            for note in session.notes:
                typer.echo(f"! {note}")
            self.shown, self.best = 0, session.seed_loss or 0.0
        for row in session.iterations[self.shown :]:
            typer.echo(self._line(row, better=row.k == session.best_iter))
        self.shown = len(session.iterations)

    def _line(self, row: Iteration, *, better: bool) -> str:
        loss = row.loss or 0.0
        step, self.best = loss - self.best, loss if better else self.best
        tier = f" {row.tier:<4}" if row.tier else ""
        change = f"{'▼' if step < 0 else '▲'}{abs(step):.4f}"
        note = f"  {row.note}" if row.note else ""
        verdict = "better ✓" if better else "✗"
        return f"[{row.k}]{tier} {row.status:<8} loss {loss:.4f} ({change})  {verdict}{note}"


def _closing_words(opened: OpenRefinement, session: Session, seat: Seat, *, as_json: bool) -> None:
    if as_json:
        typer.echo(session.text.rstrip())
    if session.error:
        go_on = f"; then continue it with --resume {session.session_id}"
        remedy = f"see {opened.page}{go_on if session.resumable else ''}"
        raise BurnishError(f"{session.stop_reason}: {session.error}", remedy=remedy)
    if not as_json and session.stop_reason == EMPTY:
        typer.echo(f"nothing to refine: {outcome(session)}")
    elif not as_json:
        typer.echo(f"stopped  {outcome(session)}")
        typer.echo(f"best     {_best(session, seat)}")
        typer.echo(f"report   {opened.page}")
    if session.stop_reason != EMPTY and not session.best_written:
        raise typer.Exit(1)


def _best(session: Session, seat: Seat) -> str:
    if not session.best_iter:
        return f"the seed, loss {session.seed_loss:.4f}; nothing was better"
    losses = f"loss {session.seed_loss:.4f} → {session.best_loss:.4f}"
    place = f", in {seat.home / 'BEST'}"
    note = f": {session.iterations[session.best_iter - 1].note}"
    return f"iteration {session.best_iter}, {losses}{place if session.best_written else note}"
