"""The gate of seed 000: the gain on train clears the measured noise, and holdout is not worse."""

import math

from burnish.core.comparisons import (
    Comparison,
    Pair,
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
    seen = compare(train, objective, max_missing=max_missing)
    broken = broken_constraint("sigma", objective, seen.candidate)
    if broken is not None:
        return settle(broken, seen)
    bar = _noise_bar(seen, accept_sigma)
    made = _on_train(seen, bar, accept_sigma)
    if holdout is None or not made.accepted:
        return settle(made, seen, accepts=lambda gain: _clears(gain, bar))
    held = compare(holdout, objective, max_missing=max_missing)
    held_bar = _noise_bar(held, accept_sigma)
    made = _on_holdout(made, held, held_bar)
    if not made.accepted:
        return settle(made, held, seen, accepts=lambda gain: -gain <= held_bar + EPSILON)
    return settle(made, seen, held, accepts=lambda gain: _clears(gain, bar))


def _on_train(seen: Comparison, bar: float, accept_sigma: float) -> Decision:
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
        return decide("sigma", "worse", f"train got worse by {-seen.gain:.3f}", numbers)
    shown = versus(seen.gain, bar)
    told = f"train improved {shown[0]} {shown[1]} noise bar {shown[2]} ({accept_sigma:g}σ)"
    if _clears(seen.gain, bar):
        return decide("sigma", "better", told, numbers)
    return decide("sigma", "noise", f"{told}, indistinguishable from noise", numbers)


def _on_holdout(made: Decision, held: Comparison, bar: float) -> Decision:
    regression = -held.gain
    numbers = {
        "holdout_mean": held.candidate.loss or 0.0,
        "holdout_std": held.candidate.std,
        "best_holdout_mean_before": held.incumbent.loss or 0.0,
        "holdout_regression": regression,
        "holdout_noise_bar": bar,
    }
    if regression <= EPSILON:
        words = f"holdout improved {max(0.0, -regression):.3f}"
    else:
        shown = versus(regression, bar)
        words = f"holdout got worse by {shown[0]} {shown[1]} its noise {shown[2]}"
    code = "better" if regression <= bar + EPSILON else "holdout"
    return decide("sigma", code, f"{made.reason}; {words}", {**made.numbers, **numbers})


def _noise_bar(seen: Comparison, accept_sigma: float) -> float:
    return accept_sigma * math.hypot(seen.candidate.std, seen.incumbent.std)


def _clears(gain: float, bar: float) -> bool:
    return gain > EPSILON and gain >= bar - EPSILON
