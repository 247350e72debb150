"""`burnish init`: folders to start from."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Make a folder to start from.", no_args_is_help=True)


@app.callback()
def _init() -> None:
    """Make a folder to start from."""


@app.command("task")
def task(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Made if it is not there; `task` unless said.")
    ] = Path("task"),
) -> None:
    """Make a task: a file to improve, a runner, a scorer, and the task file.

    It runs at once, without a model. Nothing that is there is overwritten.
    """
    from burnish.cli.starters import init_task

    init_task(folder)


@app.command("schema")
def schema(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="agent, prompts, graph, task, suite and the like.")
    ],
) -> None:
    """Print the JSON Schema of a kind of file, for an editor.

    Plug-ins that are installed have their part in it.
    """
    from burnish.cli.starters import print_schema

    print_schema(kind)
