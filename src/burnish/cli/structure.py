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
    """Show the nodes of an agent, their edges, and what can be changed in each.

    Makes no calls. A * marks what a search may change.
    """
    from burnish.cli.structure_tree import show_structure

    show_structure(file, as_json=as_json)
