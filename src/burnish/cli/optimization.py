"""Running `burnish optimize`: from flags to a run, a plan, a report or a block to paste."""

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import typer
from pydantic import JsonValue

from burnish.cli.execution import RunOpening, run_project
from burnish.cli.flags import USUAL_FILE
from burnish.cli.progress import file_name, run_name
from burnish.core.errors import ConfigError, Problem
from burnish.core.formatting import visible
from burnish.core.trials import Proposal
from burnish.models.factory import Models
from burnish.projects import LoadedProject, load_project, reload_project
from burnish.projects.description import Request
from burnish.reports.rendering import show, write_report
from burnish.runs.directory import RunRecord, find_run, look_into, trial_rows
from burnish.runs.events import Event, Listener, SessionBegun, Tick, TrialRecorded
from burnish.runs.plugins import TargetPlugin, strategy_plugin, target_plugin
from burnish.runs.run import Run
from burnish.runs.setup import BASELINE_ONLY

_WIDTH = 100
_INDENT = "         "


class Rationales:
    """Writes the reasons of every trial that somebody proposed, before the line of the trial."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._folder: Path | None = None
        self._parts: Mapping[str, Sequence[str]] = {}
        """By role, the parts of an answer that give reasons."""

    def event(self, event: Event) -> None:
        """Tell what was said in a trial that was just recorded."""
        if begun := event.read(SessionBegun):
            self._folder = Path(begun.folder)
            self._parts = strategy_plugin(begun.strategy).rationales
        elif (trial := event.read(TrialRecorded)) and self._folder is not None:
            for proposal in _proposals(self._folder, trial.trial):
                for line in _lines(proposal, self._parts.get(proposal.role, ())):
                    self._write(line)

    def tick(self, tick: Tick) -> None:
        """Cases have no reasons."""


def _proposals(folder: Path, number: int) -> Iterator[Proposal]:
    with look_into(folder) as journal:
        row = next((row for row in trial_rows(journal) if row.number == number), None)
    yield from row.trial.proposals if row is not None else ()


def _lines(proposal: Proposal, parts: Sequence[str]) -> Iterator[str]:
    answer = proposal.answer if isinstance(proposal.answer, dict) else {}
    reasons = [str(answer[name]) for name in parts if answer.get(name)]
    confidence = answer.get("confidence")
    if isinstance(confidence, int | float):
        reasons.append(f"(confidence {confidence:.2f})")
    text = proposal.error or " ".join(reasons)
    if text:
        head = f"{proposal.role:<8} "
        line = visible(f"{head}{' '.join(text.split())}")
        yield from textwrap.wrap(line, _WIDTH, subsequent_indent=_INDENT)


# -- Running `burnish optimize` -------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class OptimizeRequest:
    """What the command line says."""

    file: Path | None = None
    """None where no file is named: `./agent.yaml`, or the description of the run that goes on."""
    way: RunOpening = field(default_factory=RunOpening)
    flags: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """What is said of the run itself, by the names of its fields."""
    dry_run: bool = False
    suggest_axes: bool = False
    report_only: str | None = None
    request: Path | None = None
    """A run request of PromptIter."""
    progress: str = "auto"
    quiet: bool = False
    verbose: bool = False

    def check(self) -> None:
        """Refuse flags that do not go together."""
        problems = [Problem(message=message) for message in self._contradictions()]
        if problems:
            raise ConfigError(problems)
        self.way.check()

    def _contradictions(self) -> Iterator[str]:
        baseline_only = bool(self.flags.get("print_baseline"))
        modes = {
            "--dry-run": self.dry_run,
            "--print-baseline": baseline_only,
            "--report-only": self.report_only is not None,
            "--suggest-axes": self.suggest_axes,
        }
        chosen = [name for name, is_set in modes.items() if is_set]
        if len(chosen) > 1:
            yield f"{' and '.join(chosen)} do not go together"
        if self.report_only is not None and self.way.resume is not None:
            yield "--report-only names the run itself, so --resume has no meaning"
        if self.request is not None and self.way.resume is not None:
            yield "a run goes on with the request it had, so --request is too late"
        if self.quiet and self.verbose:
            yield "-q and -v do not go together"
        if baseline_only and self.flags.get("update_source"):
            yield "--print-baseline looks for nothing better to --update-source"
        if baseline_only and self.flags.get("in_place"):
            yield "--print-baseline looks for nothing better to put --in-place"


def optimize_project(request: OptimizeRequest, *, models: Models | None = None) -> None:
    """Do what is asked; ends with exit code 2 when a run was interrupted.

    `models` stand in for the real ones.
    """
    request.check()
    if request.report_only is not None:
        typer.echo(f"report   {write_report(find_run(request.report_only))}")
    elif request.suggest_axes:
        typer.echo(_starter(_file(request)), nl=False)
    elif request.dry_run:
        _show(_project(request, models))
    else:
        _run(_project(request, models), request)


@dataclass(frozen=True, kw_only=True)
class WatchedOpening(RunOpening):
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


def _project(request: OptimizeRequest, models: Models | None) -> LoadedProject:
    """The project; a run that goes on, or is forked without a file, is built as it was."""
    way, flags = request.way, request.flags
    if way.resume is not None:
        return reload_project(find_run(way.resume), flags, file=request.file, models=models)
    if way.fork is not None and request.file is None:
        parent = find_run(way.fork)
        return reload_project(parent, flags, models=models, as_new=True)
    return load_project(_file(request), flags, models=models, request=_laid_over(request))


def _laid_over(request: OptimizeRequest) -> Request | None:
    """The request of PromptIter that is laid over the file, if any."""
    if request.request is None:
        return None
    from burnish.compat.promptiter.requests import RequestFile

    patches = RequestFile.read(request.request)
    for warning in patches.warnings:
        typer.echo(f"! {request.request.name}: {warning}", err=True)
    return patches


def _file(request: OptimizeRequest) -> Path:
    """The file that is named, else the usual one if it is there; a folder for flags alone."""
    if request.file is None and request.flags.get("agent") is not None:
        return Path.cwd()
    if request.file is None and not USUAL_FILE.exists():
        message = f"no file is named, and there is no {USUAL_FILE} here"
        remedy = "name one; see `burnish optimize --help`"
        raise ConfigError([Problem(message=message, remedy=remedy)])
    if request.file is not None and request.file.is_dir():
        message = "it is a folder, not a file"
        problem = Problem(where=str(request.file), message=message, remedy="name a file")
        raise ConfigError([problem])
    return request.file or USUAL_FILE


def _run(project: LoadedProject, request: OptimizeRequest) -> None:
    way, opened = request.way, list[Path]()
    watched = WatchedOpening(
        resume=way.resume,
        fork=way.fork,
        retry_missing=way.retry_missing,
        output_dir=way.output_dir,
        listeners=[Rationales(typer.echo)] if request.verbose else (),
        opened=opened,
    )
    run_project(project, watched, progress="none" if request.quiet else request.progress)
    run = RunRecord.read(opened[0])
    target = target_plugin(project.setup.target.description.kind)
    if not request.quiet:
        _print(target.last_words(run))
    if BASELINE_ONLY in project.setup.stop_callbacks:
        _show_baseline(run, target, quiet=request.quiet)


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
    from burnish.projects.agent.axes import starter
    from burnish.projects.agent.dialect import AgentFile
    from burnish.projects.dialects import Document
    from burnish.targets.agent.files import load_agent

    if not AgentFile().recognises(Document.read(path)):
        message = "only an agent file has axes to suggest"
        raise ConfigError([Problem(where=str(path), message=message)])
    return starter(load_agent(path), Models())
