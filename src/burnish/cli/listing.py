"""`burnish runs list`."""

import json
from pathlib import Path

import typer

from burnish.core.codec import codec
from burnish.core.content import Json
from burnish.core.errors import BurnishError
from burnish.core.money import Spend
from burnish.core.words import money, number, shorten
from burnish.reports.terminal import Columns
from burnish.runs.index import known_runs
from burnish.runs.plugins import strategy_plugin
from burnish.runs.record import RunRecord, loss_of


def print_list(*, as_json: bool) -> None:
    """The runs of this machine."""
    runs, broken = _readable(list(known_runs()))
    if as_json:
        for run in runs:
            typer.echo(json.dumps(facts(run), ensure_ascii=False))
    elif runs:
        _print_table(runs)
    elif not broken:
        typer.echo("no runs yet; `burnish optimize FILE` makes one")
    for folder, error in broken:
        typer.echo(f"! {folder}: {shorten(str(error), 200)}", err=True)


def facts(run: RunRecord) -> dict[str, Json]:
    """A run in a few fields, for programs."""
    return {
        "id": run.header.id,
        "folder": str(run.folder),
        "started_at": run.header.started_at,
        "strategy": run.header.strategy,
        "status": run.status,
        "reason": strategy_plugin(run.header.strategy).reason(run),
        "trials": run.trials,
        "accepted": run.accepted,
        "best": run.best_candidate.id if run.best_candidate else None,
        "train_loss": loss_of(run.best, "train"),
        "baseline_train_loss": loss_of(run.baseline, "train"),
        "holdout_loss": loss_of(run.best, "holdout"),
        "baseline_holdout_loss": loss_of(run.baseline, "holdout"),
        "spent": codec(Spend).encode(run.spent),
        "billed": codec(Spend).encode(run.billed),
        "active_seconds": run.active_seconds,
    }


def losses(run: RunRecord, split: str) -> str:
    """`1.000 → 0.094`: from the baseline to the best."""
    return " → ".join(number(loss_of(row, split)) for row in (run.baseline, run.best))


def _print_table(runs: list[RunRecord]) -> None:
    table = Columns("run", "strategy", "status", "trials", "train loss", "spent", cut=("strategy",))
    for run in runs:
        head = (run.header.id, run.header.strategy, run.status)
        table.add(*head, str(run.trials), losses(run, "train"), money(run.spent.usd))
    table.show()


def _readable(folders: list[Path]) -> tuple[list[RunRecord], list[tuple[Path, BurnishError]]]:
    runs: list[RunRecord] = []
    broken: list[tuple[Path, BurnishError]] = []
    for folder in folders:
        try:
            runs.append(RunRecord.read(folder))
        except BurnishError as error:
            broken.append((folder, error))
    newest_first = sorted(runs, key=lambda run: run.header.started_at, reverse=True)
    return newest_first, broken
