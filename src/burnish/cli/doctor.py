"""`burnish doctor`."""

from typing import Annotated

import typer

from burnish.cli import options


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
    from burnish.cli.diagnosis import print_diagnosis

    if not print_diagnosis(online=online, as_json=as_json):
        raise typer.Exit(1)
