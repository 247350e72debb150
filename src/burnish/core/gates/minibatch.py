"""The gate of AgentOptimizer: the scores on a few cases sum to more than the parent's."""

from burnish.core.comparisons import (
    Pair,
    cases,
    compare,
    could_turn,
    decide,
    settle,
    tied,
    versus,
)
from burnish.core.decisions import MAX_MISSING, Decision
from burnish.core.objectives import Objective


def improves_on_minibatch(
    *, objective: Objective, minibatch: Pair, max_missing: float = MAX_MISSING
) -> Decision:
    """Accept when the scores on the minibatch sum to more than the parent's.

    It screens and does not decide: about a third of edits that change nothing pass it.
    """

    def accepts(gain: float) -> bool:
        return gain > 0 and not tied(gain)

    seen = compare(minibatch, objective, max_missing=max_missing)
    n = seen.missing.compared
    new, old = (n * (1.0 - (side.loss or 0.0)) for side in (seen.candidate, seen.incumbent))
    code = "better" if accepts(seen.gain) else ("tie" if tied(seen.gain) else "worse")
    shown = versus(old if code == "tie" else new, old)
    made = decide(
        "improves_on_minibatch",
        code,
        f"sum over {cases(n)} {shown[0]} {shown[1]} parent's {shown[2]}",
        {"candidate_sum": new, "parent_sum": old, "cases": float(n)},
    )
    return settle(made, seen, turns=could_turn(seen, accepts, accepted=made.accepted))
