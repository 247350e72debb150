"""When refining stops: rules over the losses so far, the seed's not among them."""

import math
from collections.abc import Iterator, Sequence

PLATEAU = 0.01
"""Two losses this close are no progress."""
_SLACK = 1e-9
"""What floating point may add to a difference."""
TWICE_THE_SEED = 2.0

EMPTY, EMPTY_LATER = "empty_gradient", "empty_gradient_midloop"
REASONS = {
    "max_iterations": "all iterations were made",
    "regression": "the loss rose twice in a row",
    "plateau": "the loss did not move twice in a row",
    "wall_time_exhausted": "the iterations took twice as long as the seed",
    EMPTY: "nothing is wrong with the seed",
    EMPTY_LATER: "nothing is wrong with the best any more",
    "no_prior_deliverable": "what the next iteration should start from is gone",
    "interrupted": "stopped from outside; it can go on",
    "running": "under way, or killed; it can go on",
}
"""What the reasons mean; the names are those of AWP refine."""


def stop_after(
    losses: Sequence[float | None], *, wanted: int, seconds: float, seed_seconds: float
) -> str:
    """Why to stop after these iterations; empty when there is no reason.

    Worse twice in a row is a regression, as good as before twice in a row a plateau; equal
    losses are a plateau. An iteration that came to nothing has no loss, and is worse.
    """
    steps = list(_steps(losses))[-2:]
    if len(steps) == 2 and all(step is None or step > _SLACK for step in steps):
        return "regression"
    if len(steps) == 2 and all(step is not None and abs(step) < PLATEAU - _SLACK for step in steps):
        return "plateau"
    if len(losses) >= wanted:
        return "max_iterations"
    spent = seed_seconds > 0 and seconds >= TWICE_THE_SEED * seed_seconds
    return "wall_time_exhausted" if spent else ""


def _steps(losses: Sequence[float | None]) -> Iterator[float | None]:
    """From each iteration to the next; None where it came to nothing."""
    before = losses[0] if losses else None
    for now in losses[1:]:
        if now is None:
            yield None
        elif before is None:
            yield -math.inf
        else:
            yield now - before
        before = before if now is None else now
