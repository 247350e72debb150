"""The options of `burnish serve`, parsed and checked."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, cast, get_args

import typer

from burnish.compat.promptiter.results import Slimming
from burnish.core.errors import ConfigError, Problem
from burnish.server.cluster import ServiceRole
from burnish.server.launcher import ConnectionLimits, ServiceLimits
from burnish.server.service import Journals
from burnish.server.stores import print_schema
from burnish.server.stores.accounts import MEGABYTE
from burnish.system import read_text
from burnish.system.databases import DatabaseUrl

_TOKEN = "BURNISH_TOKEN"  # noqa: S105 - the variable's name


def apps_of(flags: Sequence[str]) -> dict[str, Path]:
    """Files by app: NAME=FILE, each name once."""
    apps: dict[str, Path] = {}
    for each in flags:
        name, _, file = each.partition("=")
        if not (name and file) or name in apps:
            message = f"'{each}' is not NAME=FILE, or names an app twice"
            raise ConfigError([Problem(where="--app", message=message)])
        apps[name] = Path(file)
    return apps


def role_of(name: str) -> ServiceRole:
    """What the process does."""
    return ServiceRole(_one_of("--role", name, [*ServiceRole]))


def access_of(flags: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """The settings of `Serving` about who may ask."""
    return {
        "host": flags["host"],
        "port": flags["port"],
        "tokens": _tokens_of(flags["token"], environ),
        "origins": frozenset(flags["cors"] or ()),
        "hosts": frozenset(each.lower() for each in flags["allow_host"] or ()),
        "open_metrics": flags["open_metrics"],
    }


def storage_of(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of `Serving` about where things lie."""
    return {
        "data": flags["data"],
        "db": flags["db"],
        "journals": cast("Journals", _one_of("--journals", flags["journals"], get_args(Journals))),
        "table_prefix": flags["table_prefix"],
        "create_schema": not flags["no_create_schema"],
    }


def bounds_of(
    *,
    max_running: int,
    max_waiting: int,
    max_body: int,
    max_listeners: int,
    max_listeners_per_token: int,
    body_timeout: float,
    lease: float,
    grace: float,
    sync_timeout: float | None,
) -> ServiceLimits:
    """The limits that apply to all clients."""
    return ServiceLimits(
        running=max_running,
        waiting=max_waiting,
        body_bytes=max_body * MEGABYTE,
        listeners=max_listeners,
        listeners_per_token=max_listeners_per_token,
        connection=ConnectionLimits(body_seconds=body_timeout),
        lease_seconds=lease,
        grace_seconds=grace,
        sync_seconds=sync_timeout,
    )


def _one_of(flag: str, name: str, names: Sequence[str]) -> str:
    if name not in names:
        message = f"'{name}' is not one of: {', '.join(names)}"
        raise ConfigError([Problem(where=flag, message=message)])
    return name


def slimming_of(parts: Sequence[str]) -> Slimming | None:
    """What is left out of results; None if nothing is."""
    names = {
        each.name.removeprefix("omit_").replace("_", "-"): each.name for each in fields(Slimming)
    }
    if unknown := [part for part in parts if part not in names]:
        message = f"'{unknown[0]}' is not one of: {', '.join(names)}"
        raise ConfigError([Problem(where="--omit", message=message)])
    return Slimming(**{names[part]: True for part in parts}) if parts else None


def _tokens_of(flag: str | None, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The token from the flag, from a file that it names, or from the environment."""
    if flag is not None and flag.startswith("@"):
        flag = read_text(Path(flag[1:])).strip()
    token = flag or environ.get(_TOKEN)
    return (token,) if token else ()


def show_schema(db: str, table_prefix: str) -> None:
    """Print the SQL for a kind of database."""
    kind = DatabaseUrl.parse(db).kind if db else "sqlite"
    typer.echo(print_schema(kind, table_prefix=table_prefix))
