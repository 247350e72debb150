"""`burnish refine`: run a finished task again, from its result and what is wrong with it."""

from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperCommand

from burnish.cli import options

SETUP_EXIT = 2
"""For what cannot be refined, a command line that makes no sense included."""
_WHO = "Who"


class RefineCommand(TyperCommand):
    """A command whose exit code for a command line that makes no sense is its own."""

    usage_exit = SETUP_EXIT


def _model(told: str) -> typer.models.OptionInfo:
    return typer.Option(metavar="MODEL", rich_help_panel=_WHO, help=told)


def _tier(told: str) -> typer.models.OptionInfo:
    return typer.Option(metavar="MANAGER:WORKER", rich_help_panel=_WHO, help=told)


def refine(
    run_dir: Annotated[
        Path | None, typer.Argument(metavar="RUN_DIR", help="The folder of a finished delegation.")
    ] = None,
    *,
    iterations: Annotated[
        int, typer.Option("-n", "--iterations", help="At most so many; from 1 to 10.")
    ] = 3,
    target: Annotated[
        str | None,
        typer.Option(metavar="EXP:TASK", help="Refine the best run of a task of an experiment."),
    ] = None,
    workflow: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A workflow file; that of the run unless said."),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="SESSION", help="Go on with an unfinished session: its id, or last."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done; pay for nothing.")
    ] = False,
    model: Annotated[str | None, _model("Who plans; the run's unless said.")] = None,
    worker_model: Annotated[str | None, _model("Who works; the run's unless said.")] = None,
    tier_low: Annotated[str | None, _tier("Models of the first iterations.")] = None,
    tier_mid: Annotated[str | None, _tier("Models of those between.")] = None,
    tier_high: Annotated[str | None, _tier("Models of the last ones.")] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Make one result better: run its task again with a list of what is wrong with it.

    Exit code 0: BEST was written, or there is nothing to refine. 1: the seed stays the best, or
    an error. 2: it cannot be refined. 130: interrupted, can go on with --resume.
    """
    from burnish.cli.refining import Asked, refine_run

    asked = Asked(
        run=run_dir,
        target=target,
        resume=resume,
        dry_run=dry_run,
        settings={
            "iterations": iterations,
            "model": model,
            "worker_model": worker_model,
            "workflow": None if workflow is None else str(workflow.resolve()),
        },
        tiers={"tier_low": tier_low, "tier_mid": tier_mid, "tier_high": tier_high},
        as_json=as_json,
        quiet=quiet,
    )
    refine_run(asked)
