"""`burnish refine`: run a finished task again, from its result and what is wrong with it."""

from pathlib import Path
from typing import Annotated, ClassVar

import typer

from burnish.cli import options
from burnish.cli.delegate import TaskCommand
from burnish.cli.flags import flag_values


class RefineCommand(TaskCommand):
    """A command with its own exit code for a wrong command line."""

    strategy: ClassVar[str] = "refine"
    parts: ClassVar[tuple[str, ...]] = ("strategy",)
    usage_exit = 2


def refine(
    ctx: typer.Context,
    run_dir: Annotated[
        Path | None, typer.Argument(metavar="RUN_DIR", help="The folder of a finished delegation.")
    ] = None,
    *,
    target: Annotated[
        str | None,
        typer.Option(metavar="EXP:TASK", help="Refine the best run of a task in an experiment."),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="SESSION", help="Continue an unfinished session: its id, or last."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, without making paid calls.")
    ] = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Make one result better: run its task again with a list of what is wrong with it.

    Exit code 0: BEST was written, or there is nothing to refine. 1: the seed stays the best, or
    an error. 2: it cannot be refined. 130: interrupted, can continue with --resume.
    """
    from burnish.cli.refinement import RefineRequest, refine_run

    request = RefineRequest(
        run=run_dir,
        target=target,
        flags=flag_values(ctx),
        resume=resume,
        dry_run=dry_run,
        as_json=as_json,
        quiet=quiet,
    )
    refine_run(request)
