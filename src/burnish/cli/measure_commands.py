"""`burnish eval`, also named `burnish test run`, and `burnish watch`: the commands that measure."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from burnish.cli import options
from burnish.cli.improve_commands import OptimizeCommand, optimize
from burnish.cli.options import FieldsCommand, Flag, file_arguments, flag_of, flag_values
from burnish.core.errors import (
    BurnishError,
    ConfigError,
    MissingExtra,
    PriceUnknown,
    ResumeRefused,
    RunNotFound,
    TargetMismatch,
)
from burnish.models.errors import ModelRefused

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
    from burnish.cli.case_files import data_redactor, kinds_kept
    from burnish.cli.measurement_series import run_watch, seconds_between
    from burnish.core.statistics import ChartDesign
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
        max_calls=spending.max_calls,
        max_usd=spending.max_usd,
        optimize=spending.optimize,
        new_baseline=chart.new_baseline,
    )
    seconds = seconds_between(schedule.every, once=schedule.once)
    run_watch(watched, seconds=seconds, progress=progress)


_MEASURE = "What is measured"
_MOST_COLUMNS = 24
_measured, _report = options.in_panel(_MEASURE), options.in_panel("Reports")
_grid = options.in_panel("Grids")
_CONFIGURATION: tuple[type[BurnishError], ...] = (
    ConfigError,
    MissingExtra,
    ModelRefused,
    PriceUnknown,
    ResumeRefused,
    RunNotFound,
    TargetMismatch,
)
"""Errors that say: change a file, a flag, a key or an installation. They have their own exit code,
since 1 says that a case fails."""


class EvalCommand(FieldsCommand):
    """Its flags are the fields of a measurement; exit code 1 means that a case fails."""

    usage_exit = options.EVAL_USAGE_EXIT

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with _coded():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        with _coded():
            return super().invoke(ctx)

    def flags(self, args: Sequence[str], own: Sequence[Any]) -> Iterator[Flag]:
        return _flags(next(file_arguments(args, own, _flags(None)), None))

    def every_flag(self) -> Iterator[Flag]:
        return _flags(None)


@contextmanager
def _coded() -> Generator[None, None, None]:
    try:
        yield
    except _CONFIGURATION as error:
        error.exit_code = options.EVAL_USAGE_EXIT
        raise


def _flags(path: Path | None) -> Iterator[Flag]:
    from burnish.projects.description import STRATEGY
    from burnish.projects.measurements import measurement_doors

    for name, field in measurement_doors(path).named().items():
        if name != STRATEGY:  # it is settled
            flag = flag_of(field)
            yield replace(flag, panel=_MEASURE) if flag.panel == "Cases" else flag


@dataclass(frozen=True, kw_only=True)
class _Axes:
    """What varies: every combination is a column of a grid."""

    models: Annotated[
        list[str] | None,
        _grid("--model", metavar="MODEL", help="A model in place of the file's; may be repeated."),
    ] = None
    candidates: Annotated[
        list[str] | None,
        _grid(
            "--candidate",
            metavar="FILE|RUN",
            help="A candidate in place of the file's values; may be repeated.",
        ),
    ] = None
    assignments: Annotated[
        list[str] | None,
        _grid(
            "--set",
            metavar="PATH=VALUES",
            help="Values of what the agent has, such as temperature=0,0.7; or any setting by its "
            "path, such as budget.max_calls=200. May be repeated.",
        ),
    ] = None
    max_columns: Annotated[int, _grid(min=1, help="The most combinations that are measured.")] = (
        _MOST_COLUMNS
    )


@dataclass(frozen=True, kw_only=True)
class _Opening:
    """Which run is made or continued."""

    output_dir: options.OutputDir = None
    resume: Annotated[
        str | None, options.run_option("Continue a run of this agent; a grid may get more columns.")
    ] = None
    fork: Annotated[
        str | None,
        options.run_option("Measure anew with the results of a run, paying only for what differs."),
    ] = None
    retry_missing: Annotated[
        bool, typer.Option("--retry-missing", help="With --fork: ask again for what is missing.")
    ] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be measured and what it may cost.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class _Reports:
    """What to print, files to write, and what the exit code follows."""

    format: Annotated[
        options.ReportFormat,
        _report("--format", help="What to print; progress then goes to stderr."),
    ] = options.ReportFormat.TEXT
    json_file: Annotated[
        str | None, _report("--json", metavar="FILE", help="As JSON; - for stdout.")
    ] = None
    junit_file: Annotated[Path | None, _report("--junit", metavar="FILE", help="As JUnit XML.")] = (
        None
    )
    markdown_file: Annotated[
        Path | None, _report("--markdown", metavar="FILE", help="As a comment on a pull request.")
    ] = None
    html_file: Annotated[
        Path | None, _report("--html", metavar="FILE", help="As a page for the browser.")
    ] = None
    baseline: Annotated[
        str | None,
        _report(metavar="REPORT", help="Compare with a --json report or an earlier run."),
    ] = None
    fail_on: Annotated[
        options.FailOn,
        _report(help="Exit code 1: a failing case, or only what is worse than --baseline."),
    ] = options.FailOn.FAILURE


test = typer.Typer(
    no_args_is_help=True,
    help="`test run` is `eval` and `test optimize` is `optimize`, by their HoloDeck names.",
)


@test.command("run", cls=EvalCommand)
@options.flag_group("axes", _Axes)
@options.flag_group("opening", _Opening)
@options.flag_group("reports", _Reports)
def evaluate(
    ctx: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(metavar="AGENT", help="An agent file, or cases with recorded replies."),
    ],
    *,
    aa: Annotated[
        int | None,
        _measured("--aa", metavar="N", help="Noise check: compare the agent with itself N times."),
    ] = None,
    axes: _Axes,
    opening: _Opening,
    reports: _Reports,
    progress: options.Progress = "auto",
    quiet: options.Quiet = False,
) -> None:
    """Measure an agent: every case, every metric, what fails and why.

    With several models, candidates or values, every combination is a column of one table.
    Exit code 0: every case passes; 1: one fails or is missing; 2: interrupted,
    continue with --resume; 3: the configuration or the command line is wrong.
    """
    from burnish.cli.evaluation import EvalRequest
    from burnish.cli.measurement_series import evaluate_any

    request = EvalRequest(
        agent=file,
        flags=flag_values(ctx, axes.assignments),
        noise_sweeps=aa,
        models=tuple(axes.models or ()),
        candidates=tuple(axes.candidates or ()),
        max_columns=axes.max_columns,
        **vars(opening),
        **vars(reports),
        progress="none" if quiet else progress,
        quiet=quiet,
    )
    evaluate_any(request)


test.command("optimize", cls=OptimizeCommand)(optimize)
