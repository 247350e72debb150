"""Guards: what an accept may not break, whatever the mean says."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from burnish.core.case_changes import CaseChanges, case_changes, judged_metrics, passes
from burnish.core.comparisons import Pair, versus
from burnish.core.decisions import Decision, Verdict
from burnish.core.evaluations import Evaluation
from burnish.core.objectives import Objective
from burnish.core.pairing import Pairing, paired
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
    pairing = paired(pair.candidate, pair.incumbent)
    if broken := _broken(pairing, case_changes(pair, objective), guards):
        reason = f"{decision.reason}, but {broken}"
        return replace(decision, verdict=Verdict.REJECT, code="guard", reason=reason)
    if unknown := _unknown(pairing, pair.incumbent, objective, guards):
        reason = f"cannot tell: {decision.reason}, but {unknown}"
        return replace(decision, verdict=Verdict.CANNOT_TELL, code="guard", reason=reason)
    return decision


def _broken(pairing: Pairing, changes: CaseChanges, guards: Guards) -> str:
    for case in guards.protected:
        if case in changes.down or case in changes.new_fail:
            return f"the protected case '{case}' got worse"
    if guards.no_new_failures and changes.new_fail:
        return f"these passed before and fail now: {', '.join(changes.new_fail)}"
    for metric, floor in guards.floors.items():
        found = pairing.own.mean_of(metric)
        if found is not None and found < floor - EPSILON:
            return f"the mean of {metric}, {' '.join(versus(found, floor))}, is below its floor"
    return ""


def _unknown(pairing: Pairing, incumbent: Evaluation, objective: Objective, guards: Guards) -> str:
    """What nobody can tell, because something is missing."""
    pair = Pair(candidate=pairing.own_known, incumbent=incumbent)
    sides = (pair.candidate, pair.incumbent)
    for case in guards.protected:
        if any(objective.case_score(side, case) is None for side in sides):
            return f"the protected case '{case}' is missing"
    if guards.no_new_failures and (gone := _passed_and_gone(pair, objective)):
        return f"these passed before and are missing now: {', '.join(gone)}"
    for metric, floor in guards.floors.items():
        worst = pairing.own_at(0.0).mean_of(metric)
        if worst is None or worst < floor - EPSILON:
            return f"the mean of {metric} is not known, and {floor:g} is its floor"
    return ""


def _passed_and_gone(pair: Pair, objective: Objective) -> list[str]:
    wanted = judged_metrics(pair, objective)
    gone = pair.candidate.missing_cases(wanted)
    return [case for case in gone if passes(pair.incumbent, case, wanted)]
