"""`burnish`: the commands in their groups, and how errors leave the program."""

import os
import sys

import typer

from burnish.cli import optimize, runs
from burnish.core.errors import BurnishError
from burnish.version import VERSION

app = typer.Typer(
    name="burnish",
    help="Makes AI agents measurably better, and proves it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _top(version: bool = typer.Option(False, "--version", help="Print the version.")) -> None:  # noqa: FBT001, FBT003
    if version:
        typer.echo(f"burnish {VERSION}")
        raise typer.Exit


app.command("optimize", rich_help_panel="Make it better")(optimize.optimize)
app.add_typer(runs.app, name="runs", rich_help_panel="Look back")


def main() -> None:
    """Run the command line; a user's error is one message and an exit code, never a traceback."""
    try:
        app(standalone_mode=True)
    except BurnishError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        typer.echo("stopped; the run can be resumed", err=True)
        sys.exit(2)
    except BrokenPipeError:
        # The reader has gone; python would complain again when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
