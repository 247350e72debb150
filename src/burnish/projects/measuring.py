"""Driving a measurement to its end: in a loop of its own, or in the one that is running."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from burnish.core.errors import ConfigError, Problem, ResumeRefused
from burnish.projects.evaluated import Evaluated
from burnish.projects.launching import launch, launched
from burnish.projects.measurements import Measurement
from burnish.reports.evaluation import NAME, EvalReport
from burnish.reports.report import write_report
from burnish.runs.driving import Ending
from burnish.runs.events import Listener
from burnish.runs.header import NAME as HEADER
from burnish.runs.index import forget_run
from burnish.runs.opening import resume, start
from burnish.runs.run import Run


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a measurement is made: a new folder, this very one, or a run that goes on."""

    folder: Path | None = None
    resume: Path | None = None

    def open(self, measurement: Measurement) -> Run:
        """The run, open for driving."""
        if self.resume is not None:
            return _going_on(measurement, self.resume)
        return start(measurement.setup, root=measurement.root, folder=self.folder)


def _going_on(measurement: Measurement, folder: Path) -> Run:
    try:
        return resume(measurement.setup, folder)
    except ResumeRefused as error:
        remedy = "put it back as it was to go on, or leave --resume out to measure anew"
        raise ResumeRefused(error.message, remedy=remedy) from None


@dataclass(frozen=True, kw_only=True)
class Measured:
    """How a measurement ended, and what it found."""

    ending: Ending
    report: EvalReport | None
    """None when it was stopped before its end."""


def measure(
    measurement: Measurement,
    place: Place | None = None,
    *,
    listeners: Sequence[Listener] = (),
    baseline: EvalReport | None = None,
    opened: list[Path] | None = None,
) -> Measured:
    """Measure; `evaluation.json` and `report.md` stand in the run's folder afterwards.

    The folder goes into `opened` as soon as it is known, for whoever must say how to go on.
    """

    def open_run() -> Run:
        run = (place or Place()).open(measurement)
        if opened is not None:
            opened.append(run.directory.folder)
        return run

    ending = launch(open_run, listeners)
    report = report_of(measurement, ending)
    if report is not None and baseline is not None:
        report = report.against(baseline)
        report.write(ending.folder / NAME)
        write_report(ending.folder)
    return Measured(ending=ending, report=report)


def report_of(measurement: Measurement, ending: Ending) -> EvalReport | None:
    """What was found; None where it was stopped before its end."""
    return None if measurement.evaluation is None else EvalReport.read(ending.folder)


async def measured(measurement: Measurement, folder: Path | None = None) -> Evaluated:
    """Measure in `folder`, going on with the run that is there; without one nothing is kept."""
    if folder is not None:
        return await _driven(measurement, lambda: _opened(measurement, folder))
    with tempfile.TemporaryDirectory(prefix="burnish-") as temporary:
        home = Path(temporary) / "run"
        try:
            found = await _driven(measurement, lambda: start(measurement.setup, folder=home))
        finally:
            forget_run(home)
    about = replace(found.report.about, folder="")
    return replace(found, folder=None, report=replace(found.report, about=about))


async def measured_anew(measurement: Measurement, root: Path) -> Evaluated:
    """Measure in a new folder under `root`, whatever was measured before."""
    return await _driven(measurement, lambda: start(measurement.setup, root=root))


def _opened(measurement: Measurement, folder: Path) -> Run:
    is_run = (folder / HEADER).exists()
    setup = measurement.setup
    return resume(setup, folder) if is_run else start(setup, folder=folder)


async def _driven(measurement: Measurement, open_run: Callable[[], Run]) -> Evaluated:
    ending = await launched(open_run)
    report = report_of(measurement, ending)
    if measurement.evaluation is None or report is None:
        raise ConfigError([_cut_short(ending)])
    return Evaluated(
        cases=measurement.cases,
        evaluation=measurement.evaluation,
        report=report,
        ending=ending,
        folder=ending.folder,
    )


def _cut_short(ending: Ending) -> Problem:
    return Problem(
        message=f"the measurement was cut short ({ending.reason.detail or ending.reason.code})",
        remedy="give it more budget; with a folder it goes on where it was",
    )
