"""`burnish serve` and `burnish mcp`: burnish as a service, and as tools of a coding agent."""

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from burnish.cli import options, tokens
from burnish.cli.options import flag_group, in_panel
from burnish.core.errors import MissingExtra

if TYPE_CHECKING:
    from burnish.server.tokens import ClientLimits


def mcp(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Files outside it are not measured.")
    ] = Path(),
    *,
    max_calls: options.MaxCalls = None,
    max_usd: options.MaxUsd = None,
) -> None:
    """Offer burnish to a coding agent, as tools over the Model Context Protocol on stdio.

    It may look at runs. With a limit it may also evaluate and optimise,
    one run at a time, and all of them together within that limit.
    It may never adopt a result.
    """
    from burnish.cli.mcp_tools import serve_tools

    serve_tools(folder, max_calls=max_calls, max_usd=max_usd)


_what, _who = in_panel("What"), in_panel("Who may ask")
_where, _limit = in_panel("Where things lie"), in_panel("Limits")
_PLACES, _MOST = 10_000, 1_000_000_000
"""As in core/bounds.py, which loads pydantic; `burnish --help` does without."""


@dataclass(frozen=True, kw_only=True)
class _What:
    """What is served."""

    served: Annotated[
        list[str] | None,
        _what("--app", metavar="NAME=FILE", help="A project file and its name; may be repeated."),
    ] = None
    allow: Annotated[
        list[str] | None,
        _what(
            metavar="NAME",
            help="What requests may name: a model, a module:function, or `models` for every "
            "model of a known provider; may be repeated.",
        ),
    ] = None
    base_path: Annotated[
        str, _what(metavar="PATH", help="The base path of PromptIter's routes.")
    ] = "/promptiter/v1/apps"
    sub_path: Annotated[
        list[str] | None,
        _what(
            metavar="NAME=PATH",
            help="Another name of `structure`, `runs` or `async-runs` in PromptIter's routes; may "
            "be repeated.",
        ),
    ] = None
    omit: Annotated[
        list[str] | None,
        _what(
            metavar="PART",
            help="What PromptIter's routes leave out of results: evaluation-cases, backward, "
            "aggregation, patches, profiles or losses; may be repeated.",
        ),
    ] = None
    role: Annotated[
        str,
        _what(
            metavar="ROLE",
            help="both, api (answers requests, drives no runs) or worker (only drives runs).",
        ),
    ] = "both"


@dataclass(frozen=True, kw_only=True)
class _Access:
    """Who may ask."""

    host: Annotated[
        str, _who(help="The address to listen on; any but loopback requires a token.")
    ] = "127.0.0.1"
    port: Annotated[
        int | None,
        _who(
            min=0,
            max=65535,
            help="0 picks a free port; 8080 by default. A worker listens only with a port.",
        ),
    ] = None
    token: Annotated[
        str | None,
        _who(metavar="TOKEN", help="A token, or @FILE with one; better in $BURNISH_TOKEN."),
    ] = None
    cors: Annotated[
        list[str] | None,
        _who(metavar="ORIGIN", help="An origin whose pages may ask; may be repeated."),
    ] = None
    allow_host: Annotated[
        list[str] | None,
        _who(metavar="NAME", help="A host name of the service; may be repeated."),
    ] = None
    open_metrics: Annotated[bool, _who("--open-metrics", help="Show /metrics without a token.")] = (
        False
    )


@dataclass(frozen=True, kw_only=True)
class _Storage:
    """Where things lie."""

    data: Annotated[
        Path, _where(metavar="DIR", help="The folder for runs, datasets and tokens.")
    ] = tokens.DATA
    db: Annotated[
        str,
        _where(
            metavar="URL",
            help="sqlite:///FILE, postgresql://… or mysql://…; write a password as ${VAR}.",
        ),
    ] = ""
    journals: Annotated[
        str,
        _where(
            metavar="WHERE",
            help="files, database, or auto: in PostgreSQL and MariaDB, else in files.",
        ),
    ] = "auto"
    table_prefix: Annotated[str, _where(metavar="TEXT", help="The prefix of every table name.")] = (
        "burnish_"
    )
    no_create_schema: Annotated[
        bool, _where("--no-create-schema", help="The tables already exist; do not create them.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class _Bounds:
    """The limits that apply to all clients."""

    max_running: Annotated[int, _limit(min=1, max=_PLACES, help="The number of runs at once.")] = 4
    max_waiting: Annotated[
        int, _limit(min=0, max=_MOST, help="The number of runs that may wait.")
    ] = 100
    max_body: Annotated[
        int, _limit(min=1, max=_PLACES, help="The largest request, in megabytes.")
    ] = 10
    max_listeners: Annotated[
        int, _limit(min=1, max=_PLACES, help="The number of open event streams.")
    ] = 500
    max_listeners_per_token: Annotated[
        int, _limit(min=1, max=_PLACES, help="The same, for clients with one token.")
    ] = 100
    body_timeout: Annotated[
        float, _limit(min=0.1, max=_MOST, help="Seconds in which a request must arrive.")
    ] = 60.0
    lease: Annotated[
        float,
        _limit(
            min=0.5,
            max=_MOST,
            help="Seconds after which the runs of a dead process are picked up.",
        ),
    ] = 30.0
    grace: Annotated[
        float,
        _limit(min=0.0, max=_MOST, help="Seconds that a shutdown waits for running runs."),
    ] = 10.0
    sync_timeout: Annotated[
        float | None, _limit(min=0.1, max=_MOST, help="Seconds a blocking run may take.")
    ] = None


@flag_group("what", _What)
@flag_group("access", _Access)
@flag_group("storage", _Storage)
@flag_group("bounds", _Bounds)
@tokens.limits_as_flags
def serve(
    *,
    what: _What,
    access: _Access,
    storage: _Storage,
    print_schema: Annotated[
        bool, _where("--print-schema", help="Print the SQL that creates the tables, and exit.")
    ] = False,
    bounds: _Bounds,
    limits: "ClientLimits",
) -> None:
    """Serve project files over HTTP: PromptIter's routes, and burnish's own API.

    Runs in progress survive a restart. The limits of a token hold for each that has none of its
    own: see `burnish tokens`.
    """
    missing = [name for name in ("fastapi", "sqlalchemy", "uvicorn") if find_spec(name) is None]
    if missing:
        message = f"the service needs {', '.join(missing)}"
        raise MissingExtra(message, remedy="pip install 'burnish[server]'")
    from burnish.cli import serve_options as options
    from burnish.projects.clients import AllowedNames
    from burnish.server.routes.promptiter import SubPaths
    from burnish.server.service import Serving, serve

    if print_schema:
        options.show_schema(storage.db, storage.table_prefix)
        return
    serving = Serving(
        apps=options.apps_of(what.served or []),
        role=options.role_of(what.role),
        base_path=what.base_path,
        sub_paths=SubPaths.parse(what.sub_path or ()),
        slimming=options.slimming_of(what.omit or ()),
        allowance=AllowedNames.parse(what.allow or ()),
        limits=options.bounds_of(**vars(bounds)),
        client_limits=limits,
        **options.access_of(vars(access), os.environ),
        **options.storage_of(vars(storage)),
    )

    def announce(url: str) -> None:
        typer.echo(f"serving {url}" if url else "driving runs, without an address")
        for line in serving.rules().lines():
            typer.echo(f"  {line}")

    serve(serving, announce=announce)
