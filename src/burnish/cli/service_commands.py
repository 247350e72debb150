"""`burnish serve` and `burnish tokens`: burnish as a service."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from burnish.cli.options import AsJson, flag_group, flags_for, in_panel
from burnish.core.errors import MissingExtra
from burnish.system.extras import install_command

if TYPE_CHECKING:
    from burnish.server.tokens import ClientLimits, TokenFile


# -- `burnish tokens` ------------------------------------------------------------------------------


tokens_app = typer.Typer(no_args_is_help=True, help="The tokens of the service, and their limits.")
DATA = Path("results") / "service"
_MOST = 1_000_000_000
_limit = in_panel("Limits")
_Data = Annotated[Path, typer.Option(metavar="DIR", help="The data folder of the service.")]
_Name = Annotated[str, typer.Argument(help="The name of the token, which is also its account.")]
_Expires = Annotated[str, typer.Option(metavar="TIME", help="How long it is valid: 30m, 12h, 90d.")]
_LIMITS: Mapping[str, Any] = {
    "max_usd": Annotated[
        float | None, _limit(min=0.0, max=_MOST, help="US dollars that a token may spend.")
    ],
    "max_calls": Annotated[int | None, _limit(min=1, max=_MOST, help="Paid calls of a token.")],
    "max_tokens": Annotated[
        int | None, _limit(min=1, max=_MOST, help="Tokens of models that a token may use.")
    ],
    "max_minutes": Annotated[
        float | None, _limit(min=0.0, max=_MOST, help="Minutes of active runs of a token.")
    ],
    "max_runs": Annotated[
        int | None, _limit(min=1, max=_MOST, help="Unfinished runs of a token at the same time.")
    ],
    "max_upload": Annotated[
        int | None, _limit(min=1, max=_MOST, help="Megabytes of one request of a token.")
    ],
}
"""The flags of `ClientLimits`, which loads pydantic; `burnish --help` does without."""


def _limits_of(limits: Mapping[str, float | None]) -> "ClientLimits":
    from burnish.server.tokens import ClientLimits
    from burnish.system import validate_config

    values = {name: value for name, value in limits.items() if value is not None}
    return validate_config(values, ClientLimits, source="limits")


_limits_as_flags = flags_for(
    "limits", {name: (flag, None) for name, flag in _LIMITS.items()}, _limits_of
)
"""A command with a flag for each limit of a token, in the place of its parameter `limits`."""


@tokens_app.command("add")
@_limits_as_flags
def add(
    name: _Name,
    *,
    scope: Annotated[
        str, typer.Option(help="read, run, or admin, which may change runs of other tokens.")
    ] = "run",
    expires: _Expires = "",
    limits: "ClientLimits",
    data: _Data = DATA,
) -> None:
    """Create a token. It is shown once; only its hash is stored."""
    from burnish.core.errors import ConfigError
    from burnish.server.tokens import TokenScope, duration

    if scope not in (each.value for each in TokenScope):
        raise ConfigError.of("--scope", f"'{scope}' is not one of: read, run, admin")
    token = _file(data).add(
        name,
        TokenScope(scope),
        expires=duration(expires, "--expires") if expires else None,
        limits=limits,
    )
    typer.echo(token)


@tokens_app.command("list")
def list_tokens(*, as_json: AsJson = False, data: _Data = DATA) -> None:
    """Names, scopes, expiry and limits; a token itself is stored nowhere."""
    import json
    from datetime import UTC, datetime

    from burnish.server.tokens import FILE, read_tokens

    tokens, now = read_tokens(data / FILE), datetime.now(UTC)
    if as_json:
        rows = [each.model_dump(mode="json", exclude={"sha256"}) for each in tokens]
        typer.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    for each in tokens:
        until = (
            "no expiry" if each.expires_at is None else f"until {each.expires_at:%Y-%m-%d %H:%M}"
        )
        until = until if each.is_valid(now) else f"expired, was valid {until}"
        typer.echo(f"{each.account}  {each.scope}  {until}  limits: {each.limits}")
    if not tokens:
        typer.echo("there are no tokens; `burnish tokens add NAME` creates one")


@tokens_app.command("rotate")
def rotate(
    name: _Name,
    *,
    overlap: Annotated[
        str, typer.Option(metavar="TIME", help="How long the old token stays valid.")
    ] = "24h",
    expires: _Expires = "",
    data: _Data = DATA,
) -> None:
    """Create a successor with the same scope, limits and account; it is shown once."""
    from burnish.server.tokens import duration

    span = duration(expires, "--expires") if expires else None
    token = _file(data).rotate(name, overlap=duration(overlap, "--overlap"), expires=span)
    typer.echo(token)


@tokens_app.command("revoke")
def revoke(name: _Name, *, data: _Data = DATA) -> None:
    """End every token of a name at once."""
    count = _file(data).revoke(name)
    typer.echo(f"revoked {count} {'token' if count == 1 else 'tokens'} of '{name}'")


@tokens_app.command("limit")
@_limits_as_flags
def limit(
    name: _Name,
    *,
    limits: "ClientLimits",
    data: _Data = DATA,
) -> None:
    """Change limits of a token; those that are not named stay."""
    changed = _file(data).limit(
        name,
        limits,
    )
    typer.echo(f"limits of '{name}': {changed}")


def _file(data: Path) -> "TokenFile":
    from burnish.server.tokens import FILE, TokenFile

    return TokenFile(path=data / FILE)


# -- `burnish serve` -------------------------------------------------------------------------------


_what, _who = in_panel("What"), in_panel("Who may ask")
_where = in_panel("Where things lie")
_PLACES = 10_000
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
    ] = DATA
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
@_limits_as_flags
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
        raise MissingExtra(message, remedy=install_command("server"))
    from burnish.projects.clients import AllowedNames
    from burnish.server import service
    from burnish.server.routes.promptiter import SubPaths

    if print_schema:
        typer.echo(service.schema_sql(storage.db, storage.table_prefix))
        return
    serving = service.Serving(
        apps=service.apps_of(what.served or []),
        role=service.role_of(what.role),
        base_path=what.base_path,
        sub_paths=SubPaths.parse(what.sub_path or ()),
        slimming=service.slimming_of(what.omit or ()),
        allowance=AllowedNames.parse(what.allow or ()),
        limits=service.bounds_of(**vars(bounds)),
        client_limits=limits,
        **service.access_of(vars(access), os.environ),
        **service.storage_of(vars(storage)),
    )

    def announce(url: str) -> None:
        typer.echo(f"serving {url}" if url else "driving runs, without an address")
        for line in serving.rules().lines():
            typer.echo(f"  {line}")

    service.serve(serving, announce=announce)
