"""`burnish tokens`: who may use the service, and how much each may take."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from burnish.cli.options import AsJson, flags_for, in_panel

if TYPE_CHECKING:
    from burnish.server.tokens import ClientLimits, TokenFile

app = typer.Typer(no_args_is_help=True, help="The tokens of the service, and their limits.")
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
    "max_storage": Annotated[
        int | None, _limit(min=1, max=_MOST, help="Megabytes of runs and datasets of a token.")
    ],
    "max_upload": Annotated[
        int | None, _limit(min=1, max=_MOST, help="Megabytes of one request of a token.")
    ],
    "max_priority": Annotated[
        str | None,
        _limit(metavar="PRIORITY", help="The highest priority of a token: low, normal or high."),
    ],
    "per": Annotated[
        str | None,
        _limit(
            metavar="PERIOD",
            help="day, month or ever: what dollars, calls, tokens and minutes count.",
        ),
    ],
}
"""The flags of `ClientLimits`, which loads pydantic; `burnish --help` does without."""


def _limits_of(limits: Mapping[str, float | str | None]) -> "ClientLimits":
    from burnish.server.tokens import ClientLimits
    from burnish.system import validate_config

    values = {name: value for name, value in limits.items() if value is not None}
    return validate_config(values, ClientLimits, source="limits")


limits_as_flags = flags_for(
    "limits", {name: (flag, None) for name, flag in _LIMITS.items()}, _limits_of
)
"""A command with a flag for each limit of a token, in the place of its parameter `limits`."""


@app.command("add")
@limits_as_flags
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


@app.command("list")
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


@app.command("rotate")
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


@app.command("revoke")
def revoke(name: _Name, *, data: _Data = DATA) -> None:
    """End every token of a name at once."""
    count = _file(data).revoke(name)
    typer.echo(f"revoked {count} {'token' if count == 1 else 'tokens'} of '{name}'")


@app.command("limit")
@limits_as_flags
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
