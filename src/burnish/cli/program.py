"""`burnish`: the commands in their groups, and the handling of errors."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from burnish.cli.output import as_typed, echo
from burnish.core.errors import BurnishError, Interrupted, NotImproved
from burnish.system.removed import way_out
from burnish.system.restoration import restore_abandoned
from burnish.version import VERSION

_IMPROVE, _MEASURE, _SET_UP = "Make it better", "Measure it", "Set up"
_LOOK, _SERVE = "Look back", "Serve it"


@dataclass(frozen=True)
class Listed:
    """A command as `burnish --help` lists it. Its flags are loaded when it is used."""

    name: str
    panel: str
    home: str
    """The module under `burnish.cli`, and the function or group in it."""
    help: str
    """The first line of its own help."""
    cls: str = ""
    """The class of the command, in the same module; empty for the usual one."""

    def load(self) -> Any:
        """The command or group itself."""
        module_name, _, name = self.home.partition(":")
        module = import_module(f"burnish.cli.{module_name}")
        part = getattr(module, name)
        alone = typer.Typer(rich_markup_mode="rich")
        if isinstance(part, typer.Typer):
            alone.add_typer(part, name=self.name)
        else:
            alone.command(self.name, cls=getattr(module, self.cls) if self.cls else None)(part)
        return get_group(alone).commands[self.name]


COMMANDS = (
    Listed(
        "optimize",
        _IMPROVE,
        "improve_commands:optimize",
        "Make an agent file, a graph of agents, prompts, files or policy texts measurably better.",
        cls="OptimizeCommand",
    ),
    Listed(
        "delegate",
        _IMPROVE,
        "improve_commands:delegate",
        "Let a manager plan a task, delegate it to workers, and check the result.",
        cls="TaskCommand",
    ),
    Listed(
        "refine",
        _IMPROVE,
        "improve_commands:refine",
        "Make one result better: run its task again with a list of what is wrong with it.",
        cls="RefineCommand",
    ),
    Listed(
        "adopt",
        _IMPROVE,
        "adopt:adopt",
        "Put a run's best candidate into your own files: an agent's, prompts, a task's.",
    ),
    Listed(
        "eval",
        _MEASURE,
        "measure_commands:evaluate",
        "Measure an agent: every case, every metric, what fails and why.",
        cls="EvalCommand",
    ),
    Listed(
        "structure",
        _SET_UP,
        "setup_commands:structure",
        "Show the nodes of an agent, their edges, and what can be changed in each.",
    ),
    Listed(
        "view",
        _LOOK,
        "run_commands:view",
        "Look at runs in the browser: verdicts, changes, cases, trials, money.",
    ),
    Listed(
        "why",
        _LOOK,
        "run_commands:why",
        "Explain a run: why this candidate won, which cases it fixed and broke, what to do next.",
    ),
    Listed(
        "serve",
        _SERVE,
        "service_commands:serve",
        "Serve project files over HTTP: PromptIter's routes, and burnish's own API.",
    ),
    Listed(
        "schema",
        _SET_UP,
        "setup_commands:schema",
        "Print the JSON Schema of a kind of file, so that an editor can complete and check it.",
    ),
    Listed(
        "doctor",
        _SET_UP,
        "setup_commands:doctor",
        "What is installed, which keys and models are there, and what to do about the rest.",
    ),
    Listed(
        "test",
        _MEASURE,
        "measure_commands:test",
        "`test run` is `eval` and `test optimize` is `optimize`, by their HoloDeck names.",
    ),
    Listed(
        "data",
        _MEASURE,
        "data:app",
        "Convert, split and check the cases that everything depends on.",
    ),
    Listed(
        "runs",
        _LOOK,
        "run_commands:app",
        "Show, continue, compare and remove runs; without a command, list them.",
    ),
    Listed(
        "tokens",
        _SERVE,
        "service_commands:tokens_app",
        "The tokens of the service, and their limits.",
    ),
    Listed(
        "experiments",
        _LOOK,
        "improve_commands:experiments_app",
        "Tasks that belong together, and the best of each.",
    ),
    Listed(
        "policy",
        _LOOK,
        "improve_commands:policy_app",
        "The texts that make up the prompts of delegations.",
    ),
    Listed("init", _SET_UP, "setup_commands:app", "Create a project to start from."),
    Listed(
        "models",
        _SET_UP,
        "setup_commands:models_app",
        "List the available models; check, download or serve one.",
    ),
    Listed(
        "roles",
        _SET_UP,
        "setup_commands:roles_app",
        "Show the prompts of roles, and customise them.",
    ),
)
_BY_NAME = {each.name: each for each in COMMANDS}


class _Loaded(Mapping[str, Any]):
    """The commands by name, each made when it is first asked for."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _BY_NAME[name].load()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_BY_NAME)

    def __len__(self) -> int:
        return len(_BY_NAME)


class _Program(TyperGroup):
    """Loads only the command that is run: to make all of them takes longer than most commands."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = _Loaded()

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names, without loading them."""
        del ctx
        return [*_BY_NAME]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """What help and completion show of a command."""
        del ctx
        listed = _BY_NAME.get(cmd_name)
        return listed and TyperCommand(
            name=listed.name, help=listed.help, rich_help_panel=listed.panel
        )

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is run, with all of its options."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed and self.commands[name], rest


app = typer.Typer(
    name="burnish",
    cls=_Program,
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


@cache
def program() -> Any:
    """The commands, each of which is loaded when it is used."""
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
    except (Interrupted, NotImproved) as error:  # neither is a failure
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
    echo(as_typed(message), err=True)
    return code


def _refuse(error: typer.TyperException) -> int:
    """Report a wrong command line like any other error, with the exit code of the command."""
    message = error.format_message()
    if not message:
        return 1
    context = getattr(error, "ctx", None)
    path = "burnish" if context is None else context.command_path
    if gone := _removed(error, path):
        message = gone
    code = 1 if context is None else getattr(context.command, "usage_exit", 1)
    return _complain(f"error: {message}\nsee `{path} --help`", code)


def _removed(error: typer.TyperException, path: str) -> str:
    """The message about a command or an option that burnish no longer has; otherwise empty."""
    command = re.match(r"No such command '(\S+)'\.", error.format_message())
    _, *groups = path.split()
    if command:
        name = " ".join(["burnish", *groups, command[1]])
        gone = way_out(name)
    else:
        name = getattr(error, "option_name", "")
        gone = way_out(name.replace("--no-", "--", 1), below=["burnish", *groups])
    return gone and f"{name} no longer exists: {gone}"
