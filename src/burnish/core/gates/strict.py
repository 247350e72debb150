"""The gate of seed 002: constraints first, then one number, then tie-breakers."""

import math
from collections.abc import Mapping
from typing import Literal

from burnish.core.comparisons import (
    Comparison,
    Pair,
    broken_constraint,
    cases,
    compare,
    decide,
    settle,
    versus,
)
from burnish.core.decisions import MAX_MISSING, Decision
from burnish.core.evaluations import CaseResult, Evaluation, mean, spread
from burnish.core.objectives import Objective, prefers
from burnish.core.surfaces import EPSILON

Direction = Literal["minimize", "maximize"]


def strict(
    *,
    objective: Objective,
    pair: Pair,
    primary: str = "loss",
    direction: Direction = "minimize",
    tolerance: float = 0.0,
    accept_sigma: float = 0.0,
    max_missing: float = MAX_MISSING,
) -> Decision:
    """Keep only what is clearly better: a crash, a broken constraint and a tie are not.

    Two primary numbers within `tolerance`, or within `accept_sigma` times the noise of both
    sides, are a tie; then the objective's tie-breakers decide in their order.
    """
    also = {primary, *objective.constrained_names, *(b.metric for b in objective.tie_breakers)}
    seen = compare(pair, objective, max_missing=max_missing, also=also)
    made = _crash(seen.pair) or broken_constraint("strict", objective, seen.candidate)
    if made is None:
        bar = max(tolerance, accept_sigma * _noise(primary, seen))
        made = _by_primary(objective, seen, primary, direction, bar)
    return settle(made, seen, by_loss=primary == "loss")


def _crash(pair: Pair) -> Decision | None:
    before = pair.incumbent.failed_cases()
    crashed = [case for case in pair.candidate.failed_cases() if case not in before]
    if not crashed:
        return None
    words = f"the candidate crashed on {cases(len(crashed))} that the incumbent finished"
    return decide("strict", "crash", words, {"crashed": float(len(crashed))})


def _by_primary(
    objective: Objective, seen: Comparison, primary: str, direction: Direction, bar: float
) -> Decision:
    new, old = seen.candidate.values, seen.incumbent.values
    if primary not in new or primary not in old:
        words = f"cannot tell: '{primary}' is not known on both sides"
        return decide("strict", "missing", words, {})
    ahead = (old[primary] - new[primary]) * (1 if direction == "minimize" else -1)
    numbers = {
        "primary": new[primary],
        "primary_before": old[primary],
        "primary_gain": ahead,
        "tie_bar": bar,
    }
    shown = versus(new[primary], old[primary])
    words = f"{primary} {shown[0]} {shown[1]} incumbent's {shown[2]} ({direction})"
    if abs(ahead) <= bar + EPSILON:
        return _break_tie(objective, new, old, f"{words}, a tie within {bar:g}", numbers)
    return decide("strict", "better" if ahead > 0 else "worse", words, numbers)


def _break_tie(
    objective: Objective,
    new: Mapping[str, float],
    old: Mapping[str, float],
    words: str,
    numbers: Mapping[str, float],
) -> Decision:
    for breaker in objective.tie_breakers:
        name = breaker.metric
        verdict = prefers(breaker, new[name], old[name]) if name in new and name in old else None
        if verdict is not None:
            shown = " ".join(versus(new[name], old[name]))
            told = f"{words}; {breaker.prefer} {name} decides: {shown}"
            both = {f"tie_breaker.{name}": new[name], f"tie_breaker.{name}_before": old[name]}
            return decide("strict", "better" if verdict else "tie", told, {**numbers, **both})
    return decide("strict", "tie", f"{words}, and nothing breaks it", numbers)


def _noise(primary: str, seen: Comparison) -> float:
    """The spread of the primary number between sweeps, both sides together."""
    if primary == "loss":
        return seen.noise
    sides = (seen.pair.candidate, seen.pair.incumbent)
    return math.hypot(*(_sweep_spread(side, primary) for side in sides))


def _sweep_spread(evaluation: Evaluation, name: str) -> float:
    per_sweep = [[_number(result, name) for result in sweep] for sweep in evaluation.sweeps]
    known = [[value for value in sweep if value is not None] for sweep in per_sweep]
    means = [mean(sweep) for sweep in known if sweep]
    return spread(means) if means else 0.0


def _number(result: CaseResult, name: str) -> float | None:
    return result.value(name) if result.applies(name) else result.outcome.measures.get(name)
