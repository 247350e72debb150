"""Why a run stops, between trials or in the middle of one; each reason has a stable code.

Pure reasons follow from the Standing alone, so a replay stops where the run did. Impure stoppers
(minutes, stop file, signal, user callables) look outside: each "continue" is journaled by the
number of the check, but "stop" is not, so that a resume with more time can continue. In the middle
of a trial a run stops if nobody answers or a limit is exceeded: both are decided on results in the
order in which they are used, so that a replay decides the same.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from burnish.core.comparisons import one_line
from burnish.core.errors import BaselineUnmeasured, EndpointDown
from burnish.core.evaluations import CaseResult
from burnish.core.formatting import duration
from burnish.core.money import NOTHING, Spend
from burnish.core.surfaces import EPSILON
from burnish.core.trials import Standing, StopReason
from burnish.journal.journal import Journal
from burnish.journal.limits import Budget, Meter

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


def out_of_time(minutes: float, active_seconds: Callable[[], float]) -> ImpureStopper:
    """Stop when the run was active for so long in all sessions."""

    def look() -> StopReason | None:
        used = active_seconds() / 60
        if used < minutes:
            return None
        return StopReason(code="max_minutes", detail=f"{used:.1f} of {minutes:g} minutes")

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
        self._checks = 0
        """How often somebody looked."""

    def look(
        self, budget: Budget, standing: Standing, need: Spend = NOTHING, *, replaying: bool
    ) -> StopReason | None:
        """Why to stop here. Where a trial was recorded the run continued, so a replay does too."""
        self._checks += 1
        if replaying:
            return None
        reason = next(pure_reasons(budget, standing), None)
        reason = reason or budget.spend_limit(standing.spent, need)
        if reason is not None:
            return reason
        for stopper in self._impure:
            if self._journal.continued(stopper.label, self._checks):
                continue
            if (reason := stopper.look()) is not None:
                return reason
            self._journal.add_continue(stopper.label, self._checks)
        return None


GIVE_UP_AFTER_ALIKE = 10
"""So many failures of the infrastructure in a row that are all alike end a run."""
RETRY_MISSING = "start a new run that retries what is missing: --fork RUN --retry-missing"
_DROPPED = "the current trial was dropped, since it costs more than expected"
_VARYING = re.compile(r"0x[0-9a-fA-F]+|\d+")
"""Addresses, ports and counts differ between errors that are alike."""
_COMPARED = 4_000
"""So much of an error is looked at: an agent's may be megabytes."""


class LimitExceeded(Exception):
    """A trial costs more than a limit leaves; it is dropped, and the search is over."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason.detail)
        self.reason = reason


def outage(result: CaseResult, judged: Sequence[str]) -> str:
    """Why nobody answered in a run of a case: neither the agent nor a judge; empty if they did.

    `judged` are the metrics that ask a model and that count.
    """
    if result.outcome.missing and result.outcome.failure is not None:
        return result.outcome.failure.message
    scores = (score for score in result.scores if score.unreachable and score.metric in judged)
    return next((score.reason for score in scores), "")


def unjudged(result: CaseResult, judged: Sequence[str]) -> str:
    """Why no model could score a run of a case, although it was asked; empty if it did."""
    scores = (score for score in result.scores if score.missing and score.metric in judged)
    return next((score.reason for score in scores if not score.unreachable), "")


class Used(Protocol):
    """A result that is about to be used."""

    @property
    def outage(self) -> str: ...
    @property
    def unjudged(self) -> str: ...
    @property
    def spends(self) -> Mapping[str, Spend]: ...
    @property
    def run(self) -> str: ...
    @property
    def answered(self) -> bool: ...
    @property
    def says_nothing(self) -> bool: ...
    @property
    def raised(self) -> str: ...


class Outages:
    """Counts failures that are alike, in a row."""

    def __init__(self) -> None:
        self._last = ""
        self.count = 0

    def add(self, reason: str) -> bool:
        """Count a result, with an empty reason if it is there; whether there were too many."""
        alike = _VARYING.sub("#", reason[:_COMPARED])[: _COMPARED // 10]
        self.count = self.count + 1 if alike and alike == self._last else bool(alike)
        self._last = alike
        return self.too_many

    @property
    def too_many(self) -> bool:
        """Whether the last results, and so many of them, failed alike."""
        return self.count >= GIVE_UP_AFTER_ALIKE


class _BlockBreaker:
    """Ends a block once its own results show that the search, or the candidate, is over.

    Whoever uses them in order comes to the same conclusion: the results before them count too.
    Without a limit, only outages end it. `verdicts` counts what judges could not score.
    """

    def __init__(
        self,
        meter: Meter,
        exceeded: Callable[[Spend], StopReason | None] | None,
        verdicts: Outages | None,
    ) -> None:
        self._outages = Outages()
        self._verdicts = verdicts
        self._meter = Meter(before=meter)
        self._meter.spent = meter.spent
        self._exceeded = exceeded

    def ends(self, done: Used) -> bool:
        """Whether this result is the last one that can be of use."""
        away = self._outages.add(done.outage)
        if not done.unjudged:
            self._verdicts = None
        mute = self._verdicts is not None and self._verdicts.add(done.unjudged)
        if away or mute or self._exceeded is None:
            return away or mute
        self._meter.use(done.spends)
        return self._exceeded(self._meter.spent) is not None


class Breakers:
    """Counts results as they are used, and ends a search that cannot go on.

    `exceeded` says which limit an amount exceeds, if there is one; `in_vain`, for how many seconds
    whom a failure is about was waited for; `again`, how to go on. Nothing ends while recorded
    trials are replayed: the run went on there.
    """

    def __init__(
        self,
        meter: Meter,
        *,
        exceeded: Callable[[Spend], StopReason | None] | None,
        replaying: Callable[[], bool],
        in_vain: Callable[[str], float],
        again: Callable[[], str],
    ) -> None:
        self._meter = meter
        self._limit = exceeded
        self._replaying = replaying
        self._in_vain = in_vain
        self._again = again
        self._runs = Outages()
        self._roles: dict[str, Outages] = {}
        self._verdicts: Outages | None = Outages()
        """None as soon as a run could be scored."""
        self._unanswered: list[Used] | None = []
        """None as soon as a run was answered with something."""

    def block(self, *, incumbent: bool) -> _BlockBreaker | None:
        """What may end the next block of the incumbent, or of another candidate, early."""
        if not self._replaying():
            verdicts = None if self._verdicts is None else Outages()
            return _BlockBreaker(self._meter, self._limit, verdicts)
        # What was left out because a candidate could not be reached is not in the journal.
        return None if incumbent else _BlockBreaker(self._meter, None, None)

    def use(self, done: Used, *, whole: bool, outages: Outages) -> None:
        """Count a result. Raises LimitExceeded, or BaselineUnmeasured if no judge ever judges.

        `whole` is false for the last result of a block that was ended early. `outages` counts
        those of the same evaluation.
        """
        self._meter.use(done.spends, run=done.run)
        self._runs.add(done.outage)
        outages.add(done.outage)
        if done.answered and not done.says_nothing:
            self._unanswered = None
        elif self._unanswered is not None:
            self._unanswered.append(done)
        mute = self._is_mute(done.unjudged)
        if self._replaying():
            return
        reason = None if self._limit is None else self._limit(self._meter.spent)
        if reason is not None:
            raise LimitExceeded(replace(reason, detail=f"{reason.detail}; {_DROPPED}"))
        # A block that was ended without another reason was ended for this one.
        if mute or (not whole and done.unjudged):
            raise _unjudged_run(done.unjudged)
        if not whole and not outages.too_many:
            # Another candidate used the same results meanwhile, so that they cost nothing here.
            raise LimitExceeded(StopReason(code="max_calls", detail=_DROPPED))

    def in_doubt(self, outages: Outages, last: Used) -> bool:
        """Whether so many runs of an evaluation failed alike, or so many of the whole search, or
        one that was waited for.

        The latter two depend on what happens at the same time, and decide nothing in a replay.
        """
        if outages.too_many or self._replaying():
            return outages.too_many
        return self._runs.too_many or self._in_vain(last.outage) > 0

    def require_answers(self, reason: str, *, answered: bool) -> None:
        """Settle a doubt: somebody else answered, or EndpointDown is raised."""
        if answered:
            self._runs = Outages()
        elif not self._replaying():
            raise self._endpoint_down("runs of cases", reason)

    def require_answer(self, done: Used) -> None:
        """Raise EndpointDown if a run was waited for in vain, where there is no search to go on."""
        if self._in_vain(done.outage):
            raise self._endpoint_down("runs of cases", done.outage)

    def count_role(self, role: str, reason: str) -> None:
        """Count a request to a role, with an empty reason if somebody answered."""
        too_many = self._roles.setdefault(role, Outages()).add(reason)
        if (too_many or self._in_vain(reason)) and not self._replaying():
            raise self._endpoint_down(f"requests to the {role}", reason)

    def _endpoint_down(self, what: str, reason: str) -> EndpointDown:
        seconds = self._in_vain(reason)
        why = f"{GIVE_UP_AFTER_ALIKE} {what} in a row failed in the same way"
        why = f"nobody answered for {duration(seconds)}" if seconds else why
        message = f"{why}: {one_line(reason)}"
        return EndpointDown(message, remedy=f"once the cause is gone, {self._again()}")

    def require_an_answer(self, *, source: str, forget: Callable[[str], None], again: str) -> None:
        """Raise BaselineUnmeasured if the called code raised, or another program said nothing, in
        every run so far.

        `source` is where the replies of another program are read; code that runs here may mean an
        empty one. These runs are forgotten: once the cause is gone, a resume makes them again.
        Where all are missing, the strategy says so.
        """
        unanswered, self._unanswered = self._unanswered or (), None
        raised = [done for done in unanswered if done.raised]
        empty = [done for done in unanswered if done.says_nothing]
        if self._replaying() or not (raised or empty) or (empty and not source):
            return
        for done in (*raised, *empty):
            forget(done.run)
        failed = len(unanswered) - len(empty)
        what = [
            f"{failed} of {len(unanswered)} runs of cases ended in an error, the first one in: "
            f"{one_line(raised[0].raised)}"
            if raised
            else "",
            f"{len(empty)} of {len(unanswered)} replies are empty, read from {source}"
            if empty
            else "",
        ]
        raise BaselineUnmeasured(
            f"the baseline could not be measured: {'; '.join(filter(None, what))}",
            remedy="every candidate would fail in the same way, so nothing was tried. Correct the "
            f"cause, then {again}",
        )

    def _is_mute(self, reason: str) -> bool:
        """Whether no run could be scored so far, and so many were tried."""
        if not reason:
            self._verdicts = None
        return self._verdicts is not None and self._verdicts.add(reason)


def _unjudged_run(reason: str) -> BaselineUnmeasured:
    return BaselineUnmeasured(
        f"{GIVE_UP_AFTER_ALIKE} runs of cases in a row could not be scored, since their judge gave "
        f"no usable answer: {one_line(reason)}",
        remedy=f"fix its model, prompt or settings, then {RETRY_MISSING}",
    )
