"""`burnish optimize`, which is `burnish test optimize` too."""

from pathlib import Path
from typing import Annotated

import typer

from burnish.cli import options
from burnish.cli.flags import FieldsCommand, flag_values

_LOOK, _SHOW = "Look first", "Output"


class OptimizeCommand(FieldsCommand):
    """Its flags are the fields of the run: of every run, of its target, and of its strategy."""


def optimize(
    ctx: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="An agent file, a graph file, an optimizer.json, a task file, a suite or a "
            "project file; agent.yaml unless said.",
        ),
    ] = None,
    *,
    assignments: options.Assignments = None,
    output_dir: options.OutputDir = None,
    resume: Annotated[
        str | None, typer.Option(metavar="RUN", help="Go on with a run, with the flags it had.")
    ] = None,
    fork: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="A new run that pays again for nothing RUN has paid."),
    ] = None,
    retry_missing: Annotated[
        bool, typer.Option("--retry-missing", help="With --fork: ask again for what is missing.")
    ] = False,
    request: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel="Graphs of agents",
            help="A PromptIter run request as JSON, over what the graph file says.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            rich_help_panel=_LOOK,
            help="Check everything, estimate, pay for nothing.",
        ),
    ] = False,
    suggest_axes: Annotated[
        bool,
        typer.Option(
            "--suggest-axes",
            rich_help_panel=_LOOK,
            help="Print a block with what can be tuned.",
        ),
    ] = False,
    report_only: Annotated[
        str | None,
        typer.Option(
            metavar="RUN", rich_help_panel=_LOOK, help="Only write a run's report.md again."
        ),
    ] = None,
    progress: options.Progress = "auto",
    quiet: options.Quiet = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "-v",
            "--verbose",
            rich_help_panel=_SHOW,
            help="Also what critic, applier, reflector, patcher or editor said.",
        ),
    ] = False,
) -> None:
    """Make an agent file, a graph of agents, prompts, files or policy texts measurably better.

    A flag wins over the file, the file over BURNISH_MAX_TRIALS and the like.
    The first limit that is reached ends the run.
    """
    from burnish.cli.execution import RunOpening
    from burnish.cli.optimization import OptimizeRequest, optimize_project

    optimize_project(
        OptimizeRequest(
            file=file,
            way=RunOpening(
                resume=resume, fork=fork, retry_missing=retry_missing, output_dir=output_dir
            ),
            flags=flag_values(ctx, assignments),
            dry_run=dry_run,
            suggest_axes=suggest_axes,
            report_only=report_only,
            request=request,
            progress=progress,
            quiet=quiet,
            verbose=verbose,
        )
    )
