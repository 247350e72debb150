"""How small a difference a set of cases can show."""

import math
from collections.abc import Callable
from statistics import NormalDist


def smallest_difference(
    cases: int,
    *,
    pass_rate: float = 0.5,
    changed: float | None = None,
    spread: float | None = None,
    confidence: float = 0.95,
    power: float = 0.8,
) -> float:
    """The smallest true difference in pass rate that a comparison on so many cases would find.

    Both sides are measured on the same cases, and the difference d is called real when
    `b - c > z·√(b + c)`, where b cases got better, c got worse, and z is the normal quantile
    of a two-sided test at `confidence` (McNemar). Of n cases a share s = (b + c)/n changes; so
    the difference that is found with probability `power` is the d that solves

        d·√n = z(confidence)·√s + z(power)·√(s − d²)

    The answer hangs on s, which nobody knows beforehand:

    - by default the two sides are taken to be right and wrong independently of each other, at a
      mean pass rate of `pass_rate`: s = 2·p·(1 − p) + d²/2. That is careful: two versions of
      one agent mostly agree, and then smaller differences show.
    - `changed` sets s, where it is known how many cases flip between two runs or versions.
    - `spread` is for scores that are not pass or fail: the standard deviation of the difference
      per case; then d = (z(confidence) + z(power))·spread/√n.

    It is never less than 1/n, what one case makes; and infinite where even a change from all
    wrong to all right would not count as real, or where there is no case at all.
    """
    if cases < 1:
        return math.inf
    sure, found = _quantile((1 + confidence) / 2), _quantile(power)
    if spread is not None:
        difference = max(1 / cases, (sure + found) * spread / math.sqrt(cases))
        return difference if difference <= 1 else math.inf

    def reached(difference: float) -> bool:
        share = _share_changed(difference, pass_rate, changed)
        rest = math.sqrt(max(0.0, share - difference**2))
        return difference * math.sqrt(cases) >= sure * math.sqrt(share) + found * rest

    return max(1 / cases, _first_where(reached)) if reached(1.0) else math.inf


def _share_changed(difference: float, pass_rate: float, changed: float | None) -> float:
    """The share of cases that flip; at least as many as make up the difference."""
    if changed is None:
        changed = 2 * pass_rate * (1 - pass_rate) + difference**2 / 2
    return min(1.0, max(changed, difference))


def _first_where(reached: Callable[[float], bool]) -> float:
    """The smallest number in (0, 1] for which this holds, to nine digits."""
    low, high = 0.0, 1.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def _quantile(share: float) -> float:
    return NormalDist().inv_cdf(share)


def cases_needed(difference: float, *, pass_rate: float = 0.5, changed: float | None = None) -> int:
    """How many cases it takes to find a difference, as `smallest_difference` reckons."""

    def found(cases: int) -> bool:
        shown = smallest_difference(cases, pass_rate=pass_rate, changed=changed)
        return shown <= difference + 1e-9

    high = 1
    while not found(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if found(middle) else (middle, high)
    return high
