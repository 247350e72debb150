"""Choosing a progress view, and the last words of a run."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from enum import StrEnum

import typer
from rich.console import Console

from burnish.effects.budget import Budget
from burnish.reports.lines import WIDTH, LineView
from burnish.reports.live import LiveView
from burnish.reports.ndjson import NdjsonView
from burnish.reports.words import spending
from burnish.runs.driving import Ending
from burnish.runs.events import Listener


class Progress(StrEnum):
    """How progress is shown."""

    AUTO = "auto"
    LIVE = "live"
    LINES = "lines"
    JSON = "json"
    NONE = "none"


@contextmanager
def view(progress: Progress, budget: Budget) -> Generator[list[Listener], None, None]:
    """The listeners for the chosen view."""
    console = Console()
    if progress is Progress.AUTO:
        progress = Progress.LIVE if console.is_terminal else Progress.LINES
    if progress is Progress.LIVE:
        with LiveView(console, budget) as live:
            yield [live]
    elif progress is Progress.LINES:
        yield [LineView(_say, width=console.width if console.is_terminal else WIDTH)]
    elif progress is Progress.JSON:
        yield [NdjsonView(_say)]
    else:
        yield []


def last_words(ending: Ending, progress: Progress) -> None:
    """Where the result lies and what to do next: on stderr when stdout is for programs."""
    run = ending.folder.name
    lines = [
        f"stopped  {ending.reason.code}: {ending.reason.detail}",
        f"spent    {spending(ending.spent)}",
    ]
    if ending.billed != ending.spent:
        lines.append(f"billed   {spending(ending.billed)}, with calls that were lost or not used")
    if ending.interrupted:
        lines.append(f"go on    burnish runs resume {run}")
    else:
        lines.append(f"report   {ending.folder / 'report.md'}")
        lines.append(f"best     {ending.folder / 'candidates' / 'best'}")
        lines.append(f"look     burnish runs show {run}")
    typer.echo("\n".join(lines), err=progress is Progress.JSON)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
