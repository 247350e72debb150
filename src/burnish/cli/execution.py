"""Running a project from the command line: new, resumed or forked, with a view and an exit."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from burnish.cli.progress import resume_command, run_name
from burnish.core.errors import (
    BaselineUnmeasured,
    ConfigError,
    FileTrouble,
    Interrupted,
    Problem,
    ProposerFailed,
)
from burnish.projects import LoadedProject, launch
from burnish.runs.directory import find_run
from burnish.runs.run import Run
from burnish.runs.setup import fork, refuse_spent_test, resume, start

if TYPE_CHECKING:
    from burnish.cli.progress import Progress


@dataclass(frozen=True, kw_only=True)
class RunOpening:
    """How a run is opened."""

    resume: str | None = None
    fork: str | None = None
    retry_missing: bool = False
    output_dir: Path | None = None

    def check(self) -> None:
        """Refuse flags that do not go together."""
        problems: list[Problem] = []
        if self.resume and self.fork:
            problems.append(Problem(message="--resume and --fork do not go together"))
        if self.resume and self.output_dir:
            problems.append(
                Problem(message="--resume goes on in the run's own folder, so -o has no meaning")
            )
        if self.retry_missing and not self.fork:
            problems.append(
                Problem(
                    message="--retry-missing makes a new run",
                    remedy="say of which run with --fork RUN",
                )
            )
        if problems:
            raise ConfigError(problems)

    def open(self, project: LoadedProject) -> Run:
        """The run, open for driving."""
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


def run_project(project: LoadedProject, way: RunOpening, *, progress: str) -> None:
    """Drive a run to its end and say how it went; exit code 2 when it was interrupted."""
    from burnish.cli.adopt import asks_for_update, update_source
    from burnish.cli.progress import last_words, view

    chosen = chosen_progress(progress)
    opened: list[Path] = []

    def open_run() -> Run:
        run = way.open(project)
        opened.append(run.directory.folder)
        return run

    with resumable(opened), view(chosen, project.setup.budget) as listeners:
        ending = launch(open_run, listeners)
    last_words(ending, chosen)
    if ending.interrupted:
        raise typer.Exit(2)
    if asks_for_update(project.setup.project):
        update_source(ending.folder)


@contextmanager
def resumable(opened: list[Path]) -> Generator[None, None, None]:
    """Whatever stops a run from outside, say how to go on with it; whatever it fails of, which."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted("stopped at once", remedy=_go_on(opened)) from None
    except BrokenPipeError:
        raise Interrupted("nobody reads the output any more", remedy=_go_on(opened)) from None
    except (Interrupted, FileTrouble) as error:
        remedy = f"{error.remedy}\n{_go_on(opened)}" if error.remedy else _go_on(opened)
        raise type(error)(error.message, remedy=remedy.strip()) from error
    except (BaselineUnmeasured, ProposerFailed) as error:
        look = "".join(f"\nlook     burnish runs show {run_name(each)}" for each in opened)
        raise type(error)(error.message, remedy=f"{error.remedy}{look}") from error


def _go_on(opened: list[Path]) -> str:
    return f"go on    {resume_command(opened[0])}" if opened else ""


def chosen_progress(name: str) -> "Progress":
    """The view that a flag names."""
    from burnish.cli.progress import Progress

    try:
        return Progress(name)
    except ValueError:
        names = ", ".join(p.value for p in Progress)
        raise ConfigError(
            [Problem(where="--progress", message=f"'{name}' is not one of: {names}")]
        ) from None
