"""Pages in the browser for `burnish view` and the `--html` flags: written, served, adopted from."""

import signal
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path

import typer

from burnish.cli.output import echo
from burnish.core.errors import BurnishError, ConfigError, FileTrouble, Problem, in_shell
from burnish.delegation.runs import StoredDelegations
from burnish.pages.document import BARE, write_document
from burnish.pages.library import Library, run_key, runs_below
from burnish.pages.run_page import Adoption, write_html
from burnish.pages.several_runs import MOST, comparison_html
from burnish.pages.viewer import Viewer
from burnish.projects import adopt as adoption
from burnish.projects.adopt_files import Adopted, AdoptionState
from burnish.projects.evaluation_setup import stored_cases
from burnish.projects.grids import find_grid
from burnish.runs.directory import NAME, RunRecord, find_run, known_runs
from burnish.system import Redactor


def write_run_page(name: str) -> None:
    """Write report.html into the folder of a run."""
    folder = find_run(name)
    path = write_html(folder, cases=stored_cases(RunRecord.read(folder)))
    echo(f"page     {path}")


def write_comparison_page(names: Sequence[str], path: Path) -> None:
    """Write a page about two runs or more."""
    if not path.parent.is_dir():
        message = f"there is no folder {path.parent}"
        raise ConfigError([Problem(where="--html", message=message)])
    if len(names) > MOST:
        message = f"a page has room for {MOST} runs, not for {len(names)}"
        raise ConfigError([Problem(where="--html", message=message, remedy="name fewer runs")])
    runs = [RunRecord.read(find_run(name)) for name in names]
    write_document(path, comparison_html(runs, BARE))
    echo(f"page     {path}")


def serve_pages(name: str, *, port: int, browser: bool) -> None:
    """Serve pages until Ctrl-C."""
    folders, start = viewed_folders(name)
    library = Library(
        folders=folders,
        cases=stored_cases,
        adopter=ProjectAdopter(),
        delegations=StoredDelegations(),
    )
    try:
        viewer = Viewer(library, port=port)
    except OSError as error:
        message = f"cannot listen on port {port}: {error.strerror}"
        remedy = "choose another one with --port, or leave it out"
        raise FileTrouble(message, remedy=remedy) from error
    link = viewer.link(start)
    typer.echo(f"view     {link}")
    typer.echo("         the link works once, on this machine; Ctrl-C ends it")
    if browser:
        webbrowser.open(link)
    for number in (signal.SIGINT, signal.SIGTERM):
        # A shell lets its background jobs ignore Ctrl-C.
        signal.signal(number, signal.default_int_handler)
    try:
        viewer.serve()
    except KeyboardInterrupt:
        typer.echo("ended")


def viewed_folders(name: str) -> tuple[Callable[[], Sequence[Path]], str]:
    """The runs to show, and the key of the one to start with."""
    path = Path(name)
    if not name:
        return lambda: [*known_runs()], ""
    if (grid := find_grid(name)) is not None:

        def columns_and_known() -> list[Path]:
            inside = [*runs_below(grid)]
            return [*inside, *(folder for folder in known_runs() if folder not in inside)]

        return columns_and_known, run_key(grid)
    if path.is_dir() and not (path / NAME).is_file():
        home = path.resolve()
        if next(runs_below(home), None) is None:
            message = f"there is no run in {path}"
            remedy = "name a run, or a folder that has runs in it"
            raise ConfigError([Problem(message=message, remedy=remedy)])
        return lambda: [*runs_below(home)], ""
    run = find_run(name)

    def this_and_known() -> list[Path]:
        return [run, *(folder for folder in known_runs() if folder.resolve() != run.resolve())]

    return this_and_known, run_key(run)


class ProjectAdopter:
    """Adopts into the user's own files, as `burnish adopt RUN --yes` does."""

    def state(self, run: RunRecord) -> Adoption:
        """What is possible now, and what would change."""
        if run.best is None or run.best is run.baseline:
            return Adoption()
        if adoption.homes_of(run.header) is None:
            name = in_shell(run.header.id)
            return Adoption(command=f"burnish adopt {name} --to FOLDER")
        try:
            record = Adopted.read(run.folder)
            adopted = record is not None and record.standing is AdoptionState.AFTER
            plan = adoption.plan_undo(run) if adopted else adoption.plan_adoption(run)
        except BurnishError as error:
            return Adoption(why_not=str(error))
        if plan.nothing:
            return Adoption(why_not=plan.nothing)
        redactor = Redactor.from_environment()
        diff = [redactor.text(line) for file in plan.files for line in file.diff(file.path.name)]
        return Adoption(action="undo" if adopted else "adopt", diff=tuple(diff))

    def adopt(self, run: RunRecord) -> str:
        """Change all files, or none."""
        with adoption.adopting(run):
            plan = adoption.plan_adoption(run)
            if not plan.nothing:
                adoption.adopt(plan)
        return plan.nothing

    def undo(self, run: RunRecord) -> str:
        """Put all files back, or none."""
        with adoption.adopting(run):
            plan = adoption.plan_undo(run)
            if not plan.nothing:
                adoption.undo(plan)
        return plan.nothing
