"""The work on one case: run the agent within its time limit, score its outcome.

It may happen in the process of the run, or in a worker elsewhere.
"""

import asyncio
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from burnish.core.cases import Case, Failure, FailureKind, Outcome, Trace
from burnish.core.errors import BurnishError, Interrupted, NotJournalable
from burnish.core.evaluations import Score
from burnish.core.money import NOTHING, Spend
from burnish.core.protocols import Effects, Metric, Receipt, Scope, Target, WorkUnit, held
from burnish.journal.executors import (
    CallClock,
    CancelledInside,
    CutShort,
    OutOfTime,
    failure_of,
    is_infrastructure,
    task_cancelled,
    together,
    within,
)
from burnish.journal.outages import ONCE, RetryPolicy, Setback, retry
from burnish.models.errors import ModelUnavailable
from burnish.tracing.steps import left_behind

CALL_LIMIT = 300.0
"""Seconds for one call of a Python function if no time limit is set."""
ONE_RUN = Spend(metric_calls=1)


@dataclass(frozen=True, kw_only=True)
class CasePolicy:
    """How one case is run."""

    time_limit: float | None = None
    """Seconds per case; exceeding it is the agent's failure. By default, each call of a Python
    function has `CALL_LIMIT`."""
    retry: RetryPolicy = ONCE
    """For infrastructure failures that the target does not handle."""
    infrastructure_errors: tuple[str, ...] = ()
    """Names of exceptions that are not the agent's fault, besides the usual ones."""


@dataclass(frozen=True, kw_only=True)
class Scores:
    """All scores of one outcome, as the journal stores them."""

    scores: tuple[Score, ...]


class CaseWork(Protocol):
    """Runs and scores cases, wherever that happens."""

    async def run(self, unit: WorkUnit, effects: Scope) -> Receipt[Outcome]:
        """Run a case."""
        ...

    async def grade(self, case: Case, outcome: Outcome, effects: Scope) -> Receipt[Scores]:
        """Score an outcome by every metric."""
        ...


class CaseWorker:
    """Does the work in this process."""

    def __init__(
        self,
        *,
        target: Target,
        metrics: Sequence[Metric],
        policy: CasePolicy,
        concurrency: int,
        call_limit: float | None = None,
    ) -> None:
        self._target = target
        self._metrics = tuple(metrics)
        self._policy = policy
        self._call_limit = call_limit
        self._concurrency = concurrency

    async def run(self, unit: WorkUnit, effects: Scope) -> Receipt[Outcome]:
        """Run a case; what the agent raises is an outcome."""
        attempts, setbacks = 0, list[Setback]()

        async def attempt(number: int) -> "Receipt[Outcome]":
            nonlocal attempts
            attempts = number
            return await self._target.run(
                unit.candidate, unit.case, draw=unit.draw, effects=effects
            )

        def again(error: Exception) -> Setback | None:
            if not is_infrastructure(error, policy.infrastructure_errors):
                return None
            setbacks.append(_setback(error))
            return setbacks[-1]

        def answers(receipt: "Receipt[Outcome]") -> bool:
            return not receipt.value.missing

        policy, started = self._policy, time.perf_counter()
        left: list[Trace] = []
        try:
            # Waiting for its turn does not count as the agent's time.
            async with held(self._target, unit.candidate):
                clock = CallClock(
                    whole=policy.time_limit, each=self._call_limit, at_once=self._concurrency
                )
                work = partial(
                    retry,
                    attempt,
                    policy=policy.retry,
                    again=again,
                    answers=answers,
                    endpoint="the agent",
                )
                with left_behind() as left:
                    receipt = await within(clock, work)
        except NotJournalable as error:
            # Half a surrogate pair on the way to a model costs its case, not the run.
            receipt = Receipt(value=Outcome(failure=invalid_output(error)))
        except BurnishError:
            raise
        except CutShort:
            raise Interrupted("a call that did not end was cut short") from None
        except Exception as error:  # noqa: BLE001 - the border to the user's agent: what they raise is the case's failure
            outcome = Outcome(
                failure=self._failure(error, attempts),
                trace=left[-1] if left else Trace(),
                seconds=time.perf_counter() - started,
            )
            # The cost of a call that raised is not known, but its estimate is.
            receipt = Receipt(value=outcome, spend=own_price(self._target, unit.case))
        spend = receipt.spend + ONE_RUN
        # Whoever broke off may have done the work, and be paid for it.
        if repeated := sum(each.cause == "away" for each in setbacks[: attempts - 1]):
            spend += own_price(self._target, unit.case).times(repeated)
        return Receipt(
            value=receipt.value,
            spend=spend,
            missing=receipt.value.missing,
        )

    def _failure(self, error: Exception, attempts: int) -> Failure:
        if isinstance(error, OutOfTime):
            return Failure(kind=FailureKind.AGENT, message=str(error), error="TimeLimit")
        if isinstance(error, CancelledInside):
            return Failure(kind=FailureKind.AGENT, message=str(error), error="CancelledError")
        listed = self._policy.infrastructure_errors
        return failure_of(error, listed=listed, attempts=attempts)

    async def grade(self, case: Case, outcome: Outcome, effects: Scope) -> Receipt[Scores]:
        """Score an outcome; judges are asked at once."""

        def score(metric: Metric) -> Coroutine[Any, Any, Sequence[Score]]:
            return _score(metric, case, outcome, effects)

        # Judges are slow, so several are asked at once; for arithmetic, tasks do not pay off.
        if len(self._metrics) > 1 and self._judges(case) > 1:
            by_metric = await together(map(score, self._metrics))
        else:
            by_metric = [await score(metric) for metric in self._metrics]
        scores = tuple(score for group in by_metric for score in group)
        return Receipt(value=Scores(scores=scores), missing=any(score.missing for score in scores))

    def _judges(self, case: Case) -> int:
        """How many metrics ask a model about this case."""
        return sum(not metric.estimate(case).is_nothing for metric in self._metrics)


def _setback(error: Exception) -> Setback:
    """How another attempt at a case may succeed after a failure of the infrastructure."""
    if isinstance(error, ModelUnavailable):
        return Setback(cause="unusable")  # it was waited for where it was asked
    setback = getattr(error, "setback", None)
    # Code that runs here may have asked others, about this case alone.
    return setback if isinstance(setback, Setback) else Setback()


def own_price(target: Target, case: Case) -> Spend:
    """The expected cost of a run that is itself the paid call; nothing for others."""
    return target.estimate(case) if target.leaf else NOTHING


def invalid_output(error: NotJournalable) -> Failure:
    """The failure of an agent whose output has no JSON form."""
    return Failure(
        kind=FailureKind.AGENT, message=error.message, error="InvalidOutput", mendable=True
    )


def no_scores(metrics: Sequence[Metric], reason: str) -> tuple[Score, ...]:
    """A missing score of each metric."""
    return tuple(Score.of_nothing(metric.name, reason) for metric in metrics)


async def _score(metric: Metric, case: Case, outcome: Outcome, effects: Effects) -> Sequence[Score]:
    try:
        return await metric.score(case, outcome, effects=effects)
    except NotJournalable as error:
        return [Score.of_nothing(metric.name, error.message)]
    except BurnishError:
        raise
    except Exception as error:  # noqa: BLE001 - the border to a user's metric: never a 0
        reason = f"the metric raised {type(error).__name__}: {error}"
        return [Score.of_nothing(metric.name, reason, unreachable=is_infrastructure(error))]
    except asyncio.CancelledError:
        if task_cancelled():
            raise
        return [Score.of_nothing(metric.name, "the metric raised CancelledError")]
