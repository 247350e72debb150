"""`burnish optimize --print-baseline`: where the agent stands, and how much it wavers."""

from pathlib import Path

import typer

from burnish.cli.naming import file_name, run_name
from burnish.core.evaluations import mean, spread
from burnish.core.trials import SplitResult
from burnish.core.words import number
from burnish.reports.coordinate_headroom import headroom_lines
from burnish.reports.terminal import Columns
from burnish.runs.record import RunRecord, result_of
from burnish.strategies.coordinate.headroom import HEADROOM

_SPLITS = ("train", "holdout")


def show_baseline(folder: Path, *, told: bool) -> None:
    """The loss and every metric on train and holdout, each with its noise.

    `told` says that the run itself has told its headroom already.
    """
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
    if not told:
        for event in run.events:
            if event.kind == HEADROOM:
                typer.echo("\n".join(headroom_lines(event.data)))
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
