"""Driving a run to its end: search, signals, the sealed test, the last event."""

import asyncio
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from burnish.core.cases import Split
from burnish.core.comparisons import Pair, compare
from burnish.core.errors import BurnishError, Interrupted
from burnish.core.evaluations import Evaluation
from burnish.core.money import Spend
from burnish.core.statistics import paired_interval
from burnish.core.surfaces import Candidate
from burnish.core.trials import FINISHED, StopReason
from burnish.journal.executors import cut_short, task_cancelled
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
from burnish.runs.stoppers import STOP_FILE

if TYPE_CHECKING:
    from pathlib import Path


class Signals:
    """While entered, the first signal calls `ask`, the second `insist`, a third interrupts.

    Handlers can only be set in the main thread; elsewhere, as in a server, signals are left
    to whoever owns them.
    """

    WATCHED = (signal.SIGINT, signal.SIGTERM)

    def __init__(self, *, ask: Callable[[], None], insist: Callable[[], None]) -> None:
        self.count = 0
        self._ask = ask
        self._insist = insist
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Signals":
        if threading.current_thread() is threading.main_thread():
            for number in self.WATCHED:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
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


# -- Ends a run that is to stop and cannot, since a call in it hangs ------------------------------


_TICK = 0.25
"""Seconds between two looks. What is waited for is counted in looks, so that a program that was
stopped and goes on, or a machine that is busy, is not taken for one that hangs."""
_BLOCKED_LOOKS = 4
"""So many looks at a loop that does not turn, and whatever blocks it is woken."""
_BY_SIGNAL = "asked to stop by a signal"
_WAKE = signal.SIGURG
"""Ignored unless somebody handles it, and hardly anybody does: Go takes it for the same purpose."""


class Watch:
    """Watches one run while it is entered. Enter it in the thread of the loop."""

    def __init__(self, run: Run, *, end: Callable[[], object]) -> None:
        self.broken_off: StopReason | None = None
        """Why the trial under way was dropped."""
        self.signalled = False
        """Whether a signal came, which the loop may not know yet."""
        self.insisting = False
        """Whether the run is to end at once."""
        self.searching = True
        """Whether the search is under way: afterwards only a signal can stop the run."""
        self._run = run
        self._end = end
        self._loop = asyncio.get_running_loop()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="burnish watch", daemon=True)
        self._turned = True
        self._blocked = self._quiet = 0
        self._blocking: asyncio.Task[Any] | None = None
        self._landed = 0
        self._before: Any = None
        self._handles = False

    def __enter__(self) -> "Watch":
        main = threading.current_thread() is threading.main_thread()
        self._handles = main and signal.getsignal(_WAKE) in (signal.SIG_DFL, signal.SIG_IGN)
        if self._handles:
            self._before = signal.signal(_WAKE, self._cut_short)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        if self._handles:
            signal.signal(_WAKE, self._before)

    # -- in the thread ---------------------------------------------------------------------

    def _look(self) -> None:
        while not self._over.wait(_TICK):
            self._look_at_loop()
            with suppress(OSError):  # whether there is a stop file may not be told just now
                self._look_at_calls()

    def _look_at_loop(self) -> None:
        task = asyncio.current_task(self._loop)
        # Several calls that block may be due in one turn of the loop: each is counted by itself.
        alike = not self._turned and task is self._blocking
        self._blocked, self._blocking = self._blocked + 1 if alike else 0, task
        if self._turned:
            self._turned = False
            with suppress(RuntimeError):  # the loop is closed: nobody runs any more
                self._loop.call_soon_threadsafe(self._turn)
        # Also for a Ctrl-C that the system gave to another thread: Python handles it in this one.
        if self._handles and self._blocked and self._blocked % _BLOCKED_LOOKS == 0:
            signal.pthread_kill(threading.main_thread().ident or 0, _WAKE)

    def _look_at_calls(self) -> None:
        reason = self._run.outside_reason(searching=self.searching)
        if self.signalled:
            reason = StopReason(code="signal", detail=_BY_SIGNAL)
        # Going over recorded trials takes its time, and makes no calls.
        moved = self._run.replaying or self._landed != self._run.calls_ended
        self._landed = self._run.calls_ended
        self._quiet = 0 if reason is None or moved else self._quiet + 1
        grace = self._run.setup.grace_seconds
        if reason is None or self.broken_off is not None or self._quiet * _TICK < grace:
            return
        dropped = f"the trial under way was dropped, since no call ended for {grace:g} s"
        self.broken_off = replace(reason, detail=f"{reason.detail}; {dropped}")
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end)

    @property
    def _expired(self) -> bool:
        limit = self._run.blocking_limit
        return limit is not None and self._blocked * _TICK >= limit

    @property
    def _ending(self) -> bool:
        over = self.insisting or self.broken_off is not None
        return over and self._blocked >= _BLOCKED_LOOKS

    # -- in the thread of the loop ---------------------------------------------------------

    def _turn(self) -> None:
        self._turned = True

    def _cut_short(self, number: int, frame: FrameType | None) -> None:
        del number
        if not self._turned and (self._ending or self._expired):  # else it came too late
            cut_short(frame, ending=self._ending)


# -- Driving a run to its end ---------------------------------------------------------------------


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
        loop.call_soon_threadsafe(run.ask_to_stop, _BY_SIGNAL)

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
            if watch.broken_off is None or task_cancelled():
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
