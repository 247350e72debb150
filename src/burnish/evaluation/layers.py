"""Metrics that a case or a turn sets differently: the innermost list that there is counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from burnish.core.cases import Case
from burnish.core.content import Json, short_id
from burnish.core.effects import Effects
from burnish.core.money import NOTHING, Spend, total
from burnish.core.outcomes import Outcome
from burnish.core.scores import Score
from burnish.evaluation.exchanges import Exchange, exchanges
from burnish.evaluation.turn_metric import TurnMetric


@dataclass(frozen=True, kw_only=True)
class Layered:
    """One metric's name, and how it is set here and there.

    A turn's own list of metrics replaces its case's, and a case's replaces the agent's: where
    the list that counts does not name this metric, it says nothing.
    """

    name: str
    default: TurnMetric | None
    places: Mapping[str, tuple[TurnMetric | None, ...]] = field(
        default_factory=dict[str, tuple[TurnMetric | None, ...]]
    )
    """By case, one for each of its turns; cases that are not here take the default."""

    @property
    def fingerprint(self) -> str:
        """A hash of every setting."""
        places: dict[str, Json] = {
            case: [metric.fingerprint if metric else None for metric in metrics]
            for case, metrics in self.places.items()
        }
        return short_id([self.default.fingerprint if self.default else None, places])

    def estimate(self, case: Case) -> Spend:
        """What scoring this case will cost: at most what its dearest setting would."""
        asked = {metric.fingerprint: metric for metric in self._metrics(case) if metric}
        return total(metric.estimate(case) for metric in asked.values()) if asked else NOTHING

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """Every turn's score by the metric that counts there."""
        seen = exchanges(case, outcome)
        metrics = self._metrics(case)
        by_metric: dict[str, tuple[TurnMetric, list[Exchange]]] = {}
        for exchange in seen:
            metric = metrics[min(exchange.index, len(metrics) - 1)]
            if metric is not None:
                by_metric.setdefault(metric.fingerprint, (metric, []))[1].append(exchange)
        several = len(seen) > 1
        scores: list[Score] = []
        for metric, turns in by_metric.values():
            scores += await metric.score_turns(turns, effects=effects, several=several)
        return sorted(scores, key=lambda score: score.turn or 0)

    def _metrics(self, case: Case) -> tuple[TurnMetric | None, ...]:
        return self.places.get(case.id, (self.default,) * len(case.turns))
