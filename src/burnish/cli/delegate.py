"""`burnish delegate`: run a manager-and-workers workflow on one task."""

from pathlib import Path
from typing import Annotated

import typer

from burnish.cli import options

_WHO, _LIMITS, _SHOW = "Who", "Limits", "Output"


def _model(told: str) -> typer.models.OptionInfo:
    return typer.Option(metavar="MODEL", rich_help_panel=_WHO, help=told)


def _limit(told: str) -> typer.models.OptionInfo:
    return typer.Option(rich_help_panel=_LIMITS, help=told)


def delegate(
    workflow: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A workflow file.")
    ] = None,
    *,
    task: Annotated[str | None, typer.Option(help="What is to be done.")] = None,
    task_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file that says what is to be done.")
    ] = None,
    given: Annotated[
        list[Path] | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help="Put a file under input/ in the workspace; again for more.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="EXP", help="Make it a task of this experiment."),
    ] = None,
    primary: Annotated[
        str | None,
        typer.Option(metavar="TASK", help="With --target: go on from the BEST of this task."),
    ] = None,
    db: options.Db = None,
    output_dir: options.OutputDir = None,
    resume: Annotated[
        str | None, typer.Option(metavar="RUN", help="Go on with a run: its folder, or its name.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, pay for nothing.")
    ] = False,
    manager: Annotated[str | None, _model("Who plans: provider:name.")] = None,
    worker: Annotated[str | None, _model("Who does the work.")] = None,
    critic: Annotated[str | None, _model("Who finds defects.")] = None,
    judge: Annotated[str | None, _model("Who judges by rubrics.")] = None,
    max_loops: Annotated[int | None, _limit("Decisions of managers.")] = None,
    max_workers: Annotated[int | None, _limit("Workers in all.")] = None,
    max_tokens: Annotated[int | None, _limit("Tokens, both ways.")] = None,
    max_tool_calls: Annotated[int | None, _limit("Uses of tools.")] = None,
    max_wall_time: Annotated[
        float | None, _limit("Seconds of active time, resumes included.")
    ] = None,
    max_depth: Annotated[int | None, _limit("Managers below managers; 1 is one manager.")] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Let a manager plan a task, delegate it to workers, and check the result.

    Exit code 0: all gates passed. 1: they did not, or an error. 2: interrupted, can be resumed.
    """
    from burnish.cli.delegating import Asked, delegate_task

    asked = Asked(
        file=workflow,
        task=task,
        task_file=task_file,
        inputs=tuple(given or ()),
        target=target,
        primary=primary,
        db=db,
        output_dir=output_dir,
        resume=resume,
        dry_run=dry_run,
        overrides={
            "manager": manager,
            "worker": worker,
            "critic": critic,
            "judge": judge,
            "max_loops": max_loops,
            "max_total_workers": max_workers,
            "max_total_tokens": max_tokens,
            "max_tool_calls": max_tool_calls,
            "max_wall_time": max_wall_time,
            "max_depth": max_depth,
        },
        as_json=as_json,
        quiet=quiet,
    )
    delegate_task(asked)
