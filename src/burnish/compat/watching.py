"""Targets and metrics that tell callbacks when a case is run and when it is scored."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from burnish.compat.around import AroundTarget
from burnish.compat.callbacks import Telling
from burnish.core.candidates import Candidate
from burnish.core.cases import Case
from burnish.core.effects import Effects, Receipt, Scope
from burnish.core.errors import BurnishError
from burnish.core.money import Spend
from burnish.core.outcomes import Outcome
from burnish.core.protocols import Metric
from burnish.core.scores import Score
from burnish.projects.measurements import threshold_of


@dataclass(frozen=True, kw_only=True)
class WatchedTarget(AroundTarget):
    """Another target, and callbacks around every run of a case."""

    telling: Telling

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Scope
    ) -> Receipt[Outcome]:
        """Tell, run, tell."""
        known = {"eval_case_id": case.id, "case": case, "run_id": draw + 1}
        await self.telling.tell("before_inference_case", **known)
        try:
            receipt = await self.target.run(candidate, case, draw=draw, effects=effects)
        except BurnishError:
            raise
        except Exception as error:
            await self.telling.tell("after_inference_case", **known, error=error)
            raise
        await self.telling.tell("after_inference_case", **known, outcome=receipt.value)
        return receipt


@dataclass(kw_only=True)
class _Scored:
    """One outcome while its metrics are at work."""

    metrics: int
    """How many have not said anything yet."""
    begun: bool = False
    scores: list[Score] = field(default_factory=list[Score])
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(kw_only=True)
class Scoring:
    """Tells once before the first metric looks at an outcome, and once after the last."""

    telling: Telling
    metrics: int
    under_way: dict[int, _Scored] = field(default_factory=dict[int, _Scored])

    def watch(self, metrics: Sequence[Metric]) -> tuple[Metric, ...]:
        """The metrics, each of which lets this know."""
        return tuple(WatchedMetric(metric=metric, scoring=self) for metric in metrics)

    async def score(
        self, metric: Metric, case: Case, outcome: Outcome, effects: Effects
    ) -> Sequence[Score]:
        """Score, and tell where this is the first or the last to do so."""
        # All metrics of one case are given the same object, and nobody else is.
        one = self.under_way.setdefault(id(outcome), _Scored(metrics=self.metrics))
        known = {"eval_case_id": case.id, "case": case, "outcome": outcome}
        async with one.lock:
            if not one.begun:
                one.begun = True
                await self.telling.tell("before_evaluate_case", **known)
        try:
            found = await metric.score(case, outcome, effects=effects)
            one.scores += found
        finally:
            one.metrics -= 1
            if not one.metrics:
                del self.under_way[id(outcome)]
        if not one.metrics:
            scores = tuple(one.scores)
            await self.telling.tell("after_evaluate_case", **known, scores=scores)
        return found


@dataclass(frozen=True, kw_only=True)
class WatchedMetric:
    """Another metric, and callbacks around it."""

    metric: Metric
    scoring: Scoring

    @property
    def name(self) -> str:
        """The other's."""
        return self.metric.name

    @property
    def fingerprint(self) -> str:
        """The other's: callbacks change nothing."""
        return self.metric.fingerprint

    @property
    def threshold(self) -> float | None:
        """The other's."""
        return threshold_of(self.metric)

    def estimate(self, case: Case) -> Spend:
        """The other's."""
        return self.metric.estimate(case)

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """The other's."""
        return await self.scoring.score(self.metric, case, outcome, effects)
