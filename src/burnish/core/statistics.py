"""What a difference measured on few cases is worth."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from burnish.core.evaluations import mean


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A mean difference and where it may lie."""

    mean: float
    low: float
    high: float
    cases: int

    @property
    def distinguishable(self) -> bool:
        """Whether the interval lies clear of zero."""
        return self.low > 0 or self.high < 0


def paired_interval(
    differences: Sequence[float],
    rng: random.Random,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
) -> Interval | None:
    """The mean of paired differences with a percentile bootstrap interval over cases.

    With one case, or none, there is no interval to speak of.
    """
    n = len(differences)
    if n < 2:
        return None
    means = sorted(mean(rng.choices(differences, k=n)) for _ in range(resamples))
    tail = (1 - confidence) / 2
    return Interval(
        mean=mean(differences),
        low=means[math.floor(tail * (resamples - 1))],
        high=means[math.ceil((1 - tail) * (resamples - 1))],
        cases=n,
    )
