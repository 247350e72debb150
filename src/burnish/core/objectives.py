"""The objective: what an evaluation is reduced to before it is compared."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from burnish.core.evaluations import Evaluation, mean, pass_rate, spread, sweep_mean
from burnish.core.money import to_usd
from burnish.core.surfaces import EPSILON

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
    """What is added to the loss for being dear or slow."""

    cost_per_usd: float = 0.0
    """Per US dollar the evaluation cost."""
    latency_per_sec: float = 0.0
    """Per second of the mean case."""

    def __post_init__(self) -> None:
        if self.cost_per_usd < 0 or self.latency_per_sec < 0:
            raise ValueError("a penalty cannot be negative")


@dataclass(frozen=True, kw_only=True)
class Constraint:
    """A condition that must hold before anything is compared."""

    metric: str
    """A metric, a measure, or `loss`, `pass_rate`, `cost_usd`, `latency_sec`, `failed_cases`."""
    op: Operator
    value: float

    def holds(self, values: Mapping[str, float]) -> bool | None:
        """Whether it holds; None when the number it speaks of is not known."""
        found = values.get(self.metric)
        return None if found is None else _OPERATORS[self.op](found, self.value)

    def __str__(self) -> str:
        return f"{self.metric} {self.op} {self.value:g}"


@dataclass(frozen=True, kw_only=True)
class TieBreaker:
    """What decides when the primary number does not."""

    metric: str
    prefer: Literal["lower", "higher"]


@dataclass(frozen=True, kw_only=True)
class Floor:
    """The least a failed run of a case is taken to have cost."""

    usd: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What one evaluation adds up to under an objective."""

    loss: float | None
    """None when a weighted metric has no score, or a penalty has no price."""
    std: float = 0.0
    """The spread of the loss over the sweeps."""
    runs: tuple[float, ...] = ()
    """The loss of each sweep, penalties included."""
    components: Mapping[str, float] = field(default_factory=dict[str, float])
    """The mean of each metric."""
    penalties: Mapping[str, float] = field(default_factory=dict[str, float])
    pass_rate: float | None = None
    values: Mapping[str, float] = field(default_factory=dict[str, float])
    """Every number that constraints and tie-breakers may speak of."""
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
    """Reduces an evaluation to what is compared."""

    weights: Mapping[str, float]
    """Metrics by weight. Metrics that are not named are measured and do not count."""
    penalties: Penalties = field(default_factory=Penalties)
    required: tuple[str, ...] | None = None
    """The metrics a case must pass to pass; all of them when not given."""
    constraints: tuple[Constraint, ...] = ()
    tie_breakers: tuple[TieBreaker, ...] = ()

    def __post_init__(self) -> None:
        if any(weight <= 0 for weight in self.weights.values()):
            raise ValueError("each metric of an objective needs a weight above 0")

    def measure(
        self, evaluation: Evaluation, *, floors: Mapping[str, Floor] | None = None
    ) -> Measurement:
        """What the evaluation adds up to.

        `floors` is what failed runs of a case are charged at least: comparisons pass the
        other side's cost of the same case, so that crashing on dear cases saves nothing.
        """
        charges = _charges(evaluation, floors or {})
        penalties = self._penalties(charges)
        plain = self._losses(evaluation)
        runs: tuple[float, ...] = ()
        if plain is not None and penalties is not None:
            runs = tuple(loss + sum(penalties.values()) for loss in plain)
        loss = mean(runs) if runs else None
        components = _means(evaluation)
        rate = pass_rate(evaluation, self.required)
        named = {"loss": loss, "pass_rate": rate, **charges}
        return Measurement(
            loss=loss,
            std=spread(runs) if runs else 0.0,
            runs=runs,
            components=components,
            penalties=penalties or {},
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
        scores: list[float] = []
        for result in evaluation.of_case(case):
            parts = {m: result.value(m) for m in self.weights if result.applies(m)}
            known = {m: value for m, value in parts.items() if value is not None}
            if not known or len(known) != len(parts):
                return None
            scores.append(self._weighted(known))
        return mean(scores) if scores else None

    def _losses(self, evaluation: Evaluation) -> tuple[float, ...] | None:
        losses: list[float] = []
        for sweep in evaluation.sweeps:
            means = {m: sweep_mean(sweep, m) for m in self.weights}
            known = {m: value for m, value in means.items() if value is not None}
            if not known or len(known) != len(means):
                return None
            losses.append(1.0 - self._weighted(known))
        return tuple(losses) or None

    def _weighted(self, values: Mapping[str, float]) -> float:
        heavy = [(self.weights[metric], value) for metric, value in sorted(values.items())]
        whole = sum(weight for weight, _ in heavy)
        return min(1.0, max(0.0, sum(weight * value for weight, value in heavy) / whole))

    def _penalties(self, charges: Mapping[str, float | None]) -> dict[str, float] | None:
        rates = {
            "cost_per_usd": (self.penalties.cost_per_usd, charges["cost_usd"]),
            "latency_per_sec": (self.penalties.latency_per_sec, charges["latency_sec"]),
        }
        asked = {name: (rate, amount) for name, (rate, amount) in rates.items() if rate}
        if any(amount is None for _, amount in asked.values()):
            return None
        return {name: rate * (amount or 0.0) for name, (rate, amount) in asked.items()}


def _charges(evaluation: Evaluation, floors: Mapping[str, Floor]) -> dict[str, float | None]:
    """Cost and latency, failed runs charged at least the mean of the finished ones."""
    present = [result for result in evaluation.results if not result.outcome.missing]
    failed = [result.outcome.failed for result in present]
    costs = [None if r.outcome.nano_usd is None else to_usd(r.outcome.nano_usd) for r in present]
    at_least = [floors.get(result.case, Floor()) for result in present]
    usd = _charged(costs, failed, [floor.usd for floor in at_least])
    seconds = _charged(
        [r.outcome.seconds for r in present], failed, [floor.seconds for floor in at_least]
    )
    return {
        "cost_usd": None if usd is None else sum(usd),
        "latency_sec": mean(seconds) if seconds else None,
    }


def _charged(
    amounts: Sequence[float | None], failed: Sequence[bool], floors: Sequence[float]
) -> list[float] | None:
    known = [amount for amount in amounts if amount is not None]
    if len(known) != len(amounts):
        return None
    finished = [amount for amount, gone in zip(known, failed, strict=True) if not gone]
    usual = mean(finished) if finished else 0.0
    return [
        max(amount, usual, floor) if gone else amount
        for amount, gone, floor in zip(known, failed, floors, strict=True)
    ]


def floors_from(evaluation: Evaluation) -> dict[str, Floor]:
    """What each case cost here, for charging failed runs of it elsewhere."""
    found: dict[str, Floor] = {}
    for case in evaluation.cases:
        outcomes = [r.outcome for r in evaluation.of_case(case) if not r.outcome.missing]
        if outcomes:
            found[case] = Floor(
                usd=max(to_usd(outcome.nano_usd or 0) for outcome in outcomes),
                seconds=max(outcome.seconds for outcome in outcomes),
            )
    return found


def _means(evaluation: Evaluation) -> dict[str, float]:
    means = ((metric, evaluation.mean_of(metric)) for metric in evaluation.metrics)
    return {metric: value for metric, value in means if value is not None}


def _measures(evaluation: Evaluation) -> dict[str, float]:
    """The means of what the outcomes report about themselves, where every one reports it."""
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
