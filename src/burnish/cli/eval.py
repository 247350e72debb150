"""`burnish eval`, which is `burnish test run` too."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from burnish.cli import options
from burnish.cli.exits import CodedCommand
from burnish.cli.flags import FieldsCommand, Flag, file_arguments, flag_of, flag_values

_MEASURE, _REPORTS = "What is measured", "Reports"


class EvalCommand(CodedCommand, FieldsCommand):
    """Its flags are fields of a measurement, and its 1 says that a case fails."""

    usage_exit = options.EVAL_USAGE_EXIT

    def flags(self, args: Sequence[str], own: Sequence[Any]) -> Iterator[Flag]:
        """The flags of a measurement of what the file is about."""
        return _flags(next(file_arguments(args, own, _flags(None)), None))

    def every_flag(self) -> Iterator[Flag]:
        """The flags of every measurement."""
        return _flags(None)


def _flags(path: Path | None) -> Iterator[Flag]:
    from burnish.projects.description import STRATEGY
    from burnish.projects.measurements import measurement_doors

    for name, field in measurement_doors(path).named().items():
        if name != STRATEGY:  # it is settled
            flag = flag_of(field)
            yield replace(flag, panel=_MEASURE) if flag.panel == "Cases" else flag


test = typer.Typer(no_args_is_help=True, help="`test run` is `eval`, by its HoloDeck name.")


@test.command("run", cls=EvalCommand)
def evaluate(
    ctx: typer.Context,
    agent: Annotated[
        Path,
        typer.Argument(
            metavar="AGENT", help="An agent file, or cases that carry recorded replies."
        ),
    ],
    *,
    aa: Annotated[
        int | None,
        typer.Option(
            "--aa",
            metavar="N",
            rich_help_panel=_MEASURE,
            help="Noise check: the agent N times against itself.",
        ),
    ] = None,
    assignments: options.Assignments = None,
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
    progress: options.Progress = "auto",
    quiet: options.Quiet = False,
) -> None:
    """Measure an agent: every case, every metric, what fails and why.

    Exit code 0: every case passes; 1: one fails or is missing; 2: interrupted,
    go on with --resume; 3: the configuration or the command line is wrong.
    """
    from burnish.cli.evaluation import EvalRequest, evaluate_agent

    request = EvalRequest(
        agent=agent,
        flags=flag_values(ctx, assignments),
        noise_sweeps=aa,
        output_dir=output_dir,
        resume=resume,
        json_file=json_file,
        junit_file=junit_file,
        baseline=baseline,
        progress="none" if quiet else progress,
        quiet=quiet,
    )
    evaluate_agent(request)
