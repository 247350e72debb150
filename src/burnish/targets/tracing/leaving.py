"""Steps that a run leaves behind when it ends in an exception, for whoever makes its outcome."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from burnish.core.outcomes import Trace

_LEFT: ContextVar[list[Trace] | None] = ContextVar("left", default=None)


@contextmanager
def left_behind() -> Generator[list[Trace], None, None]:
    """What is left while this is open, the latest last."""
    found: list[Trace] = []
    token = _LEFT.set(found)
    try:
        yield found
    finally:
        _LEFT.reset(token)


def leave(trace: Trace) -> None:
    """Leave the steps of a run that is about to raise."""
    found = _LEFT.get()
    if found is not None and trace.steps:
        found.append(trace)
