"""The report of a measurement: one piece of data that tables, files and comparisons are made of."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from burnish.core.cases import Case
from burnish.core.content import Json, codec, computed_once, from_json
from burnish.core.errors import ConfigError, Problem
from burnish.core.evaluations import Evaluation, mean
from burnish.core.formatting import shorten, visible
from burnish.core.money import NOTHING, Spend
from burnish.core.statistics import Share, paired_interval, pass_at_k, pass_hat_k
from burnish.reports.baseline import BaselineComparison, Noise, compare_rows, noise_of
from burnish.reports.evaluation_cases import (
    CaseRow,
    CaseVerdict,
    Complaint,
    Trouble,
    complaints_of,
    rows_of,
    unwell,
)
from burnish.system import Redactor, read_bytes, write_atomic
from burnish.version import VERSION

NAME = "evaluation.json"
_SCHEMA = 1


def mean_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of a mean over cases; None where the values cannot tell.

    Scores that are all 0 or 1 get Wilson's interval, others that of paired differences. Where
    they are all alike, nothing is known about how they vary.
    """
    if len(values) < 2:
        return None
    if set(values) <= {0.0, 1.0}:
        share = Share.of_counts(round(math.fsum(values)), len(values))
        return None if share is None else (share.low, share.high)
    if len(set(values)) == 1:
        return None
    interval = paired_interval(values, span=(0.0, 1.0))
    return None if interval is None else (interval.low, interval.high)


def percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that so large a share of all values does not exceed."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


@dataclass(frozen=True, kw_only=True)
class MetricSummary:
    """One metric over all cases that it applies to, if any."""

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
    """None for a metric without a threshold: it only scores."""
    needs: str = ""
    """Where it applies to no case, what a case must have."""

    @property
    def silent(self) -> bool:
        """Whether it applies to no case."""
        return not self.cases and not self.missing


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
    rows: Sequence[CaseRow],
    thresholds: Mapping[str, float | None],
    needs: Mapping[str, str],
) -> tuple[MetricSummary, ...]:
    """A summary of each metric, in the order of `thresholds`, then by name."""
    others = {metric for row in rows for metric in row.values} - {*thresholds}
    summaries = (
        _metric_summary(metric, rows, thresholds.get(metric))
        for metric in (*thresholds, *sorted(others))
    )
    return tuple(
        replace(each, needs=needs.get(each.metric, "")) if each.silent else each
        for each in summaries
    )


def _metric_summary(metric: str, rows: Sequence[CaseRow], threshold: float | None) -> MetricSummary:
    values = [row.values[metric] for row in rows if metric in row.values]
    numbers = [value for value in values if value is not None]
    low, high = mean_interval(numbers) or (None, None)
    verdicts = [v for row in rows if (v := row.passed(metric)) is not None]
    # That the agent crashed is no verdict of a metric that gives none of the other cases.
    ended = [row for row in rows if not row.crashed and row.values.get(metric) is not None]
    judges = not ended or any(row.passed(metric) is not None for row in ended)
    return MetricSummary(
        metric=metric,
        threshold=threshold,
        mean=mean(numbers) if numbers else None,
        low=low,
        high=high,
        cases=len(numbers),
        missing=len(values) - len(numbers),
        passed=Share.of_counts(sum(verdicts), len(verdicts)) if judges else None,
    )


def _totals_of(rows: Sequence[CaseRow], evaluation: Evaluation, bill: Bill) -> Totals:
    count = {verdict: sum(row.verdict is verdict for row in rows) for verdict in CaseVerdict}
    passed, failed = count[CaseVerdict.PASS], count[CaseVerdict.FAIL]
    tries = [one for row in rows for one in row.tries]
    seconds = [one.seconds for one in tries if one.answered]
    timed = seconds if any(seconds) else []
    judged = [row for row in rows if row.verdict in (CaseVerdict.PASS, CaseVerdict.FAIL)]
    # Where no metric gives a verdict, crashes alone are no share of cases that pass.
    judges = not count[CaseVerdict.UNJUDGED] or not all(row.crashed for row in judged)
    return Totals(
        cases=len(rows),
        repeats=len(evaluation.sweeps),
        passed=passed,
        failed=failed,
        missing=count[CaseVerdict.MISSING],
        unjudged=count[CaseVerdict.UNJUDGED],
        crashed=sum(row.crashed for row in rows),
        pass_rate=Share.of_counts(passed, passed + failed) if judges else None,
        tries=_try_rates(evaluation),
        seconds_p50=percentile(timed, 0.5),
        seconds_p95=percentile(timed, 0.95),
        tokens_in=sum(one.tokens_in for one in tries),
        tokens_out=sum(one.tokens_out for one in tries),
        spent=bill.spent,
        billed=bill.billed,
        active_seconds=bill.active_seconds,
    )


def _try_rates(evaluation: Evaluation) -> _TryRates | None:
    k = len(evaluation.sweeps)
    if k < 2:
        return None
    every = pass_hat_k(evaluation, k)
    whole = evaluation.only({*evaluation.cases} - {*every.left_out})
    return _TryRates(
        k=k,
        one=pass_at_k(whole, 1).value,
        any_of_k=pass_at_k(whole, k).value,
        all_of_k=every.value,
        cases=every.cases,
        left_out=len(every.left_out),
    )


@dataclass(frozen=True, kw_only=True)
class About:
    """What was measured, where and when."""

    agent: str
    source: str = ""
    run: str = ""
    folder: str = ""
    at: str = ""
    seed: int = 42
    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    """By part, the column of the cases that it was taken from, if it has a name of its own."""


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
        needs: Mapping[str, str] | None = None,
        redactor: Redactor | None = None,
    ) -> "EvalReport":
        """The report of an evaluation; secrets that cases or replies hold are taken out.

        `thresholds` names the metrics in the order in which they are shown, `needs` what a case
        must have for each of them.
        """

        def of(rows: tuple[CaseRow, ...]) -> EvalReport:
            return cls(
                about=about,
                metrics=_summaries_of(rows, thresholds or {}, needs or {}),
                totals=_totals_of(rows, evaluation, bill or Bill()),
                cases=rows,
            )

        redactor = redactor or Redactor.from_environment()
        report = of(rows_of(cases, evaluation))
        # Recorded replies and the cases' own texts saw no journal.
        return report if redactor.is_clean(report.to_text()) else of(_clean(report.cases, redactor))

    def with_noise(self) -> "EvalReport":
        """The same, its repeats read as measurements of one agent against itself."""
        return replace(self, noise=noise_of(self.cases))

    def against(self, baseline: "EvalReport") -> "EvalReport":
        """The same, beside an earlier measurement."""
        comparison = compare_rows(
            self.cases,
            baseline.cases,
            name=baseline.about.run,
            metrics=[each.metric for each in self.metrics if not each.silent],
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
        return self._text

    @computed_once
    def _text(self) -> str:
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
        if path.is_dir() and not file.is_file():
            raise _unfit(path, "evaluation.json is missing: this run did not finish measuring")
        try:
            found = file.stat()
        except OSError:
            return _read(file)  # says what is wrong with it
        return _read_once(file, (found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size))


def _read(file: Path) -> EvalReport:
    try:
        data: Json = from_json(read_bytes(file))
        schema = data.get("schema") if isinstance(data, dict) else None
        if isinstance(schema, int) and schema > _SCHEMA:
            raise _unfit(file, "this report was written by a newer burnish")
        return codec(EvalReport).decode(data)
    except ValueError:
        raise _unfit(file, "this is not a report of `burnish eval`") from None


@lru_cache(maxsize=1)
def _read_once(file: Path, state: tuple[int, ...]) -> EvalReport:
    """The report in a file in this state: its page and its caller want the same one."""
    del state
    return _read(file)


def _clean(rows: tuple[CaseRow, ...], redactor: Redactor) -> tuple[CaseRow, ...]:
    """The rows without secrets."""
    kind = codec(tuple[CaseRow, ...])
    return kind.decode(redactor.json(kind.encode(rows)))


def _summary(report: EvalReport) -> dict[str, Json]:
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
        remedy="pass a file that `burnish eval --json FILE` wrote, or a run of `burnish eval`",
    )


# -- JUnit XML, for CI systems ---------------------------------------------------------------------


_FORBIDDEN = re.compile("[\ud800-\udfff\ufffe\uffff]")
"""What XML has no place for beside control characters."""


def to_junit(*reports: EvalReport) -> bytes:
    """One suite a report as JUnit XML, UTF-8."""
    suites = [_junit_counts(report) for report in reports]
    whole = {name: sum(suite[name] for suite in suites) for name in suites[0]}
    root = Element("testsuites", {"name": "burnish eval", **_written(whole)})
    for report, counts in zip(reports, suites, strict=True):
        about = report.about
        named = {"name": _text(about.agent), **_written(counts), "timestamp": about.at}
        suite = SubElement(root, "testsuite", named)
        properties = SubElement(suite, "properties")
        for name, value in _properties(report):
            SubElement(properties, "property", {"name": _text(name), "value": _text(value)})
        for row in report.cases:
            _add_case(suite, row, about.agent)
    indent(root)
    return tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _junit_counts(report: EvalReport) -> dict[str, float]:
    totals = report.totals
    return {
        "tests": totals.cases,
        "failures": totals.failed,
        "errors": totals.missing,
        "skipped": totals.unjudged,
        "time": totals.active_seconds,
    }


def _written(counts: Mapping[str, float]) -> dict[str, str]:
    return {name: f"{n:.3f}" if name == "time" else str(n) for name, n in counts.items()}


def _properties(report: EvalReport) -> Iterator[tuple[str, str]]:
    yield "burnish", report.burnish
    yield "source", report.about.source
    yield "run", report.about.folder
    for each in report.metrics:
        if each.mean is not None:
            yield f"mean {each.metric}", f"{each.mean:.6f}"


def _add_case(suite: Element, row: CaseRow, agent: str) -> None:
    seconds = sum(one.seconds for one in row.tries)
    named = {"classname": _text(agent), "name": _text(row.title), "time": f"{seconds:.3f}"}
    case = SubElement(suite, "testcase", named)
    match row.verdict:
        case CaseVerdict.FAIL:
            _add_trouble(case, "failure", row)
        case CaseVerdict.MISSING:
            _add_trouble(case, "error", row)
        case CaseVerdict.UNJUDGED:
            SubElement(case, "skipped", {"message": "no metric gives a verdict on this case"})
        case CaseVerdict.PASS:
            pass
    output = row.tries[-1].replies if row.tries else ()
    if output:
        SubElement(case, "system-out").text = _text("\n---\n".join(output))


def _add_trouble(case: Element, kind: str, row: CaseRow) -> None:
    """One element a case, as readers of JUnit expect; its text has everything."""
    complaints = complaints_of(row)
    trouble = Trouble.MISSING if row.verdict is CaseVerdict.MISSING else None
    first = next((c for c in complaints if trouble in (None, c.trouble)), None)
    message = "" if first is None else f"{first.where}: {shorten(first.reason, 200)}"
    what = first.metric or first.trouble if first else kind
    element = SubElement(case, kind, {"message": _text(message), "type": what})
    element.text = _text("\n\n".join(_complaint_text(row, c) for c in complaints))


def _complaint_text(row: CaseRow, complaint: Complaint) -> str:
    tries = len(row.tries)
    often = f" in {complaint.tries} of {tries} repeats" if complaint.tries < tries else ""
    lines = [f"{complaint.where}: {complaint.trouble}{often}", complaint.reason]
    if complaint.expected is not None:
        lines.append(f"expected: {complaint.expected}")
    if complaint.actual:
        lines.append(f"actual: {complaint.actual}")
    return "\n".join(line for line in lines if line)


def _text(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", visible(text))


def to_annotations(report: EvalReport) -> str:
    """Workflow commands of GitHub: an error for each case that does not pass, and the result."""
    failing = unwell(report.cases)
    lines = [
        f"::error title={_property(row.title)}::{_data(_complaints(row))}"
        for row in failing[:_ANNOTATED]
    ]
    more = len(failing) - _ANNOTATED
    others = f", {more} of them not shown here" if more > 0 else ""
    passed = f"{len(report.cases) - len(failing)} of {len(report.cases)} cases pass{others}"
    return "\n".join((*lines, f"::notice title={_property(report.about.agent)}::{passed}", ""))


def _complaints(row: CaseRow) -> str:
    return "\n".join(f"{each.where}: {each.reason}" for each in complaints_of(row))


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


_ANNOTATED = 10
"""Errors that GitHub shows of one step."""
