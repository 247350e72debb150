"""`burnish runs`, `burnish view` and `burnish why`: the commands about runs that exist."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from burnish.cli import options
from burnish.cli.options import FieldsCommand, Flag, flag_values, flags_of_run
from burnish.core.errors import ConfigError

app = typer.Typer(invoke_without_command=True)

_LOOK, _GO_ON, _CLEAN_UP = "Look", "Go on", "Clean up"
_HOW_TO_NAME = "The id of a run, the beginning of its id, or its folder."

_RunName = Annotated[
    str, typer.Argument(metavar="RUN", autocompletion=options.run_ids, help=_HOW_TO_NAME)
]


class ResumeCommand(FieldsCommand):
    """Its flags are limits and whatever else may change while a run goes on.

    `--help` shows those of every run, and with a run those of that run.
    """

    panels = ("Limits", "Options")

    def flags_in_help(self, args: Sequence[str]) -> Iterator[Flag]:
        return flags_of_run([each for each in args if not each.startswith("-")])


@app.callback()
def _runs(ctx: typer.Context) -> None:
    """Show, continue, compare and remove runs; without a command, list them."""
    if ctx.invoked_subcommand is None:
        list_runs()


@app.command("list", rich_help_panel=_LOOK)
def list_runs(
    *,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="NAME", help="Only runs with this tag; may be repeated."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line.")
    ] = False,
) -> None:
    """Every run on this machine, newest first."""
    from burnish.cli.stored_runs import print_list

    print_list(tags=tag or [], as_json=as_json)


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
    """Show the result, trials and costs of a run; with --calls its journal."""
    from burnish.cli.stored_runs import print_calls, print_run, print_trial

    if calls:
        print_calls(run, trial=trial, as_json=as_json)
    elif trial is not None:
        print_trial(run, trial, as_json=as_json)
    else:
        print_run(run, as_json=as_json)


@app.command(rich_help_panel=_LOOK)
def report(
    run: _RunName,
    *,
    html: Annotated[
        bool, typer.Option("--html", help="Write report.html instead: one file with charts.")
    ] = False,
) -> None:
    """Rewrite the report.md of a run from its journal, and print it."""
    if html:
        from burnish.cli.browser_pages import write_run_page

        write_run_page(run)
        return
    from burnish.reports.rendering import write_report
    from burnish.runs.directory import find_run
    from burnish.system import read_text

    typer.echo(read_text(write_report(find_run(run))), nl=False)


@app.command(rich_help_panel=_LOOK)
def compare(
    left: Annotated[
        str, typer.Argument(metavar="RUN", autocompletion=options.run_ids, help=_HOW_TO_NAME)
    ],
    others: Annotated[
        list[str],
        typer.Argument(
            metavar="OTHER...",
            autocompletion=options.run_ids,
            help="The run to compare it with, or several.",
        ),
    ],
    *,
    as_json: options.AsJson = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page for the browser.")
    ] = None,
) -> None:
    """Runs side by side; two of them case by case where they share cases."""
    if html is not None:
        from burnish.cli.browser_pages import write_comparison_page

        write_comparison_page([left, *others], html)
        return
    from burnish.cli.stored_runs import print_comparison

    print_comparison([left, *others], as_json=as_json)


@app.command(rich_help_panel=_LOOK)
def export(
    run: _RunName,
    *,
    to: Annotated[str, typer.Option("--to", metavar="NAME", help="`mlflow` or `wandb`.")],
    tracking_uri: Annotated[
        str | None,
        typer.Option(metavar="URI", help="Its server, instead of the one its variables name."),
    ] = None,
    tracking_project: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The experiment or project; `burnish` if not set."),
    ] = None,
) -> None:
    """Send a run to MLflow or Weights & Biases: parameters, numbers, files, the diff."""
    from burnish.cli.stored_runs import send_run

    send_run(run, to, uri=tracking_uri, project=tracking_project)


@app.command(rich_help_panel=_GO_ON, cls=ResumeCommand)
def resume(
    ctx: typer.Context,
    run: _RunName,
    *,
    assignments: options.Assignments = None,
    progress: options.Progress = "auto",
    quiet: options.Quiet = False,
    require: options.Require = None,
) -> None:
    """Continue a run that was interrupted or killed, or that gets more budget.

    `burnish runs resume RUN --help` also shows the limits of that run's strategy.
    """
    from burnish.runs.directory import Header, find_run
    from burnish.runs.plugins import strategy_plugin

    folder = find_run(run)
    header = Header.read(folder)
    flags = flag_values(ctx, assignments)
    if strategy_plugin(header.strategy).proposes:
        from burnish.cli.optimization import RunOpening, run_project
        from burnish.projects import reload_project

        project = reload_project(folder, flags)
        way = RunOpening(resume=str(folder))
        run_project(project, way, progress=progress, quiet=quiet, require=require)
        return
    if require is not None:
        message = "this run is a measurement, which looks for nothing better"
        raise ConfigError.of("--require", message, "leave it out")
    from burnish.cli.evaluation import EvalRequest, evaluate_agent

    file, view = Path(header.project.file), "none" if quiet else progress
    evaluate_agent(
        EvalRequest(agent=file, flags=flags, resume=str(folder), progress=view, quiet=quiet)
    )


@app.command(rich_help_panel=_CLEAN_UP)
def tag(
    run: _RunName,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="TAG", help="The tags to add.")
    ] = None,
    *,
    remove: Annotated[
        list[str] | None,
        typer.Option("--remove", metavar="TAG", help="Remove this tag; may be repeated."),
    ] = None,
) -> None:
    """Add tags to a run or remove them, and print those that it has."""
    from burnish.cli.output import echo
    from burnish.runs.directory import find_run
    from burnish.runs.spec import change_tags, tags_of

    folder = find_run(run)
    changes = names or remove
    tags = change_tags(folder, add=names or (), remove=remove or ()) if changes else tags_of(folder)
    echo(", ".join(tags) or "no tags")


@app.command(rich_help_panel=_CLEAN_UP)
def rm(
    run: _RunName,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Remove the folder of a run, or of a grid with its columns; never one that is in use."""
    from burnish.cli.stored_runs import remove

    remove(run, yes=yes)


def why(
    run: _RunName,
    *,
    as_json: options.AsJson = False,
) -> None:
    """Explain a run: why this candidate won, which cases it fixed and broke, what to do next.

    Everything comes from the run's record. No model is asked, and nothing is paid.
    """
    from burnish.cli.stored_runs import print_explanation

    print_explanation(run, as_json=as_json)


def view(
    run: Annotated[
        str,
        typer.Argument(
            metavar="[RUN|FOLDER]",
            help="A run, or a folder with runs; without it, every run of this machine.",
        ),
    ] = "",
    *,
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="The port; by default a free one.")
    ] = 0,
    browser: Annotated[
        bool, typer.Option(help="Open the page in the browser, not only print its link.")
    ] = True,
) -> None:
    """Look at runs in the browser: verdicts, changes, cases, trials, money.

    Only this machine can open the pages, with a link that works once.
    Nothing is changed, unless you adopt a result there. Ctrl-C ends it.
    """
    from burnish.cli.browser_pages import serve_pages

    serve_pages(run, port=port, browser=browser)
