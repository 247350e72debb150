"""Flags that several commands share. Their bounds are those of the file: see `system.settings`."""

from pathlib import Path
from typing import Annotated

import typer

EVAL_USAGE_EXIT = 3
"""The exit code of `eval` for a configuration or a command line that is wrong."""

_LIMITS = "Limits"
_SHOW = "Output"

MaxCalls = Annotated[
    int | None,
    typer.Option(rich_help_panel=_LIMITS, help="Paid calls: agent, judge, proposer."),
]
MaxUsd = Annotated[float | None, typer.Option(rich_help_panel=_LIMITS, help="US dollars.")]
Concurrency = Annotated[int | None, typer.Option(help="Cases run at once.")]
OutputDir = Annotated[
    Path | None,
    typer.Option(
        "-o", "--output-dir", metavar="FOLDER", help="Make the run in exactly this folder."
    ),
]
Progress = Annotated[
    str,
    typer.Option(
        metavar="VIEW", rich_help_panel=_SHOW, help="How to show it: auto, live, lines, json, none."
    ),
]
Quiet = Annotated[
    bool, typer.Option("-q", "--quiet", rich_help_panel=_SHOW, help="No progress, only the end.")
]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON, for programs.")]
Db = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The registry of policy texts; $BURNISH_POLICY_DB, or the user's own.",
    ),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Any setting, by its path, such as budget.max_calls=200; may be repeated.",
    ),
]
