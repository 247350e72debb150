"""Running `burnish eval`: from flags to a measurement, its reports, and an exit code."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import typer

from burnish.cli.eval_asking import STDOUT, Asked, Options
from burnish.cli.eval_showing import human_console, show_nothing, show_report
from burnish.cli.options import EVAL_USAGE_EXIT
from burnish.cli.progress import Progress, view
from burnish.cli.running import resumable
from burnish.core.errors import ConfigError, FileTrouble
from burnish.effects.budget import Budget
from burnish.projects.eval_wanted import named_in_header, noise_wanted_before, wanted_before
from burnish.projects.evaluate_api import Preparing, prepare_evaluation
from burnish.projects.evaluating import Measurement
from burnish.projects.measuring import Measured, Place, measure
from burnish.projects.overrides import Overrides
from burnish.projects.settings import BudgetSettings
from burnish.reports.eval_junit import to_junit
from burnish.reports.eval_report import EvalReport
from burnish.runs.index import find_run
from burnish.system import write_atomic


def evaluate_agent(asked: Asked, *, prepare: Preparing = prepare_evaluation) -> None:
    """Measure, show, write the reports; ends with the exit code."""
    try:
        measurement, options = _prepared(asked, prepare)
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
            noise=options.noise,
            baseline=options.baseline,
            opened=opened,
        )
    console = human_console(to_stderr=options.stdout_taken)
    if measured.report is None:
        show_nothing(console, measured.ending)
    else:
        _write(measured.report, options)
        headed = options.progress not in (Progress.JSON, Progress.NONE)
        show_report(console, measured, quiet=options.quiet, headed=headed)
    return measured


def _write(report: EvalReport, options: Options) -> None:
    if options.junit_file is not None:
        write_atomic(options.junit_file, to_junit(report))
    if options.json_file == STDOUT:
        sys.stdout.write(report.to_text())
        sys.stdout.flush()
    elif options.json_file is not None:
        report.write(Path(options.json_file))


def _prepared(asked: Asked, prepare: Preparing) -> tuple[Measurement, Options]:
    """Everything that can be wrong is found here, before anything is paid."""
    problems = asked.problems()
    if problems:
        raise ConfigError(problems)
    flags = Overrides.from_flags(concurrency=asked.concurrency, **asked.limits)
    options = asked.options
    folder = None if asked.resume is None else find_run(asked.resume)
    wanted = asked.wanted if folder is None else wanted_before(folder, asked.wanted)
    measurement = prepare(asked.agent, wanted)
    noise = options.noise or (folder is not None and noise_wanted_before(folder))
    named = named_in_header(measurement, asked.agent, wanted, noise=noise)
    limited = replace(named, setup=replace(named.setup, budget=_budget(flags)))
    limited.setup.check()
    place = Place(folder=asked.output_dir, resume=folder)
    return limited, replace(options, place=place, noise=noise)


def _budget(flags: Overrides) -> Budget:
    return BudgetSettings().budget(flags, Overrides.from_environment(os.environ))
