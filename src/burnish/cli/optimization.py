"""Running `burnish optimize`: new, resumed and forked runs, and what it prints instead of a run."""

import textwrap
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import typer
from pydantic import JsonValue

from burnish.cli.options import USUAL_FILE, Requirement
from burnish.cli.output import this_program
from burnish.cli.progress import (
    FOR_PROGRAMS,
    Progress,
    file_name,
    last_words,
    resume_command,
    run_name,
    view,
)
from burnish.core.errors import (
    BaselineUnmeasured,
    ConfigError,
    EndpointDown,
    FileTrouble,
    Interrupted,
    Problem,
    ProposerFailed,
)
from burnish.core.formatting import visible
from burnish.core.trials import Proposal
from burnish.models.errors import ModelRefused
from burnish.models.factory import Models
from burnish.projects import LoadedProject, launch, load_project, reload_project
from burnish.projects.file_kinds import GraphFile
from burnish.reports.rendering import write_report
from burnish.runs.claims import require_improved
from burnish.runs.directory import RunRecord, find_run, look_into, trial_rows
from burnish.runs.events import Event, Listener, SessionBegun, Tick, TrialRecorded
from burnish.runs.plugins import TargetPlugin, strategy_plugin, target_plugin
from burnish.runs.progress import answer_forms, model_lines
from burnish.runs.run import Run
from burnish.runs.setup import (
    BASELINE_ONLY,
    Setup,
    fork,
    refuse_spent_test,
    refuse_without_proof,
    resume,
    start,
)
from burnish.system.files import state_folder


@dataclass(frozen=True, kw_only=True)
class RunOpening:
    """How a run is opened: new, resumed or forked."""

    resume: str | None = None
    fork: str | None = None
    retry_missing: bool = False
    output_dir: Path | None = None

    @property
    def is_new(self) -> bool:
        """Whether nothing is taken over from an earlier run."""
        return not (self.resume or self.fork)

    def check(self) -> None:
        if problems := self.problems():
            raise ConfigError(problems)

    def problems(self) -> list[Problem]:
        """What does not go together."""
        problems: list[Problem] = []
        if self.resume and self.fork:
            problems.append(Problem(message="--resume and --fork do not go together"))
        if self.resume and self.output_dir:
            message = "--resume continues in the run's own folder, so -o has no effect"
            problems.append(Problem(message=message))
        if self.retry_missing and not self.fork:
            remedy = "name the run with --fork RUN"
            problems.append(Problem(message="--retry-missing makes a new run", remedy=remedy))
        return problems

    def refuse_without_proof(self, setup: Setup) -> None:
        """Refuse a run that can show no gain, whatever it finds."""
        resumed = None if self.resume is None else find_run(self.resume)
        forked = None if self.fork is None else find_run(self.fork)
        refuse_without_proof(setup, resumed=resumed, forked=forked)

    def open(self, project: LoadedProject) -> Run:
        if self.resume:
            folder = find_run(self.resume)
            refuse_spent_test(folder)
            return resume(project.setup, folder)
        if self.fork:
            return fork(
                project.setup,
                find_run(self.fork),
                root=project.root,
                folder=self.output_dir,
                retry_missing=self.retry_missing,
            )
        return start(project.setup, root=project.root, folder=self.output_dir)


def run_project(
    project: LoadedProject,
    way: RunOpening,
    *,
    progress: str,
    quiet: bool = False,
    verbose: bool = False,
    require: Requirement | None = None,
) -> None:
    """Drive a run to its end and say how it went; exit code 2 when it was interrupted.

    What is required of it is checked before anything is paid, and is the last word on it.
    """
    from burnish.cli.adopt import asks_for_update, update_source

    chosen = Progress.NONE if quiet else chosen_progress(progress)
    opened: list[Path] = []
    # Whoever reads the reasons needs them before the line of their trial.
    project, listeners = _with_result_files(project, [_Rationales()] if verbose else [])
    if require is not None:
        way.refuse_without_proof(project.setup)

    def open_run() -> Run:
        run = way.open(project)
        opened.append(run.directory.folder)
        return run

    with resumable(opened), view(chosen, project.setup) as views:
        ending = launch(open_run, [*listeners, *views])
    last_words(ending, chosen)
    if ending.interrupted:
        raise typer.Exit(2)
    if asks_for_update(project.setup.project):
        update_source(ending.folder)
    run = RunRecord.read(ending.folder)
    target = target_plugin(project.setup.target.description.kind)
    if not quiet:
        _print(target.last_words(run), err=chosen in FOR_PROGRAMS)
    if BASELINE_ONLY in project.setup.stop_callbacks:
        _show_baseline(run, target, quiet=quiet)
    if require is not None:
        require_improved(ending.claim)


def _with_result_files(
    project: LoadedProject, listeners: Sequence[Listener]
) -> tuple[LoadedProject, Sequence[Listener]]:
    """PromptIter's result files, for a graph whose cases are eval sets."""
    if project.setup.project.kind != GraphFile.kind:
        return project, listeners
    from burnish.compat.promptiter.translation import with_result_files

    setup, files = with_result_files(project.setup)
    return replace(project, setup=setup), [*listeners, *([] if files is None else [files])]


@contextmanager
def resumable(opened: list[Path]) -> Generator[None, None, None]:
    """Add to errors how to continue the run, or how to look at it."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted("stopped at once", remedy=_go_on(opened)) from None
    except BrokenPipeError:
        raise Interrupted("the output was closed", remedy=_go_on(opened)) from None
    except (Interrupted, FileTrouble, ModelRefused) as error:
        remedy = f"{error.remedy}\n{_go_on(opened)}" if error.remedy else _go_on(opened)
        raise type(error)(error.message, remedy=remedy.strip()) from error
    except (BaselineUnmeasured, EndpointDown, ProposerFailed) as error:
        look = "".join(f"\nnext     {this_program()} runs show {run_name(each)}" for each in opened)
        raise type(error)(error.message, remedy=f"{error.remedy}{look}") from error


def _go_on(opened: list[Path]) -> str:
    return f"go on    {resume_command(opened[0])}" if opened else ""


def chosen_progress(name: str) -> Progress:
    """The view that a flag names."""
    names = [each.value for each in Progress]
    if name not in names:
        message = f"'{name}' is not one of: {', '.join(names)}"
        raise ConfigError([Problem(where="--progress", message=message)])
    return Progress(name)


class _Rationales:
    """Prints the reasons of every trial that somebody proposed, before the line of the trial."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._parts: Mapping[str, Sequence[str]] = {}
        """By role, the parts of an answer that give reasons."""

    def event(self, event: Event) -> None:
        if begun := event.read(SessionBegun):
            self._folder = Path(begun.folder)
            self._parts = strategy_plugin(begun.strategy).rationales
        elif (trial := event.read(TrialRecorded)) and self._folder is not None:
            with look_into(self._folder) as journal:
                row = next((row for row in trial_rows(journal) if row.number == trial.trial), None)
            for proposal in row.trial.proposals if row is not None else ():
                _print(_lines(proposal, self._parts.get(proposal.role, ())))

    def tick(self, tick: Tick) -> None:
        """Cases have no reasons."""


def _lines(proposal: Proposal, parts: Sequence[str]) -> Iterator[str]:
    answer = proposal.answer if isinstance(proposal.answer, dict) else {}
    reasons = [str(answer[name]) for name in parts if answer.get(name)]
    confidence = answer.get("confidence")
    if isinstance(confidence, int | float):
        reasons.append(f"(confidence {confidence:.2f})")
    text = proposal.error or " ".join(reasons)
    if text:
        line = visible(f"{proposal.role:<8} {' '.join(text.split())}")
        yield from textwrap.wrap(line, 100, subsequent_indent=" " * 9)


@dataclass(frozen=True, kw_only=True)
class OptimizeRequest:
    """The arguments of the command."""

    file: Path | None = None
    """None where no file is named: `./agent.yaml`, or the description of the run that goes on."""
    way: RunOpening = field(default_factory=RunOpening)
    flags: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    dry_run: bool = False
    suggest_axes: bool = False
    report_only: str | None = None
    request: Path | None = None
    progress: str = "auto"
    quiet: bool = False
    require: Requirement | None = None
    verbose: bool = False

    def check(self) -> None:
        if problems := [Problem(message=message) for message in self._contradictions()]:
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
            yield "--report-only names the run itself, so --resume has no effect"
        if self.request is not None and self.way.resume is not None:
            yield "a resumed run keeps its request, so --request has no effect"
        if self.require is not None:
            for name in chosen:
                if name != "--dry-run":
                    yield f"{name} makes no candidates, so --require cannot be met"
        if self.quiet and self.verbose:
            yield "-q and -v do not go together"
        if baseline_only and self.flags.get("update_source"):
            yield "--print-baseline makes no candidates, so --update-source has no effect"
        if baseline_only and self.flags.get("in_place"):
            yield "--print-baseline makes no candidates, so --in-place has no effect"


def optimize_project(request: OptimizeRequest, *, models: Models | None = None) -> None:
    """Run, plan or report as requested; exit code 2 when a run was interrupted."""
    request.check()
    if request.report_only is not None:
        typer.echo(f"report   {write_report(find_run(request.report_only))}")
    elif request.suggest_axes:
        typer.echo(_starter(_file(request)), nl=False)
    elif request.dry_run:
        setup = _project(request, models).setup
        setup.check(new=request.way.is_new, to_plan=True)
        if request.require is not None:
            request.way.refuse_without_proof(setup)
        target = target_plugin(setup.target.description.kind)
        _print(_with_models(target.plan(setup, strategy_plugin(setup.strategy.name)), setup))
    else:
        run_project(
            _project(request, models),
            request.way,
            progress=request.progress,
            quiet=request.quiet,
            verbose=request.verbose,
            require=request.require,
        )


def _project(request: OptimizeRequest, models: Models | None) -> LoadedProject:
    """The project; a run that is resumed, or forked without a file, keeps its description."""
    way, flags = request.way, request.flags
    if way.resume is not None:
        return reload_project(find_run(way.resume), flags, file=request.file, models=models)
    if way.fork is not None and request.file is None:
        return reload_project(find_run(way.fork), flags, models=models, as_new=True)
    path, patches = _file(request), None
    if request.request is not None:
        from burnish.compat.promptiter.requests import RequestFile

        patches = RequestFile.read(request.request)
        for warning in patches.warnings:
            typer.echo(f"! {request.request.name}: {warning}", err=True)
    return load_project(path, flags, models=models, request=patches)


def _file(request: OptimizeRequest) -> Path:
    """The named file, or the usual one; a folder if flags say everything."""
    if request.file is None and request.flags.get("agent") is not None:
        return Path.cwd()
    if request.file is None and not USUAL_FILE.exists():
        message = f"no file was given, and there is no {USUAL_FILE} here"
        remedy = "name one; see `burnish optimize --help`"
        raise ConfigError([Problem(message=message, remedy=remedy)])
    if request.file is not None and request.file.is_dir():
        where, message = str(request.file), "this is a folder, not a file"
        raise ConfigError([Problem(where=where, message=message, remedy="name a file")])
    return request.file or USUAL_FILE


def _show_baseline(run: RunRecord, target: TargetPlugin, *, quiet: bool) -> None:
    strategy = strategy_plugin(run.header.strategy)
    sections = target.baseline(run, strategy, quiet=quiet)
    if not sections:
        typer.echo("the baseline was not measured: see `stopped` above")
        return
    from burnish.reports.terminal import show

    typer.echo("")
    show(sections)
    if target.offers_fork(strategy):
        file = file_name(run.header.project.file)
        typer.echo(f"go on    {this_program()} optimize {file} --fork {run_name(run.folder)}")
        typer.echo("         (a new run, which does not pay for the baseline again)")


def _with_models(plan: Iterable[str], setup: Setup) -> Iterator[str]:
    """A plan, and before its last line where models are, and how they are asked for JSON."""
    *before, last = plan
    models = model_lines(setup.model_uses(), asked=len(setup.preflight()))
    yield from (*before, *models, *answer_forms(setup, state_folder()), last)


def _print(lines: Iterable[str], *, err: bool = False) -> None:
    for line in lines:
        typer.echo(line, err=err)


def _starter(path: Path) -> str:
    from burnish.projects.agent.axes import starter
    from burnish.projects.agent.dialect import AgentFile
    from burnish.projects.dialects import Document
    from burnish.targets.agent.files import load_agent

    if not AgentFile().recognises(Document.read(path)):
        message = "only an agent file has axes to suggest"
        raise ConfigError([Problem(where=str(path), message=message)])
    return starter(load_agent(path), Models())
