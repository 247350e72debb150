"""How a run ended, in the words of seed 001."""

from dataclasses import dataclass

from burnish.core.stopping import FINISHED
from burnish.reports.coordinate_words import ended_words
from burnish.reports.optimize_result import FinishReason, Status
from burnish.runs.record import RunRecord

UNLABELLED = "unlabelled stop callback"
"""How the code of a stopper begins that has no label of its own."""
COMPLETED = "completed"
STOP_REASONS = {
    "required_metrics": "required_metrics_passing",
    "max_metric_calls": "budget_exhausted",
    "max_calls": "budget_exhausted",
    "max_tokens": "budget_exhausted",
    "max_usd": "budget_exhausted",
    "max_trials": "budget_exhausted",
    "max_minutes": "timeout",
    "patience": "no_improvement",
    "score_threshold": "score_threshold",
    "pass_rate_threshold": "score_threshold",
    "max_proposals": "max_candidate_proposals",
    "max_tracked_candidates": "max_tracked_candidates",
    "stop_file": "user_requested_stop",
    "signal": "user_requested_stop",
    FINISHED.code: COMPLETED,
}
"""What burnish calls it, and what the seed does; other codes are labels, and stay."""
_BASELINE_MISSING, _REFLECTOR_FAILED = "baseline_missing", "reflector_failed"


@dataclass(frozen=True, kw_only=True)
class Fate:
    """How a run ended."""

    status: Status
    stop_reason: str | None = None
    error_message: str = ""

    def finish_reason(self, *, perfect: bool, improved: bool) -> FinishReason:
        """In one word; a run that was cut short is not finished."""
        if self.status != "SUCCEEDED":
            return "error"
        if perfect:
            return "perfect_pass_rate"
        return "completed" if improved else "no_improvement"


def stop_reason(code: str) -> str:
    """The seed's name of a reason to stop."""
    if code.startswith(UNLABELLED):
        return COMPLETED
    return STOP_REASONS.get(code, code)


def fate_of(run: RunRecord) -> Fate:
    """How a run ended that nobody drives any more."""
    ending = run.ending
    if ending is None:
        return Fate(status="CANCELED", error_message="it was killed; start it again to go on")
    code, told = ending.data.get("code"), str(ending.data.get("reason") or "")
    why = stop_reason(code) if isinstance(code, str) and code else None
    if run.status == "interrupted":
        asked = STOP_REASONS["signal"]
        return Fate(status="CANCELED", stop_reason=asked, error_message=told)
    if run.status == "failed":
        return Fate(status="FAILED", error_message=told)
    if run.search_end == _BASELINE_MISSING:
        return Fate(status="FAILED", error_message=ended_words(_BASELINE_MISSING))
    late = ended_words(_REFLECTOR_FAILED) if run.search_end == _REFLECTOR_FAILED else ""
    return Fate(status="SUCCEEDED", stop_reason=why, error_message=late)
