"""Flags that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

_LIMITS = "Limits"
_SHOW = "Output"

MaxTrials = Annotated[int | None, typer.Option(min=1, rich_help_panel=_LIMITS, help="Trials.")]
MaxMetricCalls = Annotated[
    int | None, typer.Option(min=1, rich_help_panel=_LIMITS, help="Cases run.")
]
MaxCalls = Annotated[
    int | None,
    typer.Option(min=1, rich_help_panel=_LIMITS, help="Paid calls: agent, judge, proposer."),
]
MaxTokens = Annotated[int | None, typer.Option(min=1, rich_help_panel=_LIMITS, help="Tokens.")]
MaxUsd = Annotated[float | None, typer.Option(rich_help_panel=_LIMITS, help="US dollars.")]
MaxMinutes = Annotated[
    float | None, typer.Option(rich_help_panel=_LIMITS, help="Minutes of active time.")
]
Patience = Annotated[
    int | None,
    typer.Option(min=1, rich_help_panel=_LIMITS, help="Trials in a row without an accept."),
]
ScoreThreshold = Annotated[
    float | None,
    typer.Option(min=0, max=1, rich_help_panel=_LIMITS, help="Stop when the score reaches this."),
]
Concurrency = Annotated[int | None, typer.Option(min=1, help="Cases run at once.")]
OutputDir = Annotated[
    Path | None,
    typer.Option("-o", "--output-dir", help="Make the run in exactly this folder."),
]
Quiet = Annotated[
    bool, typer.Option("-q", "--quiet", rich_help_panel=_SHOW, help="No progress, only the end.")
]
