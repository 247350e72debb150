"""`burnish adopt`."""

from pathlib import Path
from typing import Annotated

import typer


def adopt(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A run's id, the beginning of one, or its folder.")
    ],
    *,
    trial: Annotated[
        int | None, typer.Option(metavar="N", help="An accepted trial other than the best.")
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Only show what would change.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Put the files back as they were.")] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Also where files were edited since: only fields that nobody touched change.",
        ),
    ] = False,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the agent file lies now.")
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="For other targets: copy the candidate there."),
    ] = None,
) -> None:
    """Put a run's best candidate into your own files: an agent's, prompts, a task's.

    Shows the diff and asks first.
    The files must be what the run measured; all of them change, or none.
    """
    from burnish.cli.adopting import Wish, adopt_run

    wish = Wish(trial=trial, diff=diff, yes=yes, undo=undo, force=force, file=file, to=to)
    wish.check()
    adopt_run(run, wish)
