"""Running `burnish eval`: its arguments, the measurement, the output, and the exit code."""

import os
import shutil
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import typer
from pydantic import JsonValue
from rich.console import Console, RenderableType
from rich.text import Text

from burnish.cli.optimization import RunOpening, chosen_progress, resumable
from burnish.cli.options import EVAL_USAGE_EXIT, FailOn, ReportFormat
from burnish.cli.output import this_program
from burnish.cli.progress import (
    FOR_PROGRAMS,
    Progress,
    file_name,
    resume_command,
    run_name,
    view,
)
from burnish.core.cases import Split
from burnish.core.content import MOST_REPEATS
from burnish.core.errors import ConfigError, FileTrouble, Problem, RunNotFound, in_shell
from burnish.core.formatting import counted, shorten, spending, visible_json
from burnish.core.trials import FINISHED
from burnish.projects.description import SET
from burnish.projects.dialects import Flags
from burnish.projects.measurements import (
    Forked,
    Measured,
    PreparedMeasurement,
    measure,
    measurement_for,
    measuring_flags,
)
from burnish.reports import evaluation_page
from burnish.reports.evaluation import EvalReport, to_annotations, to_junit
from burnish.reports.evaluation_page import (
    case_table,
    heading,
    metric_table,
    regression,
    summary,
    totals_lines,
    verdict,
)
from burnish.reports.rendering import NAME as REPORT
from burnish.reports.rendering import to_markdown
from burnish.runs.directory import NAME as HEADER
from burnish.runs.directory import RunRecord, find_run
from burnish.runs.driver import Ending
from burnish.runs.progress import (
    NOTHING_PAID,
    WIDTH,
    budget_limits,
    model_lines,
    notes,
    sweeps,
)
from burnish.system import write_atomic

_STDOUT = "-"


@dataclass(frozen=True, kw_only=True)
class EvalRequest:
    """The arguments of the command."""

    agent: Path
    flags: Flags = field(default_factory=dict[str, JsonValue])
    noise_sweeps: int | None = None
    models: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    max_columns: int = 24
    output_dir: Path | None = None
    resume: str | None = None
    fork: str | None = None
    retry_missing: bool = False
    dry_run: bool = False
    format: ReportFormat = ReportFormat.TEXT
    json_file: str | None = None
    junit_file: Path | None = None
    markdown_file: Path | None = None
    html_file: Path | None = None
    baseline: str | None = None
    fail_on: FailOn = FailOn.FAILURE
    progress: str = "auto"
    quiet: bool = False

    def problems(self) -> list[Problem]:
        problems: list[Problem] = []
        if self.noise_sweeps is not None and self.noise_sweeps < 2:
            message = "must be 2 or more: one sweep has no noise"
            problems.append(Problem(where="--aa", message=message))
        if self.noise_sweeps is not None and self.noise_sweeps > MOST_REPEATS:
            problems.append(Problem(where="--aa", message=f"must be at most {MOST_REPEATS:,}"))
        if self.flags.get("repeats") is not None and self.noise_sweeps is not None:
            message = "--repeats and --aa do not go together: --aa N repeats every case N times"
            problems.append(Problem(message=message))
        problems += self.way.problems()
        if self.output_dir is not None and self.output_dir.exists():
            remedy = "name another folder, or continue the run there: --resume FOLDER"
            message = f"{self.output_dir} already exists"
            problems.append(Problem(where="-o", message=message, remedy=remedy))
        json_file = None if self.json_file in (None, _STDOUT) else Path(self.json_file)
        if self.gates_regressions and self.baseline is None:
            message = "a regression is one against a baseline"
            remedy = "name it: --baseline REPORT"
            problems.append(Problem(where="--fail-on", message=message, remedy=remedy))
        if self.format is not ReportFormat.TEXT and self.json_file == _STDOUT:
            message = "--format and --json - both print to stdout"
            problems.append(Problem(where="--format", message=message, remedy="use --json FILE"))
        files = {
            "--json": json_file,
            "--junit": self.junit_file,
            "--markdown": self.markdown_file,
            "--html": self.html_file,
        }
        problems += [p for flag, path in files.items() for p in _cannot_write(flag, path)]
        return problems

    @property
    def to_stdout(self) -> bool:
        """Whether stdout is for the report alone."""
        return self.json_file == _STDOUT or self.format is not ReportFormat.TEXT

    @property
    def way(self) -> RunOpening:
        return RunOpening(
            resume=self.resume,
            fork=self.fork,
            retry_missing=self.retry_missing,
            output_dir=self.output_dir,
        )

    @property
    def gates_regressions(self) -> bool:
        return self.fail_on is FailOn.REGRESSION

    @property
    def patches(self) -> Flags:
        if self.noise_sweeps is None:
            return self.flags
        settings = cast("list[JsonValue]", self.flags.get(SET) or [])
        return {**self.flags, "repeats": self.noise_sweeps, SET: [*settings, "noise=true"]}


def read_report(name: str, where: str) -> EvalReport:
    """An earlier report: a file, the folder of a run, or a run's id; `where` is named if not."""
    path = Path(name)
    if path.exists() and not (path.is_dir() and (path / HEADER).exists()):
        return EvalReport.read(path)
    try:
        return EvalReport.read(find_run(name))
    except RunNotFound as error:
        message = f"there is no file '{name}', and {error.message}"
        problem = Problem(where=where, message=message, remedy=error.remedy)
        raise ConfigError([problem]) from None


def _cannot_write(flag: str, path: Path | None) -> list[Problem]:
    """Checked before any paid call, so that no result is lost."""
    if path is None or (path.parent.is_dir() and not path.is_dir()):
        return []
    message = f"{path} is a folder" if path.is_dir() else f"there is no folder {path.parent}"
    return [Problem(where=flag, message=message, remedy="name a file in a folder that exists")]


def _show_report(
    console: Console,
    measured: Measured,
    command: str,
    *,
    quiet: bool,
    headed: bool,
) -> None:
    """Print cases, failures, metrics, changes, noise, totals and verdict."""
    report = measured.report
    assert report is not None
    for section in _sections(report, console.width, quiet=quiet, headed=headed):
        for part in (*section, "") if section else ():
            console.print(part)
    for label, text in totals_lines(report):
        _say(console, label, text)
    folder = measured.ending.folder
    console.print(Text(f"report   {file_name(str(folder / REPORT))}"), soft_wrap=True)
    if command:
        again = f"{command} --baseline {run_name(folder)}"
        console.print(Text(f"next     {again}"), soft_wrap=True)
    if report.baseline is not None:
        _say(console, "since", regression(report))
    shade = "green" if report.ok else ("red" if report.totals.failed else "yellow")
    console.print(Text(verdict(report), f"bold {shade}"))


def _sections(
    report: EvalReport, width: int, *, quiet: bool, headed: bool
) -> Iterator[list[RenderableType]]:
    if not quiet:
        title = Text(shorten(heading(report), width), "bold")
        yield ["" if headed else title, *case_table(report, width)]
        yield list(evaluation_page.troubles(report, width))
    yield [metric_table(report)] if report.metrics else []
    if report.baseline is not None:
        yield list(evaluation_page.baseline(report.baseline, width))
    if report.noise is not None:
        yield list(evaluation_page.noise(report.noise, width))


def _show_nothing(console: Console, ending: Ending) -> None:
    code, detail = ending.reason.code, ending.reason.detail
    why = detail if code == FINISHED.code else f"{code}: {detail}"
    _say(console, "stopped", why)
    _say(console, "spent", f"{spending(ending.billed)}; none of it is paid for again")
    console.print(f"go on    {resume_command(ending.folder)}", soft_wrap=True, markup=False)
    if not ending.interrupted:
        verdict = "no verdict: the measurement was stopped before the end"
        console.print(Text(verdict, "bold yellow"))


def _say(console: Console, label: str, text: str) -> None:
    colour = {"crashed": "red", "missing": "yellow"}.get(label, "")
    console.print(Text(f"{label:<9}{text}", colour))


@contextmanager
def before_paying() -> Generator[None, None, None]:
    """Nothing was written yet, so a file that cannot be read is one of the user's."""
    try:
        yield
    except FileTrouble as error:
        error.exit_code = EVAL_USAGE_EXIT
        raise


def console_of(request: EvalRequest, progress: Progress) -> Console:
    """Where people read: stderr if stdout is for programs; a pipe gets a usual width."""
    return Console(
        stderr=request.to_stdout or progress in FOR_PROGRAMS,
        width=shutil.get_terminal_size((WIDTH, 24)).columns,
        highlight=False,
    )


def evaluate_agent(
    request: EvalRequest, *, load: Callable[..., PreparedMeasurement] = measurement_for
) -> None:
    """Measure, print and write the reports; ends with the exit code."""
    with before_paying():
        if problems := request.problems():
            raise ConfigError(problems)
        named = request.baseline
        baseline = None if named is None else read_report(named, "--baseline")
        progress = chosen_progress(request.progress)
        resumed = None if request.resume is None else find_run(request.resume)
        forked = None
        if request.fork is not None:
            forked = Forked(run=find_run(request.fork), retry_missing=request.retry_missing)
        measurement = load(request.agent, request.patches, resume=resumed)
        measurement.setup.check(to_plan=request.dry_run)
    if request.dry_run:
        for line in measurement_plan(measurement):
            typer.echo(line)
        return
    opened = list[Path]()
    with (
        resumable(opened),
        view(progress, measurement.setup, to_stderr=request.to_stdout) as listeners,
    ):
        measured = measure(
            measurement,
            folder=request.output_dir,
            resumed=resumed,
            forked=forked,
            listeners=listeners,
            baseline=baseline,
            opened=opened,
        )
    console = console_of(request, progress)
    if measured.report is None:
        _show_nothing(console, measured.ending)
    else:
        _write(measured, measured.report, request)
        headed = progress not in (*FOR_PROGRAMS, Progress.NONE)
        _show_report(console, measured, _command(measurement), quiet=request.quiet, headed=headed)
    if measured.ending.interrupted:
        raise typer.Exit(2)
    if measured.report is None or not _holds(measured.report, request):
        raise typer.Exit(1)


def _holds(report: EvalReport, request: EvalRequest) -> bool:
    compared = report.baseline
    if not request.gates_regressions or compared is None:
        return report.ok
    # Where every run failed, now as then, nothing is worse: but nothing was measured either.
    answered = any(not one.error_kind for row in report.cases for one in row.tries)
    return answered and not (compared.regressions or compared.unknown or report.totals.missing)


def _write(measured: Measured, report: EvalReport, request: EvalRequest) -> None:
    def html() -> str:
        from burnish.pages.run_page import html_report

        return html_report(RunRecord.read(measured.ending.folder))

    write_outputs(
        request,
        html=html,
        markdown=lambda: to_markdown(summary(report)),
        junit=lambda: to_junit(report),
        json_text=report.to_text,
        github=lambda: to_annotations(report),
    )


def write_outputs(
    request: EvalRequest,
    *,
    html: Callable[[], str],
    markdown: Callable[[], str],
    junit: Callable[[], bytes],
    json_text: Callable[[], str],
    github: Callable[[], str],
) -> None:
    """Write the files that were asked for, and print the report in its format."""
    if request.html_file is not None:
        write_atomic(request.html_file, html())
    if request.markdown_file is not None:
        write_atomic(request.markdown_file, markdown())
    if request.junit_file is not None:
        write_atomic(request.junit_file, junit())
    if request.json_file == _STDOUT:
        sys.stdout.write(visible_json(json_text()))
        sys.stdout.flush()
    elif request.json_file is not None:
        write_atomic(Path(request.json_file), json_text())
    if request.format is ReportFormat.GITHUB and (place := os.environ.get("GITHUB_STEP_SUMMARY")):
        with Path(place).open("a", encoding="utf-8") as file:
            file.write(markdown())
    printed: dict[ReportFormat, Callable[[], str]] = {
        ReportFormat.GITHUB: github,
        ReportFormat.JUNIT: lambda: junit().decode(),
        ReportFormat.MARKDOWN: markdown,
        ReportFormat.JSON: lambda: visible_json(json_text()),
    }
    if (text := printed.get(request.format)) is not None:
        sys.stdout.write(f"{text().rstrip()}\n")
        sys.stdout.flush()


def measurement_plan(measurement: PreparedMeasurement) -> Iterator[str]:
    """What `--dry-run` prints of one measurement."""
    setup, repeats = measurement.setup, measurement.measure.repeats
    often = f" × {repeats} repeats" if repeats > 1 else ""
    yield f"agent     {measurement.measure.subject}"
    yield f"cases     {counted(len(measurement.cases), 'case')}{often}"
    yield f"metrics   {', '.join(metric.name for metric in setup.metrics) or 'none'}"
    yield f"cost      about {spending(sweeps(setup, Split.TRAIN, repeats))}"
    yield f"limits    {', '.join(budget_limits(setup.budget)) or 'none'}"
    yield from model_lines(setup.model_uses(), asked=len(setup.preflight()))
    yield from notes(setup)
    yield NOTHING_PAID


def _command(measurement: PreparedMeasurement) -> str:
    """The `burnish eval` command to measure the same again; empty if there is none."""
    spec = measurement.spec
    if spec is None:
        return ""
    words = [f"{this_program()} eval", file_name(spec.source.file)]
    for setting, value in measuring_flags(spec):
        is_noise = measurement.measure.noise and setting.name == "repeats"
        flag = "--aa" if is_noise else setting.flag
        values = value if isinstance(value, list) else [value]
        words += [f"{flag} {_word(each)}" for each in values]
    return " ".join(words)


def _word(value: JsonValue) -> str:
    """A value as a flag takes it."""
    plain = value.get("file", "") if isinstance(value, dict) else value
    text = str(plain)
    return file_name(text) if Path(text).is_absolute() else in_shell(text)
