"""The flags of `burnish optimize` that are about the files of a task."""

from typing import Annotated

import typer

_FILES = "Files"

Editor = Annotated[
    str | None,
    typer.Option(metavar="MODEL", rich_help_panel=_FILES, help="Who edits: provider:name."),
]
InPlace = Annotated[
    bool,
    typer.Option(
        "--in-place",
        rich_help_panel=_FILES,
        help="In the end put the best into your files, all or none.",
    ),
]
