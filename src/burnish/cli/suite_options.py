"""The flags of `burnish optimize` that are about suites, and of others about policy registries."""

from pathlib import Path
from typing import Annotated

import typer

_SUITES = "Suites of tasks to delegate"

Epochs = Annotated[int | None, typer.Option(rich_help_panel=_SUITES, help="Passes over the suite.")]
LearningRate = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=_SUITES,
        help="How large a step may be, up to 1; halved after a regression.",
    ),
]
WithTextgrad = Annotated[
    bool,
    typer.Option(
        "--with-textgrad",
        rich_help_panel=_SUITES,
        help="Propose better policy texts; without it the suite is only measured.",
    ),
]
NoRollback = Annotated[
    bool,
    typer.Option(
        "--no-rollback", rich_help_panel=_SUITES, help="Keep an update that is no better, too."
    ),
]
Experiment = Annotated[
    str | None,
    typer.Option(
        metavar="EXP", rich_help_panel=_SUITES, help="Train the registry of this experiment."
    ),
]
Db = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The registry of policy texts; $BURNISH_POLICY_DB, or the user's own.",
    ),
]
