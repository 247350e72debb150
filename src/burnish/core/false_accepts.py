"""How often a gate accepts an edit that changes nothing, simulated before a run."""

import math
import random
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from burnish.core.content import stream
from burnish.core.formatting import counted

_RUNS, _NORMAL_RUNS = 600, 240
"""Simulated runs: the rates are good to about two percentage points, with normal noise to three."""
_MOST_SIGMA, _SIGMA_STEP = 6.0, 0.25
_MOST_GAIN, _GAIN_STEP = 0.5, 0.01
_MOST_REPEATS = 16
AIM = 0.05
"""The share of runs with a false accept that is still acceptable."""


_Sweeps: TypeAlias = tuple[float, float]
"""Passed cases of all repeats together, and their variance over the repeats, times repeats²."""


_Luck: TypeAlias = tuple[float, float]
"""The lowest and the highest bar under which one null edit is accepted."""
_TIE = -1e-9
"""The highest bar that a tie clears: it passes where something may be lost."""


@dataclass(frozen=True, kw_only=True)
class NullRuns:
    """Runs in which no edit changes anything, decided by a gate.

    Every case passes half of the time, independently of the others and of its repeats. That is as
    noisy as a pass or fail can be; the rates hardly depend on it where the bar is made of the
    noise itself.
    """

    train: int
    """Cases; 0 if nothing is decided on train."""
    holdout: int
    """Cases; 0 if nothing is decided on holdout."""
    repeats: int
    trials: int
    """Trials of a run, each compared with the baseline."""
    holdout_gains: bool = False
    """Whether holdout must be better, too; else it must not be worse."""
    unit: Literal["noise", "score"] = "noise"
    """What the bar of a gate counts: times the noise of both sides, or the mean score."""
    normal: bool = False
    """Whether a split gives one number with normal noise, of any size, and no passes."""
    seed: int = 0

    @cached_property
    def _runs(self) -> list[list[_Luck]]:
        rng = stream(self.seed, "false accepts")
        return [self._run(rng) for _ in range(_NORMAL_RUNS if self.normal else _RUNS)]

    def _run(self, rng: random.Random) -> list[_Luck]:
        train = self._sweeps(rng, self.train)
        holdout = self._sweeps(rng, self.holdout)
        return [self._trial(rng, train, holdout) for _ in range(self.trials)]

    def _trial(self, rng: random.Random, train: _Sweeps, holdout: _Sweeps) -> _Luck:
        high = math.inf
        if self.train:
            high = self._gain(self._sweeps(rng, self.train), train, self.train)
        if not self.holdout or high <= 0:
            return -math.inf, high
        held = self._gain(self._sweeps(rng, self.holdout), holdout, self.holdout)
        if self.holdout_gains:
            # These gates ask for more than their bar; those for a score, for as much.
            return -math.inf, min(high, held) - (1e-9 if self.unit == "noise" else 0.0)
        return 0.0 if held == _TIE else -held, high

    def _sweeps(self, rng: random.Random, cases: int) -> _Sweeps:
        repeats = self.repeats
        if not cases:
            return 0, 0
        if self.normal:
            apart = rng.gammavariate((repeats - 1) / 2, 2.0) if repeats > 1 else 0.0
            return rng.gauss(0.0, math.sqrt(repeats)), repeats * apart
        passed = [rng.getrandbits(cases).bit_count() for _ in range(repeats)]
        whole = sum(passed)
        return whole, repeats * sum(count * count for count in passed) - whole * whole

    def _gain(self, new: _Sweeps, old: _Sweeps, cases: int) -> float:
        """The gain in the unit of the bar; infinite for a gain without noise."""
        gain, noise = new[0] - old[0], new[1] + old[1]
        if not gain:
            return _TIE
        if self.unit == "score":
            return round(gain / (cases * self.repeats), 9)
        return gain / math.sqrt(noise) if noise else math.copysign(math.inf, gain)

    def per_trial(self, bar: float) -> float:
        """The share of trials that are accepted."""
        lucks = [luck for run in self._runs for luck in run]
        return sum(low <= bar <= high for low, high in lucks) / len(lucks)

    def per_run(self, bar: float) -> float:
        """The share of runs that accept anything."""
        runs = self._runs
        return sum(any(low <= bar <= high for low, high in run) for run in runs) / len(runs)


@dataclass(frozen=True, kw_only=True)
class FalseAccepts:
    """The share of null edits, and of runs of them, that are accepted; and how to have fewer."""

    trials: int
    per_trial: float
    per_run: float
    sigma: float | None = None
    """The least bar that gives AIM per run at these repeats, if one does."""
    repeats: int | None = None
    """The least repeats that give it at this bar, if any do."""
    setting: Annotated[str, Field(exclude_if=lambda name: name == "accept_sigma")] = "accept_sigma"
    """The setting that is the bar."""

    @property
    def words(self) -> str:
        """`an edit that changes nothing is accepted in 10 % of trials, …`."""
        share = f"{_percent(self.per_trial)} of trials, and in {_percent(self.per_run)} of runs"
        length = counted(self.trials, "trial")
        words = f"an edit that changes nothing is accepted in {share} of {length}"
        ways = [f"{self.setting} {self.sigma:g}"] if self.sigma is not None else []
        ways += [f"repeats {self.repeats}"] if self.repeats is not None else []
        if self.per_run <= AIM:
            return words
        return f"{words}; {_percent(AIM)} of runs takes {' or '.join(ways) or 'more cases'}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 or not share else "under 1 %"


@lru_cache(maxsize=32)  # A plan and its run ask for the same.
def false_accepts(runs: NullRuns, bar: float) -> FalseAccepts:
    """The rates of a run, and the settings that would give AIM."""
    by_score = runs.unit == "score"
    most, step = (_MOST_GAIN, _GAIN_STEP) if by_score else (_MOST_SIGMA, _SIGMA_STEP)
    bars = (round(bar + step * number, 9) for number in range(round((most - bar) / step) + 1))
    enough = (each for each in bars if runs.per_run(each) <= AIM)
    return FalseAccepts(
        trials=runs.trials,
        per_trial=runs.per_trial(bar),
        per_run=runs.per_run(bar),
        sigma=next(enough, None) if runs.repeats > 1 or by_score else None,
        repeats=_enough_repeats(runs, bar),
        setting="min_score_gain" if by_score else "accept_sigma",
    )


def _enough_repeats(runs: NullRuns, bar: float) -> int | None:
    """The least repeats that give AIM; more repeats never accept more often, so it bisects."""
    low, high = runs.repeats, _MOST_REPEATS
    if low >= high or replace(runs, repeats=high).per_run(bar) > AIM:
        return None
    while low < high:
        middle = (low + high) // 2
        if replace(runs, repeats=middle).per_run(bar) <= AIM:
            high = middle
        else:
            low = middle + 1
    return high
