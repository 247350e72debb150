"""`burnish runs`: list, show, resume, report, compare, rm."""

from pathlib import Path
from typing import Annotated

import typer

from burnish.cli import options
from burnish.cli.flags import FieldsCommand, flag_values

app = typer.Typer(
    no_args_is_help=True, help="Look at runs, go on with them, compare them, remove them."
)

_LOOK, _GO_ON, _CLEAN_UP = "Look", "Go on", "Clean up"
_HOW_TO_NAME = "A run's id, the beginning of one, or its folder."

_RunName = Annotated[str, typer.Argument(metavar="RUN", help=_HOW_TO_NAME)]


class ResumeCommand(FieldsCommand):
    """Its flags are limits and whatever else may change while a run goes on."""

    panels = ("Limits", "Options")


@app.command("list", rich_help_panel=_LOOK)
def list_runs(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Every run on this machine, newest first."""
    from burnish.cli.run_pages import print_list

    print_list(as_json=as_json)


@app.command(rich_help_panel=_LOOK)
def show(
    run: _RunName,
    *,
    calls: Annotated[bool, typer.Option("--calls", help="Every journaled call.")] = False,
    trial: Annotated[
        int | None, typer.Option(metavar="N", help="Everything about one trial; its calls only.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """How a run stands: result, trials, money; with --calls its journal."""
    from burnish.cli.run_pages import print_calls, print_run, print_trial, show_old_delegation

    if show_old_delegation(run, as_json=as_json):
        return
    if calls:
        print_calls(run, trial=trial, as_json=as_json)
    elif trial is not None:
        print_trial(run, trial, as_json=as_json)
    else:
        print_run(run, as_json=as_json)


@app.command(rich_help_panel=_LOOK)
def report(run: _RunName) -> None:
    """Write a run's report.md again from its journal, and print it."""
    from burnish.reports.rendering import write_report
    from burnish.runs.directory import find_run
    from burnish.system import read_text

    typer.echo(read_text(write_report(find_run(run))), nl=False)


@app.command(rich_help_panel=_LOOK)
def compare(
    left: Annotated[str, typer.Argument(metavar="RUN", help=_HOW_TO_NAME)],
    right: Annotated[str, typer.Argument(metavar="OTHER", help="The run to compare it with.")],
    *,
    as_json: options.AsJson = False,
) -> None:
    """Two runs side by side, case by case where they share cases."""
    from burnish.cli.run_pages import print_comparison

    print_comparison(left, right, as_json=as_json)


@app.command(rich_help_panel=_GO_ON, cls=ResumeCommand)
def resume(
    ctx: typer.Context,
    run: _RunName,
    *,
    assignments: options.Assignments = None,
    progress: options.Progress = "auto",
    quiet: options.Quiet = False,
) -> None:
    """Go on with a run that was interrupted or killed, or that gets more budget."""
    from burnish.runs.directory import Header, find_run
    from burnish.runs.plugins import strategy_plugin

    view = "none" if quiet else progress
    folder = find_run(run)
    header = Header.read(folder)
    flags = flag_values(ctx, assignments)
    if strategy_plugin(header.strategy).proposes:
        from burnish.cli.execution import RunOpening, run_project
        from burnish.projects import reload_project

        project = reload_project(folder, flags)
        run_project(project, RunOpening(resume=str(folder)), progress=view)
        return
    from burnish.cli.evaluation import EvalRequest, evaluate_agent

    file = Path(header.project.file)
    evaluate_agent(
        EvalRequest(agent=file, flags=flags, resume=str(folder), progress=view, quiet=quiet)
    )


@app.command(rich_help_panel=_CLEAN_UP)
def rm(
    run: _RunName,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove a run's folder. A run that is being driven is not removed."""
    from burnish.cli.run_pages import remove

    remove(run, yes=yes)
