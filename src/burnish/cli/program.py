"""`burnish`: the commands in their groups, and the handling of errors."""

from collections.abc import Sequence
from functools import cache
from typing import Any, cast

import typer
from typer.main import get_command

from burnish.cli import (
    adopt,
    data,
    delegation_commands,
    improve_commands,
    measure_commands,
    models,
    run_commands,
    service_commands,
    setup_commands,
    tokens,
)
from burnish.core.errors import BurnishError, Interrupted
from burnish.system.restoration import restore_abandoned
from burnish.version import VERSION

app = typer.Typer(
    name="burnish",
    help="Makes AI agents measurably better, and proves it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _top(version: bool = typer.Option(False, "--version", help="Print the version.")) -> None:  # noqa: FBT001, FBT003
    if version:
        typer.echo(f"burnish {VERSION}")
        raise typer.Exit


app.command("optimize", cls=improve_commands.OptimizeCommand, rich_help_panel="Make it better")(
    improve_commands.optimize
)
app.command("delegate", cls=improve_commands.TaskCommand, rich_help_panel="Make it better")(
    improve_commands.delegate
)
app.command("refine", cls=improve_commands.RefineCommand, rich_help_panel="Make it better")(
    improve_commands.refine
)
app.command("adopt", rich_help_panel="Make it better")(adopt.adopt)
app.command("eval", cls=measure_commands.EvalCommand, rich_help_panel="Measure it")(
    measure_commands.evaluate
)
measure_commands.test.command("optimize", cls=improve_commands.OptimizeCommand)(
    improve_commands.optimize
)
app.add_typer(
    measure_commands.test,
    name="test",
    help="`test run` is `eval` and `test optimize` is `optimize`, by their HoloDeck names.",
    rich_help_panel="Measure it",
)
app.add_typer(data.app, name="data", rich_help_panel="Measure it")
app.command("watch", rich_help_panel="Measure it")(measure_commands.watch)
app.command("structure", rich_help_panel="Set up")(setup_commands.structure)
app.add_typer(run_commands.app, name="runs", rich_help_panel="Look back")
app.command("view", rich_help_panel="Look back")(run_commands.view)
app.command("why", rich_help_panel="Look back")(run_commands.why)
app.command("serve", rich_help_panel="Serve it")(service_commands.serve)
app.command("mcp", rich_help_panel="Serve it")(service_commands.mcp)
app.add_typer(tokens.app, name="tokens", rich_help_panel="Serve it")
app.add_typer(delegation_commands.experiments_app, name="experiments", rich_help_panel="Look back")
app.add_typer(delegation_commands.policy_app, name="policy", rich_help_panel="Look back")
app.add_typer(setup_commands.app, name="init", rich_help_panel="Set up")
app.add_typer(models.app, name="models", rich_help_panel="Set up")
app.add_typer(setup_commands.roles_app, name="roles", rich_help_panel="Set up")
app.command("schema", rich_help_panel="Set up")(setup_commands.schema)
app.command("doctor", rich_help_panel="Set up")(setup_commands.doctor)


@cache
def program() -> Any:
    """The commands with all their options: sixty take a while to make."""
    return cast("Any", get_command(app))


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code; user errors become one message."""
    try:
        # Before all else, files that a killed run left with a candidate in them are put back.
        for fate in restore_abandoned():
            typer.echo(f"burnish: {fate}", err=True)
        code: int | None = program()(arguments, prog_name="burnish", standalone_mode=False)
    except typer.TyperException as error:
        return _refuse(error)
    except typer.Abort:
        return _complain("nothing was done", 1)
    except Interrupted as error:
        return _complain(str(error), error.exit_code)
    except BurnishError as error:
        return _complain(f"error: {error}", error.exit_code)
    except BrokenPipeError:
        return 1
    except OSError as error:
        return _complain(f"error: {error.filename or 'the system'}: {error.strerror}", 1)
    # 130 is what typer returns for a Ctrl-C that nobody caught.
    return _complain("interrupted", 2) if code == 130 else code or 0


def _complain(message: str, code: int) -> int:
    from burnish.core.formatting import visible

    # A message may quote a file, an agent or an endpoint, which may speak to the terminal.
    typer.echo(visible(message), err=True)
    return code


def _refuse(error: typer.TyperException) -> int:
    """Report a wrong command line like any other error, with the exit code of the command."""
    message = error.format_message()
    if not message:
        return 1
    context = getattr(error, "ctx", None)
    path = "burnish" if context is None else context.command_path
    code = 1 if context is None else getattr(context.command, "usage_exit", 1)
    return _complain(f"error: {message}\nsee `{path} --help`", code)
