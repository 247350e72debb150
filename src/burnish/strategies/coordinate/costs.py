"""What a whole search comes to, given what its parts cost: least to most."""

from collections.abc import Iterator
from dataclasses import dataclass

from burnish.core.money import NOTHING, Spend
from burnish.strategies.coordinate.settings import CoordinateSettings, PhaseLimits


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What one trial and the whole run may come to, the baseline included."""

    train: Spend
    """One candidate over train, as often as it is repeated."""
    holdout: Spend
    roles: Spend
    """A critic and an applier, once each."""
    sealed: Spend
    least_trials: int
    """When nothing helps: every phase of the first cycle runs out of patience."""
    most_trials: int
    least: Spend
    most: Spend


def expected(
    settings: CoordinateSettings,
    *,
    baseline: Spend,
    train: Spend,
    holdout: Spend,
    roles: Spend,
    sealed: Spend,
) -> Expected:
    """The whole search, by what its parts cost."""
    phases, texts = [*_phases(settings)], settings.textual_phase if settings.texts else None
    least = sum(min(phase.patience, phase.max_trials) for phase in phases)
    most = settings.max_cycles * sum(phase.max_trials for phase in phases)
    always = holdout if settings.holdout_policy == "every_trial" else NOTHING
    edits = min(texts.patience, texts.max_trials) if texts else 0
    whole = settings.max_cycles * texts.max_trials if texts else 0
    start = baseline + sealed
    return Expected(
        train=train,
        holdout=holdout,
        roles=roles,
        sealed=sealed,
        least_trials=least,
        most_trials=most,
        least=start + (train + always).times(least) + roles.times(edits),
        most=start + (train + holdout).times(most) + roles.times(whole),
    )


def _phases(settings: CoordinateSettings) -> Iterator[PhaseLimits]:
    if settings.demonstrations:
        yield settings.demonstration_phase
    if settings.numbers:
        yield settings.numeric_phase
    if settings.texts:
        yield settings.textual_phase
