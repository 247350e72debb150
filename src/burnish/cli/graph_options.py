"""The flags of `burnish optimize` that are about graphs of agents and back-propagation."""

from pathlib import Path
from typing import Annotated

import typer

_GRAPHS = "Graphs of agents"

Proposer = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        rich_help_panel=_GRAPHS,
        help="Who walks back, merges and patches: provider:name.",
    ),
]
MaxRounds = Annotated[
    int | None, typer.Option(rich_help_panel=_GRAPHS, help="Rounds of back-propagation.")
]
Request = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        rich_help_panel=_GRAPHS,
        help="A PromptIter run request as JSON, over what the graph file says.",
    ),
]
