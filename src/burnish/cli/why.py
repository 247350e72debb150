"""`burnish why`: what the record of a run says about its result."""

from typing import Annotated

import typer

from burnish.cli import options


def why(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            autocompletion=options.run_ids,
            help="The id of a run, the beginning of its id, or its folder.",
        ),
    ],
    *,
    as_json: options.AsJson = False,
) -> None:
    """Explain a run: why this candidate won, which cases it fixed and broke, what to do next.

    Everything comes from the run's record. No model is asked, and nothing is paid.
    """
    from burnish.cli.run_pages import print_explanation

    print_explanation(run, as_json=as_json)
