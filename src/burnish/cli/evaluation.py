"""Running `burnish eval`: what it is asked, the measurement, what it prints, its exit code."""

import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, cast

import typer
from pydantic import JsonValue
from rich.console import Console, RenderableType
from rich.text import Text

from burnish.cli.execution import chosen_progress, resumable
from burnish.cli.options import EVAL_USAGE_EXIT
from burnish.cli.progress import Progress, file_name, resume_command, run_name, view
from burnish.core.content import MOST_REPEATS
from burnish.core.errors import ConfigError, FileTrouble, Problem, RunNotFound
from burnish.core.formatting import shorten, spending
from burnish.core.trials import FINISHED
from burnish.projects.description import SET
from burnish.projects.dialects import Flags
from burnish.projects.measurements import (
    Measured,
    MeasurementPlace,
    PreparedMeasurement,
    measure,
    measurement_for,
    measuring_flags,
)
from burnish.reports import evaluation_text
from burnish.reports.evaluation import EvalReport
from burnish.reports.evaluation_page import heading, totals_lines, verdict
from burnish.reports.evaluation_text import case_table, metric_table
from burnish.reports.junit import to_junit
from burnish.reports.progress import WIDTH
from burnish.reports.rendering import NAME as REPORT
from burnish.runs.directory import NAME as HEADER
from burnish.runs.directory import find_run
from burnish.runs.driver import Ending
from burnish.system import write_atomic

# -- what is asked, checked before anything is paid -------------------------------------------


_STDOUT = "-"


@dataclass(frozen=True, kw_only=True)
class EvalRequest:
    """What the command line says."""

    agent: Path
    flags: Flags = field(default_factory=dict[str, JsonValue])
    """What patches the description, by the name of the field."""
    noise_sweeps: int | None = None
    output_dir: Path | None = None
    resume: str | None = None
    json_file: str | None = None
    junit_file: Path | None = None
    baseline: str | None = None
    progress: str = "auto"
    quiet: bool = False

    def problems(self) -> list[Problem]:
        """What does not go together, or cannot be."""
        problems: list[Problem] = []
        if self.noise_sweeps is not None and self.noise_sweeps < 2:
            problems.append(
                Problem(where="--aa", message="must be 2 or more: one sweep has no noise")
            )
        if self.noise_sweeps is not None and self.noise_sweeps > MOST_REPEATS:
            problems.append(Problem(where="--aa", message=f"must be at most {MOST_REPEATS:,}"))
        if self.flags.get("repeats") is not None and self.noise_sweeps is not None:
            message = "--repeats and --aa do not go together: --aa N repeats every case N times"
            problems.append(Problem(message=message))
        if self.resume and self.output_dir:
            message = "--resume goes on in the run's own folder, so -o has no meaning"
            problems.append(Problem(message=message))
        if self.output_dir is not None and self.output_dir.exists():
            remedy = "name another folder, or go on with the run there: --resume FOLDER"
            message = f"{self.output_dir} exists already"
            problems.append(Problem(where="-o", message=message, remedy=remedy))
        files = {"--json": self._json_path, "--junit": self.junit_file}
        problems += [p for flag, path in files.items() for p in _cannot_write(flag, path)]
        return problems

    @property
    def _json_path(self) -> Path | None:
        return None if self.json_file in (None, _STDOUT) else Path(self.json_file or "")

    @property
    def patches(self) -> Flags:
        """The flags, a noise check among them: it repeats every case."""
        if self.noise_sweeps is None:
            return self.flags
        settings = cast("list[JsonValue]", self.flags.get(SET) or [])
        return {**self.flags, "repeats": self.noise_sweeps, SET: [*settings, "noise=true"]}

    @property
    def options(self) -> "_Options":
        """What is to be done with what is found."""
        return _Options(
            json_file=self.json_file,
            junit_file=self.junit_file,
            baseline=None if self.baseline is None else _read_baseline(self.baseline),
            progress=chosen_progress(self.progress),
            quiet=self.quiet,
        )


@dataclass(frozen=True, kw_only=True)
class _Options:
    """What to do with what is found."""

    place: MeasurementPlace = field(default_factory=MeasurementPlace)
    json_file: str | None = None
    junit_file: Path | None = None
    baseline: EvalReport | None = None
    progress: Progress = Progress.NONE
    quiet: bool = False

    @property
    def stdout_taken(self) -> bool:
        """Whether stdout is for programs, so that people are told on stderr."""
        return self.json_file == _STDOUT or self.progress is Progress.JSON


def _read_baseline(name: str) -> EvalReport:
    """An earlier report: a file, the folder of a run, or a run's id."""
    path = Path(name)
    if path.exists() and not (path.is_dir() and (path / HEADER).exists()):
        return EvalReport.read(path)
    try:
        return EvalReport.read(find_run(name))
    except RunNotFound as error:
        message = f"there is no file '{name}', and {error.message}"
        problem = Problem(where="--baseline", message=message, remedy=error.remedy)
        raise ConfigError([problem]) from None


def _cannot_write(flag: str, path: Path | None) -> list[Problem]:
    """Said before anything is paid: a report that cannot be kept is a pity."""
    if path is None or (path.parent.is_dir() and not path.is_dir()):
        return []
    message = f"{path} is a folder" if path.is_dir() else f"there is no folder {path.parent}"
    return [Problem(where=flag, message=message, remedy="name a file in a folder that exists")]


# -- what is printed --------------------------------------------------------------------------


_LOUD = {"crashed": "red", "missing": "yellow"}


def _human_console(*, to_stderr: bool) -> Console:
    """Where people are told; a pipe has no width, so it gets a usual one."""
    width = shutil.get_terminal_size((WIDTH, 24)).columns
    return Console(stderr=to_stderr, width=width, highlight=False)


def _show_report(
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
    for label, text in totals_lines(report):
        _say(console, label, text)
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
        yield list(evaluation_text.troubles(report, width))
    yield [metric_table(report)] if report.metrics else []
    if report.baseline is not None:
        yield list(evaluation_text.baseline(report.baseline, width))
    if report.noise is not None:
        yield list(evaluation_text.noise(report.noise, width))


def _show_nothing(console: Console, ending: Ending) -> None:
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


def _say(console: Console, label: str, text: str) -> None:
    console.print(Text(f"{label:<9}{text}", _LOUD.get(label, "")))


def _next_steps(console: Console, ending: Ending, command: str) -> None:
    page = file_name(str(ending.folder / REPORT))
    console.print(Text(f"report   {page}"), soft_wrap=True)
    if command:
        again = f"{command} --baseline {run_name(ending.folder)}"
        console.print(Text(f"next     {again}"), soft_wrap=True)


# -- the measurement, its reports, the exit code ----------------------------------------------


class _Loading(Protocol):
    """Makes a measurement of a file and flags, or of a run that goes on."""

    def __call__(
        self, path: Path, flags: Flags, *, resume: Path | None = None
    ) -> PreparedMeasurement:
        """The measurement; everything that is wrong is said at once."""
        ...


def evaluate_agent(request: EvalRequest, *, load: _Loading = measurement_for) -> None:
    """Measure, show, write the reports; ends with the exit code."""
    try:
        measurement, options = _prepared(request, load)
    except FileTrouble as error:
        error.exit_code = EVAL_USAGE_EXIT  # nothing was written yet: it is a file of the user's
        raise
    measured = _measure_and_show(measurement, options)
    if measured.ending.interrupted:
        raise typer.Exit(2)
    if measured.report is None or not measured.report.ok:
        raise typer.Exit(1)


def _measure_and_show(measurement: PreparedMeasurement, options: _Options) -> Measured:
    """Drive the measurement with a view, then show and write what it found."""
    opened: list[Path] = []
    aside = options.json_file == _STDOUT
    budget = measurement.setup.budget
    with resumable(opened), view(options.progress, budget, to_stderr=aside) as listeners:
        measured = measure(
            measurement,
            options.place,
            listeners=listeners,
            baseline=options.baseline,
            opened=opened,
        )
    console = _human_console(to_stderr=options.stdout_taken)
    if measured.report is None:
        _show_nothing(console, measured.ending)
    else:
        _write(measured.report, options)
        command = _command(measurement)
        headed = options.progress not in (Progress.JSON, Progress.NONE)
        _show_report(console, measured, command, quiet=options.quiet, headed=headed)
    return measured


def _write(report: EvalReport, options: _Options) -> None:
    if options.junit_file is not None:
        write_atomic(options.junit_file, to_junit(report))
    if options.json_file == _STDOUT:
        sys.stdout.write(report.to_text())
        sys.stdout.flush()
    elif options.json_file is not None:
        report.write(Path(options.json_file))


def _prepared(request: EvalRequest, load: _Loading) -> tuple[PreparedMeasurement, _Options]:
    """Everything that can be wrong is found here, before anything is paid."""
    problems = request.problems()
    if problems:
        raise ConfigError(problems)
    options = request.options
    folder = None if request.resume is None else find_run(request.resume)
    measurement = load(request.agent, request.patches, resume=folder)
    measurement.setup.check()
    place = MeasurementPlace(folder=request.output_dir, resume=folder)
    return measurement, replace(options, place=place)


def _command(measurement: PreparedMeasurement) -> str:
    """The `burnish eval` that made a measurement, for doing the same again; empty if none did."""
    spec = measurement.spec
    if spec is None:
        return ""
    words = ["burnish eval", file_name(spec.source.file)]
    for setting, value in measuring_flags(spec):
        is_noise = measurement.measure.noise and setting.name == "repeats"
        flag = "--aa" if is_noise else setting.flag
        values = value if isinstance(value, list) else [value]
        words += [f"{flag} {_word(each)}" for each in values]
    return " ".join(words)


def _word(value: JsonValue) -> str:
    """A value as a flag takes it; a file, such as one of cases, may stand in a block."""
    plain = value.get("file", "") if isinstance(value, dict) else value
    text = str(plain)
    return file_name(text) if Path(text).is_absolute() else shlex.quote(text)
