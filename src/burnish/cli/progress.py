"""Progress views, and the summary of a run."""

import shutil
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from burnish.cli.output import echo, this_program
from burnish.core.errors import RunNotFound, in_shell
from burnish.core.formatting import changes_words, counted, paid, shorten
from burnish.core.trials import FINISHED
from burnish.projects.adopt import changes_of, homes_of
from burnish.reports.rendering import NAME as REPORT
from burnish.runs.claims import claim_words, opinion_words
from burnish.runs.directory import Header, RunRecord, find_run
from burnish.runs.driver import Ending
from burnish.runs.events import BEST, CANDIDATES, Listener
from burnish.runs.plugins import strategy_plugin
from burnish.runs.progress import WIDTH, opening_words
from burnish.runs.report_sections import alarms
from burnish.runs.setup import Setup
from burnish.system import Redactor


def run_name(folder: Path) -> str:
    """The id of a run if it can be found by it, otherwise its path; quoted for a shell."""
    try:
        by_id = find_run(folder.name) == folder.resolve()
    except RunNotFound:
        by_id = False
    return in_shell(folder.name if by_id else str(folder))


def resume_command(folder: Path) -> str:
    """The command that continues a run."""
    header = Header.read(folder)
    command = strategy_plugin(header.strategy).resume_command
    if command and header.project.file:
        words = f"{command} {file_name(header.project.file)} --resume {run_name(folder)}"
    else:
        words = f"runs resume {run_name(folder)}"
    return f"{this_program()} {words}"


def file_name(path: str) -> str:
    """A path relative to the current folder, quoted for a shell."""
    here, file = Path.cwd(), Path(path)
    return in_shell(str(file.relative_to(here) if file.is_relative_to(here) else file))


class Progress(StrEnum):
    """How progress is shown."""

    AUTO = "auto"
    LIVE = "live"
    LINES = "lines"
    JSON = "json"
    HOLODECK = "holodeck"
    NONE = "none"


FOR_PROGRAMS = frozenset({Progress.JSON, Progress.HOLODECK})
"""Views that leave stdout to programs."""


@contextmanager
def view(
    progress: Progress, setup: Setup, *, to_stderr: bool = False
) -> Generator[list[Listener], None, None]:
    """The listeners for the chosen view."""
    if progress is Progress.NONE:
        yield []
        return
    # Late, as what draws on a terminal takes a while to load: a quiet run starts without it.
    from rich.console import Console

    from burnish.reports.progress import HolodeckView, LineView, LiveView, NdjsonView

    console = Console(stderr=to_stderr)
    stream = sys.stderr if to_stderr else sys.stdout

    def say(line: str) -> None:
        stream.write(f"{line}\n")
        stream.flush()

    if progress is Progress.AUTO:
        progress = Progress.LIVE if console.is_interactive else Progress.LINES
    if progress is Progress.LIVE:
        with LiveView(console, setup.budget, opening=_opening(setup)) as live:
            yield [live]
    elif progress is Progress.LINES:
        opening = _opening(setup, watched=console.is_terminal)
        width = (lambda: console.width) if console.is_terminal else (lambda: WIDTH)
        yield [LineView(say, width=width, opening=opening)]
    elif progress is Progress.JSON:
        yield [NdjsonView(say)]
    else:
        yield [HolodeckView(say)]


def _opening(setup: Setup, *, watched: bool = True) -> str:
    """What a run may cost; a measurement that nobody watches only prints its results."""
    plugin = strategy_plugin(setup.strategy.name)
    if not (watched or plugin.proposes):
        return ""
    # Nobody who reads a file can stop the run.
    return opening_words(setup, search=plugin.search_cost(setup), watched=watched)


def last_words(ending: Ending, progress: Progress) -> None:
    """Print the result and what to do next; on stderr if stdout is for programs."""
    lines = [*_result(ending, progress), f"spent    {paid(ending.billed, used=ending.spent)}"]
    lines += _next_steps(ending)
    echo("\n".join(lines), err=progress in FOR_PROGRAMS)


def _result(ending: Ending, progress: Progress) -> Iterator[str]:
    run = RunRecord.read(ending.folder)
    plugin = strategy_plugin(run.header.strategy)
    without_view = progress in {*FOR_PROGRAMS, Progress.NONE}
    if ending.claim is not None and without_view and (run.sealed or run.best is not run.baseline):
        yield f"claim    {claim_words(ending.claim)}"
    if run.second_opinion is not None and without_view:
        yield f"judge    {opinion_words(run.second_opinion)}"
    changes = () if run.best is None else changes_of(run, run.best)
    for number, words in enumerate(changes_words(changes)):
        text = shorten(Redactor.from_environment().text(words), _columns() - 9)
        yield f"{'' if number else 'changed':<9}{text}"
    if run.baseline is not None:
        trials = f"{counted(run.trials, 'trial')}, {run.accepted} accepted"
        yield f"{plugin.result_words(run)}; {trials}"
    code, detail = ending.reason.code, ending.reason.detail
    ended = plugin.ended_words(run.search_end) if run.search_end else detail
    reason = ended if code == FINISHED.code else f"{code}: {detail}"
    yield f"stopped  {reason}"
    yield from (f"warning  {message}" for message in alarms(run) if without_view)


def _columns() -> int:
    """The room of a line: of the terminal's, or of a file's."""
    return min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns)


def _next_steps(ending: Ending) -> Iterator[str]:
    name = run_name(ending.folder)
    if ending.interrupted:
        yield f"go on    {this_program()} runs resume {name}"
        return
    yield f"report   {ending.folder / REPORT}"
    homes = (ending.folder / CANDIDATES / BEST, ending.folder / f"{BEST}.yaml")
    yield from (f"best     {best}" for best in homes if best.exists())
    run = RunRecord.read(ending.folder)
    if run.accepted and homes_of(run.header) is not None:
        yield f"next     {this_program()} adopt {name}   (shows the diff first; can be undone)"
    else:
        yield f"next     {this_program()} runs show {name}"
