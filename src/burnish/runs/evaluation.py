"""Evaluating: cases run under a candidate and scored, as effects, on the executor."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Coroutine,
    Generator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from burnish.core.cases import Case, Dataset
from burnish.core.comparisons import unmeasured
from burnish.core.content import Json, codec
from burnish.core.errors import (
    BaselineUnmeasured,
    BurnishError,
    Interrupted,
    NotJournalable,
    ProposerFailed,
)
from burnish.core.evaluations import CaseResult, Evaluation, Objective, Score
from burnish.core.money import NOTHING, Spend
from burnish.core.outcomes import Failure, FailureKind, Outcome, Trace
from burnish.core.protocols import (
    Call,
    Effects,
    Executor,
    Metric,
    Receipt,
    Scope,
    Target,
    WorkUnit,
    held,
)
from burnish.core.surfaces import Candidate
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
from burnish.journal.limits import ONCE, Budget, RetryPolicy, retry
from burnish.runs.directory import Project
from burnish.runs.events import Exporter
from burnish.tracing.steps import left_behind

CALL_LIMIT = 300.0
"""Seconds for one call of a Python function where no time limit is set."""
_ONE_RUN = Spend(metric_calls=1)


@dataclass(frozen=True, kw_only=True)
class CasePolicy:
    """How one case is run."""

    time_limit: float | None = None
    """Seconds for a case; running past it is the agent's failure. Where it is not set, each call of
    a Python function has `CALL_LIMIT`."""
    retry: RetryPolicy = ONCE
    """For infrastructure failures that the target lets through."""
    infrastructure_errors: tuple[str, ...] = ()
    """Names of error types that are not the agent's fault, beside the usual ones."""


@dataclass(frozen=True, kw_only=True)
class _Scores:
    """All scores of one outcome, as the journal keeps them."""

    scores: tuple[Score, ...]


@dataclass(frozen=True, kw_only=True)
class EvaluatedCase:
    """One case result and what was used for it."""

    result: CaseResult
    spends: Mapping[str, Spend] = field(default_factory=dict[str, Spend])


class Place:
    """A place for one run of the agent, given back as soon as the run ends.

    What follows, keeping the result and judging it, does not keep the agent waiting. Whoever
    asked for the run may leave; the run keeps its place until it ends.
    """

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places = places
        self._used = False

    async def __aenter__(self) -> "Place":
        await self._places.acquire()
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self._used:
            self._places.release()

    @contextmanager
    def taken(self) -> Generator[None, None, None]:
        """The run itself."""
        self._used = True
        try:
            yield
        finally:
            self._places.release()


class Evaluator:
    """Runs and scores units of work."""

    def __init__(
        self,
        *,
        target: Target,
        metrics: Sequence[Metric],
        executor: Executor,
        policy: CasePolicy,
        concurrency: int,
        call_limit: float | None = None,
    ) -> None:
        self._target = target
        self._metrics = tuple(metrics)
        self._executor = executor
        self._policy = policy
        self._call_limit = call_limit
        self._concurrency = concurrency
        self._places = asyncio.Semaphore(concurrency)
        self._grading: list[Json] = [[metric.name, metric.fingerprint] for metric in self._metrics]

    def units(
        self, candidate: Candidate, cases: Collection[Case], draws: Sequence[int]
    ) -> list[WorkUnit]:
        """The units of an evaluation: all repeats of a case stand together."""
        target = self._target.description
        return [
            WorkUnit(target=target, candidate=candidate, case=case, draw=draw)
            for case in cases
            for draw in draws
        ]

    async def blocks(
        self,
        units: Sequence[WorkUnit],
        *,
        scope: Callable[[], Scope],
        size: int,
        look_ahead: int,
        seen: Callable[[EvaluatedCase], None],
    ) -> AsyncGenerator[list[EvaluatedCase], None]:
        """The results block by block; up to `look_ahead` blocks are begun before they are due."""
        rest = deque(units[i : i + size] for i in range(0, len(units), size))
        begun: deque[asyncio.Task[list[EvaluatedCase]]] = deque()
        try:
            while rest or begun:
                while rest and len(begun) <= look_ahead:
                    block = self._block(rest.popleft(), scope, seen)
                    begun.append(asyncio.create_task(block))
                yield await begun[0]
                begun.popleft()
        finally:
            for task in begun:
                task.cancel()
            await asyncio.gather(*begun, return_exceptions=True)

    async def _block(
        self,
        units: Sequence[WorkUnit],
        scope: Callable[[], Scope],
        seen: Callable[[EvaluatedCase], None],
    ) -> list[EvaluatedCase]:
        async def work(unit: WorkUnit) -> EvaluatedCase:
            done = await self.case(unit, scope())
            seen(done)
            return done

        results = self._executor.map(units, work)
        async with aclosing(results) as ordered:
            return [done async for done in ordered]

    async def case(self, unit: WorkUnit, scope: Scope) -> EvaluatedCase:
        """Run one case and score what it gave."""
        call = self._run_call(unit)
        outcome = unit.case.recorded
        if outcome is None:
            async with Place(self._places) as place:
                outcome = await scope.once(call, lambda effects: self._run_at(place, unit, effects))
        scores = await self._scores(unit.case, outcome, call.key, scope)
        result = CaseResult(case=unit.case.id, draw=unit.draw, outcome=outcome, scores=scores)
        return EvaluatedCase(result=result, spends=scope.used)

    def _run_call(self, unit: WorkUnit) -> Call[Outcome]:
        return Call(
            kind="run",
            request={
                "target": unit.target.fingerprint,
                "candidate": unit.candidate.id,
                "case": unit.case.content_id,
                "name": unit.case.id,
                "time_limit": self._policy.time_limit,
            },
            codec=codec(Outcome),
            draw=unit.draw,
            estimate=self._own_price(unit.case) + _ONE_RUN if self._target.leaf else NOTHING,
            otherwise=_invalid_output,
        )

    def _own_price(self, case: Case) -> Spend:
        return self._target.estimate(case) if self._target.leaf else NOTHING

    async def _run_at(self, place: Place, unit: WorkUnit, effects: Scope) -> Receipt[Outcome]:
        with place.taken():
            return await self._run(unit, effects)

    async def _run(self, unit: WorkUnit, effects: Scope) -> Receipt[Outcome]:
        attempts = 0

        async def attempt(number: int) -> Receipt[Outcome]:
            nonlocal attempts
            attempts = number
            return await self._target.run(
                unit.candidate, unit.case, draw=unit.draw, effects=effects
            )

        policy, started = self._policy, time.perf_counter()
        left: list[Trace] = []
        try:
            # Waiting for a turn is not the agent's time.
            async with held(self._target, unit.candidate):
                clock = CallClock(
                    whole=policy.time_limit, each=self._call_limit, at_once=self._concurrency
                )
                work = retry(attempt, policy=policy.retry, again=self._is_infrastructure)
                with left_behind() as left:
                    receipt = await within(clock, work)
        except BurnishError:
            raise
        except CutShort:
            raise Interrupted("a call that did not end was cut short") from None
        except Exception as error:  # noqa: BLE001 - the border to the user's agent: law 4
            outcome = Outcome(
                failure=self._failure(error, attempts),
                trace=left[-1] if left else Trace(),
                seconds=time.perf_counter() - started,
            )
            # What a call cost that ended in an exception is not known: its estimate is.
            receipt = Receipt(value=outcome, spend=self._own_price(unit.case))
        return Receipt(
            value=receipt.value,
            spend=receipt.spend + _ONE_RUN,
            missing=receipt.value.missing,
        )

    def _failure(self, error: Exception, attempts: int) -> Failure:
        if isinstance(error, OutOfTime):
            return Failure(kind=FailureKind.AGENT, message=str(error), error="TimeLimit")
        if isinstance(error, CancelledInside):
            return Failure(kind=FailureKind.AGENT, message=str(error), error="CancelledError")
        listed = self._policy.infrastructure_errors
        return failure_of(error, listed=listed, attempts=attempts)

    def _is_infrastructure(self, error: Exception) -> bool:
        return is_infrastructure(error, self._policy.infrastructure_errors)

    async def _scores(
        self, case: Case, outcome: Outcome, run_key: str, scope: Scope
    ) -> tuple[Score, ...]:
        if outcome.missing and outcome.failure is not None:
            return self._no_scores(outcome.failure.message)
        if outcome.failure is not None:
            reason = outcome.failure.message
            return tuple(Score.of_failure(metric.name, reason) for metric in self._metrics)
        if not self._metrics:
            return ()
        call = Call(
            kind="score",
            request={"run": run_key, "metrics": self._grading},
            codec=codec(_Scores),
            estimate=NOTHING,
            computed=True,
            otherwise=lambda error: _Scores(scores=self._no_scores(error.message)),
        )
        graded = await scope.once(call, lambda effects: self._grade(case, outcome, effects))
        return graded.scores

    def _no_scores(self, reason: str) -> tuple[Score, ...]:
        return tuple(Score.of_nothing(metric.name, reason) for metric in self._metrics)

    async def _grade(self, case: Case, outcome: Outcome, effects: Effects) -> Receipt[_Scores]:
        def score(metric: Metric) -> Coroutine[Any, Any, Sequence[Score]]:
            return _score(metric, case, outcome, effects)

        # Judges take their time, so several are asked at once; tasks for arithmetic do not pay.
        if sum(metric.estimate(case) != NOTHING for metric in self._metrics) > 1:
            by_metric = await together(map(score, self._metrics))
        else:
            by_metric = [await score(metric) for metric in self._metrics]
        scores = tuple(score for group in by_metric for score in group)
        return Receipt(value=_Scores(scores=scores), missing=any(score.missing for score in scores))


async def _score(metric: Metric, case: Case, outcome: Outcome, effects: Effects) -> Sequence[Score]:
    try:
        return await metric.score(case, outcome, effects=effects)
    except BurnishError:
        raise
    except Exception as error:  # noqa: BLE001 - the border to a user's metric: never a 0
        reason = f"the metric raised {type(error).__name__}: {error}"
        return [Score.of_nothing(metric.name, reason)]
    except asyncio.CancelledError:
        if task_cancelled():
            raise
        return [Score.of_nothing(metric.name, "the metric raised CancelledError")]


def _invalid_output(error: NotJournalable) -> Outcome:
    return Outcome(
        failure=Failure(kind=FailureKind.AGENT, message=error.message, error="InvalidOutput")
    )


# -- What a run works under -----------------------------------------------------------------------


class Closable(Protocol):
    """Something that is held open for a run."""

    async def close(self) -> None:
        """Let go of it."""
        ...


class _StrategyIdentity(Protocol):
    """What a run knows of the strategy that searches in it."""

    @property
    def name(self) -> str:
        """What the command line and run.json call it."""
        ...


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What is optimised in a run, on which cases, by which measure, and how far."""

    target: Target
    metrics: tuple[Metric, ...]
    objective: Objective
    dataset: Dataset
    strategy: _StrategyIdentity
    seed: int = 42
    budget: Budget = field(default_factory=Budget)
    concurrency: int = 8
    case_policy: CasePolicy = field(default_factory=CasePolicy)
    grace_seconds: float = 30.0
    """A run that is to stop finishes the trial under way; where no call ends for so long, the trial
    is dropped."""
    test_repeats: int = 1
    stop_callbacks: Mapping[str, Callable[[], bool]] = field(
        default_factory=dict[str, Callable[[], bool]]
    )
    """User callables by label; one that gives True stops the run."""
    exporter: Exporter | None = None
    """How accepted candidates lie in the run's folder; a folder each unless it says otherwise."""
    project: Project = field(default_factory=Project)
    notes: tuple[str, ...] = ()
    """What the user should know before the start, such as a price that is unknown."""
    resources: tuple[Closable, ...] = ()
    """What is let go of when the run is closed: connections, engines."""


# -- What a run must have to be worth its name ----------------------------------------------------


GIVE_UP_AFTER = 3
"""Failures of a role that never answered, after which nothing more is expected of it."""


def require_baseline(
    *sides: Evaluation | None, objective: Objective, max_missing: float, primary: str = ""
) -> None:
    """Raise BaselineUnmeasured where nothing could be compared with the baseline.

    `sides` are its evaluations, one a split; `primary` is what is compared where that is not
    the loss.
    """
    for side in sides:
        if side is None:
            continue
        why = unmeasured(side, objective, max_missing=max_missing, primary=primary)
        if why:
            raise BaselineUnmeasured(
                f"the baseline could not be measured: {why}",
                remedy="nothing can be compared with it, so nothing was tried. Mend what is "
                "missing, then start a new run that asks for it again: "
                "--fork RUN --retry-missing",
            )


class RoleAnswers:
    """How the roles of a run answer, counted as they are asked: a replay counts the same."""

    def __init__(self) -> None:
        self._answers = Counter[str]()
        self._failures = Counter[str]()
        self._last: dict[str, str] = {}

    def count(self, role: str, failure: str = "") -> None:
        """Count what came back from a role: an answer, or why there is none."""
        if failure:
            self._failures[role] += 1
            self._last[role] = failure
        else:
            self._answers[role] += 1

    @property
    def silent(self) -> tuple[str, ...]:
        """The roles that were asked and never gave a usable answer, in the order of asking."""
        return tuple(role for role in self._failures if not self._answers[role])

    def words(self, role: str) -> str:
        """What is wrong with a role that is silent."""
        return f"the {role} never gave a usable answer: {self._last[role]}"

    def require(self, *roles: str, after: int) -> None:
        """Raise ProposerFailed where one of these is silent after so many questions."""
        for role in self.silent:
            if role in roles and self._failures[role] >= after:
                raise self.failed(role)

    def failed(self, role: str) -> ProposerFailed:
        """The error of a run whose proposer is silent."""
        return ProposerFailed(
            self.words(role),
            remedy="mend its model or settings, then start a new run that asks again: "
            "--fork RUN --retry-missing",
        )
