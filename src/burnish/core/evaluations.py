"""Evaluations: outcomes and scores of one candidate over cases × repeats, and their sums.

Law 4 lives here. Turns are averaged inside a case first, then cases inside a sweep (one
pass over the cases), then sweeps. Nothing missing enters a mean: a case with a missing
turn is missing, not the average of what is left of it. A metric that says nothing about a
case does not apply to it, which is neither missing nor 0. A failed run is 0 in every metric,
also where nobody wrote the zero down.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from burnish.core.cases import Split
from burnish.core.outcomes import Outcome
from burnish.core.scores import Score


@dataclass(frozen=True, kw_only=True)
class CaseResult:
    """One run of one case: what it gave, and how it was scored."""

    case: str
    draw: int = 0
    """Which repeat this is."""
    outcome: Outcome
    scores: tuple[Score, ...] = ()

    def applies(self, metric: str) -> bool:
        """Whether the metric said anything here, even that its score is missing."""
        return self.outcome.failed or any(score.metric == metric for score in self.scores)

    def value(self, metric: str) -> float | None:
        """The metric's mean over the turns; None when a turn is missing or none is scored."""
        values = [score.value for score in self.scores if score.metric == metric]
        if self.outcome.failed and not values:
            return 0.0
        known = [value for value in values if value is not None]
        return mean(known) if known and len(known) == len(values) else None

    def passed(self, metrics: Collection[str]) -> bool | None:
        """Whether every metric passes; None when one is missing or none gives a verdict."""
        scores = [score for score in self.scores if score.metric in metrics]
        if any(score.missing for score in scores):
            return None
        if self.outcome.failed:
            return False
        verdicts = [score.passed for score in scores if score.passed is not None]
        return all(verdicts) if verdicts else None


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Outcomes and scores of one candidate over cases × repeats."""

    candidate: str
    split: Split
    results: tuple[CaseResult, ...]

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that scored anything, sorted."""
        return tuple(sorted({s.metric for result in self.results for s in result.scores}))

    @cached_property
    def cases(self) -> tuple[str, ...]:
        """The cases that were run, in order."""
        return tuple(dict.fromkeys(result.case for result in self.results))

    @cached_property
    def sweeps(self) -> tuple[tuple[CaseResult, ...], ...]:
        """The results of each repeat."""
        draws = sorted({result.draw for result in self.results})
        return tuple(tuple(r for r in self.results if r.draw == draw) for draw in draws)

    def of_case(self, case: str) -> tuple[CaseResult, ...]:
        """All repeats of one case."""
        return self._by_case.get(case, ())

    def only(self, cases: Collection[str]) -> "Evaluation":
        """The same evaluation, as if only these cases had been run."""
        kept = tuple(result for result in self.results if result.case in cases)
        return Evaluation(candidate=self.candidate, split=self.split, results=kept)

    def missing_cases(self, metrics: Iterable[str]) -> tuple[str, ...]:
        """The cases in which an outcome, or one of these metrics, is missing in any repeat."""
        wanted = tuple(metrics)
        gone = {r.case for r in self.results if r.outcome.missing or _lacks(r, wanted)}
        return tuple(case for case in self.cases if case in gone)

    def missing_reasons(self) -> dict[str, str]:
        """By case, why its outcome or a score is missing; the first repeat that says so speaks."""
        reasons: dict[str, str] = {}
        for result in self.results:
            if reason := _why_missing(result):
                reasons.setdefault(result.case, reason)
        return reasons

    def missing_scores(self, metric: str) -> int:
        """How many runs have no score where the metric should have given one."""
        return sum(r.outcome.missing or _lacks(r, (metric,)) for r in self.results)

    def mean_of(self, metric: str) -> float | None:
        """The metric's mean over cases and repeats; None when nothing is scored."""
        means = [m for sweep in self.sweeps if (m := sweep_mean(sweep, metric)) is not None]
        return mean(means) if means else None

    def failed_cases(self) -> tuple[str, ...]:
        """The cases in which the agent itself failed at least once."""
        gone = {result.case for result in self.results if result.outcome.failed}
        return tuple(case for case in self.cases if case in gone)

    @cached_property
    def _by_case(self) -> dict[str, tuple[CaseResult, ...]]:
        found: dict[str, list[CaseResult]] = {}
        for result in self.results:
            found.setdefault(result.case, []).append(result)
        return {case: tuple(results) for case, results in found.items()}


def sweep_mean(sweep: Iterable[CaseResult], metric: str) -> float | None:
    """A metric's mean over the cases of one sweep, the missing ones left out."""
    values = [value for result in sweep if (value := result.value(metric)) is not None]
    return mean(values) if values else None


def pass_rate(evaluation: Evaluation, metrics: Collection[str] | None = None) -> float | None:
    """The share of cases in which every metric (or every named one) passes, in [0, 1]."""
    wanted = evaluation.metrics if metrics is None else metrics
    rates: list[float] = []
    for sweep in evaluation.sweeps:
        verdicts = [v for result in sweep if (v := result.passed(wanted)) is not None]
        if verdicts:
            rates.append(mean([float(verdict) for verdict in verdicts]))
    return mean(rates) if rates else None


def mean(values: Sequence[float]) -> float:
    """The mean, summed exactly, so that no order of the values changes it."""
    return math.fsum(values) / len(values)


def spread(values: Sequence[float]) -> float:
    """The population standard deviation; exactly 0 when the values agree."""
    if len(set(values)) == 1:
        return 0.0
    centre = mean(values)
    return math.sqrt(mean([(value - centre) ** 2 for value in values]))


def _why_missing(result: CaseResult) -> str:
    if result.outcome.missing and result.outcome.failure is not None:
        return result.outcome.failure.message
    return next((score.reason for score in result.scores if score.missing), "")


def _lacks(result: CaseResult, metrics: Iterable[str]) -> bool:
    return any(result.applies(m) and result.value(m) is None for m in metrics)
