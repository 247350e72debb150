"""Running a project from the command line: new, resumed or forked."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from burnish.cli.progress import Progress, last_words, resume_command, run_name, view
from burnish.core.errors import (
    BaselineUnmeasured,
    ConfigError,
    EndpointDown,
    FileTrouble,
    Interrupted,
    Problem,
    ProposerFailed,
)
from burnish.projects import LoadedProject, launch
from burnish.projects.file_kinds import GraphFile
from burnish.runs.directory import find_run
from burnish.runs.events import Listener
from burnish.runs.run import Run
from burnish.runs.setup import fork, refuse_spent_test, resume, start


@dataclass(frozen=True, kw_only=True)
class RunOpening:
    """How a run is opened: new, resumed or forked."""

    resume: str | None = None
    fork: str | None = None
    retry_missing: bool = False
    output_dir: Path | None = None

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
    listeners: Sequence[Listener] = (),
) -> Path:
    """Drive a run to its end and say how it went; exit code 2 when it was interrupted.

    Returns its folder. The `listeners` hear of each event before the view does.
    """
    from burnish.cli.adopt import asks_for_update, update_source

    chosen = chosen_progress(progress)
    opened: list[Path] = []
    project, listeners = _with_result_files(project, listeners)

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
    return ending.folder


def _with_result_files(
    project: LoadedProject, listeners: Sequence[Listener]
) -> tuple[LoadedProject, Sequence[Listener]]:
    """PromptIter's result files, for a graph whose cases are eval sets."""
    if project.setup.project.kind != GraphFile.kind:
        return project, listeners
    from burnish.compat.promptiter.result_files import with_result_files

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
    except (Interrupted, FileTrouble) as error:
        remedy = f"{error.remedy}\n{_go_on(opened)}" if error.remedy else _go_on(opened)
        raise type(error)(error.message, remedy=remedy.strip()) from error
    except (BaselineUnmeasured, EndpointDown, ProposerFailed) as error:
        look = "".join(f"\nnext     burnish runs show {run_name(each)}" for each in opened)
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
