"""The gate of HoloDeck: the gain on train clears the measured noise, and holdout is not worse."""

from burnish.core.comparisons import (
    Comparison,
    Pair,
    amount,
    broken_constraint,
    compare,
    decide,
    settle,
    tied,
    versus,
)
from burnish.core.decisions import MAX_MISSING, Decision
from burnish.core.objectives import Objective
from burnish.core.surfaces import EPSILON


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
    told = f"train improved {shown[0]} {shown[1]} noise bar {shown[2]} ({accept_sigma:g}σ)"
    if _clears(seen.gain, bar):
        return decide("sigma", "better", told, numbers)
    return decide("sigma", "noise", f"{told}, indistinguishable from noise", numbers)


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
    code = "better" if _holds(held.gain, bar) else "holdout"
    return decide("sigma", code, f"{made.reason}; {words}", {**made.numbers, **numbers})


def _clears(gain: float, bar: float) -> bool:
    return gain > EPSILON and gain >= bar - EPSILON


def _holds(gain: float, bar: float) -> bool:
    return -gain <= bar + EPSILON


def _train_turns(made: Decision, seen: Comparison, accept_sigma: float) -> bool:
    gain, noise = seen.possible_gain, seen.possible_noise
    if made.accepted:
        return not _clears(gain.low, accept_sigma * noise.high)
    return _clears(gain.high, accept_sigma * noise.low)


def _holdout_turns(made: Decision, held: Comparison, accept_sigma: float) -> bool:
    gain, noise = held.possible_gain, held.possible_noise
    if made.accepted:
        return not _holds(gain.low, accept_sigma * noise.low)
    return _holds(gain.high, accept_sigma * noise.high)
