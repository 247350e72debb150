"""The settings of `backprop`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from burnish.core.gates import Guards
from burnish.strategies.backprop.packets import Severity

GateName: TypeAlias = Literal["min_gain", "sigma", "strict"]


@dataclass(frozen=True, kw_only=True)
class LossHint:
    """What a person says about a case that fails a metric."""

    case: str
    metric: str
    reason: str
    severity: Severity = Severity.P1


@dataclass(frozen=True, kw_only=True)
class BackpropSettings:
    """How far, how wide, and by which rule."""

    targets: tuple[str, ...] = ()
    """The surfaces that may be patched; all of them when none is named."""
    max_rounds: int = 4
    max_rounds_without_acceptance: int = 0
    """Rounds in a row without an accept, after which it is over; 0 is no limit."""
    target_score: float | None = None
    """Good enough: the incumbent's score on holdout."""
    min_score_gain: float = 0.0
    gate: GateName = "min_gain"
    accept_sigma: float = 1.0
    """How much noise a gain must clear, under the gates that measure noise."""
    guards: Guards = field(default_factory=Guards)
    repeats: int = 1
    candidates_per_round: int = 1
    """Patches of each surface that are made and tried in a round."""
    cases_per_round: int | None = None
    """At most so many failing cases are walked back in a round; all of them when not given."""
    loss_hints: tuple[LossHint, ...] = ()
    loss_targets: Mapping[str, str] = field(default_factory=dict[str, str])
    """By metric, the node where its losses begin instead of where the run ended."""
    backward_parallelism: int = 16
    aggregation_parallelism: int = 16
    patch_parallelism: int = 16
    merge_single: bool = False
    """Ask the aggregator even where there is one gradient only."""
