"""What `burnish runs` shows: lists, runs, trials, comparisons, old delegations."""

import json
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import typer

from burnish.cli.progress import resume_command
from burnish.core.content import Json, codec
from burnish.core.errors import BurnishError, ConfigError, FileTrouble, Problem, RunLocked
from burnish.core.formatting import counted, duration, money, number, shorten, spending, visible
from burnish.core.money import Spend
from burnish.delegation.home import is_of_burnish
from burnish.delegation.refine.gradients import COMPLETION, MANIFEST, mapping, read_json, text
from burnish.delegation.refine.report import PAGE, outcome
from burnish.delegation.refine.sessions import (
    SESSIONS,
    Session,
    SessionFiles,
    best_so_far,
)
from burnish.delegation.refine.sessions import (
    loss_of as loss_of_best,
)
from burnish.delegation.result import ending_words
from burnish.journal.journal import EffectRow
from burnish.journal.sqlite_store import JOURNAL_FILE as JOURNAL
from burnish.reports.pages import CaseDelta, compare_cases, trial_page
from burnish.reports.progress import WIDTH, LineView
from burnish.reports.rendering import Columns
from burnish.runs.directory import (
    LOCK,
    Header,
    RunRecord,
    find_run,
    forget_run,
    known_runs,
    look_into,
    loss_of,
    sealed_words,
)
from burnish.runs.directory import (
    NAME as HEADER,
)
from burnish.runs.ledger import trial_lines
from burnish.runs.plugins import strategy_plugin
from burnish.system import is_held


def print_list(*, as_json: bool) -> None:
    """The runs of this machine."""
    runs, broken = _readable(list(known_runs()))
    if as_json:
        for run in runs:
            typer.echo(json.dumps(_facts(run), ensure_ascii=False))
    elif runs:
        _print_table(runs)
    elif not broken:
        typer.echo("no runs yet; `burnish optimize FILE` makes one")
    for folder, error in broken:
        typer.echo(f"! {folder}: {shorten(str(error), 200)}", err=True)


def _facts(run: RunRecord) -> dict[str, Json]:
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


def _losses(run: RunRecord, split: str) -> str:
    """`1.000 → 0.094`: from the baseline to the best."""
    return " → ".join(number(loss_of(row, split)) for row in (run.baseline, run.best))


def _print_table(runs: list[RunRecord]) -> None:
    table = Columns("run", "strategy", "status", "trials", "train loss", "spent", cut=("strategy",))
    for run in runs:
        head = (run.header.id, run.header.strategy, run.status)
        table.add(*head, str(run.trials), _losses(run, "train"), money(run.spent.usd))
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


# -- `burnish runs compare` -----------------------------------------------------------------------


_SPLITS = ("train", "holdout")
_SHOWN = 20


def print_comparison(left_name: str, right_name: str, *, as_json: bool) -> None:
    """Two runs side by side."""
    left, right = (RunRecord.read(find_run(name)) for name in (left_name, right_name))
    deltas = {split: compare_cases(left, right, split) for split in _SPLITS}
    if as_json:
        cases: dict[str, Json] = {
            split: [_fields(d) for d in moves] for split, moves in deltas.items()
        }
        document = {"left": _facts(left), "right": _facts(right), "cases": cases}
        typer.echo(json.dumps(document, ensure_ascii=False, indent=2))
        return
    _print_sides(left, right)
    for split, moves in deltas.items():
        _print_cases(split, moves)


def _print_sides(left: RunRecord, right: RunRecord) -> None:
    names = (left.header.id, right.header.id)
    table = Columns("", *names, folded=names)
    rows = (
        ("strategy", *(run.header.strategy for run in (left, right))),
        ("status", left.status, right.status),
        ("trials", *(f"{run.trials}, {run.accepted} accepted" for run in (left, right))),
        *((f"{split} loss", _losses(left, split), _losses(right, split)) for split in _SPLITS),
        ("sealed test", _sealed(left), _sealed(right)),
        ("spent", spending(left.spent), spending(right.spent)),
    )
    for row in rows:
        table.add(*row)
    table.show()


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
        typer.echo(f"  {delta.word:<4} {visible(delta.case)}  {scores}")
    if len(moved) > _SHOWN:
        typer.echo(f"  … and {len(moved) - _SHOWN} more")


def _fields(delta: CaseDelta) -> Json:
    return {"case": delta.case, "left": delta.left, "right": delta.right, "word": delta.word}


def _sealed(run: RunRecord) -> str:
    return "not read" if run.sealed is None else sealed_words(run.sealed)


# -- `burnish runs show` --------------------------------------------------------------------------


def print_run(name: str, *, as_json: bool) -> None:
    """One run: result, trials, money."""
    run = RunRecord.read(find_run(name))
    if as_json:
        typer.echo(json.dumps(_facts(run), ensure_ascii=False, indent=2))
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
        range_words = (
            f"they go from 0 to {run.rows[-1].number}" if run.rows else "none is recorded yet"
        )
        raise ConfigError(
            [Problem(where="--trial", message=f"there is no trial {number}", remedy=range_words)]
        )
    if as_json:
        ledger_line = [*trial_lines(run.rows, run.events)][run.rows.index(row)]
        typer.echo(json.dumps(json.loads(ledger_line), ensure_ascii=False, indent=2))
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


# -- `burnish runs rm` ----------------------------------------------------------------------------


def remove(name: str, *, yes: bool) -> None:
    """Remove a run with the runs in its folder, such as refinements; a damaged one too."""
    folder = find_run(name)
    _require_run(folder)
    inside = [run for run in known_runs() if run.is_relative_to(folder)]
    for run in (folder, *inside):
        if is_held(run / LOCK):
            raise RunLocked(
                f"run {run.name} is being driven by a process",
                remedy="stop it first: Ctrl-C there, or touch optimize.stop in its folder",
            )
    if not yes and not typer.confirm(f"remove {folder} and everything in it?"):
        typer.echo("nothing was removed")
        return
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise FileTrouble(
            f"cannot remove {error.filename or folder}: {error.strerror}",
            remedy="check who owns it and its mode: `ls -ld`",
        ) from error
    for run in (folder, *inside):
        forget_run(run)
    typer.echo(f"removed {folder}")


def _require_run(folder: Path) -> None:
    """A folder of the user's own may hold a run.json too: it is not ours to remove."""
    if not any((folder / name).exists() for name in (LOCK, JOURNAL)):
        raise ConfigError(
            [
                Problem(
                    where=str(folder),
                    message="it has a run.json, but it is not a run of burnish",
                    remedy="remove it yourself if you want to",
                )
            ]
        )


# -- Old delegations ------------------------------------------------------------------------------


_NOT_RESUMABLE = "it was started by an earlier version, and cannot be resumed"


def show_old_delegation(name: str, *, as_json: bool) -> bool:
    """Show what lies in this folder; False where it is none of these."""
    folder = Path(name).resolve()
    if (folder / HEADER).is_file():
        return False
    if is_of_burnish(folder):
        data = mapping(read_json(folder / COMPLETION) or read_json(folder / MANIFEST))
        lines = _delegation(folder, data)
    elif (session := _session(folder)) is not None:
        data, lines = session.to_json(), _refinement(folder, session)
    else:
        return False
    if as_json:
        typer.echo(json.dumps(dict(data), ensure_ascii=False, indent=2))
        return True
    for line in lines:
        typer.echo(line)
    return True


def _delegation(folder: Path, data: Mapping[str, Json]) -> Iterator[str]:
    status, name = text(data.get("status")), shlex.quote(str(folder))
    ending = f"{status}: {ending_words(text(data.get('reason')))}" if status else "not finished"
    yield f"{text(data.get('run_id')) or folder.name} · delegation · {ending}"
    if status in ("", "aborted"):
        yield f"! {_NOT_RESUMABLE}"
        return
    yield f"loss     {number(data.get('loss_total'))}"
    sessions = SessionFiles(folder=folder / SESSIONS).sessions()
    if sessions:
        best = best_so_far(folder)
        result = "" if best is None else f", BEST has loss {number(loss_of_best(best))}"
        yield f"refined  {counted(len(sessions), 'session')}{result}"
    yield f"report   {folder / 'RUN_SUMMARY.md'}"
    yield from (f"         {folder / SESSIONS / each.session_id / PAGE}" for each in sessions)
    yield f"next     burnish refine {name}"


def _refinement(folder: Path, session: Session) -> Iterator[str]:
    yield f"{session.session_id} · refinement of {session.seed_run_id} · {outcome(session)}"
    best = f"iteration {session.best_iter}" if session.best_iter else "the seed"
    yield f"loss     {number(session.seed_loss)} → {number(session.best_loss)}, best is {best}"
    yield f"report   {folder / PAGE}"
    if session.unfinished:
        yield f"! {_NOT_RESUMABLE}"


def _session(folder: Path) -> Session | None:
    if not folder.is_dir():
        return None
    there = SessionFiles(folder=folder.parent).sessions()
    return next((each for each in there if each.session_id == folder.name), None)
