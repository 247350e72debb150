"""The decision of the artifact loop: crash, constraints, the primary number, tie-breakers."""

from burnish.core.comparisons import Pair, broken_constraint, decide
from burnish.core.decisions import Decision
from burnish.core.evaluations import Evaluation
from burnish.core.gates import strict
from burnish.core.objectives import Objective
from burnish.strategies.edits.settings import EditsSettings

TAMPERING = "Tampering"
"""The error of a run that touched what it must leave alone."""
MAX_MISSING = 0.0
"""One case is all there is: if it is missing, nobody can tell."""


def decision_of(
    candidate: Evaluation,
    incumbent: Evaluation,
    objective: Objective,
    settings: EditsSettings,
    *,
    best: Evaluation | None = None,
) -> Decision:
    """Whether the candidate is clearly better; `best` is the best incumbent so far."""
    if incumbent.failed_cases() and not candidate.failed_cases():
        return _runs_at_last(candidate, objective)
    return strict(
        objective=objective,
        pair=Pair(candidate=candidate, incumbent=incumbent),
        best=best,
        primary=settings.primary,
        direction=settings.direction,
        tolerance=settings.tolerance,
        accept_sigma=settings.accept_sigma,
        max_missing=MAX_MISSING,
    )


def crashed(candidate: Evaluation) -> Decision | None:
    """The decision on a candidate that does not run, whatever the incumbent does."""
    if not candidate.failed_cases():
        return None
    failure = next(r.outcome.failure for r in candidate.results if r.outcome.failure)
    if failure.error == TAMPERING:
        return decide("strict", "tampering", failure.message, {})
    told = f"the candidate crashed: {failure.message}"
    return decide("strict", "crash", told, {"crashed": 1.0})


def _runs_at_last(candidate: Evaluation, objective: Objective) -> Decision:
    """Where what was there did not run, whatever runs and keeps the constraints is better."""
    if candidate.missing_cases(objective.weights):
        return decide("strict", "missing", "cannot tell: the run is missing", {})
    broken = broken_constraint("strict", objective, objective.measure(candidate))
    return broken or decide("strict", "better", "it runs, and what was there did not", {})
