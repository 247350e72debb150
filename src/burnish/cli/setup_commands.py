"""`burnish init`, `doctor`, `schema`, `structure` and `roles`: the commands to set up a project."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from burnish.cli import options

roles_app = typer.Typer(no_args_is_help=True, help="Show the prompts of roles, and customise them.")

_LOOK, _CHANGE = "Look", "Change"

_RoleName = Annotated[str, typer.Argument(metavar="ROLE", help="A role, such as critic.")]


@roles_app.command("list", rich_help_panel=_LOOK)
def list_roles(*, as_json: options.AsJson = False) -> None:
    """Every role, and where its prompt comes from in this folder."""
    from burnish.cli.project_setup import print_list

    print_list(as_json=as_json)


@roles_app.command(rich_help_panel=_LOOK)
def show(role: _RoleName) -> None:
    """The prompt that is in force in this folder, and its file."""
    from burnish.cli.project_setup import print_prompt

    print_prompt(role)


@roles_app.command(rich_help_panel=_CHANGE)
def install(
    roles: Annotated[
        list[str] | None, typer.Argument(metavar="[ROLE]...", help="All of them by default.")
    ] = None,
    *,
    diff: Annotated[
        bool, typer.Option("--diff", help="Write nothing; show what you changed.")
    ] = False,
) -> None:
    """Copy prompts to .burnish/roles/, to be edited there. No file is overwritten."""
    from burnish.cli.project_setup import install_prompts, print_changes

    if diff:
        print_changes(roles or [])
    else:
        install_prompts(roles or [])


def structure(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A graph file or an agent file.")],
    *,
    as_json: options.AsJson = False,
) -> None:
    """Show the nodes of an agent, their edges, and what can be changed in each.

    Makes no calls. A * marks what a search may change.
    """
    from burnish.cli.project_setup import show_structure

    show_structure(file, as_json=as_json)


def schema(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            autocompletion=options.file_kinds,
            help="A kind of file, such as agent, prompts, graph, task or suite; or progress, for "
            "the lines of --progress json.",
        ),
    ],
    *,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write it to a file instead."),
    ] = None,
) -> None:
    """Print the JSON Schema of a kind of file, so that an editor can complete and check it.

    It includes the settings of installed plug-ins. With the schema in a file, the first line of a
    YAML file names it: `# yaml-language-server: $schema=agent.schema.json`.
    """
    from burnish.projects.file_structure import schema_text
    from burnish.system import write_atomic

    text = schema_text(kind)
    if output is None:
        typer.echo(text, nl=False)
        return
    write_atomic(output, text)
    typer.echo(f"made     {output}")
    if kind in options.file_kinds(""):
        typer.echo(f"use it   # yaml-language-server: $schema={output.name}")


def doctor(
    *,
    online: Annotated[
        bool,
        typer.Option("--online", help="Call the providers that you have keys for; this is free."),
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """What is installed, which keys and models are there, and what to do about the rest.

    Keys are named, never shown. Exit code 1 if burnish itself does not work here.
    """
    from burnish.cli.project_setup import print_diagnosis

    if not print_diagnosis(online=online, as_json=as_json):
        raise typer.Exit(1)


app = typer.Typer(help="Create a project to start from.", invoke_without_command=True)

_have, _cases, _model = map(options.in_panel, ("What you have", "Cases", "Model"))


@dataclass(frozen=True, kw_only=True)
class _Agent:
    """What there is to start from."""

    have: Annotated[
        str | None,
        _have(
            metavar="KIND",
            help="nothing, agent, python, http, command, langgraph, pydantic-ai, openai-agents, "
            "graph, files, workflow, suite or optimizer; by default what the folder has.",
        ),
    ] = None
    program: Annotated[
        str,
        _have(metavar="MODULE:NAME", help="The function, graph or agent."),
    ] = ""
    url: Annotated[str, _have(help="The endpoint's address.")] = ""
    body: Annotated[
        str,
        _have(metavar="JSON", help='Its body; "{{input}}" is the question.'),
    ] = ""
    response_path: Annotated[
        str,
        _have(metavar="PATH", help="Where the reply is in a JSON response."),
    ] = ""
    command: Annotated[str, _have(help="The command, as in a shell.")] = ""
    prompt: Annotated[
        list[str] | None,
        _have(
            metavar="[NAME=]FILE",
            help="A prompt file that the agent reads on each call; may be repeated.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class _Cases:
    """Where the cases are."""

    cases: Annotated[
        Path | None,
        _cases(metavar="FILE", help="CSV, JSONL, JSON, YAML or an EvalSet."),
    ] = None
    input_column: Annotated[
        str,
        _cases("--input", metavar="COLUMN", help="The question."),
    ] = ""
    expected_column: Annotated[
        str,
        _cases("--expected", metavar="COLUMN", help="The answer."),
    ] = ""


@dataclass(frozen=True, kw_only=True)
class _Model:
    """Which model to use."""

    model: Annotated[
        str,
        _model(metavar="MODEL", help="Such as openai:gpt-4o-mini."),
    ] = ""
    base_url: Annotated[str, _model(metavar="URL", help="Its own endpoint, if any.")] = ""
    key_variable: Annotated[
        str,
        _model(metavar="NAME", help="The variable with that endpoint's key."),
    ] = ""


@app.callback()
@options.flag_group("agent", _Agent)
@options.flag_group("examples", _Cases)
@options.flag_group("chosen", _Model)
def init(
    context: typer.Context,
    *,
    agent: _Agent,
    examples: _Cases,
    chosen: _Model,
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
    from burnish.cli.project_setup import InitRequest, init_project

    init_project(
        InitRequest(
            have=agent.have,
            details={
                "program": agent.program,
                "url": agent.url,
                "body": agent.body,
                "response_path": agent.response_path,
                "command": agent.command,
            },
            prompts=tuple(agent.prompt or ()),
            cases=examples.cases,
            columns={"input": examples.input_column, "expected": examples.expected_column},
            **vars(chosen),
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
    from burnish.projects.artifacts.spec import TASK_FILE, starter_files
    from burnish.projects.starters.files import write_new

    for path in write_new(folder, starter_files()):
        typer.echo(f"made     {path}")
    file = shlex.quote(str(folder / TASK_FILE))
    typer.echo(f"look     burnish optimize {file} --dry-run")
    typer.echo(f"run      burnish optimize {file}")
