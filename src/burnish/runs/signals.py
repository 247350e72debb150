"""Ctrl-C and SIGTERM: the first asks, the second insists."""

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any


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
