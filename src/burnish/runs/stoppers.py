"""Stoppers: why a run ends. Small callables that compose, each with a stable reason code.

Pure stoppers decide on the Standing alone, so a replay stops where the run did. Impure ones
(minutes, stop file, signal, user callables) look at the world: each "continue" is journaled
by the number of the check, "stop" never is, so that a resume with more time goes on.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from burnish.core.money import NOTHING, Spend
from burnish.core.surfaces import EPSILON
from burnish.core.trials import Standing, Stopper, StopReason
from burnish.journal.journal import Journal
from burnish.journal.limits import Budget

STOP_FILE = "optimize.stop"


@dataclass(frozen=True, kw_only=True)
class ImpureStopper:
    """A stopper that looks at the world."""

    label: str
    look: Callable[[], StopReason | None]


def _at_most(code: str, limit: int, count: Callable[[Standing], int], unit: str) -> Stopper:
    """Stop when a count reaches its limit."""

    def stop(standing: Standing) -> StopReason | None:
        if count(standing) < limit:
            return None
        return StopReason(code=code, detail=f"{count(standing)} of {limit} {unit}")

    return stop


def _out_of_patience(patience: int) -> Stopper:
    """Stop after so many trials in a row without an accept."""
    return _at_most("patience", patience, lambda s: s.since_accept, "trials without an accept")


def _good_enough(threshold: float) -> Stopper:
    """Stop when the incumbent's score reaches a threshold."""

    def stop(standing: Standing) -> StopReason | None:
        if standing.best_score is None or standing.best_score < threshold:
            return None
        detail = f"score {standing.best_score:.3f} reached {threshold:g}"
        return StopReason(code="score_threshold", detail=detail)

    return stop


def _enough_pass(threshold: float) -> Stopper:
    """Stop when the incumbent passes so large a share of the cases, and none is missing."""

    def stop(standing: Standing) -> StopReason | None:
        rate = standing.best_pass_rate
        if rate is None or rate < threshold - EPSILON:
            return None
        detail = f"pass rate {rate:.3f} reached {threshold:g}"
        return StopReason(code="score_threshold", detail=detail)

    return stop


def _all_passing(metrics: Sequence[str]) -> Stopper:
    """Stop when the incumbent passes these metrics on every case, and none is missing."""

    def stop(standing: Standing) -> StopReason | None:
        if not all(standing.best_passing.get(metric, False) for metric in metrics):
            return None
        detail = f"every case passes {', '.join(metrics)}"
        return StopReason(code="required_metrics", detail=detail)

    return stop


def _means_reached(thresholds: Mapping[str, float]) -> Stopper:
    """Stop when the incumbent's mean of each metric reaches its threshold, and none is missing."""

    def stop(standing: Standing) -> StopReason | None:
        means = standing.best_means
        if not all(means.get(m, -1.0) >= bar - EPSILON for m, bar in thresholds.items()):
            return None
        reached = ", ".join(f"{m} {means[m]:.3f}" for m in thresholds)
        return StopReason(code="required_metrics", detail=f"every threshold is reached: {reached}")

    return stop


def pure_stoppers(budget: Budget) -> Iterator[Stopper]:
    """The stoppers a budget asks for, in the order in which they are looked at.

    That the goal is reached comes first: where a limit is reached too, it is the better reason.
    """
    if budget.required_metrics:
        yield _all_passing(budget.required_metrics)
    if budget.metric_thresholds:
        yield _means_reached(budget.metric_thresholds)
    if budget.score_threshold is not None:
        yield _good_enough(budget.score_threshold)
    if budget.pass_rate_threshold is not None:
        yield _enough_pass(budget.pass_rate_threshold)
    counts: list[tuple[str, int | None, Callable[[Standing], int], str]] = [
        ("max_trials", budget.max_trials, lambda s: s.trials, "trials"),
        ("max_proposals", budget.max_proposals, lambda s: s.proposals, "proposals"),
        (
            "max_tracked_candidates",
            budget.max_tracked_candidates,
            lambda s: s.tracked_candidates,
            "tracked candidates",
        ),
    ]
    for code, limit, count, unit in counts:
        if limit is not None:
            yield _at_most(code, limit, count, unit)
    if budget.patience is not None:
        yield _out_of_patience(budget.patience)


def stop_file(folder: Path) -> ImpureStopper:
    """Stop when someone has made the stop file."""

    def look() -> StopReason | None:
        path = folder / STOP_FILE
        return StopReason(code="stop_file", detail=f"{path} exists") if path.exists() else None

    return ImpureStopper(label="stop_file", look=look)


def out_of_time(minutes: float, active_seconds: Callable[[], float]) -> ImpureStopper:
    """Stop when the run has been driven for so long, all sessions together."""

    def look() -> StopReason | None:
        used = active_seconds() / 60
        if used < minutes:
            return None
        return StopReason(code="max_minutes", detail=f"{used:.1f} of {minutes:g} minutes")

    return ImpureStopper(label="max_minutes", look=look)


def callback_stopper(label: str, callback: Callable[[], bool]) -> ImpureStopper:
    """Stop when a user's callable says so; its label is the reason."""

    def look() -> StopReason | None:
        return StopReason(code=label, detail=f"'{label}' asked to stop") if callback() else None

    return ImpureStopper(label=f"callback:{label}", look=look)


class Stops:
    """All stoppers of a run, looked at together."""

    def __init__(
        self, budget: Budget, journal: Journal, *, impure: Sequence[ImpureStopper] = ()
    ) -> None:
        self._budget = budget
        self._journal = journal
        self._pure = tuple(pure_stoppers(budget))
        self._impure = tuple(impure)
        self._checks = 0

    def look(
        self, standing: Standing, need: Spend = NOTHING, *, replaying: bool
    ) -> StopReason | None:
        """Why to stop here. A recorded trial says that the run went on, so a replay does too."""
        self._checks += 1
        if replaying:
            return None
        for stopper in self._pure:
            if (reason := stopper(standing)) is not None:
                return reason
        reason = self._budget.spend_limit(standing.spent, need)
        return reason or self._look_at_world()

    def _look_at_world(self) -> StopReason | None:
        for stopper in self._impure:
            if self._journal.continued(stopper.label, self._checks):
                continue
            if (reason := stopper.look()) is not None:
                return reason
            self._journal.add_continue(stopper.label, self._checks)
        return None
