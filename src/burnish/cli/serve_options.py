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


def apps_of(given: Sequence[str]) -> dict[str, Path]:
    """Files by app: NAME=FILE, each name once."""
    found: dict[str, Path] = {}
    for each in given:
        name, _, file = each.partition("=")
        if not (name and file) or name in found:
            message = f"'{each}' is not NAME=FILE, or names an app twice"
            raise ConfigError([Problem(where="--app", message=message)])
        found[name] = Path(file)
    return found


def journals_of(given: str) -> Journals:
    """Where journals lie."""
    known = get_args(Journals)
    if given not in known:
        message = f"'{given}' is not one of: {', '.join(known)}"
        raise ConfigError([Problem(where="--journals", message=message)])
    return cast("Journals", given)


def tokens_of(given: str | None, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The token of the flag, or of a file that it names, or of the environment."""
    if given is not None and given.startswith("@"):
        given = read_text(Path(given[1:])).strip()
    found = given or environ.get(_TOKEN)
    return (found,) if found else ()


def show_schema(db: str, table_prefix: str) -> None:
    """Print the SQL for a kind of database."""
    kind = DatabaseUrl.parse(db).kind if db else "sqlite"
    typer.echo(print_schema(kind, table_prefix=table_prefix))
