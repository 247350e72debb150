"""Drives a run to its end: search, signals, the last measurements, the last event."""

import asyncio
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from types import FrameType
from typing import TYPE_CHECKING, Any

from burnish.core.errors import (
    BaselineUnmeasured,
    BurnishError,
    EndpointDown,
    Interrupted,
    in_shell,
)
from burnish.core.evaluations import html_table
from burnish.core.formatting import spending
from burnish.core.money import Spend
from burnish.core.protocols import Summarized
from burnish.core.surfaces import Candidate
from burnish.core.trials import FINISHED, StopReason
from burnish.journal.executors import TICK, LoopWatch, cut_short, task_cancelled
from burnish.models.addresses import addresses_of
from burnish.runs.claims import claim_words
from burnish.runs.events import (
    ALARM,
    Claim,
    RunBroken,
    RunFailed,
    RunFinished,
    RunInterrupted,
    RunResumed,
    SealedResult,
    SessionBegun,
    Warned,
)
from burnish.runs.final_measurements import (
    FinalResults,
    measure_winner,
    unmeasured_baseline,
    without_measuring,
)
from burnish.runs.preflight import ask_each_model
from burnish.runs.run import Run
from burnish.runs.stoppers import STOP_FILE, LimitExceeded

if TYPE_CHECKING:
    from pathlib import Path


class Signals:
    """While entered, the first signal calls `ask`, the second `insist`, a third interrupts.

    Handlers can only be set in the main thread; elsewhere, as in a server, it does nothing.
    """

    def __init__(self, *, ask: Callable[[], None], insist: Callable[[], None]) -> None:
        self.count = 0
        self._ask = ask
        self._insist = insist
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Signals":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.count += 1
        if self.count == 1:
            self._ask()
        elif self.count == 2:
            self._insist()
        else:
            raise KeyboardInterrupt


_BY_SIGNAL = "asked to stop by a signal"
_WAKE = signal.SIGURG
"""Ignored by default and hardly ever handled; Go uses it for the same purpose."""


class _Watch:
    """Watches one run while it is entered, in the thread of the event loop."""

    def __init__(self, run: Run, *, end: Callable[[], object]) -> None:
        self.broken_off: StopReason | None = None
        """Why the current trial was dropped."""
        self.signalled = False
        """Whether a signal came, which the loop may not know yet."""
        self.insisting = False
        """Whether the run must end at once."""
        self.begun = False
        """Whether models have answered that they are there: before that, no trial can be lost."""
        self.searching = True
        """Whether the search is in progress: afterwards only a signal can stop the run."""
        self._run = run
        self._end = end
        self._loop = asyncio.get_running_loop()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="burnish watch", daemon=True)
        self._blockage = LoopWatch(self._loop)
        self._quiet = self._landed = 0
        self._before: Any = None
        self._handles = False

    def __enter__(self) -> "_Watch":
        main = threading.current_thread() is threading.main_thread()
        self._handles = main and signal.getsignal(_WAKE) in (signal.SIG_DFL, signal.SIG_IGN)
        if self._handles:
            self._before = signal.signal(_WAKE, self._cut_short)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._handles:
            signal.signal(_WAKE, self._before)

    def _look(self) -> None:
        while not self._over.wait(TICK):
            self._blockage.look()
            # Also for a Ctrl-C that the system sent to another thread: Python runs handlers
            # in the main one.
            if self._handles and self._blockage.due:
                signal.pthread_kill(threading.main_thread().ident or 0, _WAKE)
            with suppress(OSError):  # the stop file may be unreadable for a moment
                self._look_at_calls()

    def _look_at_calls(self) -> None:
        reason = self._run.closing.outside_reason(searching=self.searching)
        if self.signalled:
            reason = StopReason(code="signal", detail=_BY_SIGNAL)
        # Replaying recorded trials takes time but makes no calls.
        moved = self._run.replaying or self._landed != self._run.calls_ended
        self._landed = self._run.calls_ended
        self._quiet = 0 if reason is None or moved else self._quiet + 1
        waiting = self._run.waits.waiting
        grace = self._run.setup.grace_seconds if self.begun and not waiting else 0.0
        if reason is None or self.broken_off is not None or self._quiet * TICK < grace:
            return
        why = "nobody answers" if waiting else f"no call ended for {grace:g} s"
        what = f"the current trial was dropped, since {why}"
        what = what if self.begun else "nothing was run"
        self.broken_off = replace(reason, detail=f"{reason.detail}; {what}")
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end)

    def _cut_short(self, number: int, frame: FrameType | None) -> None:
        del number
        blockage = self._blockage
        expired = blockage.exceeds(self._run.blocking_limit)
        ending = (self.insisting or self.broken_off is not None) and blockage.long
        if not blockage.turned and (ending or expired):  # otherwise it came too late
            cut_short(frame, ending=ending)


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a run ended."""

    folder: "Path"
    reason: StopReason
    best: Candidate
    spent: Spend
    billed: Spend
    sealed: SealedResult | None = None
    claim: Claim | None = None
    """What may be said of the best; None if nothing was measured."""

    @property
    def interrupted(self) -> bool:
        """Whether a signal ended it, so that it can be resumed."""
        return self.reason.code == "signal"

    def _repr_html_(self) -> str:  # pyright: ignore[reportUnusedFunction] - notebooks call it
        title = "nothing was measured" if self.claim is None else claim_words(self.claim)
        rows = (
            ("stopped", self.reason.detail or self.reason.code),
            ("spent", spending(self.spent)),
            ("run", str(self.folder)),
            ("next", f"burnish adopt {in_shell(self.folder.name)}"),
        )
        return html_table(title, (), rows)


async def drive(run: Run) -> Ending:
    """Search until there is a reason to stop; then measure the winner. The run stays open."""
    session = run.directory.journal.session
    run.tell(_beginning(run, SessionBegun if session == 1 else RunResumed), f"session:{session}")
    for number, note in enumerate(run.setup.notes):
        run.tell(Warned(message=note), f"note:{number}")
    try:
        with run.waits.apply():
            reason, results = await _watched(run)
    except BurnishError as error:
        if isinstance(error, EndpointDown):
            run.forget_unanswered()
        ended = RunBroken if isinstance(error, Interrupted) else RunFailed
        run.tell(ended(reason=str(error)), f"session:{session}:failed")
        raise
    ending = Ending(
        folder=run.directory.folder,
        reason=reason,
        best=run.incumbent,
        spent=run.spent,
        billed=run.billed,
        sealed=results.sealed,
        claim=results.claim,
    )
    _tell_end(run, ending, session)
    return ending


async def _watched(run: Run) -> tuple[StopReason, FinalResults]:
    """Run the search; the first signal asks it to stop, the second stops it."""
    loop = asyncio.get_running_loop()
    watch = _Watch(run, end=lambda: work.cancel())
    work = asyncio.create_task(_work(run, watch))

    def ask() -> None:
        watch.signalled = True
        loop.call_soon_threadsafe(run.ask_to_stop, _BY_SIGNAL)

    def insist() -> None:
        watch.insisting = True
        loop.call_soon_threadsafe(work.cancel)

    with Signals(ask=ask, insist=insist) as seen, watch:
        try:
            return await work
        except (asyncio.CancelledError, Interrupted):
            if seen.count >= 2:
                remedy = "the journal is complete; resume the run to continue"
                raise Interrupted("stopped at once", remedy=remedy) from None
            if watch.broken_off is None or task_cancelled():
                raise
            run.settle_offer()
            reason = _obeyed(run, watch.broken_off)
            _require_baseline(run, reason)
            return reason, without_measuring(run, reason)


async def _work(run: Run, watch: _Watch) -> tuple[StopReason, FinalResults]:
    try:
        await ask_each_model(run)
        watch.begun = True
        await run.search()
    except LimitExceeded as limit:
        run.closing.stopped = limit.reason
    run.settle_offer()
    watch.searching = False
    reason = _obeyed(run, run.stopped or FINISHED)
    _require_baseline(run, reason)
    if not run.closing.by_user(reason):
        _require_answers(run)
    return reason, await measure_winner(run, reason)


def _obeyed(run: Run, reason: StopReason) -> StopReason:
    """The reason why the search ended; deletes a stop file."""
    if reason.code == "stop_file":
        (run.directory.folder / STOP_FILE).unlink(missing_ok=True)
    return reason


def _require_baseline(run: Run, reason: StopReason) -> None:
    """Fail a search that is over and has no number of its baseline, nor anything better.

    A measurement that is cut short says so itself, and a search that recorded nothing although no
    limit was met was none.
    """
    if not run.searches or run.closing.by_user(reason):
        return
    if run.trial == 0 and reason.code != FINISHED.code:
        raise BaselineUnmeasured(
            f"the baseline could not be measured: {reason.code}: {reason.detail}",
            remedy=f"raise the limit, then {run.how_to_go_on}",
        )
    if not run.changed and (failure := unmeasured_baseline(run)):
        raise BaselineUnmeasured(
            f"the baseline could not be measured, and no candidate could be: {failure}",
            remedy="correct the cause, then start a new run",
        )


def _require_answers(run: Run) -> None:
    """Fail a search without any proposal to try, however it ended.

    If something else was tried, such as numbers besides texts, this is only a warning. A run that
    recorded nothing, not even a baseline, was no search.
    """
    for role in run.answering.silent if run.trial else ():
        if not run.tried:
            raise run.answering.failed(role)
        message = f"{run.answering.words(role)}. What it should have proposed was not tried"
        run.tell(Warned(message=message), f"{ALARM}:{role}")


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
        title=run.target.plan_summary if isinstance(run.target, Summarized) else None,
        cases={**header.cases},
        budget=limits,
        trials_recorded=run.directory.journal.trials_recorded,
        models=tuple(addresses_of(run.setup.model_uses())) or None,
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
