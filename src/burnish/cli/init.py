"""`burnish init`: a project to start from, for whatever the user has."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Create a project to start from.", invoke_without_command=True)

_HAVE, _CASES, _MODEL = "What you have", "Cases", "Model"


@app.callback()
def init(
    context: typer.Context,
    *,
    have: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            rich_help_panel=_HAVE,
            help="nothing, agent, python, http, command, langgraph, pydantic-ai, openai-agents, "
            "graph, files, workflow, suite or optimizer; by default what the folder has.",
        ),
    ] = None,
    program: Annotated[
        str,
        typer.Option(
            metavar="MODULE:NAME", rich_help_panel=_HAVE, help="The function, graph or agent."
        ),
    ] = "",
    url: Annotated[str, typer.Option(rich_help_panel=_HAVE, help="The endpoint's address.")] = "",
    body: Annotated[
        str,
        typer.Option(
            metavar="JSON", rich_help_panel=_HAVE, help='Its body; "{{input}}" is the question.'
        ),
    ] = "",
    response_path: Annotated[
        str,
        typer.Option(
            metavar="PATH", rich_help_panel=_HAVE, help="Where the reply is in a JSON response."
        ),
    ] = "",
    command: Annotated[
        str, typer.Option(rich_help_panel=_HAVE, help="The command, as in a shell.")
    ] = "",
    prompt: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]FILE",
            rich_help_panel=_HAVE,
            help="A prompt file that the agent reads on each call; may be repeated.",
        ),
    ] = None,
    cases: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", rich_help_panel=_CASES, help="CSV, JSONL, JSON, YAML or an EvalSet."
        ),
    ] = None,
    input_column: Annotated[
        str,
        typer.Option("--input", metavar="COLUMN", rich_help_panel=_CASES, help="The question."),
    ] = "",
    expected_column: Annotated[
        str,
        typer.Option("--expected", metavar="COLUMN", rich_help_panel=_CASES, help="The answer."),
    ] = "",
    model: Annotated[
        str,
        typer.Option(metavar="MODEL", rich_help_panel=_MODEL, help="Such as openai:gpt-4o-mini."),
    ] = "",
    base_url: Annotated[
        str, typer.Option(metavar="URL", rich_help_panel=_MODEL, help="Its own endpoint, if any.")
    ] = "",
    key_variable: Annotated[
        str,
        typer.Option(
            metavar="NAME", rich_help_panel=_MODEL, help="The variable with that endpoint's key."
        ),
    ] = "",
    folder: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where the files go; here by default.")
    ] = Path(),
    name: Annotated[str, typer.Option(help="The project's name; the folder's by default.")] = "",
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Ask nothing: take what is likeliest.")
    ] = False,
) -> None:
    """Create a project that can be evaluated at once, from what you have.

    Asks what you have, where the cases are and which model to use, or takes flags.
    Existing files are never overwritten.
    """
    if context.invoked_subcommand is not None:
        return
    from burnish.cli.starting import InitRequest, init_project

    init_project(
        InitRequest(
            have=have,
            details={
                "program": program,
                "url": url,
                "body": body,
                "response_path": response_path,
                "command": command,
            },
            prompts=tuple(prompt or ()),
            cases=cases,
            columns={"input": input_column, "expected": expected_column},
            model=model,
            base_url=base_url,
            key_variable=key_variable,
            folder=folder,
            name=name,
            yes=yes,
        )
    )


@app.command("task")
def task(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="Created if it does not exist; `task` by default."),
    ] = Path("task"),
) -> None:
    """Create a task: a file to improve, a runner, a scorer, and the task file.

    It runs right away, without a model. Existing files are never overwritten.
    """
    from burnish.projects.artifacts.starter_folder import TASK_FILE, starter_files
    from burnish.projects.starters.new_files import write_new

    for path in write_new(folder, starter_files()):
        typer.echo(f"made     {path}")
    file = shlex.quote(str(folder / TASK_FILE))
    typer.echo(f"look     burnish optimize {file} --dry-run")
    typer.echo(f"run      burnish optimize {file}")
