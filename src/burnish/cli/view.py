"""`burnish view`: pages about runs in the browser."""

from pathlib import Path
from typing import Annotated

import typer


def view(
    run: Annotated[
        str,
        typer.Argument(
            metavar="[RUN|FOLDER]",
            help="A run, or a folder with runs; without it, every run of this machine.",
        ),
    ] = "",
    *,
    label: Annotated[
        list[Path] | None,
        typer.Option("--label", metavar="FILE", help="Label these cases there; may be repeated."),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            metavar="SCALE", help="Of labels: pass-fail, score, or classes such as good,bad."
        ),
    ] = None,
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="The port; by default a free one.")
    ] = 0,
    browser: Annotated[
        bool, typer.Option(help="Open the page in the browser, not only print its link.")
    ] = True,
) -> None:
    """Look at runs in the browser: verdicts, changes, cases, trials, money.

    Only this machine can open the pages, with a link that works once.
    Nothing is changed, unless you adopt a result, steer a run or label cases there. Ctrl-C ends it.
    """
    from burnish.cli.view_pages import serve_pages

    serve_pages(run, port=port, browser=browser, labelled=label or [], scale=scale)
