"""`burnish eval`, also named `burnish test run`."""

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
