"""`burnish runs show` of a delegation or a refinement: what it is, and where its report lies."""

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import typer

from burnish.core.content import Json
from burnish.core.words import counted, number
from burnish.strategies.refine.best import best_so_far, loss_of
from burnish.strategies.refine.report import PAGE, outcome
from burnish.strategies.refine.run_files import COMPLETION, MANIFEST, mapping, read_json, text
from burnish.strategies.refine.session_files import SESSIONS, SessionFiles
from burnish.strategies.refine.sessions import Session
from burnish.targets.delegation.endings import ending_words
from burnish.targets.delegation.home import is_of_burnish


def point_out(name: str, *, as_json: bool) -> bool:
    """Show what lies in this folder; False where it is neither a delegation nor a session."""
    folder = Path(name).resolve()
    if is_of_burnish(folder):
        found = mapping(read_json(folder / COMPLETION) or read_json(folder / MANIFEST))
        lines = _delegation(folder, found)
    elif (session := _session(folder)) is not None:
        found, lines = session.to_json(), _refinement(folder, session)
    else:
        return False
    if as_json:
        typer.echo(json.dumps(dict(found), ensure_ascii=False, indent=2))
        return True
    for line in lines:
        typer.echo(line)
    return True


def _delegation(folder: Path, found: Mapping[str, Json]) -> Iterator[str]:
    status, name = text(found.get("status")), shlex.quote(str(folder))
    how = (
        f"{status}: {ending_words(text(found.get('reason')))}" if status else "killed, or going on"
    )
    yield f"{text(found.get('run_id')) or folder.name} · delegation · {how}"
    if status in ("", "aborted"):
        yield f"go on    burnish delegate --resume {name}"
        return
    yield f"loss     {number(found.get('loss_total'))}"
    sessions = SessionFiles(folder=folder / SESSIONS).sessions()
    if sessions:
        best = best_so_far(folder)
        told = "" if best is None else f", BEST has loss {number(loss_of(best))}"
        yield f"refined  {counted(len(sessions), 'session')}{told}"
    yield f"report   {folder / 'RUN_SUMMARY.md'}"
    yield from (f"         {folder / SESSIONS / each.session_id / PAGE}" for each in sessions)
    yield f"next     burnish refine {name}"


def _refinement(folder: Path, session: Session) -> Iterator[str]:
    yield f"{session.session_id} · refinement of {session.seed_run_id} · {outcome(session)}"
    best = f"iteration {session.best_iter}" if session.best_iter else "the seed"
    yield f"loss     {number(session.seed_loss)} → {number(session.best_loss)}, best is {best}"
    yield f"report   {folder / PAGE}"
    if session.unfinished and folder.parent.name == SESSIONS:
        seed = shlex.quote(str(folder.parent.parent))
        yield f"go on    burnish refine {seed} --resume {session.session_id}"


def _session(folder: Path) -> Session | None:
    if not folder.is_dir():
        return None
    there = SessionFiles(folder=folder.parent).sessions()
    return next((each for each in there if each.session_id == folder.name), None)
