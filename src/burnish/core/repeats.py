"""What repeats say: pass@k (one of k tries does it) and pass^k (all k tries do it)."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from math import comb

from burnish.core.evaluations import Evaluation, mean


@dataclass(frozen=True, kw_only=True)
class Repeated:
    """A rate over cases that were tried several times."""

    k: int
    value: float | None
    """The mean over cases; None when no case was tried often enough."""
    cases: int
    left_out: tuple[str, ...] = ()
    """Cases with fewer than k verdicts: a missing try is neither a pass nor a fail."""


def pass_at_k(evaluation: Evaluation, k: int, metrics: Collection[str] | None = None) -> Repeated:
    """The chance that at least one of k tries passes, without bias from having n ≥ k tries."""
    return _over_cases(evaluation, k, metrics, lambda n, c: 1 - comb(n - c, k) / comb(n, k))


def pass_hat_k(evaluation: Evaluation, k: int, metrics: Collection[str] | None = None) -> Repeated:
    """The chance that all of k tries pass: what a user who comes back k times will see."""
    return _over_cases(evaluation, k, metrics, lambda n, c: comb(c, k) / comb(n, k))


def _over_cases(
    evaluation: Evaluation,
    k: int,
    metrics: Collection[str] | None,
    chance: Callable[[int, int], float],
) -> Repeated:
    if k < 1:
        raise ValueError(f"k must be at least 1, found {k}")
    wanted = evaluation.metrics if metrics is None else metrics
    chances: list[float] = []
    left_out: list[str] = []
    for case in evaluation.cases:
        verdicts = [v for r in evaluation.of_case(case) if (v := r.passed(wanted)) is not None]
        if len(verdicts) < k:
            left_out.append(case)
        else:
            chances.append(chance(len(verdicts), sum(verdicts)))
    value = mean(chances) if chances else None
    return Repeated(k=k, value=value, cases=len(chances), left_out=tuple(left_out))
