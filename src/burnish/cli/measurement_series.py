"""Several measurements side by side in a grid."""

import textwrap
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

import typer
from rich.console import Console
from rich.text import Text

from burnish.cli.evaluation import (
    EvalRequest,
    before_paying,
    console_of,
    evaluate_agent,
    measurement_plan,
    write_outputs,
)
from burnish.cli.optimization import chosen_progress
from burnish.cli.output import this_program
from burnish.cli.progress import FOR_PROGRAMS, Progress, file_name, view
from burnish.core.errors import ConfigError, FileTrouble, Interrupted, Problem, in_shell
from burnish.core.formatting import shorten, spending
from burnish.core.money import NOTHING
from burnish.models.factory import every_model
from burnish.projects.description import SET
from burnish.projects.dialects import Flags
from burnish.projects.grid_axes import GridAxes, named_candidate, split_assignments
from burnish.projects.grids import (
    MeasuredGrid,
    PreparedGrid,
    StoredGrid,
    find_grid,
    fork_of,
    load_grid,
    make_grid_folder,
    measure_grid,
)
from burnish.projects.measurements import PreparedMeasurement, measurement_doors
from burnish.reports.evaluation import to_annotations, to_junit
from burnish.reports.grid import (
    GridReport,
    grid_heading,
    grid_lines,
    grid_sections,
    grid_table,
    grid_verdict,
)
from burnish.reports.rendering import NAME as REPORT
from burnish.reports.rendering import (
    to_markdown,
)
from burnish.runs.directory import find_run
from burnish.runs.events import Listener
from burnish.runs.progress import NOTHING_PAID, budget_limits, model_lines

# -- Grids -----------------------------------------------------------------------------------------


def evaluate_any(request: EvalRequest) -> None:
    """Measure a grid where axes are named or a grid is continued; otherwise one agent."""
    with before_paying():
        doors = measurement_doors(request.agent)
        assignments = cast("Sequence[str]", request.flags.get(SET) or ())
        settings, axes = split_assignments(assignments, doors)
        flags: Flags = {**request.flags, SET: [*settings]} if assignments else request.flags
        named = GridAxes(
            models=request.models,
            candidates=tuple(map(named_candidate, request.candidates)),
            settings=axes,
        )
        resumed = None if request.resume is None else find_grid(request.resume)
    if not named and resumed is None:
        evaluate_agent(request)
        return
    with before_paying():
        if problems := [*request.problems(), *_unfit(request, resumed)]:
            raise ConfigError(problems)
        grid = load_grid(
            request.agent, flags, named, resumed=resumed, most=request.max_columns, doors=doors
        )
    if len(grid.columns) == 1 and resumed is None:
        _measure_one(request, flags, grid)
    elif request.dry_run:
        for line in _plan(grid):
            typer.echo(line)
    else:
        _measure_grid(request, grid)


def _unfit(request: EvalRequest, grid: Path | None) -> Iterator[Problem]:
    """What a grid has no place for."""
    if request.noise_sweeps is not None:
        remedy = "leave out one of them; --repeats N repeats the cases of every column"
        yield Problem(where="--aa", message="this measures one agent, not a grid", remedy=remedy)
    if request.baseline is not None:
        message = "the columns of a grid are compared with the first of them"
        remedy = "leave it out, or name the earlier agent as a column: --candidate RUN"
        yield Problem(where="--baseline", message=message, remedy=remedy)
    if request.resume is not None and grid is None:
        run = find_run(request.resume)
        message = f"{run.name} is a measurement of one agent, to which no column can be added"
        remedy = f"start a grid that takes its results: --fork {in_shell(run.name)}"
        yield Problem(where="--resume", message=message, remedy=remedy)
    if grid is not None and (stored := Path(StoredGrid.read(grid).file)) != request.agent.resolve():
        message = f"this grid is about {stored}"
        yield Problem(where="--resume", message=message, remedy=f"name that file: {stored}")


def _measure_one(request: EvalRequest, flags: Flags, grid: PreparedGrid) -> None:
    """One column is a measurement like any other."""
    measurement = grid.columns[0].measurement
    assert measurement is not None

    def load(path: Path, flags: Flags, *, resume: Path | None = None) -> PreparedMeasurement:
        del path, flags, resume
        return measurement

    for note in grid.notes:
        typer.echo(f"! {note}", err=True)
    plain = {name: value for name, value in flags.items() if name != SET}
    evaluate_agent(replace(request, flags=plain), load=load)


def _plan(grid: PreparedGrid) -> Iterator[str]:
    """What `--dry-run` prints: columns, cases, calls and their expected cost."""
    head, cases, metrics, *_ = measurement_plan(grid.base)
    yield from (head, cases, metrics)
    whole = NOTHING
    for number, column in enumerate(grid.columns, start=1):
        if column.failure:
            words = f"cannot be measured: {shorten(column.failure, 200)}"
        elif column.is_there:
            words = "measured before, or begun: only what is missing is paid for"
        else:
            whole += column.expected
            words = f"about {spending(column.expected)}"
        yield f"column {number:<3}{column.choice.label}: {words}"
    yield f"cost      about {spending(whole)} for all columns, judges included"
    limits = budget_limits(grid.base.setup.budget)
    yield f"limits    {', '.join(limits) or 'none'}{' for all columns together' if limits else ''}"
    measured = [each.measurement.setup for each in grid.columns if each.measurement is not None]
    uses = every_model(setup.model_uses() for setup in measured)
    yield from model_lines(uses, asked=sum(len(setup.preflight()) for setup in measured))
    yield from (f"! {note}" for note in grid.notes)
    yield NOTHING_PAID


def _measure_grid(request: EvalRequest, grid: PreparedGrid) -> None:
    progress = chosen_progress(request.progress)
    console = console_of(request, progress)
    forked = None
    if request.fork is not None:
        forked = fork_of(request.fork, retry_missing=request.retry_missing)
    shown = progress not in (*FOR_PROGRAMS, Progress.NONE)
    home = make_grid_folder(grid, request.output_dir)

    @contextmanager
    def views(
        measurement: PreparedMeasurement, name: str
    ) -> Generator[Sequence[Listener], None, None]:
        if shown:
            console.print(Text(shorten(f"── {name}", console.width), "dim"))
        with view(progress, measurement.setup, to_stderr=console.stderr) as listeners:
            yield listeners

    with _continuable(request.agent, home):
        measured = measure_grid(grid, home, forked=forked, views=views)
    _write(measured, request)
    _show(console, measured, request, headed=shown)
    if measured.interrupted:
        raise typer.Exit(2)
    if not measured.report.ok:
        raise typer.Exit(1)


@contextmanager
def _continuable(file: Path, home: Path) -> Generator[None, None, None]:
    """Add to errors how to continue the grid."""
    try:
        yield
    except (KeyboardInterrupt, BrokenPipeError, Interrupted) as error:
        message = error.message if isinstance(error, Interrupted) else "stopped at once"
        raise Interrupted(message, remedy=f"go on    {_go_on(file, home)}") from None
    except FileTrouble as error:
        remedy = f"{error.remedy}\ngo on    {_go_on(file, home)}".strip()
        raise type(error)(error.message, remedy=remedy) from error


def _go_on(file: Path, home: Path) -> str:
    return f"{this_program()} eval {file_name(str(file.absolute()))} --resume {_grid_name(home)}"


def _grid_name(home: Path) -> str:
    """The id of a grid if it can be found by it, otherwise its path."""
    return home.name if find_grid(home.name) == home.resolve() else file_name(str(home))


def _html(report: GridReport) -> str:
    from burnish.pages.several_runs import GridPage

    return GridPage(report=report).to_html()


def _write(measured: MeasuredGrid, request: EvalRequest) -> None:
    report = measured.report
    write_outputs(
        request,
        html=lambda: _html(report),
        markdown=lambda: to_markdown(grid_sections(report, level=3)),
        junit=lambda: to_junit(*measured.reports),
        json_text=report.to_text,
        github=lambda: "".join(map(to_annotations, measured.reports)),
    )


def _show(console: Console, measured: MeasuredGrid, request: EvalRequest, *, headed: bool) -> None:
    report, home = measured.report, measured.folder
    if headed:
        console.print("")
    print_columns(console, report)
    console.print(Text(f"report   {file_name(str(home / REPORT))}"), soft_wrap=True)
    again = _go_on(request.agent, home)
    line = f"go on    {again}" if measured.interrupted else f"add      {again} --model MODEL"
    console.print(Text(line), soft_wrap=True)
    console.print(Text(grid_verdict(report), "bold green" if report.ok else "bold red"))


def print_columns(console: Console, report: GridReport) -> None:
    """The table of a grid, and what a reader needs to know beside it."""
    console.print(Text(shorten(grid_heading(report), console.width), "bold"))
    console.print("")
    for part in grid_table(report, console.width):
        console.print(part)
    console.print("")
    for label, words in grid_lines(report):
        shade = {"failed": "red", "missing": "yellow"}.get(label, "")
        console.print(Text(_hung(label, words, console.width), shade))


def _hung(label: str, words: str, width: int) -> str:
    """A label and its words, whose further lines begin under the first."""
    return textwrap.fill(words, width, initial_indent=f"{label:<9}", subsequent_indent=" " * 9)
