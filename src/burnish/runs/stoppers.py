"""Why a run stops, each reason with a stable code.

Pure reasons follow from the Standing alone, so a replay stops where the run did. Impure stoppers
(minutes, stop file, signal, user callables) look outside: each "continue" is journaled by the
number of the check, but "stop" is not, so that a resume with more time can continue.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from burnish.core.money import NOTHING, Spend
from burnish.core.surfaces import EPSILON
from burnish.core.trials import Standing, StopReason
from burnish.journal.journal import Journal
from burnish.journal.limits import Budget

STOP_FILE = "optimize.stop"


@dataclass(frozen=True, kw_only=True)
class ImpureStopper:
    """A stopper that looks outside the run."""

    label: str
    look: Callable[[], StopReason | None]


def pure_reasons(budget: Budget, standing: Standing) -> Iterator[StopReason]:
    """Why this standing ends a run; goals come before limits, since they are the better reason."""
    required, thresholds = budget.required_metrics, budget.metric_thresholds
    if required and all(standing.best_passing.get(metric, False) for metric in required):
        detail = f"every case passes {', '.join(required)}"
        yield StopReason(code="required_metrics", detail=detail)
    means = standing.best_means
    if thresholds and all(means.get(m, -1.0) >= bar - EPSILON for m, bar in thresholds.items()):
        reached = ", ".join(f"{metric} {means[metric]:.3f}" for metric in thresholds)
        yield StopReason(code="required_metrics", detail=f"every threshold is reached: {reached}")
    score, threshold = standing.best_score, budget.score_threshold
    if score is not None and threshold is not None and score >= threshold:
        detail = f"score {score:.3f} reached {threshold:g}"
        yield StopReason(code="score_threshold", detail=detail)
    rate, threshold = standing.best_pass_rate, budget.pass_rate_threshold
    if rate is not None and threshold is not None and rate >= threshold - EPSILON:
        detail = f"pass rate {rate:.3f} reached {threshold:g}"
        yield StopReason(code="score_threshold", detail=detail)
    tracked = standing.tracked_candidates
    for code, count, limit, unit in (
        ("max_trials", standing.trials, budget.max_trials, "trials"),
        ("max_proposals", standing.proposals, budget.max_proposals, "proposals"),
        ("max_tracked_candidates", tracked, budget.max_tracked_candidates, "tracked candidates"),
        ("patience", standing.since_accept, budget.patience, "trials without an accept"),
    ):
        if limit is not None and count >= limit:
            yield StopReason(code=code, detail=f"{count} of {limit} {unit}")


def stop_file(folder: Path) -> ImpureStopper:
    """Stop when the stop file exists."""

    def look() -> StopReason | None:
        path = folder / STOP_FILE
        return StopReason(code="stop_file", detail=f"{path} exists") if path.exists() else None

    return ImpureStopper(label="stop_file", look=look)


def out_of_time(
    minutes: Callable[[], float | None], active_seconds: Callable[[], float]
) -> ImpureStopper:
    """Stop when the run was active for so long in all sessions."""

    def look() -> StopReason | None:
        used, limit = active_seconds() / 60, minutes()
        if limit is None or used < limit:
            return None
        return StopReason(code="max_minutes", detail=f"{used:.1f} of {limit:g} minutes")

    return ImpureStopper(label="max_minutes", look=look)


def callback_stopper(label: str, callback: Callable[[], bool]) -> ImpureStopper:
    """Stop when a user's callable returns True; its label is the reason."""

    def look() -> StopReason | None:
        return StopReason(code=label, detail=f"'{label}' asked to stop") if callback() else None

    return ImpureStopper(label=f"callback:{label}", look=look)


class Stops:
    """Checks all reasons for a run to stop."""

    def __init__(self, journal: Journal, *, impure: Sequence[ImpureStopper] = ()) -> None:
        self._journal = journal
        self._impure = tuple(impure)
        self.checks = 0
        """How often somebody looked."""

    def look(
        self, budget: Budget, standing: Standing, need: Spend = NOTHING, *, replaying: bool
    ) -> StopReason | None:
        """Why to stop here. Where a trial was recorded the run continued, so a replay does too."""
        self.checks += 1
        if replaying:
            return None
        reason = next(pure_reasons(budget, standing), None)
        reason = reason or budget.spend_limit(standing.spent, need)
        if reason is not None:
            return reason
        for stopper in self._impure:
            if self._journal.continued(stopper.label, self.checks):
                continue
            if (reason := stopper.look()) is not None:
                return reason
            self._journal.add_continue(stopper.label, self.checks)
        return None
