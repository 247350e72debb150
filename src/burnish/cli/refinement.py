"""Running `burnish refine`: from flags to a session, its progress, and its summary."""

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
from burnish.system.shutdown import run_to_end


@dataclass(frozen=True, kw_only=True)
class RefineRequest:
    """The arguments of the command."""

    run: Path | None = None
    target: str | None = None
    flags: Flags = field(default_factory=dict[str, JsonValue])
    resume: str | None = None
    dry_run: bool = False
    as_json: bool = False
    quiet: bool = False

    def seat(self) -> Seat:
        if (self.run is None) == (self.target is None):
            raise SeedRefused(
                "one result to refine is needed",
                remedy="name either the folder of a run or --target EXP:TASK",
            )
        return Seat.beside(self.run) if self.run else Seat.in_task(find_task(str(self.target)))


class _StoppedRefining(Interrupted):
    """An interrupted refinement: AWP refine exits with 130."""

    exit_code = 130


def refine_run(request: RefineRequest, *, options: RefineOptions | None = None) -> None:
    """Refine one result; the exit code says how it went. `options` are for tests."""
    settings = RefineSettings.model_validate(dict(request.flags))
    try:
        _refine_run(request, settings, options or RefineOptions())
    except KeyboardInterrupt:
        remedy = "if a session had started, continue it with --resume last"
        raise _StoppedRefining("interrupted", remedy=remedy) from None


def _refine_run(request: RefineRequest, settings: RefineSettings, options: RefineOptions) -> None:
    seat = request.seat()
    if request.flags.get("iterations") not in (None, settings.iterations):
        made = counted(settings.iterations, "iteration")
        typer.echo(f"! --iterations goes from 1 to {MOST_ITERATIONS}: {made}", err=True)
    if request.dry_run:
        _show_plan(seat, settings, options, as_json=request.as_json)
        return
    loud = not (request.quiet or request.as_json)
    options = replace(options, listen=_SessionView(seat.seed.gradient, loud=loud))
    opened = open_refinement(seat, settings, resume=request.resume, options=options)
    if loud:
        for note in opened.setup.notes:
            typer.echo(f"! {note}")
        if opened.others and request.resume is None:
            names = ", ".join(each.session_id for each in opened.others)
            typer.echo(f"! unfinished: {names}; use --resume SESSION to continue one")
    run = f"--target {request.target}"
    if request.run is not None:
        run = file_name(str(request.run.resolve()))
    go_on = f"go on    burnish refine {run} --resume {opened.session.session_id}"
    try:
        session = run_to_end(opened.run((StopNotice(Refine.name),)))
    except Interrupted as error:
        raise _StoppedRefining(error.message, remedy=go_on) from error
    except KeyboardInterrupt:
        raise _StoppedRefining("stopped at once", remedy=go_on) from None
    _last_words(opened, session, seat, as_json=request.as_json)


def _show_plan(
    seat: Seat, settings: RefineSettings, options: RefineOptions, *, as_json: bool
) -> None:
    if as_json:
        plan = plan_json(seat, settings, options)
        typer.echo(json.dumps(plan, ensure_ascii=False, indent=2))
        return
    for line in plan_lines(seat, settings, options):
        typer.echo(line)


@dataclass
class _SessionView:
    gradient: RunGradient
    loud: bool
    shown: int = -1
    best: float = 0.0

    def __call__(self, session: Session) -> None:
        if not self.loud or not session.unfinished:
            return
        if self.shown < 0:
            counts = (
                (len(self.gradient.defects), "defect"),
                (len(self.gradient.rejected_gates), "rejection"),
                (len(self.gradient.eval_deltas), "metric gap"),
            )
            wrong = ", ".join(counted(n, what) for n, what in counts if n) or "nothing is wrong"
            typer.echo(f"session  {session.session_id}")
            typer.echo(f"seed     loss {session.seed_loss:.4f} · {wrong}")
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


def _last_words(opened: OpenRefinement, session: Session, seat: Seat, *, as_json: bool) -> None:
    if as_json:
        typer.echo(session.text.rstrip())
    if session.error:
        go_on = f"; then continue it with --resume {session.session_id}"
        remedy = f"see {opened.page}{go_on if session.resumable else ''}"
        raise BurnishError(f"{session.stop_reason}: {session.error}", remedy=remedy)
    if not as_json and session.stop_reason == EMPTY:
        typer.echo(f"nothing to refine: {outcome(session)}")
    elif not as_json:
        typer.echo(f"stopped  {outcome(session)}")
        typer.echo(f"best     {_best(session, seat)}")
        typer.echo(f"report   {opened.page}")
    if session.stop_reason != EMPTY and not session.best_written:
        raise typer.Exit(1)


def _best(session: Session, seat: Seat) -> str:
    if not session.best_iter:
        return f"the seed, loss {session.seed_loss:.4f}; nothing was better"
    losses = f"loss {session.seed_loss:.4f} → {session.best_loss:.4f}"
    place = f", in {seat.home / 'BEST'}"
    note = f": {session.iterations[session.best_iter - 1].note}"
    return f"iteration {session.best_iter}, {losses}{place if session.best_written else note}"
