"""When refining stops: rules over the losses so far, the seed's not among them."""

import itertools
from collections.abc import Sequence

PLATEAU = 0.01
"""Two losses this close are no progress."""
_SLACK = 1e-9
"""What floating point may add to a difference."""
TWICE_THE_SEED = 2.0


def stop_after(losses: Sequence[float], *, wanted: int, seconds: float, seed_seconds: float) -> str:
    """Why to stop after these iterations; empty when there is no reason.

    Worse twice in a row is a regression, as good as before twice in a row a plateau; equal
    losses are a plateau.
    """
    steps = [now - before for before, now in itertools.pairwise(losses)][-2:]
    if len(steps) == 2 and all(step > _SLACK for step in steps):
        return "regression"
    if len(steps) == 2 and all(abs(step) < PLATEAU - _SLACK for step in steps):
        return "plateau"
    if len(losses) >= wanted:
        return "max_iterations"
    spent = seed_seconds > 0 and seconds >= TWICE_THE_SEED * seed_seconds
    return "wall_time_exhausted" if spent else ""
