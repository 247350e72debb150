"""What the `runs` commands print."""

import json
import shutil
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from burnish.core.codec import codec
from burnish.core.content import Json
from burnish.core.errors import BurnishError, ConfigError, Problem, RunLocked
from burnish.core.money import Spend
from burnish.effects.journal_reader import EffectRow, JournalReader
from burnish.reports.compare import compare_cases
from burnish.reports.lines import describe
from burnish.reports.reading import RunRecord
from burnish.reports.words import duration, number, sealed_words, shorten, spending
from burnish.runs.index import find_run, forget_run, known_runs
from burnish.runs.ledger import trial_line


def print_list(*, as_json: bool) -> None:
    """The runs of this machine."""
    runs, broken = _readable(list(known_runs()))
    if as_json:
        for run in runs:
            typer.echo(json.dumps(_facts(run), ensure_ascii=False))
        return
    if not runs and not broken:
        typer.echo("no runs yet; `burnish optimize FILE` makes one")
        return
    table = _table("run", "strategy", "status", "trials", "train loss", "spent", "folder")
    for run in runs:
        table.add_row(
            run.header.id,
            run.header.strategy,
            run.status,
            str(max(0, len(run.rows) - 1)),
            f"{_train_loss(run, best=False)} → {_train_loss(run, best=True)}",
            spending(run.spent),
            _near(run.folder),
        )
    _print(table)
    for folder, error in broken:
        typer.echo(f"! {folder}: {shorten(str(error), 120)}", err=True)


def print_run(name: str, *, as_json: bool) -> None:
    """One run: result, trials, money."""
    run = RunRecord.read(find_run(name))
    if as_json:
        typer.echo(json.dumps(_facts(run), ensure_ascii=False, indent=2))
        return
    reason = f" ({run.reason})" if run.reason else ""
    typer.echo(f"{run.header.id} · {run.header.strategy} · {run.status}{reason}")
    counts: dict[str, int] = {}
    width = max(80, shutil.get_terminal_size((100, 24)).columns)
    for event in run.events:
        for line in describe(event, counts, width):
            typer.echo(line)
    typer.echo("")
    typer.echo(f"spent    {spending(run.spent)} in {duration(run.active_seconds)}")
    if run.billed != run.spent:
        typer.echo(f"billed   {spending(run.billed)}")
    typer.echo(f"folder   {run.folder}")
    if run.status in {"killed", "interrupted", "failed"}:
        typer.echo(f"go on    burnish runs resume {run.folder.name}")


def print_trial(name: str, number_: int) -> None:
    """Everything about one trial, as it is kept."""
    run = RunRecord.read(find_run(name))
    row = next((row for row in run.rows if row.number == number_), None)
    if row is None:
        raise ConfigError(
            [Problem(where="--trial", message=f"there is no trial {number_}; "
                     f"the last is {len(run.rows) - 1}")]
        )  # fmt: skip
    typer.echo(json.dumps(json.loads(trial_line(row)), ensure_ascii=False, indent=2))


def print_calls(name: str, *, trial: int | None, as_json: bool) -> None:
    """The journal: every call with its key, what it was made of, and what it cost."""
    with JournalReader(find_run(name)) as journal:
        rows = (row for row in journal.effects() if trial is None or row.trial == trial)
        if as_json:
            for row in rows:
                typer.echo(json.dumps(_call(row), ensure_ascii=False))
            return
        table = _table("key", "trial", "kind", "draw", "state", "spend", "made of")
        for row in rows:
            made_of = shorten(json.dumps(row.request, ensure_ascii=False), 80)
            cost = spending(row.spend) if row.spend.calls else "—"
            table.add_row(
                row.key[:12], str(row.trial), row.kind, str(row.draw), row.state, cost, made_of
            )
    _print(table)


def print_comparison(left_name: str, right_name: str) -> None:
    """Two runs side by side."""
    left, right = (RunRecord.read(find_run(name)) for name in (left_name, right_name))
    table = _table("", left.header.id, right.header.id)
    rows: list[tuple[str, str, str]] = [
        ("strategy", left.header.strategy, right.header.strategy),
        ("status", left.status, right.status),
        ("trials", str(len(left.rows) - 1), str(len(right.rows) - 1)),
        ("train loss", _train_loss(left, best=True), _train_loss(right, best=True)),
        ("sealed test", _sealed(left), _sealed(right)),
        ("spent", spending(left.spent), spending(right.spent)),
    ]
    for row in rows:
        table.add_row(*row)
    _print(table)
    for split in ("train", "holdout"):
        deltas = compare_cases(left, right, split)
        moved = [delta for delta in deltas if delta.word != "same"]
        words = {word: sum(d.word == word for d in deltas) for word in ("up", "down", "same")}
        counted = ", ".join(f"{n} {word}" for word, n in words.items())
        typer.echo(f"{split}: {counted} ({len(deltas)} shared cases)")
        for delta in moved[:20]:
            typer.echo(f"  {delta.word:<4} {delta.case}  {delta.left:.3f} → {delta.right:.3f}")
        if len(moved) > 20:
            typer.echo(f"  … and {len(moved) - 20} more")


def remove(name: str, *, yes: bool) -> None:
    """Remove a run."""
    run = RunRecord.read(find_run(name))
    if run.driven:
        raise RunLocked(
            f"run {run.header.id} is being driven by a process",
            remedy="stop it first: Ctrl-C there, or touch optimize.stop in its folder",
        )
    if not yes and not typer.confirm(f"remove {run.folder} with {len(run.rows)} trials?"):
        return
    shutil.rmtree(run.folder)
    forget_run(run.header.id)
    typer.echo(f"removed {run.folder}")


def _readable(folders: list[Path]) -> tuple[list[RunRecord], list[tuple[Path, BurnishError]]]:
    runs: list[RunRecord] = []
    broken: list[tuple[Path, BurnishError]] = []
    for folder in folders:
        try:
            runs.append(RunRecord.read(folder))
        except BurnishError as error:
            broken.append((folder, error))
    return runs, broken


def _facts(run: RunRecord) -> dict[str, Json]:
    return {
        "id": run.header.id,
        "folder": str(run.folder),
        "strategy": run.header.strategy,
        "status": run.status,
        "reason": run.reason,
        "trials": max(0, len(run.rows) - 1),
        "accepted": sum(row.trial.accepted for row in run.rows),
        "best": run.best_candidate.id if run.best_candidate else None,
        "train_loss": _measured(run, best=True),
        "baseline_train_loss": _measured(run, best=False),
        "spent": codec(Spend).encode(run.spent),
        "billed": codec(Spend).encode(run.billed),
        "active_seconds": run.active_seconds,
    }


def _call(row: EffectRow) -> dict[str, Json]:
    data = codec(EffectRow).encode(row)
    assert isinstance(data, dict)
    return data


def _measured(run: RunRecord, *, best: bool) -> float | None:
    row = run.best if best else run.baseline
    return None if row is None or row.trial.train is None else row.trial.train.measurement.loss


def _train_loss(run: RunRecord, *, best: bool) -> str:
    return number(_measured(run, best=best))


def _sealed(run: RunRecord) -> str:
    return "not read" if run.sealed is None else sealed_words(run.sealed)


def _near(folder: Path) -> str:
    """The path from here where that is shorter."""
    here = Path.cwd()
    return str(folder.relative_to(here)) if folder.is_relative_to(here) else str(folder)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _print(table: Table) -> None:
    console = Console()
    # A file or a pipe has no width: nothing is folded there.
    console.width = console.width if console.is_terminal else 240
    console.print(table)
