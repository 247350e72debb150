"""Running `burnish watch`: check after check, what each one says, and the report."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import typer

from burnish.cli.execution import chosen_progress
from burnish.cli.progress import Progress
from burnish.core.errors import ConfigError, FileTrouble, Interrupted, Problem
from burnish.core.formatting import counted, spending
from burnish.projects.watch import Watch, WatchOptions, WatchState
from burnish.projects.watch_folder import PROPOSALS
from burnish.reports.watch import (
    FailedTrace,
    WatchedCheck,
    WatchReport,
    promise_lines,
    waiting_words,
)

ALARM_EXIT = 4
"""The exit code of `--once` if the check raised an alarm."""


def seconds_between(every: str | None, *, once: bool) -> float | None:
    """Seconds between two checks; None for a single check."""
    from burnish.server.tokens import duration

    if (every is None) != once:
        message = "give either --once or --every TIME"
        remedy = "--once checks now, for cron; --every 1h goes on until Ctrl-C"
        raise ConfigError([Problem(message=message, remedy=remedy)])
    return None if every is None else duration(every, "--every").total_seconds()


def run_watch(
    options: WatchOptions,
    *,
    seconds: float | None,
    progress: str,
    wait: Callable[[float], bool] | None = None,
) -> None:
    """Check once, or until Ctrl-C; `wait` returns whether to stop instead of the next check."""
    chosen, pause = chosen_progress(progress), wait or threading.Event().wait
    stop = False
    while not stop:
        try:
            state = Watch(options=options).check()
            report = report_of_watch(state)
            _write(report, state)
            if chosen is not Progress.NONE:
                _say(state, report)
            if seconds is None:
                raise typer.Exit(ALARM_EXIT if state.check and state.check.alarm else 0)
            options = replace(options, new_baseline=False)
            typer.echo(waiting_words(seconds))
            stop = pause(seconds)
        except KeyboardInterrupt:
            remedy = "the same command continues it; no trace is judged twice"
            raise Interrupted("the watch was ended", remedy=remedy) from None


def _say(state: WatchState, report: WatchReport) -> None:
    check = state.check
    if check is None:
        typer.echo(f"nothing  no new traces in {state.terms.log}")
    else:
        level = f", mean {sum(check.values) / len(check.values):.2f}"
        missing = f", {check.missing} without a verdict" if check.missing else ""
        new = counted(check.fresh, "new trace")
        typer.echo(f"check {check.number:<3}{new}, {len(check.judged)} judged{missing}{level}")
        if check.broken:
            typer.echo(f"broken   {counted(check.broken, 'record')} left out")
        unchecked = [name for name, sentences in state.judges.items() if not sentences]
        if unchecked:
            typer.echo(f"judge    not checked against labels: {', '.join(unchecked)}")
    if check is not None and check.alarm:
        typer.echo(f"ALARM    {check.alarm}")
    else:
        typer.echo(f"chart    {report.verdict}")
    for line in promise_lines(state.reading) if state.check and state.check.number == 1 else ():
        typer.echo(f"         {line}")
    if state.proposed:
        file = state.folder.path / PROPOSALS
        typer.echo(f"proposed {counted(state.proposed, 'case')} in {file}")
    if state.optimization is not None:
        typer.echo(f"searched {state.optimization}")
        typer.echo(f"next     burnish adopt {state.optimization}")
    typer.echo(f"spent    {spending(state.spent)} in {counted(len(state.checks), 'check')}")
    typer.echo(f"report   {state.folder.path / 'report.md'}")


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
        optimization="" if state.optimization is None else str(state.optimization),
    )


def _write(report: WatchReport, state: WatchState) -> None:
    from burnish.pages.report_file import is_automatic
    from burnish.pages.watch_page import write_watch_page

    if state.check is None:
        return
    home: Path = state.folder.path
    report.write(home)
    if is_automatic():
        with suppress(FileTrouble, OSError):
            write_watch_page(report, home)
