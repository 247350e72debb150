"""The settings of coordinate descent, with the seed's defaults."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

HoldoutPolicy: TypeAlias = Literal["on_train_improve", "every_trial", "skip"]


@dataclass(frozen=True, kw_only=True)
class PhaseLimits:
    """When a phase ends."""

    max_trials: int
    patience: int
    """Trials in a row without an accept."""


@dataclass(frozen=True, kw_only=True)
class CoordinateSettings:
    """How the search goes about it."""

    numbers: tuple[str, ...] = ()
    """Surfaces of numbers and choices, searched together."""
    texts: tuple[str, ...] = ()
    """Surfaces of text, one a trial, in turn."""
    demonstrations: str = ""
    """The surface of demonstrations, if any."""
    repeats: int = 3
    accept_sigma: float = 1.0
    holdout_policy: HoldoutPolicy = "on_train_improve"
    max_errored_fraction: float = 0.25
    min_confidence: float = 0.4
    max_cycles: int = 4
    numeric_phase: PhaseLimits = field(
        default_factory=lambda: PhaseLimits(max_trials=15, patience=5)
    )
    textual_phase: PhaseLimits = field(
        default_factory=lambda: PhaseLimits(max_trials=10, patience=4)
    )
    demonstration_phase: PhaseLimits = field(
        default_factory=lambda: PhaseLimits(max_trials=8, patience=4)
    )
    numeric_convergence_eps: float = 1e-3
    """A numeric phase ends when no more than this is expected to be gained anywhere."""
