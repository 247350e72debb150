"""Driving a measurement to its end, and keeping its report beside its journal."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from burnish.core.errors import ResumeRefused
from burnish.evaluation.layers import Layered
from burnish.projects.evaluating import Measurement
from burnish.projects.launching import launch
from burnish.reports.eval_report import NAME, About, EvalReport
from burnish.reports.eval_summary import Bill
from burnish.reports.report import write_report
from burnish.runs.driving import Ending
from burnish.runs.events import Listener
from burnish.runs.opening import resume, start
from burnish.runs.record import RunRecord
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
        told = "put it back as it was to go on, or leave --resume out to measure anew"
        raise ResumeRefused(error.message, remedy=told) from None


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
    noise: bool = False,
    baseline: EvalReport | None = None,
    opened: list[Path] | None = None,
) -> Measured:
    """Measure, and write `evaluation.json` and `report.md` into the run's folder.

    With `noise` the repeats are read as an agent measured against itself. The folder goes into
    `opened` as soon as it is known, for whoever must say how to go on.
    """

    def open_run() -> Run:
        run = (place or Place()).open(measurement)
        if opened is not None:
            opened.append(run.directory.folder)
        return run

    ending = launch(open_run, listeners)
    report = report_of(measurement, ending)
    if report is not None:
        report = report.with_noise() if noise else report
        report = report if baseline is None else report.against(baseline)
        report.write(ending.folder / NAME)
        write_report(ending.folder)
    return Measured(ending=ending, report=report)


def report_of(measurement: Measurement, ending: Ending) -> EvalReport | None:
    """What was found; None where it was stopped before its end."""
    if measurement.evaluation is None:
        return None
    run = RunRecord.read(ending.folder)
    setup = measurement.setup
    return EvalReport.from_measurement(
        measurement.evaluation,
        measurement.cases,
        About(
            agent=measurement.name,
            source=setup.project.file,
            run=run.header.id,
            folder=str(ending.folder),
            at=run.header.started_at,
            seed=setup.seed,
        ),
        bill=Bill(spent=ending.spent, billed=ending.billed, active_seconds=run.active_seconds),
        thresholds={metric.name: threshold_of(metric) for metric in setup.metrics},
    )


def threshold_of(metric: object) -> float | None:
    """From where a metric passes, if that is one number for all cases."""
    same = metric.default if isinstance(metric, Layered) else metric
    found = getattr(same, "threshold", None)
    return float(found) if isinstance(found, int | float) else None
