"""Racing: when a challenger need not be run over the remaining cases.

A challenger meets the incumbent case by case, in an order that both share. It may stop early
only where stopping loses nothing (the rest cannot turn the verdict) or little (it is behind by
more than the rest is likely to make up). Stopping early never makes a winner: whoever is to
lead runs them all.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from burnish.core.surfaces import EPSILON

FUTILE = 1.5
"""How many standard deviations of what is left a challenger may be behind."""
_USUAL_SPREAD, _USUAL_WEIGHT = 0.5, 2.0
"""What is believed of the spread of gains before there are many: as much as two cases say."""

Hope: TypeAlias = Literal["open", "hopeless", "futile"]


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

    def hope(self) -> Hope:
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
