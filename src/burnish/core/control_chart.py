"""A control chart for a stream of scores: has it fallen, or is that noise?

The chart is a one-sided CUSUM. Each score moves a sum by how far it lies below the mean of a
baseline, less half of the fall that should be noticed; the sum never goes below 0, and above a
limit it is an alarm. The limit is not taken from a table, because tables know the true mean: here
it is estimated from the baseline, and that error causes most false alarms. So whole histories
without any change are drawn, baseline included, and the limit is the one that the promised share
of them crosses.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median

from burnish.core.content import stream
from burnish.core.evaluations import mean

_HISTORIES = 1000
"""Drawn for the limit: its share of false alarms is right within about 0.014 (95 %)."""
_TRIES = 200
"""Drawn for the time that it takes to notice a fall."""


@dataclass(frozen=True, kw_only=True)
class ChartDesign:
    """What the chart promises; scores are numbers in [0, 1]."""

    baseline: int = 200
    """The first scores: what is usual."""
    shift: float = 0.1
    """The fall of the mean that should be noticed."""
    false_alarms: float = 0.05
    """The chance of an alarm without any change, in each period."""
    period: int = 1000
    """Scores after which the sum begins again at 0."""
    histories: int = _HISTORIES
    seed: int = 42


@dataclass(frozen=True, kw_only=True)
class ChartAlarm:
    """An alarm, and what it is about."""

    at: int
    """The position of the score that raised it, among all scores."""
    since: int
    """The position from which on scores are likely lower: the last time that the sum was 0."""
    level: float
    """The mean of the scores since then."""


@dataclass(frozen=True, kw_only=True)
class ChartReading:
    """The chart of some scores."""

    design: ChartDesign
    scores: int
    usual: float | None = None
    """The mean of the baseline; None while there are too few scores for it."""
    limit: float = 0.0
    sums: tuple[float, ...] = ()
    """The sum after each score that follows the baseline."""
    alarms: tuple[ChartAlarm, ...] = ()
    delay: int | None = None
    """Scores until half of all falls by `shift` are noticed; None if fewer than half are, in a
    period."""
    noticed: float = 0.0
    """The share of falls by `shift` that are noticed within a period."""

    @property
    def ready(self) -> bool:
        return self.usual is not None


def read_chart(scores: Sequence[float], design: ChartDesign) -> ChartReading:
    """The chart of all scores so far, oldest first. After an alarm the sum begins again at 0."""
    if len(scores) < design.baseline:
        return ChartReading(design=design, scores=len(scores))
    start = tuple(sorted(round(score, 6) for score in scores[: design.baseline]))
    usual, (limit, delay, noticed) = mean(start), _promises(start, design)
    sums, alarms, since = [0.0], list[ChartAlarm](), design.baseline
    for position in range(design.baseline, len(scores)):
        step = usual - design.shift / 2 - scores[position]
        before = sums[-1]
        fresh = not alarms or alarms[-1].at < position - 1
        if (position - design.baseline) % design.period == 0 or not fresh:
            before = 0.0
        if before == 0.0:
            since = position
        sums.append(max(0.0, before + step))
        if sums[-1] > limit:
            level = mean(scores[since : position + 1])
            alarms.append(ChartAlarm(at=position, since=since, level=level))
    return ChartReading(
        design=design,
        scores=len(scores),
        usual=usual,
        limit=limit,
        sums=tuple(sums[1:]),
        alarms=tuple(alarms),
        delay=delay,
        noticed=noticed,
    )


@lru_cache(maxsize=256)
def _promises(baseline: tuple[float, ...], design: ChartDesign) -> tuple[float, int | None, float]:
    """The limit, the usual delay of an alarm about a fall, and the share of falls noticed."""
    # A baseline without a failure does not mean that there are none: one of each is added.
    scores = (*baseline, 0.0, 1.0)
    draws = stream(design.seed, "control chart", len(baseline))
    highest = sorted(
        max(_sums(_allowed(scores, draws, design), draws.choices(scores, k=design.period)))
        for _ in range(design.histories)
    )
    limit = highest[-1 - int(design.false_alarms * design.histories)]
    share = min(1.0, design.shift / mean(scores))
    delays = [_delay(scores, share, limit, draws, design) for _ in range(_TRIES)]
    noticed = sum(each <= design.period for each in delays) / _TRIES
    return limit, int(median(delays)) if noticed > 0.5 else None, noticed


def _allowed(scores: Sequence[float], draws: random.Random, design: ChartDesign) -> float:
    """The level under which a score adds to the sum, with the baseline of another history."""
    return mean(draws.choices(scores, k=design.baseline)) - design.shift / 2


def _sums(allowed: float, scores: Sequence[float]) -> list[float]:
    sums, now = [0.0], 0.0
    for score in scores:
        now += allowed - score
        if now < 0.0:
            now = 0.0
        sums.append(now)
    return sums


def _delay(
    scores: Sequence[float], share: float, limit: float, draws: random.Random, design: ChartDesign
) -> int:
    """Scores until the alarm if this share of them falls to 0; one more than a period if none."""
    allowed = _allowed(scores, draws, design)
    fallen = [
        0.0 if draws.random() < share else score for score in draws.choices(scores, k=design.period)
    ]
    sums = _sums(allowed, fallen)
    return next((n for n, now in enumerate(sums) if now > limit), design.period + 1)
