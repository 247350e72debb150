"""The report of a measurement: one piece of data that tables, files and comparisons are made of."""

import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from burnish.core.cases import Case
from burnish.core.content import Json, codec, stream
from burnish.core.errors import ConfigError, Problem
from burnish.core.evaluations import Evaluation, mean
from burnish.core.money import NOTHING, Spend
from burnish.core.statistics import paired_interval, pass_at_k, pass_hat_k
from burnish.metrics.agreement import Share
from burnish.reports.baseline import BaselineComparison, Noise, compare_rows, noise_of
from burnish.reports.evaluation_cases import CaseRow, CaseVerdict, rows_of
from burnish.system import Redactor, read_bytes, write_atomic
from burnish.version import VERSION

# -- intervals -------------------------------------------------------------------------------


_RESAMPLES = 2000
_WORK = 2_000_000
"""With many cases fewer resamples do: the interval is narrow by then."""


def mean_interval(values: Sequence[float], rng: random.Random) -> tuple[float, float] | None:
    """The 95 % interval of a mean over cases; None where the values cannot tell.

    Scores that are all 0 or 1 get Wilson's interval: a bootstrap of three ones would claim
    certainty. Other scores are resampled. Where they are all alike, resampling knows nothing.
    """
    if len(values) < 2:
        return None
    if set(values) <= {0.0, 1.0}:
        share = Share.of_counts(round(math.fsum(values)), len(values))
        return None if share is None else (share.low, share.high)
    if len(set(values)) == 1:
        return None
    resamples = min(_RESAMPLES, max(400, _WORK // len(values)))
    interval = paired_interval(values, rng, resamples=resamples)
    return None if interval is None else (interval.low, interval.high)


def percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that so large a share of all values does not exceed."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


# -- what it adds up to -----------------------------------------------------------------------


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
class _TryRates:
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
    tries: _TryRates | None = None
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


def _summaries_of(
    rows: Sequence[CaseRow], thresholds: Mapping[str, float | None], seed: int
) -> tuple[MetricSummary, ...]:
    """A summary of each metric that said anything, in the order of `thresholds`, then by name."""
    metrics = {metric for row in rows for metric in row.values}
    named = [metric for metric in thresholds if metric in metrics]
    return tuple(
        _metric_summary(metric, rows, thresholds.get(metric), seed)
        for metric in (*named, *sorted(metrics - {*named}))
    )


def _metric_summary(
    metric: str, rows: Sequence[CaseRow], threshold: float | None, seed: int
) -> MetricSummary:
    values = [row.values[metric] for row in rows if metric in row.values]
    numbers = [value for value in values if value is not None]
    low, high = mean_interval(numbers, stream(seed, "eval", metric)) or (None, None)
    verdicts = [v for row in rows if (v := row.passed(metric)) is not None]
    return MetricSummary(
        metric=metric,
        threshold=threshold,
        mean=mean(numbers) if numbers else None,
        low=low,
        high=high,
        cases=len(numbers),
        missing=len(values) - len(numbers),
        passed=Share.of_counts(sum(verdicts), len(verdicts)),
    )


def _totals_of(rows: Sequence[CaseRow], evaluation: Evaluation, bill: Bill) -> Totals:
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


def _rates(evaluation: Evaluation) -> Iterator[_TryRates]:
    k = len(evaluation.sweeps)
    if k > 1:
        every = pass_hat_k(evaluation, k)
        whole = evaluation.only({*evaluation.cases} - {*every.left_out})
        yield _TryRates(
            k=k,
            one=pass_at_k(whole, 1).value,
            any_of_k=pass_at_k(whole, k).value,
            all_of_k=every.value,
            cases=every.cases,
            left_out=len(every.left_out),
        )


# -- the report -------------------------------------------------------------------------------


NAME = "evaluation.json"
"""The report in the folder of its run."""
_SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class About:
    """What was measured, where and when."""

    agent: str
    source: str = ""
    """The file that describes it."""
    run: str = ""
    folder: str = ""
    at: str = ""
    """UTC, ISO 8601."""
    seed: int = 42


@dataclass(frozen=True, kw_only=True)
class EvalReport:
    """What a measurement found, case by case and in sum."""

    schema: int = _SCHEMA
    about: About
    burnish: str = VERSION
    """The version that measured."""
    metrics: tuple[MetricSummary, ...]
    totals: Totals
    cases: tuple[CaseRow, ...]
    noise: Noise | None = None
    """What `--aa` found."""
    baseline: BaselineComparison | None = None
    """What `--baseline` found."""

    @classmethod
    def from_measurement(
        cls,
        evaluation: Evaluation,
        cases: Sequence[Case],
        about: About,
        *,
        bill: Bill | None = None,
        thresholds: Mapping[str, float | None] | None = None,
        redactor: Redactor | None = None,
    ) -> "EvalReport":
        """The report of an evaluation; secrets that cases or replies hold are taken out.

        `thresholds` names the metrics in the order in which they are shown.
        """
        rows = _clean(rows_of(cases, evaluation), redactor or Redactor.from_environment())
        return cls(
            about=about,
            metrics=_summaries_of(rows, thresholds or {}, about.seed),
            totals=_totals_of(rows, evaluation, bill or Bill()),
            cases=rows,
        )

    def with_noise(self) -> "EvalReport":
        """The same, its repeats read as measurements of one agent against itself."""
        return replace(self, noise=noise_of(self.cases))

    def against(self, baseline: "EvalReport") -> "EvalReport":
        """The same, beside an earlier measurement."""
        comparison = compare_rows(
            self.cases,
            baseline.cases,
            seed=self.about.seed,
            name=baseline.about.run,
            metrics=[each.metric for each in self.metrics],
        )
        return replace(self, baseline=comparison)

    @property
    def ok(self) -> bool:
        """Whether every threshold holds: some case passes, none fails, none is missing."""
        totals = self.totals
        return totals.passed > 0 and not totals.failed and not totals.missing

    def to_json(self) -> dict[str, Json]:
        """As plain data, headed by the summary that other tools read first."""
        data = codec(EvalReport).encode(self)
        assert isinstance(data, dict)
        head: dict[str, Json] = {"schema": self.schema, "summary": _summary(self)}
        return {**head, **data}

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        write_atomic(path, self.to_text())

    def to_text(self) -> str:
        """As JSON: indented at the top, and one case a line, so that a diff can be read."""
        data = self.to_json()
        rows = data.pop("cases")
        assert isinstance(rows, list)
        lines = ",\n".join(f"    {json.dumps(row, ensure_ascii=False)}" for row in rows)
        head = json.dumps({**data, "cases": []}, indent=2, ensure_ascii=False)
        return head.removesuffix("[]\n}") + (f"[\n{lines}\n  ]\n}}\n" if rows else "[]\n}\n")

    @classmethod
    def read(cls, path: Path) -> "EvalReport":
        """A report that was written before; `path` may be the folder of its run."""
        file = path / NAME if path.is_dir() else path
        if path.is_dir() and not file.exists():
            raise _unfit(path, "there is no evaluation.json: this run measured nothing to its end")
        try:
            data: Json = json.loads(read_bytes(file))
            schema = data.get("schema") if isinstance(data, dict) else None
            if isinstance(schema, int) and schema > _SCHEMA:
                raise _unfit(file, "this report was written by a newer burnish")
            return codec(EvalReport).decode(data)
        except ValueError:
            raise _unfit(file, "this is not a report of `burnish eval`") from None


def _clean(rows: tuple[CaseRow, ...], redactor: Redactor) -> tuple[CaseRow, ...]:
    """The rows without secrets: recorded replies and the cases' own texts saw no journal."""
    data = codec(tuple[CaseRow, ...]).encode(rows)
    if redactor.is_clean(json.dumps(data, ensure_ascii=False)):
        return rows
    return codec(tuple[CaseRow, ...]).decode(redactor.json(data))


def _summary(report: EvalReport) -> dict[str, Json]:
    """What other tools read first; rates from 0 to 1, and zeros count in every mean."""
    totals, about = report.totals, report.about
    return {
        "agent_name": about.agent,
        "agent_config_path": about.source,
        "timestamp": about.at,
        "total_tests": totals.cases,
        "passed": totals.passed,
        "failed": totals.failed,
        "missing": totals.missing,
        "unjudged": totals.unjudged,
        "pass_rate": None if totals.pass_rate is None else totals.pass_rate.value,
        "total_duration_ms": round(totals.active_seconds * 1000),
        "metrics_evaluated": {each.metric: each.cases for each in report.metrics},
        "average_scores": {each.metric: each.mean for each in report.metrics},
        "thresholds_hold": report.ok,
    }


def _unfit(path: Path, message: str) -> ConfigError:
    return ConfigError(
        [Problem(where=str(path), message=message)],
        remedy="give a file that `burnish eval --json FILE` wrote, or a run of `burnish eval`",
    )
