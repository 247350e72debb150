"""Driving a run to its end: search, signals, the sealed test, the last event."""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from burnish.core.candidates import Candidate
from burnish.core.cases import Split
from burnish.core.comparisons import Pair, compare
from burnish.core.errors import BurnishError, Interrupted
from burnish.core.evaluations import Evaluation
from burnish.core.money import Spend
from burnish.core.statistics import paired_interval
from burnish.core.stopping import FINISHED, StopReason
from burnish.effects.call_time import asked_to_leave
from burnish.runs.events import (
    RunBroken,
    RunFailed,
    RunFinished,
    RunInterrupted,
    RunResumed,
    SealedResult,
    SessionBegun,
    Warned,
)
from burnish.runs.run import Run
from burnish.runs.signals import Signals
from burnish.runs.stoppers import STOP_FILE
from burnish.runs.watching import BY_SIGNAL, Watch

if TYPE_CHECKING:
    from pathlib import Path


SILENT = "silent"
"""Begins the key of the warning about a role that never answered."""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a run ended."""

    folder: "Path"
    reason: StopReason
    best: Candidate
    spent: Spend
    billed: Spend
    sealed: SealedResult | None = None

    @property
    def interrupted(self) -> bool:
        """Whether a signal ended it, so that it can be resumed."""
        return self.reason.code == "signal"


async def drive(run: Run) -> Ending:
    """Search until there is a reason to stop; then the sealed test. The run stays open."""
    session = run.directory.journal.session
    run.tell(_beginning(run, SessionBegun if session == 1 else RunResumed), f"session:{session}")
    for number, note in enumerate(run.setup.notes):
        run.tell(Warned(message=note), f"note:{number}")
    try:
        reason, sealed = await _watched(run)
    except BurnishError as error:
        ended = RunBroken if isinstance(error, Interrupted) else RunFailed
        run.tell(ended(reason=str(error)), f"session:{session}:failed")
        raise
    ending = Ending(
        folder=run.directory.folder,
        reason=reason,
        best=run.incumbent,
        spent=run.spent,
        billed=run.billed,
        sealed=sealed,
    )
    _tell_end(run, ending, session)
    return ending


async def _watched(run: Run) -> tuple[StopReason, SealedResult | None]:
    """Do the work; a first signal asks it to stop, a second stops it."""
    loop = asyncio.get_running_loop()
    watch = Watch(run, end=lambda: work.cancel())
    work = asyncio.create_task(_work(run, watch))

    def ask() -> None:
        watch.signalled = True
        loop.call_soon_threadsafe(run.ask_to_stop, BY_SIGNAL)

    def insist() -> None:
        watch.insisting = True
        loop.call_soon_threadsafe(work.cancel)

    with Signals(ask=ask, insist=insist) as seen, watch:
        try:
            return await work
        except (asyncio.CancelledError, Interrupted):
            if seen.count >= 2:
                remedy = "everything journaled is kept; resume the run to go on"
                raise Interrupted("stopped at once", remedy=remedy) from None
            if watch.broken_off is None or asked_to_leave():
                raise
            return _obeyed(run, watch.broken_off), None


async def _work(run: Run, watch: Watch) -> tuple[StopReason, SealedResult | None]:
    await run.search()
    watch.searching = False
    reason = _obeyed(run, run.stopped or FINISHED)
    if not _stopped_by_the_user(run, reason):
        _require_answers(run)
    return reason, await _sealed_test(run) if _worth_testing(run, reason) else None


def _obeyed(run: Run, reason: StopReason) -> StopReason:
    """The reason why the search ended; a stop file that was obeyed is gone."""
    if reason.code == "stop_file":
        (run.directory.folder / STOP_FILE).unlink(missing_ok=True)
    return reason


def _stopped_by_the_user(run: Run, reason: StopReason) -> bool:
    """Whoever stops a run may go on with it, and knows that it is not over."""
    return reason.code in {"signal", "stop_file", *run.setup.stop_callbacks}


def _require_answers(run: Run) -> None:
    """A search that is over and had no proposal to try has failed, however it ended.

    Where something else was tried, such as numbers beside texts, the silence is told instead.
    A run that recorded nothing, not even a baseline, was no search.
    """
    for role in run.answering.silent if run.trial else ():
        if not run.tried:
            raise run.answering.failed(role)
        message = f"{run.answering.words(role)}. What it was to propose was not tried"
        run.tell(Warned(message=message), f"{SILENT}:{role}")


def _worth_testing(run: Run, reason: StopReason) -> bool:
    """Not before there is a baseline, not when the search will go on, not at unknown prices.

    A baseline of which nothing is known is none: the test would be spent on nothing.
    """
    unfit = {"signal", "price_unknown"}
    measured = run.standing.tracked_candidates > 0 and run.standing.best_score is not None
    return bool(run.dataset.test) and measured and reason.code not in unfit


async def _sealed_test(run: Run) -> SealedResult:
    repeats = run.setup.test_repeats
    baseline = run.target.baseline
    before = await run.evaluate(baseline, split=Split.TEST, repeats=repeats)
    after = before
    if run.incumbent.id != baseline.id:
        after = await run.evaluate(run.incumbent, split=Split.TEST, repeats=repeats)
    result = _compare(run, before, after)
    run.directory.journal.set_mark("sealed_done", "yes")
    run.tell(result, "sealed_test")
    return result


def _compare(run: Run, before: Evaluation, after: Evaluation) -> SealedResult:
    objective = run.objective
    seen = compare(Pair(candidate=after, incumbent=before), objective, max_missing=1.0)
    changed = after.candidate != before.candidate
    new, old = seen.pair.candidate, seen.pair.incumbent
    pairs = [
        (objective.case_score(new, case), objective.case_score(old, case)) for case in new.cases
    ]
    gains = [now - then for now, then in pairs if now is not None and then is not None]
    return SealedResult(
        baseline_score=seen.incumbent.score,
        best_score=seen.candidate.score,
        gain=paired_interval(gains, run.rng("sealed test")) if changed else None,
        missing=seen.missing.dropped + seen.missing.lost,
    )


def _beginning(run: Run, session: type[SessionBegun]) -> SessionBegun:
    header = run.directory.header
    limits = {
        name: value
        for name, value in vars(run.budget).items()
        if value is not None and isinstance(value, int | float)
    }
    return session(
        run=header.id,
        folder=str(run.directory.folder),
        strategy=header.strategy,
        target=run.target.description.kind,
        cases={**header.cases},
        budget=limits,
        trials_recorded=run.directory.journal.trials_recorded,
    )


def _tell_end(run: Run, ending: Ending, session: int) -> None:
    ended = RunInterrupted if ending.interrupted else RunFinished
    data = ended(
        code=ending.reason.code,
        reason=ending.reason.detail,
        best=ending.best.id,
        best_score=run.standing.best_score,
        spent=ending.spent,
        billed=ending.billed,
    )
    run.tell(data, f"session:{session}:end")
