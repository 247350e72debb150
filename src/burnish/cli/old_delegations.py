"""`burnish runs show` of a delegation or refinement of version 0.1, which had no run.json."""

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import typer

from burnish.core.content import Json
from burnish.core.words import counted, number
from burnish.runs.header import NAME as HEADER
from burnish.strategies.refine.best import best_so_far, loss_of
from burnish.strategies.refine.report import PAGE, outcome
from burnish.strategies.refine.run_files import COMPLETION, MANIFEST, mapping, read_json, text
from burnish.strategies.refine.sessions import SESSIONS, Session, SessionFiles
from burnish.targets.delegation.endings import ending_words
from burnish.targets.delegation.home import is_of_burnish

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
        result = "" if best is None else f", BEST has loss {number(loss_of(best))}"
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
