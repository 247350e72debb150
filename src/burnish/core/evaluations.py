"""Scores, evaluations over cases × repeats, the objective that reduces them, and HTML tables."""

import math
import operator
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from typing import Literal, TypeAlias

from burnish.core.cases import Outcome, Split
from burnish.core.content import Json
from burnish.core.money import to_usd
from burnish.core.surfaces import EPSILON


def html_table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A titled table as HTML; all texts are escaped."""
    heads = "".join(f"<th>{escape(each)}</th>" for each in head)
    lines = ("".join(f"<td>{escape(each)}</td>" for each in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    top = f"<thead><tr>{heads}</tr></thead>" if head else ""
    return f"<p><b>{escape(title)}</b></p><table>{top}<tbody>{body}</tbody></table>"


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """A value in [0, 1] or missing, pass or fail, and the reason in words."""

    metric: str
    value: float | None
    passed: bool | None = None
    """None when the metric gives no verdict or is missing."""
    reason: str = ""
    turn: int | None = None
    """The turn that it scores, in a case of several."""
    details: Mapping[str, Json] = field(default_factory=dict[str, Json])
    unreachable: bool = False
    """Whether it is missing because nobody answered, rather than something of no use."""

    def __post_init__(self) -> None:
        if self.value is None and self.passed is not None:
            raise ValueError(f"{self.metric}: a missing score can neither pass nor fail")
        if self.value is not None and not 0 <= self.value <= 1:
            raise ValueError(f"{self.metric}: a score must be in [0, 1], found {self.value}")

    @property
    def missing(self) -> bool:
        """Whether there is no score, which is not the same as a score of 0."""
        return self.value is None

    @classmethod
    def of_nothing(cls, metric: str, reason: str, *, unreachable: bool = False) -> "Score":
        """Create a missing score."""
        return cls(metric=metric, value=None, reason=reason, unreachable=unreachable)

    @classmethod
    def of_failure(cls, metric: str, reason: str, *, judges: bool = True) -> "Score":
        """Create the score of an agent's failure: 0, with its error as the reason.

        A metric that `judges` nothing, because it has no threshold, gives no verdict here either.
        """
        return cls(metric=metric, value=0.0, passed=False if judges else None, reason=reason)


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseResult:
    """The outcome and the scores of one run of one case."""

    case: str
    draw: int = 0
    """The number of the repeat."""
    outcome: Outcome
    scores: tuple[Score, ...] = ()

    def applies(self, metric: str) -> bool:
        """Whether the metric has a score here, even a missing one."""
        return self.outcome.failed or any(score.metric == metric for score in self.scores)

    def value(self, metric: str) -> float | None:
        """The metric's mean over the turns; None when a score is missing or there is none."""
        values = [score.value for score in self.scores if score.metric == metric]
        if len(values) == 1:
            return values[0]
        if self.outcome.failed and not values:
            return 0.0
        present = [value for value in values if value is not None]
        return mean(present) if present and len(present) == len(values) else None

    def passed(self, metrics: Collection[str]) -> bool | None:
        """Whether every metric passes; None when one is missing or none gives a verdict."""
        scores = [score for score in self.scores if score.metric in metrics]
        if any(score.missing for score in scores):
            return None
        verdicts = [score.passed for score in scores if score.passed is not None]
        if self.outcome.failed and (verdicts or not scores):
            return False
        return all(verdicts) if verdicts else None


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Outcomes and scores of one candidate over cases × repeats."""

    candidate: str
    split: Split
    results: tuple[CaseResult, ...]

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics with scores, sorted."""
        return tuple(sorted({s.metric for result in self.results for s in result.scores}))

    @cached_property
    def cases(self) -> tuple[str, ...]:
        """The ids of the cases that were run, in order."""
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
        """The same evaluation as if only these cases had been run; itself if they are all."""
        results = tuple(r for r in self.results if r.case in cases)
        return self if len(results) == len(self.results) else replace(self, results=results)

    def missing_cases(self, metrics: Iterable[str]) -> tuple[str, ...]:
        """The cases in which an outcome, or one of these metrics, is missing in any repeat."""
        names = tuple(metrics)
        gone = {r.case for r in self.results if r.outcome.missing or _lacks(r, names)}
        return tuple(case for case in self.cases if case in gone)

    def missing_reasons(self) -> dict[str, str]:
        """By case, why its outcome or a score is missing, in the first repeat with a reason."""
        reasons: dict[str, str] = {}
        for result in self.results:
            if result.outcome.missing and result.outcome.failure is not None:
                reason = result.outcome.failure.message
            else:
                reason = next((score.reason for score in result.scores if score.missing), "")
            if reason:
                reasons.setdefault(result.case, reason)
        return reasons

    def missing_scores(self, metric: str) -> int:
        """The number of runs in which the metric's score is missing."""
        return sum(r.outcome.missing or _lacks(r, (metric,)) for r in self.results)

    def mean_of(self, metric: str) -> float | None:
        """The metric's mean over cases and repeats; None when nothing is scored."""
        return _known_mean(_sweep_mean(sweep, metric) for sweep in self.sweeps)

    def _repr_html_(self) -> str:  # pyright: ignore[reportUnusedFunction] - notebooks call it
        means = ((name, self.mean_of(name)) for name in self.metrics)
        rows = [(name, "—" if mean is None else f"{mean:.3f}") for name, mean in means]
        title = f"{len(self.cases)} cases of {self.split.value}, {len(self.sweeps)} times"
        return html_table(title, ("metric", "mean"), rows)

    def failed_cases(self) -> tuple[str, ...]:
        """The cases in which the agent itself failed at least once."""
        gone = {result.case for result in self.results if result.outcome.failed}
        return tuple(case for case in self.cases if case in gone)

    @cached_property
    def _by_case(self) -> dict[str, tuple[CaseResult, ...]]:
        by_case: dict[str, list[CaseResult]] = {}
        for result in self.results:
            by_case.setdefault(result.case, []).append(result)
        return {case: tuple(results) for case, results in by_case.items()}

    @cached_property
    def _measurements(self) -> "dict[Hashable, Measurement]":
        """What objectives made of it: a search measures its incumbent again and again."""
        return {}

    @cached_property
    def _case_scores(self) -> dict[Hashable, dict[str, float | None]]:
        """The same case by case."""
        return {}


def _known_mean(values: Iterable[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return mean(present) if present else None


def _sweep_mean(sweep: Iterable[CaseResult], metric: str) -> float | None:
    return _known_mean(result.value(metric) for result in sweep)


def pass_rate(evaluation: Evaluation, metrics: Collection[str] | None = None) -> float | None:
    """The share of cases in which every metric (or every named one) passes, in [0, 1]."""
    names = evaluation.metrics if metrics is None else metrics
    return _known_mean(
        _known_mean(result.passed(names) for result in sweep) for sweep in evaluation.sweeps
    )


def mean(values: Sequence[float]) -> float:
    """The mean, summed exactly, so that the order of the values does not matter."""
    return math.fsum(values) / len(values)


def spread(values: Sequence[float]) -> float:
    """The population standard deviation; exactly 0 when the values agree."""
    if len(set(values)) == 1:
        return 0.0
    centre = mean(values)
    return math.sqrt(mean([(value - centre) ** 2 for value in values]))


def _lacks(result: CaseResult, metrics: Collection[str]) -> bool:
    return any(score.value is None and score.metric in metrics for score in result.scores)


Operator: TypeAlias = Literal["<=", "<", ">=", ">", "==", "!="]

_OPERATORS: Mapping[Operator, Callable[[float, float], bool]] = {
    "<=": lambda a, b: a <= b + EPSILON,
    "<": lambda a, b: a < b - EPSILON,
    ">=": lambda a, b: a >= b - EPSILON,
    ">": lambda a, b: a > b + EPSILON,
    "==": lambda a, b: abs(a - b) <= EPSILON,
    "!=": lambda a, b: abs(a - b) > EPSILON,
}


@dataclass(frozen=True, kw_only=True)
class Penalties:
    """What cost and latency add to the loss."""

    cost_per_usd: float = 0.0
    """Added per US dollar of one sweep over the cases."""
    latency_per_sec: float = 0.0
    """Added per second of the mean case."""

    def __post_init__(self) -> None:
        if not (0 <= self.cost_per_usd < math.inf and 0 <= self.latency_per_sec < math.inf):
            raise ValueError("a penalty must be a number and cannot be negative")


@dataclass(frozen=True, kw_only=True)
class Constraint:
    """A condition that must hold before anything is compared."""

    metric: str
    """A metric, a measure, or `loss`, `pass_rate`, `cost_usd`, `latency_sec`, `failed_cases`."""
    op: Operator
    value: float

    def holds(self, values: Mapping[str, float]) -> bool | None:
        """Whether it holds; None when its number is not known."""
        value = values.get(self.metric)
        return None if value is None else _OPERATORS[self.op](value, self.value)

    def broken_between(self, low: float, high: float) -> float | None:
        """A number between these two that breaks the constraint, if there is one."""
        inside = min(max(self.value, low), high)
        return next(
            (n for n in (low, high, inside) if not _OPERATORS[self.op](n, self.value)), None
        )

    def __str__(self) -> str:
        return f"{self.metric} {self.op} {self.value:g}"


@dataclass(frozen=True, kw_only=True)
class TieBreaker:
    """A number that decides when the primary number does not."""

    metric: str
    prefer: Literal["lower", "higher"]


@dataclass(frozen=True, kw_only=True)
class Floor:
    """The least cost and duration that a failed run of a case is charged."""

    usd: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The numbers of one evaluation under an objective."""

    loss: float | None
    """None when a weighted metric has no score or a penalty has no price."""
    std: float = 0.0
    """The spread of the loss over the sweeps."""
    runs: tuple[float, ...] = ()
    """The loss of each sweep with its penalties: cost and latency are noisy too."""
    components: Mapping[str, float] = field(default_factory=dict[str, float])
    """The mean of each metric."""
    penalties: Mapping[str, float] = field(default_factory=dict[str, float])
    """The mean of each penalty over the sweeps."""
    pass_rate: float | None = None
    values: Mapping[str, float] = field(default_factory=dict[str, float])
    """Every number that constraints and tie-breakers may refer to."""
    missing: Mapping[str, int] = field(default_factory=dict[str, int])
    """Scores missing, by metric."""
    missing_cases: tuple[str, ...] = ()
    cases: int = 0

    @property
    def score(self) -> float | None:
        """1 − loss."""
        return None if self.loss is None else 1.0 - self.loss


@dataclass(frozen=True, kw_only=True)
class Objective:
    """Reduces an evaluation to the numbers that are compared."""

    weights: Mapping[str, float]
    """The weight of each metric. Other metrics are measured but do not count."""
    penalties: Penalties = field(default_factory=Penalties)
    required: tuple[str, ...] | None = None
    """The metrics that a case must pass to pass; None means all of them."""
    constraints: tuple[Constraint, ...] = ()
    tie_breakers: tuple[TieBreaker, ...] = ()

    def __post_init__(self) -> None:
        if not all(0 < weight < math.inf for weight in self.weights.values()):
            raise ValueError("each metric of an objective needs a weight above 0")

    @property
    def constrained_names(self) -> tuple[str, ...]:
        """The names of the numbers that the constraints limit."""
        return tuple(constraint.metric for constraint in self.constraints)

    def measure(
        self, evaluation: Evaluation, *, floors: Mapping[str, Floor] | None = None
    ) -> Measurement:
        """Reduce an evaluation to numbers.

        `floors` are the least charges for failed runs of a case: comparisons pass the other
        side's cost of the same case, so that crashing on expensive cases saves nothing.
        """
        if floors and evaluation.failed_cases():
            return self._measured(evaluation, floors)
        kept = evaluation._measurements  # pyright: ignore[reportPrivateUsage]
        if self._basis not in kept:
            kept[self._basis] = self._measured(evaluation, {})
        return kept[self._basis]

    @cached_property
    def _basis(self) -> Hashable:
        """Everything that the numbers of an evaluation depend on."""
        return tuple(self.weights.items()), self.penalties, self.required

    def _measured(self, evaluation: Evaluation, floors: Mapping[str, Floor]) -> Measurement:
        charges = _charges(evaluation, floors)
        plain = self._losses(evaluation)
        extras = [p for charge in charges if (p := self._penalties(charge)) is not None]
        runs: tuple[float, ...] = ()
        if plain is not None and len(extras) == len(plain):
            pairs = zip(plain, extras, strict=True)
            runs = tuple(math.fsum((loss, *extra.values())) for loss, extra in pairs)
        loss = mean(runs) if runs else None
        means = ((metric, evaluation.mean_of(metric)) for metric in evaluation.metrics)
        components = {metric: value for metric, value in means if value is not None}
        rate = pass_rate(evaluation, self.required)
        named = {
            "loss": loss,
            "pass_rate": rate,
            "cost_usd": _known_mean(charge.usd for charge in charges),
            "latency_sec": _known_mean(charge.seconds for charge in charges),
        }
        return Measurement(
            loss=loss,
            std=spread(runs) if runs else 0.0,
            runs=runs,
            components=components,
            penalties={name: mean([extra[name] for extra in extras]) for name in extras[0]}
            if runs
            else {},
            pass_rate=rate,
            values={
                **_measures(evaluation),
                **components,
                **{name: value for name, value in named.items() if value is not None},
                "failed_cases": float(len(evaluation.failed_cases())),
            },
            missing={m: n for m in evaluation.metrics if (n := evaluation.missing_scores(m))},
            missing_cases=evaluation.missing_cases(self.weights),
            cases=len(evaluation.cases),
        )

    def case_score(self, evaluation: Evaluation, case: str) -> float | None:
        """The weighted score of one case over its repeats; None when any part is missing."""
        known = evaluation._case_scores  # pyright: ignore[reportPrivateUsage]
        kept = known.setdefault(self._basis, {})
        if case not in kept:
            kept[case] = self._mean_score(evaluation, case)
        return kept[case]

    def _mean_score(self, evaluation: Evaluation, case: str) -> float | None:
        scores = [self.run_score(result) for result in evaluation.of_case(case)]
        present = [score for score in scores if score is not None]
        return mean(present) if present and len(present) == len(scores) else None

    def run_score(self, result: CaseResult) -> float | None:
        """The weighted score of one run of a case; None when any part is missing."""
        values: dict[str, float] = {}
        for metric in self.weights:
            value = result.value(metric)
            if value is not None:
                values[metric] = value
            elif result.applies(metric):
                return None
        return self._weighted(values) if values else None

    def _losses(self, evaluation: Evaluation) -> tuple[float, ...] | None:
        losses: list[float] = []
        for sweep in evaluation.sweeps:
            means = {m: _sweep_mean(sweep, m) for m in self.weights}
            present = {m: value for m, value in means.items() if value is not None}
            if not present or len(present) != len(means):
                return None
            losses.append(1.0 - self._weighted(present))
        return tuple(losses) or None

    def _weighted(self, values: Mapping[str, float]) -> float:
        # Both sums are exact, so the order of the metrics does not matter.
        whole = math.fsum([self.weights[metric] for metric in values])
        score = math.fsum([self.weights[m] * value for m, value in values.items()]) / whole
        return min(1.0, max(0.0, score))

    def _penalties(self, charge: "_Charge") -> dict[str, float] | None:
        penalties: dict[str, float] = {}
        for name, rate, amount in (
            ("cost_per_usd", self.penalties.cost_per_usd, charge.usd),
            ("latency_per_sec", self.penalties.latency_per_sec, charge.seconds),
        ):
            if rate and amount is None:
                return None
            if rate:
                penalties[name] = rate * (amount or 0.0)
        return penalties


@dataclass(frozen=True, kw_only=True)
class _Charge:
    """The cost of one sweep and the duration of its mean case; None when not known."""

    usd: float | None
    seconds: float | None


def _charges(evaluation: Evaluation, floors: Mapping[str, Floor]) -> list[_Charge]:
    """The charge of each sweep; a failed run costs at least the mean of the finished ones."""
    present = [result for result in evaluation.results if not result.outcome.missing]
    failed = [result.outcome.failed for result in present]
    costs = [None if r.outcome.nano_usd is None else to_usd(r.outcome.nano_usd) for r in present]
    none = Floor()
    at_least = [floors.get(result.case, none) for result in present]
    usd = _charged(costs, failed, [floor.usd for floor in at_least])
    seconds = _charged(
        [r.outcome.seconds for r in present], failed, [floor.seconds for floor in at_least]
    )
    charges: list[_Charge] = []
    for sweep in evaluation.sweeps:
        here = [i for i, result in enumerate(present) if result.draw == sweep[0].draw]
        charges.append(
            _Charge(
                usd=None if usd is None else math.fsum(usd[i] for i in here),
                seconds=mean([seconds[i] for i in here]) if seconds and here else None,
            )
        )
    return charges


def _charged(
    amounts: Sequence[float | None], failed: Sequence[bool], floors: Sequence[float]
) -> list[float] | None:
    present = [amount for amount in amounts if amount is not None]
    if len(present) != len(amounts):
        return None
    finished = [amount for amount, gone in zip(present, failed, strict=True) if not gone]
    usual = mean(finished) if finished else 0.0
    return [
        max(amount, usual, floor) if gone else amount
        for amount, gone, floor in zip(present, failed, floors, strict=True)
    ]


def floors_from(evaluation: Evaluation) -> dict[str, Floor]:
    """The cost of each case here, for charging failed runs of it elsewhere."""
    floors: dict[str, Floor] = {}
    for case in evaluation.cases:
        outcomes = [r.outcome for r in evaluation.of_case(case) if not r.outcome.missing]
        if outcomes:
            floors[case] = Floor(
                usd=max(to_usd(outcome.nano_usd or 0) for outcome in outcomes),
                seconds=max(outcome.seconds for outcome in outcomes),
            )
    return floors


def _measures(evaluation: Evaluation) -> dict[str, float]:
    """The means of the measures that every outcome reports."""
    outcomes = [r.outcome for r in evaluation.results if not r.outcome.missing]
    names = sorted({name for outcome in outcomes for name in outcome.measures})
    return {
        name: mean([outcome.measures[name] for outcome in outcomes])
        for name in names
        if all(name in outcome.measures for outcome in outcomes)
    }


def prefers(breaker: TieBreaker, new: float, old: float) -> bool | None:
    """Whether a tie-breaker prefers the new number; None when it is a tie here too."""
    if abs(new - old) <= EPSILON:
        return None
    better = operator.lt if breaker.prefer == "lower" else operator.gt
    return better(new, old)
