"""Whether an eval set passes, as in AgentEvaluator: the mean over turns and runs decides."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from burnish.core.evaluations import CaseResult, mean
from burnish.evaluation.turn_metric import EPSILON
from burnish.projects.evaluated import Evaluated, explained
from burnish.reports.evaluation_cases import Trouble, complaints_of
from burnish.reports.evaluation_page import two


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How a case does by one metric, over all its turns and runs."""

    passed: bool | None
    """None where a score is missing: that is no pass, and no 0 either."""
    value: float | None
    threshold: float | None

    def __str__(self) -> str:
        if self.passed is None:
            return "missing"
        bar = "" if self.threshold is None else f" of {self.threshold:g} needed"
        return f"{two(self.value)}{bar}"


def standings(
    found: Evaluated, thresholds: Mapping[str, float | None]
) -> dict[str, dict[str, Standing]]:
    """By case and metric; metrics that do not apply to a case are left out."""
    return {
        case: dict(_of_case(found.evaluation.of_case(case), thresholds))
        for case in found.evaluation.cases
    }


def _of_case(
    results: Sequence[CaseResult], thresholds: Mapping[str, float | None]
) -> Iterator[tuple[str, Standing]]:
    for metric, threshold in thresholds.items():
        values = [result.value(metric) for result in results if result.applies(metric)]
        known = [value for value in values if value is not None]
        verdicts = {s.passed for r in results for s in r.scores if s.metric == metric} - {None}
        if len(known) < len(values):
            yield metric, Standing(passed=None, value=None, threshold=threshold)
        elif known and verdicts:
            value = mean(known)
            passed = verdicts == {True} or (
                # One voice is the metric's own; of several the mean decides.
                len(verdicts) > 1 and threshold is not None and value >= threshold - EPSILON
            )
            yield metric, Standing(passed=passed, value=value, threshold=threshold)


def failing(table: Mapping[str, Mapping[str, Standing]]) -> dict[str, dict[str, Standing]]:
    """The cases that do not pass, with the metrics that keep them from it."""
    bad = {
        case: {metric: each for metric, each in row.items() if each.passed is not True}
        for case, row in table.items()
    }
    return {case: row for case, row in bad.items() if row}


def explanation(
    eval_set: str, found: Evaluated, table: Mapping[str, Mapping[str, Standing]]
) -> str:
    """Which cases of a set fail, with expected, actual and reason; empty where none does."""
    bad = failing(table)
    if not bad:
        judged = any(row for row in table.values())
        return "" if judged else f"{eval_set}: no metric gives a verdict on any case"
    rows = {row.case: row for row in found.report.cases}
    told = [f"{eval_set}: {len(bad)} of {len(table)} cases do not pass"]
    for case, metrics in bad.items():
        said = [
            complaint
            for complaint in complaints_of(rows[case])
            if complaint.metric in metrics or complaint.trouble is Trouble.CRASHED
            or not complaint.metric
        ]  # fmt: skip
        scores = ", ".join(f"{metric} {each}" for metric, each in metrics.items())
        told.append(f"{explained(rows[case], tuple(said))}\n  in all: {scores}")
    return "\n".join(told)


def summary(eval_set: str, table: Mapping[str, Mapping[str, Standing]]) -> Iterator[str]:
    """A line for the set and one for each case."""
    bad = failing(table)
    yield f"{eval_set}: {len(table) - len(bad)} of {len(table)} cases pass"
    for case, row in table.items():
        scores = ", ".join(f"{metric} {each}" for metric, each in row.items())
        yield f"  {'✗' if case in bad else '✓'} {case}: {scores or 'no metric applies'}"
