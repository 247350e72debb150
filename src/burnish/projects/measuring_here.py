"""Measuring inside the event loop that is running, for programs and tests."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from burnish.core.errors import ConfigError, Problem
from burnish.projects.evaluated import Evaluated
from burnish.projects.evaluating import Measurement
from burnish.projects.measuring import threshold_of
from burnish.reports.eval_report import NAME, About, EvalReport
from burnish.reports.eval_summary import Bill
from burnish.reports.report import write_report
from burnish.runs.driving import Ending, drive
from burnish.runs.header import NAME as HEADER
from burnish.runs.index import forget_run
from burnish.runs.opening import resume, start
from burnish.runs.run import Run


async def measured(measurement: Measurement, folder: Path | None = None) -> Evaluated:
    """Measure in `folder`, going on with the run that is there; without one nothing is kept."""
    if folder is not None:
        return await _kept(measurement, lambda: _opened(measurement, folder))
    with tempfile.TemporaryDirectory(prefix="burnish-") as temporary:
        home = Path(temporary) / "run"
        try:
            return await _driven(measurement, lambda: start(measurement.setup, folder=home))
        finally:
            forget_run(home)


async def measured_anew(measurement: Measurement, root: Path) -> Evaluated:
    """Measure in a new folder under `root`, whatever was measured before."""
    return await _kept(measurement, lambda: start(measurement.setup, root=root))


async def _kept(measurement: Measurement, open_run: Callable[[], Run]) -> Evaluated:
    found = await _driven(measurement, open_run)
    home = found.ending.folder
    found.report.write(home / NAME)
    write_report(home)
    return replace(found, folder=home)


def _opened(measurement: Measurement, folder: Path) -> Run:
    is_run = (folder / HEADER).exists()
    setup = measurement.setup
    return resume(setup, folder) if is_run else start(setup, folder=folder)


async def _driven(measurement: Measurement, open_run: Callable[[], Run]) -> Evaluated:
    run = open_run()
    try:
        ending = await drive(run)
        seconds = run.directory.journal.active_seconds
    finally:
        await run.close()
    if measurement.evaluation is None:
        raise ConfigError([_cut_short(ending)])
    return Evaluated(
        cases=measurement.cases,
        evaluation=measurement.evaluation,
        report=_report(measurement, ending, seconds),
        ending=ending,
    )


def _report(measurement: Measurement, ending: Ending, seconds: float) -> EvalReport:
    assert measurement.evaluation is not None
    setup = measurement.setup
    return EvalReport.from_measurement(
        measurement.evaluation,
        measurement.cases,
        About(
            agent=measurement.name,
            source=setup.project.file,
            run=ending.folder.name,
            seed=setup.seed,
        ),
        bill=Bill(spent=ending.spent, billed=ending.billed, active_seconds=seconds),
        thresholds={metric.name: threshold_of(metric) for metric in setup.metrics},
    )


def _cut_short(ending: Ending) -> Problem:
    return Problem(
        message=f"the measurement was cut short ({ending.reason.detail or ending.reason.code})",
        remedy="give it more budget; with a folder it goes on where it was",
    )
