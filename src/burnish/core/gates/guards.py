"""Guards: what an accept may not break, whatever the mean says."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from burnish.core.case_changes import case_changes
from burnish.core.comparisons import Pair, versus
from burnish.core.decisions import Decision, Verdict
from burnish.core.objectives import Objective
from burnish.core.surfaces import EPSILON


@dataclass(frozen=True, kw_only=True)
class Guards:
    """Conditions beside the gain."""

    protected: tuple[str, ...] = ()
    """Cases whose score may not fall, and that must be there to be compared."""
    no_new_failures: bool = False
    """No case that passed may fail."""
    floors: Mapping[str, float] = field(default_factory=dict[str, float])
    """The least mean of a metric."""


def guarded(decision: Decision, *, pair: Pair, objective: Objective, guards: Guards) -> Decision:
    """The decision, an accept turned down where a guard is broken or cannot be checked."""
    if not decision.accepted:
        return decision
    broken = _broken(pair, objective, guards)
    if not broken:
        return decision
    reason = f"{decision.reason}, but {broken}"
    return replace(decision, verdict=Verdict.REJECT, code="guard", reason=reason)


def _broken(pair: Pair, objective: Objective, guards: Guards) -> str:
    changes = case_changes(pair, objective)
    for case in guards.protected:
        if case in changes.down or case in changes.new_fail:
            return f"the protected case '{case}' got worse"
        sides = (pair.candidate, pair.incumbent)
        if any(objective.case_score(side, case) is None for side in sides):
            return f"the protected case '{case}' is missing, so nobody can tell"
    if guards.no_new_failures and changes.new_fail:
        return f"these passed before and fail now: {', '.join(changes.new_fail)}"
    for metric, floor in guards.floors.items():
        found = pair.candidate.mean_of(metric)
        if found is None:
            return f"the mean of {metric} is not known, and {floor:g} is its floor"
        if found < floor - EPSILON:
            return f"the mean of {metric}, {' '.join(versus(found, floor))}, is below its floor"
    return ""
