"""Where a mean over cases may lie, and other numbers that few values are reduced to."""

import math
import random
from collections.abc import Sequence

from burnish.core.statistics import paired_interval
from burnish.evaluation.shares import Share

_RESAMPLES = 2000
_WORK = 2_000_000
"""With many cases fewer resamples do: the interval is narrow by then."""


def mean_interval(values: Sequence[float], rng: random.Random) -> tuple[float, float] | None:
    """The 95 % interval of a mean over cases; None where the values cannot tell.

    Scores that are all 0 or 1 get Wilson's interval: a bootstrap of three ones would claim
    certainty. Other scores are resampled. Where they are all alike, resampling knows nothing.
    """
    if len(values) < 2:
        return None
    if set(values) <= {0.0, 1.0}:
        share = Share.of_counts(round(math.fsum(values)), len(values))
        return None if share is None else (share.low, share.high)
    if len(set(values)) == 1:
        return None
    resamples = min(_RESAMPLES, max(400, _WORK // len(values)))
    found = paired_interval(values, rng, resamples=resamples)
    return None if found is None else (found.low, found.high)


def percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that so large a share of all values does not exceed."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
