"""Driving a measurement to its end, and keeping its report beside its journal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from burnish.core.content import Json
from burnish.evaluation.layers import Layered
from burnish.projects.evaluating import Measurement, Wanted
from burnish.projects.launching import launch
from burnish.reports.eval_report import NAME, About, EvalReport
from burnish.reports.eval_summary import Bill
from burnish.reports.reading import RunRecord
from burnish.reports.report import write_report
from burnish.runs.driving import Ending
from burnish.runs.events import Listener
from burnish.runs.header import Header, Project
from burnish.runs.opening import resume, start
from burnish.runs.run import Run

KIND = "eval"
"""The kind of project that a run of `burnish eval` belongs to."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a measurement is made: a new folder, this very one, or a run that goes on."""

    folder: Path | None = None
    resume: Path | None = None

    def open(self, measurement: Measurement) -> Run:
        """The run, open for driving."""
        if self.resume is not None:
            return resume(measurement.setup, self.resume)
        return start(measurement.setup, root=measurement.root, folder=self.folder)


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
    report = _report(measurement, ending)
    if report is not None:
        report = report.with_noise() if noise else report
        report = report if baseline is None else report.against(baseline)
        report.write(ending.folder / NAME)
        write_report(ending.folder)
    return Measured(ending=ending, report=report)


def _report(measurement: Measurement, ending: Ending) -> EvalReport | None:
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
        thresholds={metric.name: _threshold(metric) for metric in setup.metrics},
    )


def _threshold(metric: object) -> float | None:
    """From where a metric passes, if that is one number for all cases."""
    same = metric.default if isinstance(metric, Layered) else metric
    found = getattr(same, "threshold", None)
    return float(found) if isinstance(found, int | float) else None


# -- going on with what an earlier command asked for ---------------------------------------


def named_in_header(measurement: Measurement, source: Path, wanted: Wanted) -> Measurement:
    """The measurement, with what it takes to go on with it kept in its run's header."""
    file = str(source.resolve()) if source.exists() else str(source)
    project = Project(kind=KIND, file=file, config={"wanted": _plain(wanted)})
    return replace(measurement, setup=replace(measurement.setup, project=project))


def wanted_before(folder: Path, wanted: Wanted) -> Wanted:
    """What is wanted now, and what the run was started with where nothing is said now."""
    config = Header.read(folder).project.config.get("wanted")
    stored: Mapping[str, Json] = config if isinstance(config, dict) else {}
    earlier = _read(stored)
    return Wanted(
        cases=wanted.cases or earlier.cases,
        repeats=wanted.repeats or earlier.repeats,
        concurrency=wanted.concurrency or earlier.concurrency,
        metrics=wanted.metrics or earlier.metrics,
        metric_file=wanted.metric_file or earlier.metric_file,
        judge=wanted.judge or earlier.judge,
    )


def _plain(wanted: Wanted) -> dict[str, Json]:
    """Paths whole, so that the run goes on from another folder too."""
    paths = {"cases": wanted.cases, "metric_file": wanted.metric_file}
    found: dict[str, Json] = {k: str(v.resolve()) for k, v in paths.items() if v is not None}
    more: dict[str, Json] = {
        "repeats": wanted.repeats,
        "concurrency": wanted.concurrency,
        "metrics": list(wanted.metrics),
        "judge": wanted.judge,
    }
    return found | {name: value for name, value in more.items() if value}


def _read(stored: Mapping[str, Json]) -> Wanted:
    def path(name: str) -> Path | None:
        value = stored.get(name)
        return Path(value) if isinstance(value, str) else None

    def count(name: str) -> int | None:
        value = stored.get(name)
        return value if isinstance(value, int) else None

    metrics, judge = stored.get("metrics"), stored.get("judge")
    return Wanted(
        cases=path("cases"),
        repeats=count("repeats"),
        concurrency=count("concurrency"),
        metrics=[str(name) for name in metrics] if isinstance(metrics, list) else (),
        metric_file=path("metric_file"),
        judge=judge if isinstance(judge, str) else None,
    )
