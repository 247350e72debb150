"""Stored runs on the command line: shown, compared, explained, exported, removed."""

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import fill

import typer
from rich.console import Console

from burnish.cli.output import as_typed, echo, echo_json
from burnish.cli.progress import resume_command
from burnish.core.content import Json, codec
from burnish.core.errors import BurnishError, ConfigError, FileTrouble, Problem, RunLocked, in_shell
from burnish.core.formatting import (
    counted,
    duration,
    listed,
    money,
    number,
    shorten,
    spending,
    visible,
    visible_json,
)
from burnish.core.money import NOTHING, Spend
from burnish.journal.journal import EffectRow
from burnish.journal.sqlite_store import JOURNAL_FILE as JOURNAL
from burnish.pages.library import grid_status
from burnish.projects.grids import GRID_FILES, find_grid
from burnish.reports.explanation import Explanation, explain, explanation_sections
from burnish.reports.grid import GridReport, grid_home
from burnish.reports.progress import LineView
from burnish.reports.rendering import (
    CaseDelta,
    compare_cases,
    to_markdown,
    trial_page,
)
from burnish.reports.terminal import Columns
from burnish.runs.claims import claim_summary, verdict_cell
from burnish.runs.directory import (
    AFTER_SEARCH,
    LOCK,
    Header,
    RunRecord,
    find_run,
    forget_run,
    known_runs,
    look_into,
    whole_loss,
)
from burnish.runs.events import Claim
from burnish.runs.ledger import trial_lines
from burnish.runs.plugins import strategy_plugin
from burnish.runs.progress import WIDTH
from burnish.runs.spec import TrackingSpec, tags_of
from burnish.system import is_held, remove_stale_temporaries


def print_list(*, tags: Sequence[str] = (), as_json: bool) -> None:
    """The runs of this machine, or those with all of some tags."""
    runs, broken = _readable(list(known_runs()))
    if tags:
        runs, broken = [run for run in runs if {*tags} <= {*tags_of(run.folder, run.header)}], []
    if as_json:
        for run in runs:
            echo_json(_facts(run), indent=None)
    elif runs:
        rows: dict[tuple[str, ...], str] = {}
        for run in runs:
            rows.setdefault(_row(run, runs), ", ".join(tags_of(run.folder, run.header)))
        tagged = ("tags",) if any(rows.values()) else ()
        names = ("run", "project", "strategy", "status", "result", "spent", *tagged)
        table = Columns(*names, cut=("project", "strategy", *tagged), shades=_SHADES)
        for row, tags_of_row in rows.items():
            table.add(*row, *((tags_of_row,) if tagged else ()))
        table.show()
    elif tags:
        typer.echo("no run has that tag" if len(tags) == 1 else "no run has all of these tags")
    elif not broken:
        typer.echo(as_typed("no runs yet; `burnish optimize FILE` makes one"))
    for folder, error in broken:
        echo(f"! {folder}: {shorten(str(error), 200)}", err=True)


def _row(run: RunRecord, runs: Sequence[RunRecord]) -> tuple[str, ...]:
    """The row of a run; the columns of a grid share one."""
    home = grid_home(run.folder)
    if home is None:
        head = (run.header.id, _project(run), run.header.strategy, run.status)
        return (*head, _result(run), money(run.spent.usd))
    columns = [each for each in runs if grid_home(each.folder) == home]
    status = grid_status(home, [each.status for each in columns])
    spent = sum((each.spent for each in columns), NOTHING)
    result = counted(len(columns), "column")
    return (home.name, _project(run), "grid", status, result, money(spent.usd))


def send_run(name: str, to: str, *, uri: str | None, project: str | None) -> None:
    """Send a run to another system."""
    from burnish.tracking.trackers import EXPORTS, export_run

    if to not in EXPORTS:
        message = f"'{to}' is not one of: {', '.join(EXPORTS)}"
        raise ConfigError([Problem(where="--to", message=message)])
    folder = find_run(name)
    export_run(folder, to, TrackingSpec(to=(to,), uri=uri, project=project))
    echo(f"sent     {folder.name} to {to}")


_SHADES = {
    "improved": "green",
    "worse": "red",
    "failed": "red",
    "killed": "red",
    "running": "cyan",
    "interrupted": "yellow",
}


def _project(run: RunRecord) -> str:
    """The file that a run is about, with its folder."""
    return "/".join(Path(run.header.project.file).parts[-2:]) or run.header.project.kind


def _result(run: RunRecord) -> str:
    """`improved 0.932`: what a search claims; for a measurement its score."""
    if not strategy_plugin(run.header.strategy).proposes:
        loss = whole_loss(run, run.best, "train")
        return "—" if loss is None else f"score {number(1 - loss)}"
    gain = None if run.claim is None else run.claim.gain
    verdict = verdict_cell(run.claim, over=run.ending is not None)
    return verdict + ("" if gain is None else f" {number(gain.mean)}")


def _facts(run: RunRecord) -> dict[str, Json]:
    return {
        "id": run.header.id,
        "folder": str(run.folder),
        "grid": None if (home := grid_home(run.folder)) is None else home.name,
        "started_at": run.header.started_at,
        "strategy": run.header.strategy,
        "status": run.status,
        "tags": [*tags_of(run.folder, run.header)],
        "reason": strategy_plugin(run.header.strategy).reason(run),
        "trials": run.trials,
        "accepted": run.accepted,
        "best": run.best_candidate.id if run.best_candidate else None,
        "train_loss": whole_loss(run, run.best, "train"),
        "baseline_train_loss": whole_loss(run, run.baseline, "train"),
        "holdout_loss": whole_loss(run, run.best, "holdout"),
        "baseline_holdout_loss": whole_loss(run, run.baseline, "holdout"),
        "claim": None if run.claim is None else codec(Claim).encode(run.claim),
        "spent": codec(Spend).encode(run.spent),
        "billed": codec(Spend).encode(run.billed),
        "active_seconds": run.active_seconds,
    }


def _losses(run: RunRecord, split: str) -> str:
    """`1.000 → 0.094`: from the baseline to the best."""
    return " → ".join(number(whole_loss(run, row, split)) for row in (run.baseline, run.best))


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


_SPLITS = ("train", "holdout")
_SHOWN = 20


def print_comparison(names: Sequence[str], *, as_json: bool) -> None:
    """Runs side by side, and the cases of the first with those of each other one."""
    first, *others = runs = [RunRecord.read(find_run(name)) for name in names]
    if as_json:
        echo_json(_comparison(first, others))
        return
    cases = [[*_split_deltas(first, other)] for other in others]
    _print_sides(runs)
    for other, splits in zip(others, cases, strict=True):
        if len(others) > 1:
            echo(f"\n{first.header.id} and {other.header.id}")
        for split, deltas in splits:
            _print_cases(split, deltas)


def _split_deltas(left: RunRecord, right: RunRecord) -> Iterator[tuple[str, list[CaseDelta]]]:
    return ((split, compare_cases(left, right, split)) for split in _SPLITS)


def _comparison(first: RunRecord, others: Sequence[RunRecord]) -> dict[str, Json]:
    """Two runs are `left` and `right`; more are `runs`, each compared with the first."""
    cases = [_case_deltas(first, other) for other in others]
    if len(others) == 1:
        return {"left": _facts(first), "right": _facts(others[0]), "cases": cases[0]}
    return {"runs": [_facts(run) for run in (first, *others)], "cases": [*cases]}


def _case_deltas(left: RunRecord, right: RunRecord) -> dict[str, Json]:
    return {
        split: [{"case": d.case, "left": d.left, "right": d.right, "word": d.word} for d in deltas]
        for split, deltas in _split_deltas(left, right)
    }


def _print_sides(runs: Sequence[RunRecord]) -> None:
    names = [run.header.id for run in runs]
    table = Columns("", *names, folded=names)
    rows = (
        ("strategy", *(run.header.strategy for run in runs)),
        ("status", *(run.status for run in runs)),
        ("trials", *(f"{run.trials}, {run.accepted} accepted" for run in runs)),
        *((f"{split} loss", *(_losses(run, split) for run in runs)) for split in _SPLITS),
        *_claim_rows(*runs),
        ("spent", *(spending(run.spent) for run in runs)),
    )
    for row in rows:
        table.add(*row)
    table.show()


def _claim_rows(*runs: RunRecord) -> Iterator[tuple[str, ...]]:
    """What the runs claim; a measurement claims nothing."""
    searched = [strategy_plugin(run.header.strategy).proposes for run in runs]
    if any(searched):
        pairs = zip(runs, searched, strict=True)
        yield "claim", *(claim_summary(run.claim) if search else "—" for run, search in pairs)


def _print_cases(split: str, deltas: list[CaseDelta]) -> None:
    if not deltas:
        typer.echo(f"{split}: the best candidates share no scored case")
        return
    words = {word: sum(d.word == word for d in deltas) for word in ("up", "down", "same")}
    shared = counted(len(deltas), "shared case")
    counts = ", ".join(f"{n} {word}" for word, n in words.items())
    typer.echo(f"{split}: {counts} of {shared}, from left to right by score")
    moved = [delta for delta in deltas if delta.word != "same"]
    for delta in moved[:_SHOWN]:
        scores = f"{number(delta.left)} → {number(delta.right)}"
        echo(f"  {delta.word:<4} {delta.case}  {scores}")
    if len(moved) > _SHOWN:
        typer.echo(f"  … and {len(moved) - _SHOWN} more")


def print_run(name: str, *, as_json: bool) -> None:
    """One run: result, trials, money; of a grid, its columns."""
    if (grid := find_grid(name)) is not None:
        _print_grid(GridReport.read(grid), as_json=as_json)
        return
    run = RunRecord.read(find_run(name))
    if as_json:
        echo_json(_facts(run))
        return
    reason = strategy_plugin(run.header.strategy).reason(run)
    shown = [f"{run.header.id} · {run.status}{f': {reason}' if reason else ''}"]
    lines = LineView(shown.append, width=_width)
    for event in run.events:
        lines.event(event)
    echo("\n".join(shown))
    typer.echo(f"\nspent    {spending(run.spent)} in {duration(run.active_seconds)}")
    if run.billed != run.spent:
        typer.echo(f"billed   {spending(run.billed)}")
    echo(f"folder   {run.folder}")
    if tags := tags_of(run.folder, run.header):
        echo(f"tags     {', '.join(tags)}")
    if run.status in {"killed", "interrupted", "failed"}:
        echo(f"go on    {resume_command(run.folder)}")


def _print_grid(report: GridReport, *, as_json: bool) -> None:
    if as_json:
        typer.echo(visible_json(report.to_text()), nl=False)
        return
    from burnish.cli.measurement_series import print_columns

    print_columns(Console(width=_width(), highlight=False), report)


def print_explanation(name: str, *, as_json: bool) -> None:
    """Why a run ended as it did."""
    run = RunRecord.read(find_run(name))
    if not strategy_plugin(run.header.strategy).proposes:
        raise ConfigError(
            [
                Problem(
                    where=run.header.id,
                    message="the run measured and searched for nothing, so nothing was decided",
                    remedy=f"`burnish runs show {in_shell(run.header.id)}` shows what it measured",
                )
            ]
        )
    found = explain(run, resume=resume_command(run.folder))
    if as_json:
        echo_json(codec(Explanation).encode(found))
        return
    for line in to_markdown(explanation_sections(found)).splitlines():
        indent = "  " if line.startswith("- ") else ""
        typer.echo(fill(line, _width(), subsequent_indent=indent, break_on_hyphens=False))


def print_trial(name: str, number: int, *, as_json: bool) -> None:
    """Everything about one trial."""
    run = RunRecord.read(find_run(name))
    row = next((row for row in run.rows if row.number == number), None)
    if row is None:
        message = f"there is no trial {number}"
        there = f"trials go from 0 to {run.rows[-1].number}" if run.rows else "none is recorded yet"
        raise ConfigError([Problem(where="--trial", message=message, remedy=there)])
    if as_json:
        ledger_line = [*trial_lines(run.rows, run.events)][run.rows.index(row)]
        echo_json(json.loads(ledger_line))
        return
    # Whole, or one error: it reads scores that may be damaged.
    echo("\n".join(trial_page(run, row, width=_width())))


def print_calls(name: str, *, trial: int | None, as_json: bool) -> None:
    """The journal: every call with its key, what it was made of, and what it cost."""
    folder = find_run(name)
    Header.read(folder)
    with look_into(folder, whole=True) as journal:
        rows = (row for row in journal.effects() if trial is None or row.trial == trial)
        if as_json:
            for row in rows:
                echo_json(codec(EffectRow).encode(row), indent=None)
            return
        names = ("key", "trial", "kind", "draw", "state", "spent", "made of")
        table = Columns(*names, cut=("made of",))
        for row in rows:
            cost = spending(row.spend, tokens=False) if row.spend.calls else "—"
            made_of = shorten(json.dumps(row.request, ensure_ascii=False), 80)
            trial_number = "end" if row.trial == AFTER_SEARCH else str(row.trial)
            numbers = (row.key[:12], trial_number, row.kind, str(row.draw))
            table.add(*numbers, row.state, cost, made_of)
    table.show()


def _width() -> int:
    return shutil.get_terminal_size((WIDTH, 24)).columns


def remove(name: str, *, yes: bool) -> None:
    """Remove a run with the runs in its folder, such as refinements; a damaged one too.

    A grid is removed with its columns.
    """
    grid = find_grid(name)
    folder = grid or find_run(name)
    inside = [run for run in known_runs() if run.is_relative_to(folder)]
    for run in (folder, *inside):
        if is_held(run / LOCK):
            raise RunLocked(
                f"{'grid' if run == grid else 'run'} {run.name} is in use by another process",
                remedy="stop it first: Ctrl-C there, or touch optimize.stop in its folder",
            )
    if problem := _not_ours(folder) if grid is None else _not_of_grid(grid):
        remedy = "remove it yourself if you want to"
        raise ConfigError([Problem(where=str(folder), message=problem, remedy=remedy)])
    if not yes and not typer.confirm(visible(f"remove {folder} and everything in it?")):
        typer.echo("nothing was removed")
        return
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise FileTrouble(
            f"cannot remove {error.filename or folder}: {error.strerror}",
            remedy="check its owner and mode: `ls -ld`",
        ) from error
    for run in (folder, *inside):
        forget_run(run)
    echo(f"removed {folder}")


def _not_ours(folder: Path) -> str:
    """Why a folder with a run.json is not ours to remove; empty if it is."""
    there = any((folder / name).exists() for name in (LOCK, JOURNAL))
    return "" if there else "the folder has a run.json, but it is not a burnish run"


def _not_of_grid(folder: Path) -> str:
    """Why the folder of a grid is not ours to remove; empty if it is."""
    remove_stale_temporaries(folder)  # nothing writes here now
    others = sorted(each.name for each in folder.iterdir() if each.name not in GRID_FILES)
    return f"the folder has more in it than the grid: {listed(others)}" if others else ""
