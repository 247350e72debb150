"""What a measurement was asked for, kept in its run's header so that it can go on."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from burnish.core.content import Json
from burnish.projects.evaluating import Measurement, Wanted
from burnish.runs.header import Header, Project

KIND = "eval"
"""The kind of project that a run of `burnish eval` belongs to."""


def named_in_header(
    measurement: Measurement, source: Path, wanted: Wanted, *, noise: bool = False
) -> Measurement:
    """The measurement, with what it takes to go on with it kept in its run's header."""
    file = str(source.resolve()) if source.exists() else str(source)
    config: dict[str, Json] = {"wanted": _plain(wanted), "noise": noise}
    project = Project(kind=KIND, file=file, config=config)
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


def noise_wanted_before(folder: Path) -> bool:
    """Whether the run was started as a noise check."""
    return Header.read(folder).project.config.get("noise") is True


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
