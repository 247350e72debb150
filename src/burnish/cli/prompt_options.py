"""The flags of `burnish optimize` that are about the prompts of any agent."""

from pathlib import Path
from typing import Annotated

import typer

_PROMPTS = "Prompts of any agent"

Agent = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:FUNCTION", rich_help_panel=_PROMPTS, help="The function that is the agent."
    ),
]
Prompt = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=FILE", rich_help_panel=_PROMPTS, help="A prompt to rewrite; may be repeated."
    ),
]
Train = Annotated[
    Path | None,
    typer.Option(metavar="FILE", rich_help_panel=_PROMPTS, help="Cases to learn from."),
]
Val = Annotated[
    Path | None,
    typer.Option(
        "--val", "--holdout", metavar="FILE", rich_help_panel=_PROMPTS, help="Cases that decide."
    ),
]
Metrics = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", rich_help_panel=_PROMPTS, help="A file of metrics, where there is no other."
    ),
]
Reflector = Annotated[
    str | None,
    typer.Option(metavar="MODEL", rich_help_panel=_PROMPTS, help="Who rewrites: provider:name."),
]
UpdateSource = Annotated[
    bool,
    typer.Option(
        "--update-source",
        rich_help_panel=_PROMPTS,
        help="In the end put the best into the prompt files.",
    ),
]
