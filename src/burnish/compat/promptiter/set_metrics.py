"""Metrics that belong to sets: each set is scored by those of its own metrics file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from burnish.core.cases import Case
from burnish.core.content import short_id
from burnish.core.effects import Effects
from burnish.core.money import NOTHING, Spend
from burnish.core.outcomes import Outcome
from burnish.core.protocols import Metric
from burnish.core.scores import Score
from burnish.projects.measurements import threshold_of


@dataclass(frozen=True, kw_only=True)
class SetMetric:
    """One name, and by set the metric that goes by it; other sets are not scored."""

    name: str
    by_set: Mapping[str, Metric]
    sets: Mapping[str, str]
    """The set of each case."""

    @property
    def fingerprint(self) -> str:
        """A hash of all of them."""
        return short_id([[name, each.fingerprint] for name, each in sorted(self.by_set.items())])

    @property
    def threshold(self) -> float | None:
        """What it wants, where all sets agree."""
        found = {threshold_of(metric) for metric in self.by_set.values()}
        return found.pop() if len(found) == 1 else None

    def of(self, case: Case) -> Metric | None:
        """The metric of a case's set."""
        return self.by_set.get(self.sets.get(case.id, ""))

    def estimate(self, case: Case) -> Spend:
        """What the set's own metric costs."""
        metric = self.of(case)
        return NOTHING if metric is None else metric.estimate(case)

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """What the set's own metric says."""
        metric = self.of(case)
        return [] if metric is None else await metric.score(case, outcome, effects=effects)


def joined(by_set: Mapping[str, Sequence[Metric]], sets: Mapping[str, str]) -> tuple[Metric, ...]:
    """The metrics of all sets; one that is everywhere the same stays as it is."""
    names = dict.fromkeys(metric.name for metrics in by_set.values() for metric in metrics)
    return tuple(_joined(name, by_set, sets) for name in names)


def _joined(name: str, by_set: Mapping[str, Sequence[Metric]], sets: Mapping[str, str]) -> Metric:
    found = {
        each: metric
        for each, metrics in by_set.items()
        for metric in metrics
        if metric.name == name
    }
    first = next(iter(found.values()))
    same = {metric.fingerprint for metric in found.values()} == {first.fingerprint}
    return (
        first
        if same and len(found) == len(by_set)
        else SetMetric(name=name, by_set=found, sets=sets)
    )
