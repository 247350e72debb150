"""Several measurements: side by side in a grid, or one after the other in a watch."""

import textwrap
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
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
from burnish.core.evaluations import mean
from burnish.core.formatting import counted, shorten, spending
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
from burnish.projects.watch import Watch, WatchOptions, WatchState
from burnish.projects.watch_folder import PROPOSALS
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
    FailedTrace,
    WatchedCheck,
    WatchReport,
    promise_lines,
    to_markdown,
    waiting_words,
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


# -- Watches ---------------------------------------------------------------------------------------


_ALARM_EXIT = 4
"""The exit code of `--once` if the check raised an alarm."""


def seconds_between(every: str | None, *, once: bool) -> float | None:
    """Seconds between two checks; None for a single check."""
    from burnish.server.tokens import duration

    if (every is None) != once:
        message = "give either --once or --every TIME"
        remedy = "--once checks now, for cron; --every 1h goes on until Ctrl-C"
        raise ConfigError([Problem(message=message, remedy=remedy)])
    if every is None:
        return None
    seconds = duration(every, "--every").total_seconds()
    if not seconds:
        raise ConfigError.of("--every", "must be at least a minute", "write 30m, 12h or 1d")
    return seconds


def run_watch(
    options: WatchOptions,
    *,
    seconds: float | None,
    progress: str,
    wait: Callable[[float], bool] | None = None,
) -> None:
    """Check once, or until Ctrl-C; `wait` returns whether to stop instead of the next check."""
    shown, pause = chosen_progress(progress) is not Progress.NONE, wait or threading.Event().wait
    while True:
        try:
            state = _checked(options, shown=shown)
            if seconds is None:
                raise typer.Exit(_ALARM_EXIT if state.check and state.check.alarm else 0)
            # It waits for the first check that has something to begin with.
            waiting = options.new_baseline and state.check is None
            options = replace(options, new_baseline=waiting)
            typer.echo(waiting_words(seconds))
            if pause(seconds):
                return
        except KeyboardInterrupt:
            remedy = "the same command continues it; no trace is judged twice"
            raise Interrupted("the watch was ended", remedy=remedy) from None


def _checked(options: WatchOptions, *, shown: bool) -> WatchState:
    """A check, and the search that its alarm starts; the report is there before the search is."""
    watch = Watch(options=options)
    state = watch.check()
    _write_report(state)
    lines = list(_check_lines(state, options))
    if options.optimize:
        if shown:
            typer.echo("\n".join(lines))
        before, state = state, watch.search(state)
        _write_report(state)
        lines = list(_search_lines(before, state))
    for line in (*lines, *_ending_lines(state)) if shown else ():
        typer.echo(line)
    return state


def _check_lines(state: WatchState, options: WatchOptions) -> Iterator[str]:
    check = state.check
    if check is None:
        yield f"nothing  no new traces in {options.log}"
        if options.new_baseline:
            yield "         the new baseline has to wait for some: give --new-baseline again"
        if state.checks:
            yield f"chart    {report_of_watch(state).verdict}"
        return
    level = f", mean {mean(check.values):.2f}" if check.values else ""
    missing = f", {check.missing} without a verdict" if check.missing else ""
    new = counted(check.fresh, "new trace")
    yield f"check {check.number:<3}{new}, {len(check.judged)} judged{missing}{level}"
    if check.broken:
        yield f"broken   {counted(check.broken, 'record')} left out"
    verdict = report_of_watch(state).verdict
    yield f"ALARM    {check.alarm}" if check.alarm else f"chart    {verdict}"
    if check.number == 1 or check.new_baseline:
        yield from (f"         {line}" for line in promise_lines(state.reading))
    if state.proposed:
        file = state.folder.path / PROPOSALS
        yield f"proposed {counted(state.proposed, 'case')} in {file}"


def _search_lines(before: WatchState, state: WatchState) -> Iterator[str]:
    """What the search of this check came to."""
    if state.not_searched:
        yield f"search   not started: {state.not_searched}"
    if state.searches == before.searches:
        return
    search = state.searches[-1]
    yield f"search   {search.verdict}: {search.folder}"
    look = "adopt" if search.has_result else "why"
    yield f"next     {this_program()} {look} {in_shell(search.folder)}"


def _ending_lines(state: WatchState) -> Iterator[str]:
    searches = f" and {counted(len(state.searches), 'search')}" if state.searches else ""
    checks = counted(len(state.checks), "check")
    yield f"spent    {spending(state.spent)} in {checks}{searches}"
    if state.checks:
        yield f"report   {state.folder.path / REPORT}"


def report_of_watch(state: WatchState) -> WatchReport:
    """The report on a watch as it is now."""
    failures: list[FailedTrace] = []
    for check in reversed(state.checks):
        asked = {case.id: case.input for case in state.folder.cases(check.number)}
        failures += [
            FailedTrace(case=j.case, time=j.time, input=asked.get(j.case, ""), reasons=j.reasons)
            for j in check.judged
            if j.failed
        ]
    checks = tuple(
        WatchedCheck(
            number=check.number,
            at=check.at,
            fresh=check.fresh,
            judged=len(check.judged),
            missing=check.missing,
            values=check.values,
            alarm=check.alarm,
        )
        for check in state.checks
    )
    proposals = state.folder.path / PROPOSALS
    return WatchReport(
        log=state.terms.log,
        project=state.terms.project,
        charted=state.terms.charted,
        reading=state.reading,
        checks=checks,
        failures=tuple(failures),
        spent=spending(state.spent),
        proposals=str(proposals) if proposals.exists() else "",
        searches={
            str(each.folder): each.verdict if each.status == "finished" else each.status
            for each in state.searches
        },
    )


def _write_report(state: WatchState) -> None:
    from burnish.pages.run_page import is_automatic, write_watch_page

    if not state.checks:
        return
    report, home = report_of_watch(state), state.folder.path
    report.write(home)
    if is_automatic():
        with suppress(FileTrouble, OSError):
            write_watch_page(report, home)
