"""Choosing a progress view, and the last words of a run."""

import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from enum import StrEnum

import typer
from rich.console import Console

from burnish.cli.naming import run_name
from burnish.core.stopping import FINISHED
from burnish.core.words import counted, spending
from burnish.effects.budget import Budget
from burnish.projects.adopt import homes_of
from burnish.reports.lines import WIDTH, LineView
from burnish.reports.live import LiveView
from burnish.reports.ndjson import NdjsonView
from burnish.reports.report import NAME as REPORT
from burnish.runs.driving import Ending
from burnish.runs.events import Listener
from burnish.runs.exporting import BEST, CANDIDATES
from burnish.runs.plugins import strategy_plugin
from burnish.runs.record import RunRecord, sealed_words
from burnish.runs.report_sections import silences


class Progress(StrEnum):
    """How progress is shown."""

    AUTO = "auto"
    LIVE = "live"
    LINES = "lines"
    JSON = "json"
    NONE = "none"


@contextmanager
def view(
    progress: Progress, budget: Budget, *, to_stderr: bool = False
) -> Generator[list[Listener], None, None]:
    """The listeners for the chosen view."""
    console = Console(stderr=to_stderr)
    say = _say_aside if to_stderr else _say
    if progress is Progress.AUTO:
        progress = Progress.LIVE if console.is_interactive else Progress.LINES
    if progress is Progress.LIVE:
        with LiveView(console, budget) as live:
            yield [live]
    elif progress is Progress.LINES:
        yield [LineView(say, width=lambda: console.width if console.is_terminal else WIDTH)]
    elif progress is Progress.JSON:
        yield [NdjsonView(say)]
    else:
        yield []


def last_words(ending: Ending, progress: Progress) -> None:
    """What came out and what to do next: on stderr when stdout is for programs."""
    lines = [*_result(ending, progress), *_cost(ending), *_next_steps(ending)]
    typer.echo("\n".join(lines), err=progress is Progress.JSON)


def _result(ending: Ending, progress: Progress) -> Iterator[str]:
    run = RunRecord.read(ending.folder)
    plugin = strategy_plugin(run.header.strategy)
    without_view = progress in {Progress.JSON, Progress.NONE}
    if ending.sealed is not None and without_view:
        yield f"test     {sealed_words(ending.sealed)}"
    if run.baseline is not None:
        trials = f"{counted(run.trials, 'trial')}, {run.accepted} accepted"
        yield f"{plugin.result_words(run)}; {trials}"
    code, detail = ending.reason.code, ending.reason.detail
    ended = plugin.ended_words(run.search_end) if run.search_end else detail
    told = ended if code == FINISHED.code else f"{code}: {detail}"
    yield f"stopped  {told}"
    yield from (f"warning  {message}" for message in silences(run) if without_view)


def _cost(ending: Ending) -> Iterator[str]:
    yield f"spent    {spending(ending.spent)}"
    if ending.billed != ending.spent:
        yield f"billed   {spending(ending.billed)}, with calls that were lost or not used"


def _next_steps(ending: Ending) -> Iterator[str]:
    name = run_name(ending.folder)
    if ending.interrupted:
        yield f"go on    burnish runs resume {name}"
        return
    yield f"report   {ending.folder / REPORT}"
    homes = (ending.folder / CANDIDATES / BEST, ending.folder / f"{BEST}.yaml")
    yield from (f"best     {best}" for best in homes if best.exists())
    run = RunRecord.read(ending.folder)
    if run.accepted and homes_of(run.header) is not None:
        yield f"adopt    burnish adopt {name}   (shows the diff first; can be undone)"
    yield f"look     burnish runs show {name}"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _say_aside(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
