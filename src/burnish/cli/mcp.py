"""`burnish mcp`: burnish's commands as tools of a coding agent."""

from pathlib import Path
from typing import Annotated

import typer

from burnish.cli import options


def mcp(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Files outside it are not measured.")
    ] = Path(),
    *,
    max_calls: options.MaxCalls = None,
    max_usd: options.MaxUsd = None,
) -> None:
    """Offer burnish to a coding agent, as tools over the Model Context Protocol on stdio.

    It may look at runs. With a limit it may also evaluate and optimise,
    one run at a time, and all of them together within that limit.
    It may never adopt a result.
    """
    from burnish.cli.mcp_tools import serve_tools

    serve_tools(folder, max_calls=max_calls, max_usd=max_usd)
