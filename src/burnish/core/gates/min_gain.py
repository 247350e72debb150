"""The gate of PromptIter: the score on validation rises by a stated amount."""

from burnish.core.comparisons import (
    Pair,
    broken_constraint,
    compare,
    could_turn,
    decide,
    settle,
    tied,
    versus,
)
from burnish.core.decisions import MAX_MISSING, Decision
from burnish.core.objectives import Objective
from burnish.core.surfaces import EPSILON


def min_gain(
    *,
    objective: Objective,
    validation: Pair,
    gain: float = 0.0,
    max_missing: float = MAX_MISSING,
) -> Decision:
    """Accept when the validation score rises by `gain` or more.

    A negative `gain` says how much may be lost; only then does a tie pass.
    """

    def accepts(found: float) -> bool:
        return found >= gain - EPSILON and (gain < -EPSILON or found > EPSILON)

    seen = compare(validation, objective, max_missing=max_missing, also=objective.constrained_names)
    broken = broken_constraint("min_gain", objective, *seen.own)
    if broken is not None:
        return settle(broken, seen)
    shown = versus(seen.gain, gain)
    words = f"score gain {shown[0]} {shown[1]} required {shown[2]}"
    code = "better" if accepts(seen.gain) else ("tie" if tied(seen.gain) else "below")
    if code == "tie" and gain <= EPSILON:
        words += ", and a tie is no gain"
    numbers = {
        "score": 1.0 - (seen.candidate.loss or 0.0),
        "best_score_before": 1.0 - (seen.incumbent.loss or 0.0),
        "score_delta": seen.gain,
        "min_score_gain": gain,
    }
    turns = could_turn(seen, accepts, accepted=code == "better")
    return settle(decide("min_gain", code, words, numbers), seen, turns=turns)
