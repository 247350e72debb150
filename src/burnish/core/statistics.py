"""What a difference on few cases is worth: intervals, pass@k and pass^k, races."""

import math
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import comb
from typing import Literal, TypeAlias

from burnish.core.evaluations import Evaluation, mean
from burnish.core.surfaces import EPSILON

FUTILE = 1.5
"""How many standard deviations of what is left a challenger may be behind."""
_USUAL_SPREAD, _USUAL_WEIGHT = 0.5, 2.0
"""What is believed of the spread of gains before there are many: as much as two cases say."""

_Hope: TypeAlias = Literal["open", "hopeless", "futile"]


@dataclass(frozen=True, kw_only=True)
class Race:
    """Where a challenger stands part way through."""

    gains: tuple[float, ...]
    """Challenger minus incumbent, for each case so far that both have."""
    room: tuple[float, ...]
    """What each case to come could add at most: one minus the incumbent's score."""
    promised: float = 0.0
    """What the cases to come are known to add already: in a second run, half of the first."""

    @property
    def ahead(self) -> float:
        """The sum of the gains so far."""
        return math.fsum(self.gains)

    @property
    def best_end(self) -> float:
        """The sum, if every case to come went as well as it can."""
        return self.ahead + math.fsum(self.room)

    @property
    def likely_end(self) -> float:
        """The sum, if the cases to come went somewhat better than by chance."""
        expected = self.ahead + self.promised
        return expected + FUTILE * spread_of(self.gains) * math.sqrt(len(self.room))

    @property
    def far_behind(self) -> bool:
        """Whether the gains so far are below none by more than their own spread."""
        return self.ahead < -math.sqrt(math.fsum(gain * gain for gain in self.gains)) - EPSILON

    def hope(self) -> _Hope:
        """Whether going on can still make a winner, and is likely enough to."""
        if self.best_end <= EPSILON:
            return "hopeless"
        if self.room and self.likely_end <= EPSILON:
            return "futile"
        return "open"


def spread_of(gains: Sequence[float]) -> float:
    """The spread of gains around no gain, held up by what is usual while there are few."""
    squares = math.fsum(gain * gain for gain in gains)
    usual = _USUAL_WEIGHT * _USUAL_SPREAD**2
    return math.sqrt((squares + usual) / (len(gains) + _USUAL_WEIGHT))


# -- What repeats say -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Repeated:
    """A rate over cases that were tried several times."""

    k: int
    value: float | None
    """The mean over cases; None when no case was tried often enough."""
    cases: int
    left_out: tuple[str, ...] = ()
    """Cases with fewer than k verdicts: a missing try is neither a pass nor a fail."""


def pass_at_k(evaluation: Evaluation, k: int, metrics: Collection[str] | None = None) -> _Repeated:
    """The chance that at least one of k tries passes, without bias from having n ≥ k tries."""
    return _over_cases(evaluation, k, metrics, lambda n, c: 1 - comb(n - c, k) / comb(n, k))


def pass_hat_k(evaluation: Evaluation, k: int, metrics: Collection[str] | None = None) -> _Repeated:
    """The chance that all of k tries pass: what a user who comes back k times will see."""
    return _over_cases(evaluation, k, metrics, lambda n, c: comb(c, k) / comb(n, k))


def _over_cases(
    evaluation: Evaluation,
    k: int,
    metrics: Collection[str] | None,
    chance: Callable[[int, int], float],
) -> _Repeated:
    if k < 1:
        raise ValueError(f"k must be at least 1, found {k}")
    names = evaluation.metrics if metrics is None else metrics
    chances: list[float] = []
    left_out: list[str] = []
    for case in evaluation.cases:
        verdicts = [v for r in evaluation.of_case(case) if (v := r.passed(names)) is not None]
        if len(verdicts) < k:
            left_out.append(case)
        else:
            chances.append(chance(len(verdicts), sum(verdicts)))
    value = mean(chances) if chances else None
    return _Repeated(k=k, value=value, cases=len(chances), left_out=tuple(left_out))


# -- What a difference measured on few cases is worth ---------------------------------------------


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
