"""Running `burnish watch`: check after check, what each one says, and the report."""

import shlex
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import typer

from burnish.cli.optimization import chosen_progress
from burnish.cli.progress import Progress
from burnish.core.errors import ConfigError, FileTrouble, Interrupted, Problem
from burnish.core.evaluations import mean
from burnish.core.formatting import counted, spending
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
    from burnish.pages.measurement_pages import write_watch_page
    from burnish.pages.run_page import is_automatic

    if not state.checks:
        return
    report, home = report_of_watch(state), state.folder.path
    report.write(home)
    if is_automatic():
        with suppress(FileTrouble, OSError):
            write_watch_page(report, home)
