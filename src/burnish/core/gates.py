"""Gates: acceptance rules, each a pure function from evaluations to a Decision."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from burnish.core.comparisons import (
    CaseChanges,
    Comparison,
    Pair,
    amount,
    broken_constraint,
    case_changes,
    cases,
    compare,
    could_turn,
    decide,
    judged_metrics,
    passes,
    settle,
    tied,
    versus,
)
from burnish.core.evaluations import Evaluation, Objective
from burnish.core.pairing import Pairing, paired
from burnish.core.surfaces import EPSILON
from burnish.core.trials import MAX_MISSING, Decision, Verdict


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
