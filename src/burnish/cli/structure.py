"""`burnish structure`."""

from pathlib import Path
from typing import Annotated

import typer

from burnish.cli import options


def structure(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A graph file or an agent file.")],
    *,
    as_json: options.AsJson = False,
) -> None:
    """The nodes of an agent, how they are joined, and what can be changed at each.

    Nothing is run or paid. A * stands before what a search may change.
    """
    from burnish.cli.structure_tree import show_structure

    show_structure(file, as_json=as_json)
