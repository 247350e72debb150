"""`burnish runs show`: a run, one of its trials, or its calls."""

import json
import shutil

import typer

from burnish.cli.listing import facts
from burnish.cli.naming import resume_command
from burnish.core.codec import codec
from burnish.core.errors import ConfigError, Problem
from burnish.core.words import duration, shorten, spending
from burnish.effects.journal_reader import EffectRow
from burnish.reports.lines import WIDTH, LineView
from burnish.reports.terminal import Columns
from burnish.reports.trial_page import trial_page
from burnish.runs.directory import look_into
from burnish.runs.header import Header
from burnish.runs.index import find_run
from burnish.runs.ledger import trial_lines
from burnish.runs.plugins import strategy_plugin
from burnish.runs.record import RunRecord


def print_run(name: str, *, as_json: bool) -> None:
    """One run: result, trials, money."""
    run = RunRecord.read(find_run(name))
    if as_json:
        typer.echo(json.dumps(facts(run), ensure_ascii=False, indent=2))
        return
    reason = strategy_plugin(run.header.strategy).reason(run)
    typer.echo(f"{run.header.id} · {run.status}{f': {reason}' if reason else ''}")
    lines = LineView(typer.echo, width=_width)
    for event in run.events:
        lines.event(event)
    typer.echo(f"\nspent    {spending(run.spent)} in {duration(run.active_seconds)}")
    if run.billed != run.spent:
        typer.echo(f"billed   {spending(run.billed)}")
    typer.echo(f"folder   {run.folder}")
    if run.status in {"killed", "interrupted", "failed"}:
        typer.echo(f"go on    {resume_command(run.folder)}")


def print_trial(name: str, number: int, *, as_json: bool) -> None:
    """Everything about one trial."""
    run = RunRecord.read(find_run(name))
    row = next((row for row in run.rows if row.number == number), None)
    if row is None:
        known = f"they go from 0 to {run.rows[-1].number}" if run.rows else "none is recorded yet"
        raise ConfigError(
            [Problem(where="--trial", message=f"there is no trial {number}", remedy=known)]
        )
    if as_json:
        kept = [*trial_lines(run.rows, run.events)][run.rows.index(row)]
        typer.echo(json.dumps(json.loads(kept), ensure_ascii=False, indent=2))
        return
    for line in trial_page(run, row, width=_width()):
        typer.echo(line)


def print_calls(name: str, *, trial: int | None, as_json: bool) -> None:
    """The journal: every call with its key, what it was made of, and what it cost."""
    folder = find_run(name)
    Header.read(folder)
    with look_into(folder, whole=True) as journal:
        rows = (row for row in journal.effects() if trial is None or row.trial == trial)
        if as_json:
            for row in rows:
                typer.echo(json.dumps(codec(EffectRow).encode(row), ensure_ascii=False))
            return
        names = ("key", "trial", "kind", "draw", "state", "spent", "made of")
        table = Columns(*names, cut=("made of",))
        for row in rows:
            cost = spending(row.spend, tokens=False) if row.spend.calls else "—"
            made_of = shorten(json.dumps(row.request, ensure_ascii=False), 80)
            numbers = (row.key[:12], str(row.trial), row.kind, str(row.draw))
            table.add(*numbers, row.state, cost, made_of)
    table.show()


def _width() -> int:
    return shutil.get_terminal_size((WIDTH, 24)).columns
