"""Choosing a progress view, and the last words of a run."""

import shlex
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

import typer
from rich.console import Console

from burnish.core.errors import RunNotFound
from burnish.core.formatting import counted, spending
from burnish.core.trials import FINISHED
from burnish.journal.limits import Budget
from burnish.projects.adopt import homes_of
from burnish.reports.progress import WIDTH, LineView, LiveView, NdjsonView
from burnish.reports.rendering import NAME as REPORT
from burnish.runs.directory import Header, RunRecord, find_run, sealed_words
from burnish.runs.driver import Ending
from burnish.runs.events import BEST, CANDIDATES, Listener
from burnish.runs.plugins import strategy_plugin
from burnish.runs.report_sections import silences


def run_name(folder: Path) -> str:
    """Its id where that leads back to it, its path otherwise; ready for a shell."""
    try:
        by_id = find_run(folder.name) == folder.resolve()
    except RunNotFound:
        by_id = False
    return shlex.quote(folder.name if by_id else str(folder))


def resume_command(folder: Path) -> str:
    """The command that goes on with a run."""
    header = Header.read(folder)
    command = strategy_plugin(header.strategy).resume_command
    if command and header.project.file:
        return f"burnish {command} {file_name(header.project.file)} --resume {run_name(folder)}"
    return f"burnish runs resume {run_name(folder)}"


def file_name(path: str) -> str:
    """A file as seen from here, ready for a shell."""
    here, file = Path.cwd(), Path(path)
    return shlex.quote(str(file.relative_to(here) if file.is_relative_to(here) else file))


# -- Choosing a progress view ---------------------------------------------------------------------


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
    reason = ended if code == FINISHED.code else f"{code}: {detail}"
    yield f"stopped  {reason}"
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
