"""The worlds in which searches are compared, and what is kept of one search.

They were chosen before the first comparison was run, and were not changed after it. How many
rules and calls there are was changed once before that, by looking at gepa alone: enough for it
to get somewhere in each world.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tests.strategies.reflection_world import World, best_score

GEPA = "gepa 0.1.4"
CALLS = 4_000
"""Metric calls that every search may spend."""
EARLY = 1_000
"""Where the searches are compared a first time: by the end some have found everything."""
TEST = 100
"""Cases of the sealed test, which burnish runs once, at the end, beyond those calls."""
ENOUGH = 0.9
"""Of the best score that there is."""

_CLEAN = World(rules=6, test=TEST)
_ROUGH = replace(_CLEAN, noise=0.25)
WORLDS: Mapping[str, World] = {
    "no noise, pass or fail": _CLEAN,
    "noisy, 20 holdout cases": replace(_ROUGH, train=20, holdout=20),
    "noisy, 150 holdout cases": replace(_ROUGH, train=60, holdout=150),
    "noisy, continuous scores": replace(_ROUGH, continuous=True, needs=3, holdout=40),
    "four texts": replace(_CLEAN, rules=8, fields=4, noise=0.1, holdout=40),
    "rare rules": replace(_CLEAN, rules=10, skew=1.2, noise=0.1, train=60, holdout=60),
}


@dataclass(frozen=True, kw_only=True)
class Step:
    """From here on another candidate led."""

    calls: int
    truth: float


@dataclass(frozen=True, kw_only=True)
class Accept:
    """A candidate that was taken into the pool."""

    gain: float
    """What it is really worth, less what its parent is worth."""
    led: bool
    """Whether it led from then on."""


@dataclass(frozen=True, kw_only=True)
class Sealed:
    """What the sealed test said of the gain, and what the gain really is."""

    gain: float
    low: float
    high: float
    truth: float

    @property
    def holds(self) -> bool:
        """Whether the truth lies in the interval."""
        return self.low <= self.truth <= self.high


@dataclass(frozen=True, kw_only=True)
class Searched:
    """One search, and what came of it."""

    world: str
    system: str
    seed: int
    limit: int
    """Metric calls that it might spend."""
    steps: tuple[Step, ...]
    """Who led when; the first is the baseline, from the first call on."""
    calls: int
    """Metric calls of the search, as the agent counted them; the sealed test aside."""
    reflections: int
    accepts: tuple[Accept, ...]
    claimed: float
    """The score of the returned candidate, as the search itself reports it."""
    best: float
    """What the best texts of this world are worth."""
    seconds: float
    """Of the search and, in burnish, of the sealed test."""
    all_calls: int
    """Metric calls in these seconds."""
    sealed: Sealed | None = None
    """None where the baseline was returned, and in gepa, which has none."""

    @property
    def truth(self) -> float:
        """What the returned candidate is really worth."""
        return self.steps[-1].truth

    def truth_at(self, calls: int) -> float:
        """What the candidate is worth that led after so many calls."""
        return [step.truth for step in self.steps if step.calls <= calls][-1]

    @property
    def calls_to_enough(self) -> int | None:
        """Calls until a candidate led that is worth 90 % of the best; None if none ever did."""
        enough = ENOUGH * self.best
        reached = (step.calls for step in self.steps if step.truth >= enough)
        first = next(reached, None)
        return None if first is None or first > self.limit else first


def world_of(name: str, seed: int) -> World:
    """A world with a population, cases and luck of its own."""
    return replace(WORLDS[name], seed=seed)


def best_of(world: World) -> float:
    """The best score that there is in it."""
    return best_score(world)
