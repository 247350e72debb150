"""Scoring one case after the other, where a request turns parallel evaluation off."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from burnish.core.cases import Case
from burnish.core.effects import Effects
from burnish.core.money import Spend
from burnish.core.outcomes import Outcome
from burnish.core.protocols import Metric
from burnish.core.scores import Score
from burnish.projects.measurements import threshold_of


@dataclass(frozen=True, kw_only=True)
class InTurn:
    """Another metric, which waits until nobody else scores; what it says is the same."""

    metric: Metric
    turn: asyncio.Lock = field(compare=False)

    @property
    def name(self) -> str:
        """The other's."""
        return self.metric.name

    @property
    def fingerprint(self) -> str:
        """The other's: how fast it goes changes no score."""
        return self.metric.fingerprint

    @property
    def threshold(self) -> float | None:
        """The other's."""
        return threshold_of(self.metric)

    def estimate(self, case: Case) -> Spend:
        """The other's."""
        return self.metric.estimate(case)

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """Score when it is this case's turn."""
        async with self.turn:
            return await self.metric.score(case, outcome, effects=effects)


def in_turn(metrics: Sequence[Metric]) -> tuple[Metric, ...]:
    """The metrics, no two of which score at the same time."""
    turn = asyncio.Lock()
    return tuple(InTurn(metric=metric, turn=turn) for metric in metrics)
