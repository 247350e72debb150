"""Noise: one agent measured against itself, and what a set of cases can show in spite of it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import stdev, variance

from burnish.core.evaluations import mean
from burnish.evaluation.datasets.power import smallest_difference
from burnish.reports.eval_rows import CaseRow, CaseVerdict

PASSING = "pass rate"


@dataclass(frozen=True, kw_only=True)
class MetricNoise:
    """How one number moves between sweeps over the same cases."""

    metric: str
    cases: int
    """The cases that have it in every sweep; only they count here."""
    sweeps: tuple[float, ...]
    """The mean of each sweep."""
    spread: float
    """The standard deviation of these means: the noise floor."""
    can_show: float | None
    """The smallest true difference that a paired comparison of two sweeps finds in 4 of 5 tries
    at 95 % confidence, by the noise seen here; None when no difference would do."""


@dataclass(frozen=True, kw_only=True)
class FlakyCase:
    """A case whose verdict is not the same in every sweep."""

    case: str
    passes: int
    of: int


@dataclass(frozen=True, kw_only=True)
class Noise:
    """What sweeps over the same cases with the same agent differ in."""

    sweeps: int
    metrics: tuple[MetricNoise, ...]
    """The pass rate first, where there is one."""
    changed: float | None
    """The share of verdicts that differ between two sweeps; None when there are none."""
    careful: float | None
    """What the set can show in pass rate when nothing is known about the noise."""
    flaky: tuple[FlakyCase, ...] = ()
    wavering: int = 0
    """Cases whose scores move while their verdict stays."""


def noise_of(rows: Sequence[CaseRow]) -> Noise:
    """What the tries of each case say of the noise."""
    sweeps = max((len(row.tries) for row in rows), default=0)
    judged = [row for row in rows if _verdicts(row, sweeps)]
    flaky = [row for row in judged if len(_verdicts(row, sweeps)) > 1]
    unsteady = {row.case for row in flaky}
    wavering = sum(row.case not in unsteady and _moves(row) for row in rows)
    verdicts = [[float(one.verdict is CaseVerdict.PASS) for one in row.tries] for row in judged]
    rate = mean([mean(passes) for passes in verdicts]) if verdicts else None
    return Noise(
        sweeps=sweeps,
        metrics=tuple(_noises({PASSING: verdicts, **_by_metric(rows, sweeps)})),
        changed=_changed(verdicts),
        careful=None if rate is None else _finite(smallest_difference(len(judged), pass_rate=rate)),
        flaky=tuple(FlakyCase(case=r.case, passes=r.passes, of=sweeps) for r in flaky),
        wavering=wavering,
    )


def _verdicts(row: CaseRow, sweeps: int) -> set[CaseVerdict]:
    """The verdicts of a case; none where a sweep has no verdict on it."""
    found = {one.verdict for one in row.tries}
    whole = len(row.tries) == sweeps and found <= {CaseVerdict.PASS, CaseVerdict.FAIL}
    return found if whole else set()


def _moves(row: CaseRow) -> bool:
    return any(len(set(_tried(row, metric))) > 1 for metric in row.values)


def _tried(row: CaseRow, metric: str) -> list[float]:
    """A metric's value in each try; nothing where one is missing."""
    values: list[float] = []
    for one in row.tries:
        known = [score.value for score in one.scores if score.metric == metric]
        whole = [value for value in known if value is not None]
        if not whole or len(whole) != len(known):
            return []
        values.append(mean(whole))
    return values


def _by_metric(rows: Sequence[CaseRow], sweeps: int) -> dict[str, list[list[float]]]:
    """For each metric the values of the cases that have it in every sweep."""
    return {
        metric: [values for row in rows if len(values := _tried(row, metric)) == sweeps]
        for metric in sorted({metric for row in rows for metric in row.values})
    }


def _noises(tried: Mapping[str, Sequence[Sequence[float]]]) -> Iterator[MetricNoise]:
    for metric, cases in tried.items():
        if cases and len(cases[0]) > 1:
            yield _noise(metric, cases)


def _noise(metric: str, tried: Sequence[Sequence[float]]) -> MetricNoise:
    means = tuple(mean(sweep) for sweep in zip(*tried, strict=True))
    return MetricNoise(
        metric=metric,
        cases=len(tried),
        sweeps=means,
        spread=0.0 if len(set(means)) == 1 else stdev(means),
        can_show=_can_show(tried),
    )


def _can_show(tried: Sequence[Sequence[float]]) -> float | None:
    """By how many cases flip between two sweeps; where scores are no flips, by how far they go."""
    n = len(tried)
    if all(value in (0.0, 1.0) for values in tried for value in values):
        return _finite(smallest_difference(n, changed=_changed(tried)))
    # Two sweeps of one agent: the difference per case has twice its variance.
    spread = math.sqrt(2 * mean([variance(values) for values in tried]))
    return _finite(smallest_difference(n, spread=spread))


def _changed(tried: Sequence[Sequence[float]]) -> float | None:
    """The share of cases that differ between two sweeps, over all pairs of sweeps."""
    pairs = [pair for values in tried for pair in combinations(values, 2)]
    return mean([float(one != other) for one, other in pairs]) if pairs else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
