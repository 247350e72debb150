"""`burnish watch`: judge logged traces again and again, and raise an alarm when they get worse."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from burnish.cli import options

_judging, _chart = map(options.in_panel, ("Judging", "Chart"))
_alarm, _schedule = map(options.in_panel, ("On an alarm", "Schedule"))


@dataclass(frozen=True, kw_only=True)
class _Judging:
    """What is judged, and by what."""

    project: Annotated[
        Path, _judging(metavar="FILE", help="An agent or project file, or a file of metrics.")
    ]
    judge: Annotated[
        str | None, _judging(metavar="MODEL", help="The judge for metrics that do not name one.")
    ] = None
    metric: Annotated[
        list[str] | None, _judging(metavar="NAME", help="Only this metric; may be repeated.")
    ] = None
    unchecked_judge: Annotated[
        bool,
        _judging("--unchecked-judge", help="Trust a judge that `data judge-check` has not seen."),
    ] = False
    sample: Annotated[int, _judging(min=1, metavar="N", help="New traces to judge per check.")] = 50
    seed: Annotated[int, _judging(help="Random seed of the samples and the chart.")] = 42


@dataclass(frozen=True, kw_only=True)
class _Schedule:
    """When to check."""

    every: Annotated[
        str | None, _schedule(metavar="TIME", help="Check again after 30m, 12h or 1d.")
    ] = None
    once: Annotated[
        bool, _schedule("--once", help="Check once, for cron: exit code 4 on an alarm.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class _Chart:
    """What tells drift from noise."""

    chart: Annotated[
        str, _chart(metavar="METRIC", help="Follow its mean, not the share that passes.")
    ] = ""
    baseline: Annotated[
        int, _chart(min=20, max=100_000, metavar="N", help="Judged traces that show what is usual.")
    ] = 200
    shift: Annotated[
        float, _chart(min=0.01, max=0.9, help="The fall that should be noticed, from 0 to 1.")
    ] = 0.1
    false_alarms: Annotated[
        float, _chart(min=0.01, max=0.5, help="The chance of a false alarm in each period.")
    ] = 0.05
    period: Annotated[
        int, _chart(min=50, max=100_000, metavar="N", help="Judged traces of a period.")
    ] = 1000
    new_baseline: Annotated[
        bool, _chart("--new-baseline", help="Begin the chart anew with this check, after a change.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class _Spending:
    """What an alarm may start, and what all of it may cost."""

    optimize: Annotated[
        bool,
        _alarm("--optimize", help="Start `burnish optimize`, within the limits. Adopts nothing."),
    ] = False
    max_calls: options.MaxCalls = None
    max_usd: options.MaxUsd = None


@dataclass(frozen=True, kw_only=True)
class _Reading:
    """How the log is read."""

    read_as: options.TraceFormat = None
    fields: options.TraceFields = None
    redact: options.RedactPatterns = None
    keep: options.KeepPersonal = None


@options.flag_group("judging", _Judging)
@options.flag_group("schedule", _Schedule)
@options.flag_group("chart", _Chart)
@options.flag_group("spending", _Spending)
@options.flag_group("reading", _Reading)
def watch(
    log: Annotated[
        Path, typer.Argument(metavar="LOG", help="An export of traces, or a folder of them.")
    ],
    *,
    judging: _Judging,
    schedule: _Schedule,
    chart: _Chart,
    spending: _Spending,
    reading: _Reading,
    output_dir: Annotated[
        Path | None,
        typer.Option("-o", "--output-dir", metavar="FOLDER", help="The folder of this watch."),
    ] = None,
    progress: options.Progress = "auto",
) -> None:
    """Judge a sample of logged traces, tell drift from noise, propose failures as cases.

    A trace is judged once, however often the command is run. The limits hold for the whole watch.

    Exit code 4: an alarm (with --once); 1: an error; 2: interrupted.
    """
    from burnish.cli.trace_import import data_redactor, kinds_kept
    from burnish.cli.watch_checks import run_watch, seconds_between
    from burnish.core.control_chart import ChartDesign
    from burnish.projects.watch import WatchOptions

    design = ChartDesign(
        baseline=chart.baseline,
        shift=chart.shift,
        false_alarms=chart.false_alarms,
        period=chart.period,
        seed=judging.seed,
    )
    watched = WatchOptions(
        log=log,
        project=judging.project,
        redactor=data_redactor(reading.redact or (), kinds_kept(reading.keep or ())),
        folder=output_dir,
        read_as=reading.read_as,
        fields=tuple(reading.fields or ()),
        judge=judging.judge,
        metrics=tuple(judging.metric or ()),
        charted=chart.chart,
        sample=judging.sample,
        design=design,
        unchecked_judge=judging.unchecked_judge,
        max_calls=spending.max_calls,
        max_usd=spending.max_usd,
        optimize=spending.optimize,
        new_baseline=chart.new_baseline,
    )
    seconds = seconds_between(schedule.every, once=schedule.once)
    run_watch(watched, seconds=seconds, progress=progress)
