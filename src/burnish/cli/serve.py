"""`burnish serve`: the service, and its tokens."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from burnish.core.errors import ConfigError, MissingExtra, Problem

app = typer.Typer(
    invoke_without_command=True,
    help="Serve runs over HTTP: PromptIter's routes, and burnish's own API.",
)
_token = typer.Typer(no_args_is_help=True, help="Tokens of the service.")
app.add_typer(_token, name="token")

_WHAT, _WHO, _WHERE, _LIMITS = "What", "Who may ask", "Where things lie", "Limits"
_PLACES, _MOST = 10_000, 1_000_000_000
"""As in core/bounds.py, which loads pydantic; `burnish --help` does without."""
_DATA = Path("results") / "service"
_Data = Annotated[
    Path,
    typer.Option(
        metavar="DIR", rich_help_panel=_WHERE, help="The folder for runs, datasets and tokens."
    ),
]


@app.callback()
def serve(
    ctx: typer.Context,
    *,
    served: Annotated[
        list[str] | None,
        typer.Option(
            "--app",
            metavar="NAME=FILE",
            rich_help_panel=_WHAT,
            help="A project file under a name; again for more.",
        ),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=_WHAT,
            help="A model or module:function that requests may name; again for more.",
        ),
    ] = None,
    base_path: Annotated[
        str,
        typer.Option(metavar="PATH", rich_help_panel=_WHAT, help="Where PromptIter's routes lie."),
    ] = "/promptiter/v1/apps",
    host: Annotated[
        str,
        typer.Option(
            rich_help_panel=_WHO,
            help="The address to listen on; any but loopback demands a token.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, rich_help_panel=_WHO, help="0 takes a free one.")
    ] = 8080,
    token_given: Annotated[
        str | None,
        typer.Option(
            "--token",
            metavar="TOKEN",
            rich_help_panel=_WHO,
            help="A token, or @FILE with one; better in $BURNISH_TOKEN.",
        ),
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            rich_help_panel=_WHO,
            help="An origin whose pages may ask; again for more.",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", rich_help_panel=_WHO, help="A name under which the service is known."
        ),
    ] = None,
    data: _Data = _DATA,
    db: Annotated[
        str,
        typer.Option(
            metavar="URL",
            rich_help_panel=_WHERE,
            help="sqlite:///FILE, postgresql://… or mysql://…; write a password as ${VAR}.",
        ),
    ] = "",
    journals: Annotated[
        str,
        typer.Option(
            metavar="WHERE",
            rich_help_panel=_WHERE,
            help="files, database, or auto: in PostgreSQL and MariaDB, else in files.",
        ),
    ] = "auto",
    table_prefix: Annotated[
        str, typer.Option(metavar="TEXT", rich_help_panel=_WHERE, help="Begins every table's name.")
    ] = "burnish_",
    no_create_schema: Annotated[
        bool,
        typer.Option(
            "--no-create-schema", rich_help_panel=_WHERE, help="The tables were made by hand."
        ),
    ] = False,
    print_schema: Annotated[
        bool,
        typer.Option(
            "--print-schema", rich_help_panel=_WHERE, help="Print SQL that makes the tables; end."
        ),
    ] = False,
    max_running: Annotated[
        int, typer.Option(min=1, max=_PLACES, rich_help_panel=_LIMITS, help="Runs at once.")
    ] = 4,
    max_waiting: Annotated[
        int, typer.Option(min=0, max=_MOST, rich_help_panel=_LIMITS, help="Runs that may wait.")
    ] = 100,
    max_body: Annotated[
        int,
        typer.Option(min=1, max=_PLACES, rich_help_panel=_LIMITS, help="Megabytes of a request."),
    ] = 10,
    lease: Annotated[
        float,
        typer.Option(
            min=0.5,
            max=_MOST,
            rich_help_panel=_LIMITS,
            help="Seconds after which the runs of a dead process are picked up.",
        ),
    ] = 30.0,
    grace: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=_MOST,
            rich_help_panel=_LIMITS,
            help="Seconds that a shutdown gives runs in flight.",
        ),
    ] = 10.0,
    sync_timeout: Annotated[
        float | None,
        typer.Option(
            min=0.1, max=_MOST, rich_help_panel=_LIMITS, help="Seconds a blocking run may take."
        ),
    ] = None,
) -> None:
    """Serve project files over HTTP. Runs in progress survive a restart."""
    if ctx.invoked_subcommand is not None:
        return
    _require()
    from burnish.cli.serve_options import apps_of, journals_of, show_schema, tokens_of
    from burnish.server.manager import ServiceLimits
    from burnish.server.service import Serving, serve

    if print_schema:
        show_schema(db, table_prefix)
        return
    limits = ServiceLimits(
        running=max_running,
        waiting=max_waiting,
        body_bytes=max_body * 1024 * 1024,
        lease_seconds=lease,
        grace_seconds=grace,
        sync_seconds=sync_timeout,
    )
    serving = Serving(
        apps=apps_of(served or []),
        data=data,
        host=host,
        port=port,
        db=db,
        journals=journals_of(journals),
        base_path=base_path,
        tokens=tokens_of(token_given, os.environ),
        origins=frozenset(cors or ()),
        hosts=frozenset(each.lower() for each in allow_host or ()),
        allowed=frozenset(allow or ()),
        limits=limits,
        table_prefix=table_prefix,
        create_schema=not no_create_schema,
    )
    serve(serving, announce=lambda url: typer.echo(f"serving {url}"))


def _require() -> None:
    missing = [name for name in ("fastapi", "sqlalchemy", "uvicorn") if find_spec(name) is None]
    if missing:
        raise MissingExtra(
            f"the service needs {', '.join(missing)}", remedy="pip install 'burnish[server]'"
        )


@_token.command("new")
def new(
    *,
    scope: Annotated[str, typer.Option(help="read, or run.")] = "run",
    name: Annotated[str, typer.Option(help="To know it by in tokens.json.")] = "",
    data: _Data = _DATA,
) -> None:
    """Make a token. It is shown once; only its hash is kept."""
    from burnish.server.security import FILE, TokenScope, new_token

    if scope not in (each.value for each in TokenScope):
        problem = Problem(where="--scope", message=f"'{scope}' is not one of: read, run")
        raise ConfigError([problem])
    typer.echo(new_token(data / FILE, TokenScope(scope), name=name))
