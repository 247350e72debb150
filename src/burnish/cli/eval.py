"""`burnish eval`, which is `burnish test run` too."""

from pathlib import Path
from typing import Annotated

import typer

from burnish.cli import options
from burnish.cli.exits import CodedCommand

_MEASURE, _REPORTS = "What is measured", "Reports"


class EvalCommand(CodedCommand):
    """Its 1 says that a case fails."""

    usage_exit = options.EVAL_USAGE_EXIT


test = typer.Typer(no_args_is_help=True, help="`test run` is `eval`, by its HoloDeck name.")


@test.command("run", cls=EvalCommand)
def evaluate(
    agent: Annotated[
        Path,
        typer.Argument(
            metavar="AGENT", help="An agent file, or cases that carry recorded replies."
        ),
    ],
    *,
    cases: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel=_MEASURE, help="Cases from here instead."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", rich_help_panel=_MEASURE, help="Only this metric; repeat."),
    ] = None,
    metrics: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel=_MEASURE, help="Metrics from here instead."),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            rich_help_panel=_MEASURE,
            help="Who judges where a metric names nobody.",
        ),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(metavar="N", rich_help_panel=_MEASURE, help="Run every case so often."),
    ] = None,
    aa: Annotated[
        int | None,
        typer.Option(
            "--aa",
            metavar="N",
            rich_help_panel=_MEASURE,
            help="Noise check: the agent N times against itself.",
        ),
    ] = None,
    concurrency: options.Concurrency = None,
    output_dir: options.OutputDir = None,
    resume: Annotated[
        str | None, typer.Option(metavar="RUN", help="Go on with a run of this agent.")
    ] = None,
    json_file: Annotated[
        str | None,
        typer.Option(
            "--json", metavar="FILE", rich_help_panel=_REPORTS, help="As JSON; - for stdout."
        ),
    ] = None,
    junit_file: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", rich_help_panel=_REPORTS, help="As JUnit XML."),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="REPORT",
            rich_help_panel=_REPORTS,
            help="Compare with a --json report or an earlier run.",
        ),
    ] = None,
    max_calls: options.MaxCalls = None,
    max_usd: options.MaxUsd = None,
    max_minutes: options.MaxMinutes = None,
    progress: options.Progress = "auto",
    quiet: options.Quiet = False,
) -> None:
    """Measure an agent: every case, every metric, what fails and why.

    Exit code 0: every case passes; 1: one fails or is missing; 2: interrupted,
    go on with --resume; 3: the configuration or the command line is wrong.
    """
    from burnish.cli.eval_asking import Asked
    from burnish.cli.eval_running import evaluate_agent

    asked = Asked(
        agent=agent,
        cases=cases,
        metrics=metric or [],
        metric_file=metrics,
        judge=judge,
        repeats=repeats,
        noise_sweeps=aa,
        concurrency=concurrency,
        output_dir=output_dir,
        resume=resume,
        json_file=json_file,
        junit_file=junit_file,
        baseline=baseline,
        limits={"max_calls": max_calls, "max_usd": max_usd, "max_minutes": max_minutes},
        progress="none" if quiet else progress,
        quiet=quiet,
    )
    evaluate_agent(asked)
