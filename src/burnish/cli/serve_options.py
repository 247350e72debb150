"""What `burnish serve` is told, read and checked."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast, get_args

import typer

from burnish.core.errors import ConfigError, Problem
from burnish.server.service import Journals
from burnish.server.stores import print_schema
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


def journals_of(name: str) -> Journals:
    """Where journals lie."""
    names = get_args(Journals)
    if name not in names:
        message = f"'{name}' is not one of: {', '.join(names)}"
        raise ConfigError([Problem(where="--journals", message=message)])
    return cast("Journals", name)


def tokens_of(flag: str | None, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The token of the flag, or of a file that it names, or of the environment."""
    if flag is not None and flag.startswith("@"):
        flag = read_text(Path(flag[1:])).strip()
    token = flag or environ.get(_TOKEN)
    return (token,) if token else ()


def show_schema(db: str, table_prefix: str) -> None:
    """Print the SQL for a kind of database."""
    kind = DatabaseUrl.parse(db).kind if db else "sqlite"
    typer.echo(print_schema(kind, table_prefix=table_prefix))
