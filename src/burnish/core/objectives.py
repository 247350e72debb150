"""The objective: what an evaluation is reduced to before it is compared."""

import math
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
    """Per US dollar that one sweep over the cases cost."""
    latency_per_sec: float = 0.0
    """Per second of the mean case."""

    def __post_init__(self) -> None:
        if not (0 <= self.cost_per_usd < math.inf and 0 <= self.latency_per_sec < math.inf):
            raise ValueError("a penalty must be a number, and cannot be negative")


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

    def broken_between(self, low: float, high: float) -> float | None:
        """A number between these two with which it does not hold, if there is one."""
        inside = min(max(self.value, low), high)
        return next(
            (n for n in (low, high, inside) if not _OPERATORS[self.op](n, self.value)), None
        )

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
    """The loss of each sweep, its own penalties included: dear and slow are noisy too."""
    components: Mapping[str, float] = field(default_factory=dict[str, float])
    """The mean of each metric."""
    penalties: Mapping[str, float] = field(default_factory=dict[str, float])
    """The mean of each penalty over the sweeps."""
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
        if not all(0 < weight < math.inf for weight in self.weights.values()):
            raise ValueError("each metric of an objective needs a weight above 0")

    @property
    def constrained_names(self) -> tuple[str, ...]:
        """What the constraints speak of."""
        return tuple(constraint.metric for constraint in self.constraints)

    def measure(
        self, evaluation: Evaluation, *, floors: Mapping[str, Floor] | None = None
    ) -> Measurement:
        """What the evaluation adds up to.

        `floors` is what failed runs of a case are charged at least: comparisons pass the
        other side's cost of the same case, so that crashing on dear cases saves nothing.
        """
        charges = _charges(evaluation, floors or {})
        penalties = [self._penalties(charge) for charge in charges]
        plain = self._losses(evaluation)
        known = [found for found in penalties if found is not None]
        runs: tuple[float, ...] = ()
        if plain is not None and len(known) == len(plain):
            pairs = zip(plain, known, strict=True)
            runs = tuple(math.fsum((loss, *extra.values())) for loss, extra in pairs)
        loss = mean(runs) if runs else None
        components = _means(evaluation)
        rate = pass_rate(evaluation, self.required)
        named = {
            "loss": loss,
            "pass_rate": rate,
            "cost_usd": _mean_known([charge.usd for charge in charges]),
            "latency_sec": _mean_known([charge.seconds for charge in charges]),
        }
        return Measurement(
            loss=loss,
            std=spread(runs) if runs else 0.0,
            runs=runs,
            components=components,
            penalties={name: mean([extra[name] for extra in known]) for name in known[0]}
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
        whole = math.fsum(weight for weight, _ in heavy)
        score = math.fsum(weight * value for weight, value in heavy) / whole
        return min(1.0, max(0.0, score))

    def _penalties(self, charge: "_Charge") -> dict[str, float] | None:
        rates = {
            "cost_per_usd": (self.penalties.cost_per_usd, charge.usd),
            "latency_per_sec": (self.penalties.latency_per_sec, charge.seconds),
        }
        asked = {name: (rate, amount) for name, (rate, amount) in rates.items() if rate}
        if any(amount is None for _, amount in asked.values()):
            return None
        return {name: rate * (amount or 0.0) for name, (rate, amount) in asked.items()}


@dataclass(frozen=True, kw_only=True)
class _Charge:
    """What one sweep cost in all, and how long its mean case took; None when not known."""

    usd: float | None
    seconds: float | None


def _charges(evaluation: Evaluation, floors: Mapping[str, Floor]) -> list[_Charge]:
    """What each sweep is charged, failed runs at least the mean of the finished ones."""
    present = [result for result in evaluation.results if not result.outcome.missing]
    failed = [result.outcome.failed for result in present]
    costs = [None if r.outcome.nano_usd is None else to_usd(r.outcome.nano_usd) for r in present]
    at_least = [floors.get(result.case, Floor()) for result in present]
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


def _mean_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if known else None


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
