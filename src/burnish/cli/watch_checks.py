"""Running `burnish watch`: check after check, what each one says, and the report.

What `burnish view` and the `--html` flags do: write pages, serve them, adopt on request.
"""

import shlex
import signal
import threading
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import typer

from burnish.cli.optimization import chosen_progress
from burnish.cli.options import user_name
from burnish.cli.progress import Progress
from burnish.core.errors import BurnishError, ConfigError, FileTrouble, Interrupted, Problem
from burnish.core.evaluations import mean
from burnish.core.formatting import counted, spending
from burnish.datasets.labels import Labels, Scale
from burnish.delegation.pages import StoredDelegations
from burnish.pages.document import require_view
from burnish.pages.library import Library, run_key, runs_below
from burnish.pages.run_page import Adoption, write_html
from burnish.pages.several_runs import MOST, comparison_html
from burnish.pages.viewer import LABELS, Viewer
from burnish.projects import adopt as adoption
from burnish.projects.adopt_files import Adopted, AdoptionState
from burnish.projects.grids import find_grid
from burnish.projects.measures import stored_cases
from burnish.projects.watch import Watch, WatchOptions, WatchState
from burnish.projects.watch_folder import PROPOSALS
from burnish.reports.rendering import NAME as REPORT
from burnish.reports.watch import (
    FailedTrace,
    WatchedCheck,
    WatchReport,
    promise_lines,
    waiting_words,
)
from burnish.runs.directory import NAME, RunRecord, find_run, known_runs
from burnish.system import Redactor, write_atomic


def write_run_page(name: str) -> None:
    """Write report.html into the folder of a run."""
    require_view()
    folder = find_run(name)
    path = write_html(folder, cases=stored_cases(RunRecord.read(folder)))
    typer.echo(f"page     {path}")


def write_comparison_page(names: Sequence[str], path: Path) -> None:
    """Write a page about two runs or more."""
    require_view()
    if not path.parent.is_dir():
        message = f"there is no folder {path.parent}"
        raise ConfigError([Problem(where="--html", message=message)])
    if len(names) > MOST:
        message = f"a page has room for {MOST} runs, not for {len(names)}"
        raise ConfigError([Problem(where="--html", message=message, remedy="name fewer runs")])
    write_atomic(path, comparison_html([RunRecord.read(find_run(name)) for name in names]))
    typer.echo(f"page     {path}")


def serve_pages(
    name: str,
    *,
    port: int,
    browser: bool,
    labelled: Sequence[Path] = (),
    scale: str | None = None,
) -> None:
    """Serve pages until Ctrl-C."""
    require_view()
    answers = None if scale is None else Scale.of(scale)
    for path in labelled:
        Labels.read(path)  # what is wrong with it is said here, not in the browser
    folders, start = viewed_folders(name)
    if labelled and not name:
        start = LABELS
    library = Library(
        folders=folders,
        cases=stored_cases,
        adopter=ProjectAdopter(),
        delegations=StoredDelegations(),
    )
    try:
        viewer = Viewer(library, port=port, person=user_name(), labelled=labelled, scale=answers)
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
            name = run.header.id
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


ALARM_EXIT = 4
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
                raise typer.Exit(ALARM_EXIT if state.check and state.check.alarm else 0)
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
    _write(state)
    lines = list(_check_lines(state, options))
    if options.optimize:
        if shown:
            typer.echo("\n".join(lines))
        before, state = state, watch.search(state)
        _write(state)
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
    unchecked = [name for name, sentences in state.judges.items() if not sentences]
    if unchecked:
        yield f"judge    not checked against labels: {', '.join(unchecked)}"
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
    name = shlex.quote(str(search.folder))
    yield f"next     burnish adopt {name}" if search.has_result else f"next     burnish why {name}"


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
        judges=state.judges,
        spent=spending(state.spent),
        proposals=str(proposals) if proposals.exists() else "",
        searches={
            str(each.folder): each.verdict if each.status == "finished" else each.status
            for each in state.searches
        },
    )


def _write(state: WatchState) -> None:
    from burnish.pages.evaluation_page import write_watch_page
    from burnish.pages.run_page import is_automatic

    if not state.checks:
        return
    report, home = report_of_watch(state), state.folder.path
    report.write(home)
    if is_automatic():
        with suppress(FileTrouble, OSError):
            write_watch_page(report, home)
