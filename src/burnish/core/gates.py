"""Gates: acceptance rules, each a pure function from evaluations to a Decision."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from burnish.core.cases import Split
from burnish.core.comparisons import (
    CaseChanges,
    Comparison,
    Pair,
    Pairing,
    Range,
    amount,
    broken_constraint,
    case_changes,
    cases,
    compare,
    could_turn,
    decide,
    judged_metrics,
    paired,
    passes,
    possible_spread,
    settle,
    tied,
    versus,
)
from burnish.core.evaluations import CaseResult, Evaluation, Objective, mean, prefers, spread
from burnish.core.surfaces import EPSILON
from burnish.core.trials import MAX_MISSING, Decision, Verdict

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
    """Accept only what is clearly better: not a crash, a broken constraint or a plain tie.

    Two primary numbers within `tolerance`, or within `accept_sigma` times the noise of both
    sides, are a tie; then the objective's tie-breakers decide in order. `best` is the best
    incumbent so far (see `best_incumbent`): a candidate must tie with it too, so that many ties
    in a row lose no more than one of them may. There only the noise of `best` counts: a candidate
    cannot widen its tie by being noisy.
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


@dataclass(frozen=True, kw_only=True, order=True)
class _Breach:
    """How far an evaluation is from keeping all constraints; less is better."""

    count: int = 0
    """Constraints that are broken."""
    excess: float = 0.0
    """By how much, each in shares of its limit."""


def _breach_of(evaluation: Evaluation, objective: Objective) -> _Breach | None:
    """The breach of an evaluation; None if one of the numbers is not known."""
    values = objective.measure(evaluation).values
    if evaluation.failed_cases() or any(c.holds(values) is None for c in objective.constraints):
        return None
    broken = [each for each in objective.constraints if not each.holds(values)]
    excess = (abs(values[c.metric] - c.value) / max(1.0, abs(c.value)) for c in broken)
    return _Breach(count=len(broken), excess=math.fsum(excess))


def is_less_broken(new: Evaluation, old: Evaluation, objective: Objective) -> bool:
    """Whether the old one breaks constraints and the new one fewer, or by less."""
    now, before = (_breach_of(side, objective) for side in (new, old))
    return now is not None and before is not None and now < before


@dataclass(frozen=True, kw_only=True)
class OfferRule:
    """When a run's winner is not worse than its baseline, by the run's own rule."""

    primary: str = "loss"
    direction: Direction = "minimize"
    tolerance: float = 0.0
    accept_sigma: float = 1.0
    max_missing: float = MAX_MISSING
    splits: tuple[Split, ...] = (Split.HOLDOUT,)
    """Where it may not be worse, as far as both were measured there."""
    saves: Literal["", "cheaper", "faster"] = ""
    """What the run is to save; then the score may be lower by the margin."""
    margin: float = 0.0


def not_worse(
    *,
    rule: OfferRule,
    objective: Objective,
    pair: Pair,
) -> Decision:
    """Accept a winner that is not worse than the baseline by more than a tie.

    A baseline that does not run, or that breaks the constraints further than the winner, is worse
    whatever its number is.
    """
    also = {rule.primary, *objective.constrained_names}
    seen = compare(pair, objective, max_missing=rule.max_missing, also=also)
    by_loss = rule.primary == "loss"
    broken = broken_constraint("not_worse", objective, *seen.own)
    before = broken_constraint("not_worse", objective, seen.incumbent)
    made = _crash(seen.pair) or (broken if before is None else None)
    closer = before is not None and is_less_broken(pair.candidate, pair.incumbent, objective)
    if made is None and (_never_ran(pair.incumbent) or closer):
        return decide("not_worse", "better", "the baseline does not run, or breaks a limit", {})
    if made is None:
        made = _tie_rule(rule).against_baseline(seen)
    return settle(made, seen, by_loss=by_loss)


def _never_ran(evaluation: Evaluation) -> bool:
    return set(evaluation.failed_cases()) == set(evaluation.cases)


def _tie_rule(rule: OfferRule) -> "_Rule":
    return _Rule(
        primary=rule.primary,
        direction=rule.direction,
        tolerance=rule.tolerance,
        accept_sigma=rule.accept_sigma,
    )


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
    """The candidate, at its worst, beside another."""

    new: float
    old: float
    ahead: float
    bar: Range
    """The largest difference that is a tie; a range if the noise is not known exactly."""

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
    """The primary number, and which differences of it are a tie."""

    primary: str
    direction: Direction
    tolerance: float
    accept_sigma: float

    def by_primary(self, seen: Comparison) -> Decision | None:
        at = self._standing(seen)
        if at is None:
            words = f"cannot tell: '{self.primary}' is not known on both sides"
            return decide("strict", "missing", words, {})
        if not (at.better or at.worse):
            return None
        code = "better" if at.better else "worse"
        return decide("strict", code, self._words(at), _numbers(at))

    def against_baseline(self, seen: Comparison) -> Decision:
        at = self._standing(seen)
        if at is None:
            words = f"cannot tell: '{self.primary}' is not known on both sides"
            return decide("not_worse", "missing", words, {})
        new, sign, old = versus(at.new, at.old)
        words = f"{self.primary} {new} {sign} the baseline's {old} ({self.direction})"
        return decide("not_worse", "worse" if at.worse else "better", words, _numbers(at))

    def by_tie_breakers(
        self, objective: Objective, seen: Comparison, top: Comparison | None
    ) -> Decision:
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
    if primary == "loss":
        return seen.noise
    candidate = possible_spread(
        sweep_means(seen.pair.candidate, primary), sweep_means(seen.highest, primary)
    )
    return candidate.combined(_incumbent_noise(primary, seen))


def _incumbent_noise(primary: str, seen: Comparison) -> Range:
    means = sweep_means(seen.pair.incumbent, primary)
    std = seen.incumbent.std if primary == "loss" else spread(means) if means else 0.0
    return Range(low=std, high=std)


def sweep_means(evaluation: Evaluation, name: str) -> Sequence[float]:
    """The mean of a number in each repeat, without missing ones."""

    def number(result: CaseResult) -> float | None:
        return result.value(name) if result.applies(name) else result.outcome.measures.get(name)

    sweeps = (list(map(number, sweep)) for sweep in evaluation.sweeps)
    present = [[value for value in sweep if value is not None] for sweep in sweeps]
    return [mean(sweep) for sweep in present if sweep]


@dataclass(frozen=True, kw_only=True)
class Guards:
    """Conditions besides the gain."""

    protected: tuple[str, ...] = ()
    """Cases that may not be missing and whose score may not fall."""
    no_new_failures: bool = False
    """No case that passed may fail."""
    floors: Mapping[str, float] = field(default_factory=dict[str, float])
    """The least mean of each metric."""


def guarded(decision: Decision, *, pair: Pair, objective: Objective, guards: Guards) -> Decision:
    """The decision; an accept is withdrawn if a guard is broken or cannot be checked."""
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
        average = pairing.own.mean_of(metric)
        if average is not None and average < floor - EPSILON:
            return f"the mean of {metric}, {' '.join(versus(average, floor))}, is below its floor"
    return ""


def _unknown(pairing: Pairing, incumbent: Evaluation, objective: Objective, guards: Guards) -> str:
    pair = Pair(candidate=pairing.own_known, incumbent=incumbent)
    sides = (pair.candidate, pair.incumbent)
    for case in guards.protected:
        if any(objective.case_score(side, case) is None for side in sides):
            return f"the protected case '{case}' is missing"
    if guards.no_new_failures:
        metrics = judged_metrics(pair, objective)
        missing = pair.candidate.missing_cases(metrics)
        if gone := [case for case in missing if passes(pair.incumbent, case, metrics)]:
            return f"these passed before and are missing now: {', '.join(gone)}"
    for metric, floor in guards.floors.items():
        worst = pairing.own_at(0.0).mean_of(metric)
        if worst is None or worst < floor - EPSILON:
            return f"the mean of {metric} is not known, and {floor:g} is its floor"
    return ""


def min_gain(
    *,
    objective: Objective,
    validation: Pair,
    gain: float = 0.0,
    max_missing: float = MAX_MISSING,
) -> Decision:
    """Accept when the validation score rises by `gain` or more.

    A negative `gain` is how much may be lost; only then does a tie pass.
    """

    def accepts(measured: float) -> bool:
        return measured >= gain - EPSILON and (gain < -EPSILON or measured > EPSILON)

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


def improves_on_minibatch(
    *, objective: Objective, minibatch: Pair, max_missing: float = MAX_MISSING
) -> Decision:
    """Accept when the scores on the minibatch sum to more than the parent's.

    This only screens candidates: about a third of edits that change nothing pass it.
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


def sigma(
    *,
    objective: Objective,
    train: Pair,
    holdout: Pair | None = None,
    accept_sigma: float = 1.0,
    max_missing: float = MAX_MISSING,
) -> Decision:
    """Accept when the train gain clears the noise of both sides and holdout stays within its own.

    Without `holdout` it decides on train alone: whether holdout is worth running.
    """
    also = objective.constrained_names
    seen = compare(train, objective, max_missing=max_missing, also=also)
    broken = broken_constraint("sigma", objective, *seen.own)
    if broken is not None:
        return settle(broken, seen)
    made = _on_train(seen, accept_sigma)
    if holdout is None or not made.accepted:
        return settle(made, seen, turns=_train_turns(made, seen, accept_sigma))
    held = compare(holdout, objective, max_missing=max_missing, also=also)
    broken = broken_constraint("sigma", objective, *held.own)
    if broken is not None:
        return settle(broken, seen, held)
    passed, made = made, _on_holdout(made, held, accept_sigma)
    turns = _holdout_turns(made, held, accept_sigma)
    if made.accepted:
        turns = turns or _train_turns(passed, seen, accept_sigma)
    return settle(made, seen, held, turns=turns)


def _on_train(seen: Comparison, accept_sigma: float) -> Decision:
    bar = accept_sigma * seen.noise.high
    numbers = {
        "train_mean": seen.candidate.loss or 0.0,
        "train_std": seen.candidate.std,
        "best_train_mean_before": seen.incumbent.loss or 0.0,
        "best_train_std": seen.incumbent.std,
        "train_improvement": seen.gain,
        "accept_sigma": accept_sigma,
        "noise_bar": bar,
    }
    if tied(seen.gain):
        words = "train is as good as before, and a tie is no improvement"
        return decide("sigma", "tie", words, numbers)
    if seen.gain < 0:
        return decide("sigma", "worse", f"train got worse by {amount(-seen.gain)}", numbers)
    shown = versus(seen.gain, bar)
    words = f"train improved {shown[0]} {shown[1]} noise bar {shown[2]} ({accept_sigma:g}σ)"
    if clears(seen.gain, bar):
        return decide("sigma", "better", words, numbers)
    return decide("sigma", "noise", f"{words}, indistinguishable from noise", numbers)


def _on_holdout(made: Decision, held: Comparison, accept_sigma: float) -> Decision:
    regression, bar = -held.gain, accept_sigma * held.noise.low
    numbers = {
        "holdout_mean": held.candidate.loss or 0.0,
        "holdout_std": held.candidate.std,
        "best_holdout_mean_before": held.incumbent.loss or 0.0,
        "best_holdout_std": held.incumbent.std,
        "holdout_regression": regression,
        "holdout_noise_bar": bar,
    }
    if tied(regression):
        words = "holdout is as good as before"
    elif regression < 0:
        words = f"holdout improved {amount(held.gain)}"
    else:
        shown = versus(regression, bar)
        words = f"holdout got worse by {shown[0]} {shown[1]} its noise {shown[2]}"
    code = "better" if holds(held.gain, bar) else "holdout"
    return decide("sigma", code, f"{made.reason}; {words}", {**made.numbers, **numbers})


def clears(gain: float, bar: float) -> bool:
    """Whether a gain clears its noise bar."""
    return gain > EPSILON and gain >= bar - EPSILON


def holds(gain: float, bar: float) -> bool:
    """Whether a loss stays within its noise bar."""
    return -gain <= bar + EPSILON


def _train_turns(made: Decision, seen: Comparison, accept_sigma: float) -> bool:
    gain, noise = seen.possible_gain, seen.possible_noise
    if made.accepted:
        return not clears(gain.low, accept_sigma * noise.high)
    return clears(gain.high, accept_sigma * noise.low)


def _holdout_turns(made: Decision, held: Comparison, accept_sigma: float) -> bool:
    gain, noise = held.possible_gain, held.possible_noise
    if made.accepted:
        return not holds(gain.low, accept_sigma * noise.low)
    return holds(gain.high, accept_sigma * noise.high)
