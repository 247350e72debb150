"""Running `burnish refine`: from flags to a session, its progress, and its last words."""

import asyncio
import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import typer
from pydantic import JsonValue

from burnish.cli.delegation import StopNotice
from burnish.cli.progress import file_name
from burnish.core.errors import BurnishError, Interrupted, SeedRefused
from burnish.core.formatting import counted
from burnish.delegation.experiments import find_task
from burnish.delegation.refine.gradients import RunGradient
from burnish.delegation.refine.loop import EMPTY, MOST_ITERATIONS, Refine
from burnish.delegation.refine.report import outcome
from burnish.delegation.refine.sessions import Iteration, Session
from burnish.delegation.refine.settings import RefineSettings
from burnish.delegation.refine.setup import (
    OpenRefinement,
    RefineOptions,
    Seat,
    open_refinement,
    plan_json,
    plan_lines,
)
from burnish.projects.dialects import Flags

_INTERRUPTED_EXIT = 130


@dataclass(frozen=True, kw_only=True)
class RefineRequest:
    """What the command line says."""

    run: Path | None = None
    target: str | None = None
    flags: Flags = field(default_factory=dict[str, JsonValue])
    """Settings of the refinement, by the names of their flags."""
    resume: str | None = None
    dry_run: bool = False
    as_json: bool = False
    quiet: bool = False

    def settings(self) -> RefineSettings:
        """The flags as settings."""
        return RefineSettings.model_validate(dict(self.flags))

    def seat(self) -> Seat:
        """What is to be refined, and where; raises SeedRefused."""
        if (self.run is None) == (self.target is None):
            raise SeedRefused(
                "what is to be refined?",
                remedy="name the folder of a run, or --target EXP:TASK; one of the two",
            )
        return Seat.beside(self.run) if self.run else Seat.in_task(find_task(str(self.target)))


class _StoppedRefining(Interrupted):
    """Of refine: AWP refine gives 130."""

    exit_code = _INTERRUPTED_EXIT


def refine_run(request: RefineRequest, *, wishes: RefineOptions | None = None) -> None:
    """Do what is asked; the exit code says how it went."""
    try:
        _refine_run(request, wishes)
    except KeyboardInterrupt:
        remedy = "a session that had begun goes on with --resume last"
        raise _StoppedRefining("interrupted", remedy=remedy) from None


def _refine_run(request: RefineRequest, wishes: RefineOptions | None) -> None:
    seat = request.seat()
    if request.flags.get("iterations") not in (None, request.settings().iterations):
        made = counted(request.settings().iterations, "iteration")
        typer.echo(f"! --iterations goes from 1 to {MOST_ITERATIONS}: {made}", err=True)
    if request.dry_run:
        _show_plan(seat, request, wishes or RefineOptions())
        return
    loud = not (request.quiet or request.as_json)
    wished = replace(wishes or RefineOptions(), listen=_SessionView(seat.seed.gradient, loud=loud))
    opened = open_refinement(seat, request.settings(), resume=request.resume, options=wished)
    if loud:
        _mention(opened, request)
    try:
        session = asyncio.run(_driven(opened, request))
    except KeyboardInterrupt:
        raise _StoppedRefining("stopped at once", remedy=_go_on(opened, request)) from None
    _last_words(opened, session, seat, as_json=request.as_json)


def _show_plan(seat: Seat, request: RefineRequest, wishes: RefineOptions) -> None:
    if request.as_json:
        plan = plan_json(seat, request.settings(), wishes)
        typer.echo(json.dumps(plan, ensure_ascii=False, indent=2))
        return
    for line in plan_lines(seat, request.settings(), wishes):
        typer.echo(line)


async def _driven(opened: OpenRefinement, request: RefineRequest) -> Session:
    """Drive it; a first signal stops it after the loop that it is in, a second at once."""
    try:
        return await opened.run((StopNotice(Refine.name),))
    except Interrupted as error:
        raise _StoppedRefining(error.message, remedy=_go_on(opened, request)) from error


def _go_on(opened: OpenRefinement, request: RefineRequest) -> str:
    what = (
        f"--target {request.target}"
        if request.run is None
        else file_name(str(request.run.resolve()))
    )
    return f"go on    burnish refine {what} --resume {opened.session.session_id}"


@dataclass
class _SessionView:
    """Says what is new in a session."""

    gradient: RunGradient
    loud: bool
    shown: int = -1
    best: float = 0.0

    def __call__(self, session: Session) -> None:
        if not self.loud or not session.unfinished:
            return
        if self.shown < 0:
            typer.echo(f"session  {session.session_id}")
            typer.echo(f"seed     loss {session.seed_loss:.4f} · {_wrong(self.gradient)}")
            for note in session.notes:
                typer.echo(f"! {note}")
            self.shown, self.best = 0, session.seed_loss or 0.0
        for row in session.iterations[self.shown :]:
            typer.echo(self._line(row, better=row.k == session.best_iter))
        self.shown = len(session.iterations)

    def _line(self, row: Iteration, *, better: bool) -> str:
        loss = row.loss or 0.0
        step, self.best = loss - self.best, loss if better else self.best
        tier = f" {row.tier:<4}" if row.tier else ""
        change = f"{'▼' if step < 0 else '▲'}{abs(step):.4f}"
        note = f"  {row.note}" if row.note else ""
        verdict = "better ✓" if better else "✗"
        return f"[{row.k}]{tier} {row.status:<8} loss {loss:.4f} ({change})  {verdict}{note}"


def _wrong(gradient: RunGradient) -> str:
    counts = (
        (len(gradient.defects), "defect"),
        (len(gradient.rejected_gates), "rejection"),
        (len(gradient.eval_deltas), "metric gap"),
    )
    return ", ".join(counted(n, what) for n, what in counts if n) or "nothing is wrong"


def _mention(opened: OpenRefinement, request: RefineRequest) -> None:
    for note in opened.setup.notes:
        typer.echo(f"! {note}")
    if opened.others and request.resume is None:
        names = ", ".join(each.session_id for each in opened.others)
        typer.echo(f"! unfinished: {names}; --resume SESSION would go on with one")


def _last_words(opened: OpenRefinement, session: Session, seat: Seat, *, as_json: bool) -> None:
    if session.error:
        _show(session, as_json=as_json)
        raise BurnishError(f"{session.stop_reason}: {session.error}", remedy=f"see {opened.page}")
    if as_json:
        typer.echo(session.text.rstrip())
    elif session.stop_reason == EMPTY:
        typer.echo(f"nothing to refine: {outcome(session)}")
    else:
        typer.echo(f"stopped  {outcome(session)}")
        _result(session, seat)
        typer.echo(f"report   {opened.page}")
    if session.stop_reason != EMPTY and not session.best_written:
        raise typer.Exit(1)


def _show(session: Session, *, as_json: bool) -> None:
    if as_json:
        typer.echo(session.text.rstrip())


def _result(session: Session, seat: Seat) -> None:
    if not session.best_iter:
        typer.echo(f"best     the seed, loss {session.seed_loss:.4f}; nothing was better")
        return
    losses = f"loss {session.seed_loss:.4f} → {session.best_loss:.4f}"
    if session.best_written:
        typer.echo(f"best     iteration {session.best_iter}, {losses}, in {seat.home / 'BEST'}")
    else:
        row = session.iterations[session.best_iter - 1]
        typer.echo(f"best     iteration {session.best_iter}, {losses}: {row.note}")
