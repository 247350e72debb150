"""Text about runs for the terminal: their folders may be from anybody, with codes that steer it."""

import json
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from burnish.core.content import Json


def echo(text: str, *, err: bool = False) -> None:
    """Write text with visible signs instead of control characters."""
    from burnish.core.formatting import visible  # the command line loads it late

    typer.echo(visible(text), err=err)


def echo_json(data: "Json", *, indent: int | None = 2) -> None:
    """Write a JSON document with escapes instead of control characters."""
    from burnish.core.formatting import visible_json

    typer.echo(visible_json(json.dumps(data, ensure_ascii=False, indent=indent)))
