"""Ends a run that is to stop and cannot, since a call in it hangs.

A thread of its own, for a call may block the event loop. It looks at two things. Where somebody
wants the run to stop (a signal, the stop file, the minutes are over) and no call ends for a while,
the trial under way is dropped. Where the loop does not turn, a signal of its own wakes the main
thread, and raises `CutShort` inside the call that blocks it: past the time limit, or once the run
is to end.
"""

import asyncio
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from types import FrameType, TracebackType
from typing import Any

from burnish.core.stopping import StopReason
from burnish.effects.call_time import cut_short
from burnish.runs.run import Run

TICK = 0.25
"""Seconds between two looks. What is waited for is counted in looks, so that a program that was
stopped and goes on, or a machine that is busy, is not taken for one that hangs."""
_BLOCKED_LOOKS = 4
"""So many looks at a loop that does not turn, and whatever blocks it is woken."""
BY_SIGNAL = "asked to stop by a signal"
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
        while not self._over.wait(TICK):
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
            reason = StopReason(code="signal", detail=BY_SIGNAL)
        # Going over recorded trials takes its time, and makes no calls.
        moved = self._run.replaying or self._landed != self._run.calls_ended
        self._landed = self._run.calls_ended
        self._quiet = 0 if reason is None or moved else self._quiet + 1
        grace = self._run.setup.grace_seconds
        if reason is None or self.broken_off is not None or self._quiet * TICK < grace:
            return
        told = f"the trial under way was dropped, since no call ended for {grace:g} s"
        self.broken_off = replace(reason, detail=f"{reason.detail}; {told}")
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end)

    @property
    def _expired(self) -> bool:
        limit = self._run.blocking_limit
        return limit is not None and self._blocked * TICK >= limit

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
