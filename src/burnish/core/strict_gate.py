"""The gate of the artifact loop: constraints first, then one number, then tie-breakers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from burnish.core.comparisons import (
    Comparison,
    Pair,
    Range,
    broken_constraint,
    cases,
    compare,
    decide,
    possible_spread,
    settle,
    versus,
)
from burnish.core.evaluations import CaseResult, Evaluation, Objective, mean, prefers, spread
from burnish.core.surfaces import EPSILON
from burnish.core.trials import MAX_MISSING, Decision

Direction = Literal["minimize", "maximize"]


def strict(
    *,
    objective: Objective,
    pair: Pair,
    best: Evaluation | None = None,
    primary: str = "loss",
    direction: Direction = "minimize",
    tolerance: float = 0.0,
    accept_sigma: float = 0.0,
    max_missing: float = MAX_MISSING,
) -> Decision:
    """Keep only what is clearly better: a crash, a broken constraint and a tie are not.

    Two primary numbers within `tolerance`, or within `accept_sigma` times the noise of both
    sides, are a tie; then the objective's tie-breakers decide in their order. `best` is the
    incumbent, of all so far, with the best primary number (see `best_incumbent`): a tie must be a
    tie with it too, so that many ties in a row give away no more than one of them may. There only
    the best one's noise counts: a candidate cannot widen its tie by being noisy.
    """
    also = {primary, *objective.constrained_names, *(b.metric for b in objective.tie_breakers)}

    def against(incumbent: Evaluation) -> Comparison:
        sides = Pair(candidate=pair.candidate, incumbent=incumbent)
        return compare(sides, objective, max_missing=max_missing, also=also)

    by_loss = primary == "loss"
    seen = against(pair.incumbent)
    made = _crash(seen.pair) or broken_constraint("strict", objective, *seen.own)
    if made is not None:
        return settle(made, seen, by_loss=by_loss)
    rule = _Rule(
        primary=primary, direction=direction, tolerance=tolerance, accept_sigma=accept_sigma
    )
    made = rule.by_primary(seen)
    if made is not None:
        return settle(made, seen, by_loss=by_loss)
    top = None if best is None else (seen if best is pair.incumbent else against(best))
    made = rule.by_tie_breakers(objective, seen, top)
    unknown = top is not None and (top.missing.too_many or (by_loss and not top.measured))
    return settle(made, top if unknown and top is not None else seen, by_loss=by_loss)


def best_incumbent(
    best: Evaluation | None,
    incumbent: Evaluation,
    *,
    objective: Objective,
    primary: str = "loss",
    direction: Direction = "minimize",
) -> Evaluation:
    """Of the best incumbent so far and a new one, whichever has the better primary number."""
    if best is None or best.failed_cases():
        return incumbent
    before, now = (objective.measure(side).values.get(primary) for side in (best, incumbent))
    if before is None or now is None:
        return incumbent if before is None else best
    return incumbent if _ahead(now, before, direction) > 0 else best


def _ahead(new: float, old: float, direction: Direction) -> float:
    return old - new if direction == "minimize" else new - old


def _crash(pair: Pair) -> Decision | None:
    before = pair.incumbent.failed_cases()
    crashed = [case for case in pair.candidate.failed_cases() if case not in before]
    if not crashed:
        return None
    words = f"the candidate crashed on {cases(len(crashed))} that the incumbent finished"
    return decide("strict", "crash", words, {"crashed": float(len(crashed))})


@dataclass(frozen=True, kw_only=True)
class _Standing:
    """Where the candidate is, at its worst, beside another."""

    new: float
    old: float
    ahead: float
    bar: Range
    """Apart by no more than this is a tie; a range where the noise is not known exactly."""

    @property
    def worse(self) -> bool:
        return self.ahead < -self.bar.low - EPSILON

    @property
    def better(self) -> bool:
        return self.ahead > self.bar.high + EPSILON

    @property
    def tie_bar(self) -> float:
        return self.bar.high if self.ahead > 0 else self.bar.low


@dataclass(frozen=True, kw_only=True)
class _Rule:
    """The primary number, and when two of them are a tie."""

    primary: str
    direction: Direction
    tolerance: float
    accept_sigma: float

    def by_primary(self, seen: Comparison) -> Decision | None:
        """What the primary number decides; None at a tie."""
        at = self._standing(seen)
        if at is None:
            words = f"cannot tell: '{self.primary}' is not known on both sides"
            return decide("strict", "missing", words, {})
        if not (at.better or at.worse):
            return None
        code = "better" if at.better else "worse"
        return decide("strict", code, self._words(at), _numbers(at))

    def by_tie_breakers(
        self, objective: Objective, seen: Comparison, top: Comparison | None
    ) -> Decision:
        """What decides at a tie with the incumbent, provided that it is one with the best too."""
        at = self._standing(seen)
        assert at is not None
        words, numbers = f"{self._words(at)}, a tie within {at.tie_bar:g}", _numbers(at)
        if top is None:
            return _break_tie(objective, seen, words, numbers)
        best = self._standing(top, noise=_incumbent_noise(self.primary, top))
        if best is None:
            words = f"cannot tell: '{self.primary}' of the best so far is not known"
            return decide("strict", "missing", words, {})
        numbers |= {"primary_best": best.old, "best_tie_bar": best.tie_bar}
        shown = versus(best.new, best.old)
        if best.worse:
            words += f", but not with the best so far: {shown[0]} {shown[1]} {shown[2]}"
            return decide("strict", "worse", words, numbers)
        return _break_tie(
            objective, seen, f"{words}, also with the best so far {shown[2]}", numbers
        )

    def _standing(self, seen: Comparison, noise: Range | None = None) -> _Standing | None:
        new = seen.worst(self.primary, lower_is_better=self.direction == "minimize")
        old = seen.incumbent.values.get(self.primary)
        if new is None or old is None:
            return None
        noise = noise or _noise(self.primary, seen)
        bar = Range(
            low=max(self.tolerance, self.accept_sigma * noise.low),
            high=max(self.tolerance, self.accept_sigma * noise.high),
        )
        return _Standing(new=new, old=old, ahead=_ahead(new, old, self.direction), bar=bar)

    def _words(self, at: _Standing) -> str:
        shown = versus(at.new, at.old)
        return f"{self.primary} {shown[0]} {shown[1]} incumbent's {shown[2]} ({self.direction})"


def _numbers(at: _Standing) -> dict[str, float]:
    return {
        "primary": at.new,
        "primary_before": at.old,
        "primary_gain": at.ahead,
        "tie_bar": at.tie_bar,
    }


def _break_tie(
    objective: Objective, seen: Comparison, words: str, numbers: Mapping[str, float]
) -> Decision:
    for breaker in objective.tie_breakers:
        name, old = breaker.metric, seen.incumbent.values.get(breaker.metric)
        if old is None:
            continue
        new = seen.worst(name, lower_is_better=breaker.prefer == "lower")
        if new is None:
            words = f"cannot tell: {words}, and '{name}', which decides, is not known any more"
            return decide("strict", "missing", words, numbers)
        verdict = prefers(breaker, new, old)
        if verdict is not None:
            shown = " ".join(versus(new, old))
            reason = f"{words}; {breaker.prefer} {name} decides: {shown}"
            both = {f"tie_breaker.{name}": new, f"tie_breaker.{name}_before": old}
            return decide("strict", "better" if verdict else "tie", reason, {**numbers, **both})
    return decide("strict", "tie", f"{words}, and nothing breaks it", numbers)


def _noise(primary: str, seen: Comparison) -> Range:
    """The spread of the primary number between sweeps, both sides together."""
    if primary == "loss":
        return seen.noise
    candidate = possible_spread(
        _sweep_means(seen.pair.candidate, primary), _sweep_means(seen.highest, primary)
    )
    before = _incumbent_noise(primary, seen).low
    return Range(low=math.hypot(candidate.low, before), high=math.hypot(candidate.high, before))


def _incumbent_noise(primary: str, seen: Comparison) -> Range:
    """The spread of the incumbent's primary number between sweeps."""
    means = _sweep_means(seen.pair.incumbent, primary)
    std = seen.incumbent.std if primary == "loss" else spread(means) if means else 0.0
    return Range(low=std, high=std)


def _sweep_means(evaluation: Evaluation, name: str) -> Sequence[float]:
    per_sweep = [[_number(result, name) for result in sweep] for sweep in evaluation.sweeps]
    present = [[value for value in sweep if value is not None] for sweep in per_sweep]
    return [mean(sweep) for sweep in present if sweep]


def _number(result: CaseResult, name: str) -> float | None:
    return result.value(name) if result.applies(name) else result.outcome.measures.get(name)
