"""Shares of counts, and where the true share may lie."""

import math
from dataclasses import dataclass

_Z = 1.959963984540054
"""Of a two-sided 95 %."""


@dataclass(frozen=True, kw_only=True)
class Share:
    """A share of a count with its Wilson interval (95 %)."""

    count: int
    of: int
    value: float
    low: float
    high: float

    @classmethod
    def of_counts(cls, count: int, of: int) -> "Share | None":
        """The share; None where there is nothing to have a share of."""
        if not of:
            return None
        p, z2 = count / of, _Z * _Z
        middle = (p + z2 / (2 * of)) / (1 + z2 / of)
        reach = _Z / (1 + z2 / of) * math.sqrt(p * (1 - p) / of + z2 / (4 * of * of))
        # At the ends the interval touches 0 or 1, which rounding must not blur.
        low = 0.0 if count == 0 else middle - reach
        high = 1.0 if count == of else middle + reach
        return cls(count=count, of=of, value=p, low=low, high=high)

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"
