"""Evaluation results as the evaluation stack keeps them: `<id>.evalset_result.json`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from burnish.compat.promptiter.traces import CaseResult, EvalSetResult, EvaluationResult
from burnish.core.content import Json
from burnish.system import write_atomic


@dataclass(frozen=True, kw_only=True)
class ResultFiles:
    """Writes the results of one run, a file for each set and stage."""

    folder: Path
    app_name: str
    run_id: str
    thresholds: Mapping[str, float]
    at: float
    """When the run began, in seconds: a replay writes the same files."""

    def write(self, found: EvaluationResult, stage: str) -> None:
        """Write an evaluation; one that is there already stays as it is."""
        for each in found.eval_sets:
            name = f"{self.app_name}_{each.eval_set_id}_{self.run_id}_{stage}"
            path = self.folder / self.app_name / f"{name}.evalset_result.json"
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                text = json.dumps(self._set(name, each), indent=2, ensure_ascii=False)
                write_atomic(path, f"{text}\n")

    def _set(self, name: str, found: EvalSetResult) -> dict[str, Json]:
        return {
            "evalSetResultId": name,
            "evalSetResultName": name,
            "evalSetId": found.eval_set_id,
            "evalCaseResults": [self._case(case) for case in found.cases],
            "creationTimestamp": self.at,
        }

    def _case(self, case: CaseResult) -> Json:
        statuses = {metric.status for metric in case.metrics}
        usual = "passed" if statuses == {"passed"} else "not_evaluated"
        return {
            "evalSetId": case.eval_set_id,
            "evalId": case.eval_case_id,
            "finalEvalStatus": "failed" if "failed" in statuses else usual,
            "overallEvalMetricResults": [
                {
                    "metricName": metric.metric_name,
                    "score": metric.score,
                    "evalStatus": metric.status,
                    "threshold": self.thresholds.get(metric.metric_name),
                    "details": {"reason": metric.reason, "score": metric.score},
                }
                for metric in case.metrics
            ],
            "sessionId": case.session_id,
        }
