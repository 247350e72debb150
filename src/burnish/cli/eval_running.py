"""Running `burnish eval`: from flags to a measurement, its reports, and an exit code."""

import os
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import typer

from burnish.cli.eval import USAGE_EXIT
from burnish.cli.eval_showing import human_console, show_nothing, show_report
from burnish.cli.progress import Progress, view
from burnish.cli.running import chosen_progress, resumable
from burnish.core.errors import (
    BurnishError,
    ConfigError,
    FileTrouble,
    PriceUnknown,
    Problem,
    ResumeRefused,
    RunNotFound,
    TargetMismatch,
)
from burnish.effects.budget import Budget
from burnish.projects.evaluating import Measurement, Wanted, prepare_evaluation
from burnish.projects.measuring import Measured, Place, measure, named_in_header, wanted_before
from burnish.projects.overrides import Overrides
from burnish.projects.settings import BudgetSettings
from burnish.reports.eval_junit import to_junit
from burnish.reports.eval_report import EvalReport
from burnish.runs.header import NAME as HEADER
from burnish.runs.index import find_run
from burnish.system import write_atomic

STDOUT = "-"
_CONFIGURATION = (ConfigError, PriceUnknown, ResumeRefused, RunNotFound, TargetMismatch)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the command line says."""

    agent: Path
    cases: Path | None = None
    metrics: Sequence[str] = ()
    metric_file: Path | None = None
    judge: str | None = None
    repeats: int | None = None
    noise_sweeps: int | None = None
    concurrency: int | None = None
    output_dir: Path | None = None
    resume: str | None = None
    json_file: str | None = None
    junit_file: Path | None = None
    baseline: str | None = None
    limits: Mapping[str, float | None] = field(default_factory=dict[str, float | None])
    progress: str = "auto"
    quiet: bool = False

    def problems(self) -> list[Problem]:
        """What does not go together, or cannot be."""
        found: list[Problem] = []
        if self.repeats is not None and self.repeats < 1:
            found.append(Problem(where="--repeats", message="must be 1 or more"))
        if self.noise_sweeps is not None and self.noise_sweeps < 2:
            found.append(Problem(where="--aa", message="must be 2 or more: one sweep has no noise"))
        if self.repeats is not None and self.noise_sweeps is not None:
            told = "--repeats and --aa do not go together: --aa N repeats every case N times"
            found.append(Problem(message=told))
        if self.resume and self.output_dir:
            told = "--resume goes on in the run's own folder, so -o has no meaning"
            found.append(Problem(message=told))
        files = {"--json": self._json_path, "--junit": self.junit_file}
        found += [p for flag, path in files.items() for p in _cannot_write(flag, path)]
        return found

    @property
    def _json_path(self) -> Path | None:
        return None if self.json_file in (None, STDOUT) else Path(self.json_file or "")

    @property
    def wanted(self) -> Wanted:
        """What is asked of the measurement."""
        return Wanted(
            cases=self.cases,
            repeats=self.noise_sweeps or self.repeats,
            concurrency=self.concurrency,
            metrics=self.metrics,
            metric_file=self.metric_file,
            judge=self.judge,
        )

    @property
    def options(self) -> "Options":
        """What is to be done with what is found."""
        return Options(
            json_file=self.json_file,
            junit_file=self.junit_file,
            baseline=None if self.baseline is None else read_baseline(self.baseline),
            noise=self.noise_sweeps is not None,
            progress=chosen_progress(self.progress),
            quiet=self.quiet,
        )


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to do with what is found."""

    place: Place = field(default_factory=Place)
    json_file: str | None = None
    junit_file: Path | None = None
    baseline: EvalReport | None = None
    noise: bool = False
    progress: Progress = Progress.NONE
    quiet: bool = False

    @property
    def stdout_taken(self) -> bool:
        """Whether stdout is for programs, so that people are told on stderr."""
        return self.json_file == STDOUT or self.progress is Progress.JSON


def evaluate_agent(asked: Asked) -> None:
    """Measure, show, write the reports; ends with the exit code."""
    with _configuration(FileTrouble):
        measurement, options = _prepared(asked)
    with _configuration():
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


def read_baseline(name: str) -> EvalReport:
    """An earlier report: a file, the folder of a run, or a run's id."""
    path = Path(name)
    if path.exists() and not (path.is_dir() and (path / HEADER).exists()):
        return EvalReport.read(path)
    return EvalReport.read(find_run(name))


def _prepared(asked: Asked) -> tuple[Measurement, Options]:
    """Everything that can be wrong is found here, before anything is paid."""
    problems = asked.problems()
    if problems:
        raise ConfigError(problems)
    flags = Overrides.from_flags(concurrency=asked.concurrency, **asked.limits)
    options = asked.options
    folder = None if asked.resume is None else find_run(asked.resume)
    wanted = asked.wanted if folder is None else wanted_before(folder, asked.wanted)
    measurement = prepare_evaluation(asked.agent, wanted)
    limited = _limited(named_in_header(measurement, asked.agent, wanted), flags)
    limited.setup.check()
    return limited, replace(options, place=Place(folder=asked.output_dir, resume=folder))


def _limited(measurement: Measurement, flags: Overrides) -> Measurement:
    budget: Budget = BudgetSettings().budget(flags, Overrides.from_environment(os.environ))
    return replace(measurement, setup=replace(measurement.setup, budget=budget))


def _cannot_write(flag: str, path: Path | None) -> list[Problem]:
    """Said before anything is paid: a report that cannot be kept is a pity."""
    if path is None or (path.parent.is_dir() and not path.is_dir()):
        return []
    told = f"{path} is a folder" if path.is_dir() else f"there is no folder {path.parent}"
    return [Problem(where=flag, message=told, remedy="name a file in a folder that exists")]


@contextmanager
def _configuration(*more: type[BurnishError]) -> Generator[None, None, None]:
    """Errors of configuration, and `more`, leave with the exit code that is theirs here."""
    kinds: tuple[type[BurnishError], ...] = (*_CONFIGURATION, *more)
    try:
        yield
    except kinds as error:
        error.exit_code = USAGE_EXIT
        raise
