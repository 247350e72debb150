"""What a measurement adds up to: metrics with their intervals, and the totals."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from burnish.core.evaluations import Evaluation, mean
from burnish.core.money import NOTHING, Spend
from burnish.core.randomness import stream
from burnish.core.repeats import pass_at_k, pass_hat_k
from burnish.evaluation.shares import Share
from burnish.reports.eval_intervals import mean_interval, percentile
from burnish.reports.eval_rows import CaseRow, CaseVerdict


@dataclass(frozen=True, kw_only=True)
class MetricSummary:
    """One metric over all cases that it applies to."""

    metric: str
    threshold: float | None = None
    mean: float | None
    low: float | None = None
    """Of the 95 % interval; None where the values cannot tell."""
    high: float | None = None
    cases: int
    """The cases in the mean. A case with a missing try is not in it."""
    missing: int = 0
    """The cases that should be in the mean and are not."""
    passed: Share | None = None
    """The cases that pass this metric in every try."""


@dataclass(frozen=True, kw_only=True)
class TryRates:
    """What several tries at each case say."""

    k: int
    one: float | None
    """A single try passes."""
    any_of_k: float | None
    """pass@k: at least one of k tries passes."""
    all_of_k: float | None
    """pass^k: all k tries pass."""
    cases: int
    left_out: int = 0
    """Cases without a verdict in every try."""


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Everything together."""

    cases: int
    repeats: int
    passed: int
    failed: int
    missing: int
    unjudged: int
    crashed: int
    """Cases in which the agent itself failed at least once: 0 in every metric."""
    pass_rate: Share | None
    """Of the cases with a verdict, those that pass in every try."""
    tries: TryRates | None = None
    seconds_p50: float | None = None
    """Of the runs that gave an answer."""
    seconds_p95: float | None = None
    tokens_in: int = 0
    """The agent's own; judges are in `spent`."""
    tokens_out: int = 0
    spent: Spend = NOTHING
    billed: Spend = NOTHING
    active_seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Bill:
    """What a run cost, judges included."""

    spent: Spend = NOTHING
    billed: Spend = NOTHING
    active_seconds: float = 0.0


def summaries_of(
    rows: Sequence[CaseRow], thresholds: Mapping[str, float | None], seed: int
) -> tuple[MetricSummary, ...]:
    """A summary of each metric that said anything, in the order of `thresholds`, then by name."""
    found = {metric for row in rows for metric in row.values}
    named = [metric for metric in thresholds if metric in found]
    return tuple(
        _summary(metric, rows, thresholds.get(metric), seed)
        for metric in (*named, *sorted(found - {*named}))
    )


def _summary(
    metric: str, rows: Sequence[CaseRow], threshold: float | None, seed: int
) -> MetricSummary:
    values = [row.values[metric] for row in rows if metric in row.values]
    known = [value for value in values if value is not None]
    low, high = mean_interval(known, stream(seed, "eval", metric)) or (None, None)
    verdicts = [v for row in rows if (v := row.passed(metric)) is not None]
    return MetricSummary(
        metric=metric,
        threshold=threshold,
        mean=mean(known) if known else None,
        low=low,
        high=high,
        cases=len(known),
        missing=len(values) - len(known),
        passed=Share.of_counts(sum(verdicts), len(verdicts)),
    )


def totals_of(rows: Sequence[CaseRow], evaluation: Evaluation, bill: Bill) -> Totals:
    """The totals of a measurement."""
    count = {verdict: sum(row.verdict is verdict for row in rows) for verdict in CaseVerdict}
    passed, failed = count[CaseVerdict.PASS], count[CaseVerdict.FAIL]
    tries = [one for row in rows for one in row.tries]
    seconds = [one.seconds for one in tries if one.answered]
    timed = seconds if any(seconds) else []
    return Totals(
        cases=len(rows),
        repeats=len(evaluation.sweeps),
        passed=passed,
        failed=failed,
        missing=count[CaseVerdict.MISSING],
        unjudged=count[CaseVerdict.UNJUDGED],
        crashed=sum(row.crashed for row in rows),
        pass_rate=Share.of_counts(passed, passed + failed),
        tries=next(_rates(evaluation), None),
        seconds_p50=percentile(timed, 0.5),
        seconds_p95=percentile(timed, 0.95),
        tokens_in=sum(one.tokens_in for one in tries),
        tokens_out=sum(one.tokens_out for one in tries),
        spent=bill.spent,
        billed=bill.billed,
        active_seconds=bill.active_seconds,
    )


def _rates(evaluation: Evaluation) -> Iterator[TryRates]:
    k = len(evaluation.sweeps)
    if k > 1:
        every = pass_hat_k(evaluation, k)
        whole = evaluation.only({*evaluation.cases} - {*every.left_out})
        yield TryRates(
            k=k,
            one=pass_at_k(whole, 1).value,
            any_of_k=pass_at_k(whole, k).value,
            all_of_k=every.value,
            cases=every.cases,
            left_out=len(every.left_out),
        )
