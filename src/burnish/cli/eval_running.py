"""Running `burnish eval`: from flags to a measurement, its reports, and an exit code."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import typer
from pydantic import JsonValue

from burnish.cli.eval_asking import STDOUT, Asked, Options
from burnish.cli.eval_showing import human_console, show_nothing, show_report
from burnish.cli.naming import file_name
from burnish.cli.options import EVAL_USAGE_EXIT
from burnish.cli.progress import Progress, view
from burnish.cli.running import resumable
from burnish.core.errors import ConfigError, FileTrouble
from burnish.projects.describing import Flags
from burnish.projects.measurements import Measurement, measurement_for, measuring_flags
from burnish.projects.measuring import Measured, Place, measure
from burnish.reports.eval_junit import to_junit
from burnish.reports.eval_report import EvalReport
from burnish.runs.index import find_run
from burnish.system import write_atomic


class Loading(Protocol):
    """Makes a measurement of a file and flags, or of a run that goes on."""

    def __call__(self, path: Path, flags: Flags, *, resume: Path | None = None) -> Measurement:
        """The measurement; everything that is wrong is said at once."""
        ...


def evaluate_agent(asked: Asked, *, load: Loading = measurement_for) -> None:
    """Measure, show, write the reports; ends with the exit code."""
    try:
        measurement, options = _prepared(asked, load)
    except FileTrouble as error:
        error.exit_code = EVAL_USAGE_EXIT  # nothing was written yet: it is a file of the user's
        raise
    measured = measure_and_show(measurement, options)
    if measured.ending.interrupted:
        raise typer.Exit(2)
    if measured.report is None or not measured.report.ok:
        raise typer.Exit(1)


def measure_and_show(measurement: Measurement, options: Options) -> Measured:
    """Drive the measurement with a view, then show and write what it found."""
    opened: list[Path] = []
    aside = options.json_file == STDOUT
    budget = measurement.setup.budget
    with resumable(opened), view(options.progress, budget, to_stderr=aside) as listeners:
        measured = measure(
            measurement,
            options.place,
            listeners=listeners,
            baseline=options.baseline,
            opened=opened,
        )
    console = human_console(to_stderr=options.stdout_taken)
    if measured.report is None:
        show_nothing(console, measured.ending)
    else:
        _write(measured.report, options)
        command = _command(measurement)
        headed = options.progress not in (Progress.JSON, Progress.NONE)
        show_report(console, measured, command, quiet=options.quiet, headed=headed)
    return measured


def _write(report: EvalReport, options: Options) -> None:
    if options.junit_file is not None:
        write_atomic(options.junit_file, to_junit(report))
    if options.json_file == STDOUT:
        sys.stdout.write(report.to_text())
        sys.stdout.flush()
    elif options.json_file is not None:
        report.write(Path(options.json_file))


def _prepared(asked: Asked, load: Loading) -> tuple[Measurement, Options]:
    """Everything that can be wrong is found here, before anything is paid."""
    problems = asked.problems()
    if problems:
        raise ConfigError(problems)
    options = asked.options
    folder = None if asked.resume is None else find_run(asked.resume)
    measurement = load(asked.agent, asked.patches, resume=folder)
    measurement.setup.check()
    place = Place(folder=asked.output_dir, resume=folder)
    return measurement, replace(options, place=place)


def _command(measurement: Measurement) -> str:
    """The `burnish eval` that made a measurement, for doing the same again; empty if none did."""
    spec = measurement.spec
    if spec is None:
        return ""
    words = ["burnish eval", file_name(spec.source.file)]
    for field, value in measuring_flags(spec):
        flag = "--aa" if measurement.measure.noise and field.name == "repeats" else field.flag
        values = value if isinstance(value, list) else [value]
        words += [f"{flag} {_word(each)}" for each in values]
    return " ".join(words)


def _word(value: JsonValue) -> str:
    """A value as a flag takes it; a file, such as one of cases, may stand in a block."""
    plain = value.get("file", "") if isinstance(value, dict) else value
    text = str(plain)
    return file_name(text) if Path(text).is_absolute() else shlex.quote(text)
