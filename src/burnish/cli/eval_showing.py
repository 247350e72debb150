"""What `burnish eval` prints."""

import shutil
from collections.abc import Iterable, Iterator

from rich.console import Console, RenderableType
from rich.text import Text

from burnish.cli.naming import file_name, resume_command, run_name
from burnish.core.stopping import FINISHED
from burnish.core.words import shorten, spending
from burnish.projects.measuring import Measured
from burnish.reports import eval_text
from burnish.reports.eval_report import EvalReport
from burnish.reports.eval_tables import case_table, metric_table
from burnish.reports.eval_words import heading, totals_lines, verdict
from burnish.reports.lines import WIDTH
from burnish.reports.report import NAME as REPORT
from burnish.runs.driving import Ending

_LOUD = {"crashed": "red", "missing": "yellow"}


def human_console(*, to_stderr: bool) -> Console:
    """Where people are told; a pipe has no width, so it gets a usual one."""
    width = shutil.get_terminal_size((WIDTH, 24)).columns
    return Console(stderr=to_stderr, width=width, highlight=False)


def show_report(
    console: Console,
    measured: Measured,
    command: str,
    *,
    quiet: bool = False,
    headed: bool = False,
) -> None:
    """Cases, failures, metrics, what changed, the noise, the totals, the verdict.

    `command` made the measurement, where a command did. `headed` says that a progress view has told
    already what is measured.
    """
    report = measured.report
    assert report is not None
    for section in _sections(report, console.width, quiet=quiet, headed=headed):
        if section:
            _print_all(console, [*section, ""])
    for label, told in totals_lines(report):
        _say(console, label, told)
    _next_steps(console, measured.ending, command)
    shade = "green" if report.ok else ("red" if report.totals.failed else "yellow")
    console.print(Text(verdict(report), f"bold {shade}"))


def _sections(
    report: EvalReport, width: int, *, quiet: bool, headed: bool
) -> Iterator[list[RenderableType]]:
    """What is shown above the totals, an empty line after each."""
    if not quiet:
        title = Text(shorten(heading(report), width), "bold")
        yield ["" if headed else title, *case_table(report, width)]
        yield list(eval_text.troubles(report, width))
    yield [metric_table(report)] if report.metrics else []
    if report.baseline is not None:
        yield list(eval_text.baseline(report.baseline, width))
    if report.noise is not None:
        yield list(eval_text.noise(report.noise, width))


def show_nothing(console: Console, ending: Ending) -> None:
    """Why there is nothing to show, and how to get it."""
    code, detail = ending.reason.code, ending.reason.detail
    why = detail if code == FINISHED.code else f"{code}: {detail}"
    _say(console, "stopped", why)
    _say(console, "spent", spending(ending.spent))
    if ending.billed != ending.spent:
        _say(console, "billed", f"{spending(ending.billed)}; nothing of it is paid again")
    console.print(f"go on    {resume_command(ending.folder)}", soft_wrap=True, markup=False)
    if not ending.interrupted:
        console.print(
            Text("cannot tell: the measurement was stopped before its end", "bold yellow")
        )


def _print_all(console: Console, parts: Iterable[RenderableType]) -> None:
    for part in parts:
        console.print(part)


def _say(console: Console, label: str, told: str) -> None:
    console.print(Text(f"{label:<9}{told}", _LOUD.get(label, "")))


def _next_steps(console: Console, ending: Ending, command: str) -> None:
    page = file_name(str(ending.folder / REPORT))
    console.print(Text(f"report   {page}"), soft_wrap=True)
    if command:
        again = f"{command} --baseline {run_name(ending.folder)}"
        console.print(Text(f"next     {again}"), soft_wrap=True)
