"""An evaluation as the runs of each case, in the words of tRPC-Agent's results."""

from collections.abc import Iterator, Mapping

from burnish.compat.eval_types import (
    EvalCaseResult,
    EvalMetricResult,
    EvalMetricResultDetails,
    EvalMetricResultPerInvocation,
    EvalStatus,
)
from burnish.compat.evaluators import actual_of, expected_of
from burnish.core.cases import Case
from burnish.core.evaluations import CaseResult, Score
from burnish.metrics.turns import EPSILON, exchanges
from burnish.projects.measurements import Evaluated

Thresholds = Mapping[str, float | None]


def case_results(
    eval_set_id: str, evaluated: Evaluated, thresholds: Thresholds
) -> dict[str, list[EvalCaseResult]]:
    """The runs of each case, in order."""
    cases = {case.id: case for case in evaluated.cases}
    evaluation = evaluated.evaluation
    return {
        name: [
            _case_result(eval_set_id, cases[name], result, thresholds)
            for result in sorted(evaluation.of_case(name), key=lambda each: each.draw)
        ]
        for name in evaluation.cases
    }


def _case_result(
    eval_set_id: str, case: Case, result: CaseResult, thresholds: Thresholds
) -> EvalCaseResult:
    overall = list(_overall(result, thresholds))
    statuses = {each.eval_status for each in overall}
    failure = result.outcome.failure
    if failure is not None and not result.outcome.failed:
        status = EvalStatus.NOT_EVALUATED
    elif failure is not None or EvalStatus.FAILED in statuses:
        status = EvalStatus.FAILED
    else:
        status = EvalStatus.PASSED if statuses == {EvalStatus.PASSED} else EvalStatus.NOT_EVALUATED
    return EvalCaseResult(
        eval_set_id=eval_set_id,
        eval_id=case.id,
        run_id=result.draw + 1,
        final_eval_status=status,
        error_message=None if failure is None else failure.message,
        overall_eval_metric_results=overall,
        eval_metric_result_per_invocation=_turns(case, result, thresholds),
    )


def _overall(result: CaseResult, thresholds: Thresholds) -> Iterator[EvalMetricResult]:
    """Each metric that applies, over the turns of a run: its mean decides."""
    for metric, threshold in thresholds.items():
        if not result.applies(metric):
            continue
        scores = [score for score in result.scores if score.metric == metric]
        value = result.value(metric)
        passed = all(score.passed is not False for score in scores) and not result.outcome.failed
        if value is not None and threshold is not None:
            passed = value >= threshold - EPSILON
        reasons = [score.reason for score in scores if score.reason]
        yield _metric_result(metric, threshold, value, "\n".join(reasons), passed=passed)


def _turns(
    case: Case, result: CaseResult, thresholds: Thresholds
) -> list[EvalMetricResultPerInvocation]:
    turns = exchanges(case, result.outcome)
    return [
        EvalMetricResultPerInvocation(
            actual_invocation=actual_of(exchange),
            expected_invocation=None if exchange.expected is None else expected_of(exchange),
            eval_metric_results=[
                _of_score(score, thresholds.get(score.metric))
                for score in result.scores
                if score.turn == exchange.index or (score.turn is None and len(turns) == 1)
            ],
        )
        for exchange in turns
    ]


def _of_score(score: Score, threshold: float | None) -> EvalMetricResult:
    return _metric_result(score.metric, threshold, score.value, score.reason, passed=score.passed)


def _metric_result(
    metric: str, threshold: float | None, value: float | None, reason: str, *, passed: bool | None
) -> EvalMetricResult:
    return EvalMetricResult(
        metric_name=metric,
        threshold=1.0 if threshold is None else threshold,
        score=value,
        eval_status=EvalStatus.of(None if value is None else passed),
        details=EvalMetricResultDetails(reason=reason or None, score=value),
    )
