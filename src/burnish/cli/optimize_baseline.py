"""`burnish optimize --print-baseline`: where the agent stands, and how much it wavers."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import typer

from burnish.cli.naming import file_name, run_name
from burnish.cli.optimize_planning import shown_by
from burnish.cli.tables import Columns
from burnish.core.evaluations import mean, spread
from burnish.core.trials import SplitResult
from burnish.reports.reading import RunRecord, result_of
from burnish.reports.words import counted, number
from burnish.runs.setup import Setup
from burnish.strategies.coordinate.strategy import Coordinate

_SPLITS = ("train", "holdout")


def show_baseline(folder: Path, setup: Setup) -> None:
    """The loss and every metric on train and holdout, each with its noise."""
    run = RunRecord.read(folder)
    results = {split: result_of(run.baseline, split) for split in _SPLITS}
    if results["train"] is None:
        typer.echo("the baseline was not measured: see `stopped` above")
        return
    there = {split: result for split, result in results.items() if result is not None}
    typer.echo("")
    table = Columns("", *there)
    table.add("loss", *(_loss(result) for result in there.values()))
    for metric in sorted({name for r in there.values() for name in r.measurement.components}):
        table.add(metric, *(_metric(result, metric) for result in there.values()))
    table.show()
    for line in (*_bar(there, setup), *_shows(there)):
        typer.echo(line)
    file = file_name(run.header.project.file)
    typer.echo(f"go on    burnish optimize {file} --fork {run_name(folder)}")
    typer.echo("         (a new run, which does not pay for the baseline again)")


def _loss(result: SplitResult) -> str:
    return f"{number(result.measurement.loss)} ±{number(result.measurement.std)}"


def _metric(result: SplitResult, metric: str) -> str:
    """Its mean, and how far the means of the sweeps lie apart."""
    rows = [values[metric] for values in result.scores.values() if metric in values]
    sweeps = max(map(len, rows), default=0)
    found = [[row[n] for row in rows if n < len(row)] for n in range(sweeps)]
    means = [mean(known) for each in found if (known := [v for v in each if v is not None])]
    known = result.measurement.components.get(metric)
    return f"{number(known)} ±{number(spread(means) if means else 0.0)}"


def _bar(there: Mapping[str, SplitResult], setup: Setup) -> Iterator[str]:
    strategy = setup.strategy
    if not isinstance(strategy, Coordinate):
        return
    sigma = strategy.settings.accept_sigma
    bar = sigma * math.sqrt(2) * there["train"].measurement.std
    repeats = strategy.settings.repeats
    least = f"from about {bar:.3f} on" if bar else "however small it is"
    yield f"noise    a gain on train counts {least}: {sigma:g} × the noise of both sides over"
    yield f"         {counted(repeats, 'repeat')}"


def _shows(there: Mapping[str, SplitResult]) -> Iterator[str]:
    held = there.get("holdout")
    if held is not None:
        cases, rate = held.measurement.cases, held.measurement.pass_rate
        yield f"holdout  {shown_by(cases, 0.5 if rate is None else rate)}"
