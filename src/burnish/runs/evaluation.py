"""Runs cases under a candidate and scores them, as effects, on the executor."""

import asyncio
import inspect
from collections import deque
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Protocol, TypeAlias, TypeGuard, TypeVar, runtime_checkable

from burnish.core.cases import Case, Dataset, Failure, FailureKind, Outcome, Split
from burnish.core.content import Json, codec, record
from burnish.core.errors import WorkerLost
from burnish.core.evaluations import CaseResult, Objective, Score
from burnish.core.leaks import HoldsTexts, LeakWatch
from burnish.core.money import NOTHING, Spend, total
from burnish.core.protocols import (
    Call,
    DescribedMetric,
    Executor,
    Metric,
    Receipt,
    Role,
    Scope,
    Target,
    WorkUnit,
)
from burnish.core.surfaces import Candidate
from burnish.journal.executors import FairSemaphore, Turnstile
from burnish.journal.limits import Budget
from burnish.journal.outages import WAIT_MINUTES
from burnish.models.errors import ModelRefused
from burnish.models.factory import AGENT, EMBEDDINGS, JUDGE, ModelUse, every_model
from burnish.runs.case_work import (
    ONE_RUN,
    CasePolicy,
    CaseWork,
    Scores,
    invalid_output,
    no_scores,
    own_price,
)
from burnish.runs.directory import Project
from burnish.runs.events import Exporter
from burnish.runs.spec import TrackingSpec
from burnish.runs.stoppers import outage, unjudged
from burnish.system.redaction import Shapes

T = TypeVar("T")


@record
class EvaluatedCase:
    """One case result and what it cost."""

    result: CaseResult
    spends: Mapping[str, Spend] = field(default_factory=dict[str, Spend])
    run: str = ""
    """The key of its run; empty if its outcome was known before."""
    outage: str = ""
    """Why nobody answered; empty if somebody did."""
    unjudged: str = ""
    """Why a judge that answered gave no score; empty if it did, or was not asked."""

    @property
    def answered(self) -> bool:
        """Whether the called code came to an answer, be it of no use."""
        failure = self.result.outcome.failure
        return failure is None or failure.mendable

    @property
    def says_nothing(self) -> bool:
        """Whether it went well, and gave no text, no data and no use of a tool."""
        outcome = self.result.outcome
        used = any(step.tools for step in outcome.trace.steps)
        said = any(map(str.strip, outcome.replies)) or outcome.data or used
        return outcome.failure is None and not said

    @property
    def raised(self) -> str:
        """What the called code raised; empty if it did not."""
        failure = self.result.outcome.failure
        return failure.message if failure and self.result.outcome.failed and self.run else ""


class Breaker(Protocol):
    """Ends a block of results early."""

    def ends(self, done: EvaluatedCase) -> bool:
        """Whether this result, the next in order, is the last one."""
        ...


class _NotWhole(Exception):
    """The answer that would be scored has a gap where something looked like a key."""


class _Place:
    """A place that is given back at the end of the block unless it was passed on."""

    __slots__ = ("_places",)

    def __init__(self, places: FairSemaphore | None) -> None:
        self._places = places

    def passed_on(self) -> "_Place":
        """The place for another block, if nobody has taken or released it yet."""
        places, self._places = self._places, None
        return _Place(places)

    def __enter__(self) -> "_Place":
        return self

    def __exit__(self, *raised: object) -> None:
        places, self._places = self._places, None
        if places is not None:
            places.release()


class Evaluator:
    """Runs and scores units of work."""

    def __init__(
        self,
        *,
        target: Target,
        metrics: Sequence[Metric],
        work: CaseWork,
        executor: Executor,
        policy: CasePolicy,
        concurrency: int,
        weighted: Collection[str] = (),
    ) -> None:
        self._target = target
        self._metrics = tuple(metrics)
        self._work = work
        self._executor = executor
        self._policy = policy
        self._places, self._turns = FairSemaphore(concurrency), Turnstile()
        self._rows = FairSemaphore(concurrency)
        self._weighted = frozenset(weighted)
        self._outcomes, self._graded = codec(Outcome), codec(Scores)
        self._grading: list[Json] = [[metric.name, metric.fingerprint] for metric in self._metrics]

    def units(
        self, candidate: Candidate, cases: Collection[Case], draws: Sequence[int]
    ) -> list[WorkUnit]:
        """The units of an evaluation, with all repeats of a case together."""
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
        seen: Callable[[WorkUnit, EvaluatedCase], None],
        breaker: "Callable[[], Breaker | None] | None" = None,
        only_here: "_OnlyHere | None" = None,
    ) -> AsyncGenerator[list[EvaluatedCase], None]:
        """The results block by block; up to `look_ahead` blocks start before they are due.

        Each block has its own `breaker`, which may end it before its last result. For `only_here`
        see `case`.
        """
        rest = deque(units[i : i + size] for i in range(0, len(units), size))
        begun: deque[asyncio.Task[list[EvaluatedCase]]] = deque()
        try:
            while rest or begun:
                while rest and len(begun) <= look_ahead:
                    ends = breaker() if breaker else None
                    block = self._block(rest.popleft(), scope, seen, ends, only_here)
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
        seen: Callable[[WorkUnit, EvaluatedCase], None],
        breaker: "Breaker | None",
        only_here: "_OnlyHere | None",
    ) -> list[EvaluatedCase]:
        async def work(unit: WorkUnit) -> EvaluatedCase:
            done = await self.case(unit, scope, only_here)
            seen(unit, done)
            return done

        block: list[EvaluatedCase] = []
        async with aclosing(self._executor.map(units, work)) as ordered:
            async for done in ordered:
                block.append(done)
                if breaker is not None and breaker.ends(done):
                    break
        return block

    async def case(
        self, unit: WorkUnit, scope: Callable[[], Scope], only_here: "_OnlyHere | None" = None
    ) -> EvaluatedCase:
        """Run one case and score its outcome.

        A refused key or model ends the run, unless `only_here` says that only this candidate is
        refused: then the result is missing.
        """
        return await self._scored(await self._ran(unit, scope(), only_here))

    def rows(
        self, candidates: Sequence[Candidate], cases: Collection[Case], draws: Sequence[int]
    ) -> list[tuple[WorkUnit, ...]]:
        """The units of one or two candidates: a row for each case and draw, in the order to run.

        Who goes first is the sequence of Thue and Morse. Each goes first as often, and neither a
        trend nor a rhythm, as of an endpoint with four servers in turn, is on one side.
        """
        sides = (self.units(candidate, cases, draws) for candidate in candidates)
        rows = enumerate(zip(*sides, strict=True))
        return [row[::-1] if number.bit_count() % 2 else row for number, row in rows]

    async def side_by_side(
        self,
        rows: Sequence[Sequence[WorkUnit]],
        *,
        scope: Callable[[], Scope],
        seen: Callable[[WorkUnit, EvaluatedCase], None],
    ) -> AsyncGenerator[list[tuple[WorkUnit, EvaluatedCase]], None]:
        """The results of each row, in the order of its units.

        A model or a judge that changes meanwhile changes both sides of a row alike: they are run
        one right after the other, and only then judged, one right after the other. Otherwise the
        side that answers sooner would always meet the judge sooner.
        """

        async def work(row: Sequence[WorkUnit]) -> list[tuple[WorkUnit, EvaluatedCase]]:
            await self._rows.acquire()
            with _Place(self._rows):
                ran = [await self._ran(unit, scope(), None) for unit in row]
            done: list[tuple[WorkUnit, EvaluatedCase]] = []
            for each in ran:
                done.append((each.unit, await self._scored(each)))
                seen(*done[-1])
            return done

        async with aclosing(self._executor.map(rows, work)) as ordered:
            async for done in ordered:
                yield done

    def _run_call(self, unit: WorkUnit, whole: Callable[[Outcome], None]) -> Call[Outcome]:
        return Call(
            kind="run",
            request={
                "target": unit.target.fingerprint,
                "candidate": unit.candidate.id,
                "case": unit.case.content_id,
                "name": unit.case.id,
                "time_limit": self._policy.time_limit,
            },
            codec=self._outcomes,
            draw=unit.draw,
            estimate=own_price(self._target, unit.case) + ONE_RUN if self._target.leaf else NOTHING,
            otherwise=lambda error: Outcome(failure=invalid_output(error)),
            own_text=lambda: unit.case.text,
            withheld=lambda outcome: replace(outcome, withheld=True),
            whole=whole,
        )

    def _score_call(self, case: Case, run_key: str) -> Call[Scores]:
        return Call(
            kind="score",
            request={"run": run_key, "metrics": self._grading},
            codec=self._graded,
            estimate=NOTHING,
            computed=True,
            otherwise=lambda error: Scores(scores=no_scores(self._metrics, error.message)),
            own_text=lambda: case.text,
        )

    async def _ran(self, unit: WorkUnit, scope: Scope, only_here: "_OnlyHere | None") -> "_Ran":
        whole: list[Outcome] = []
        call = self._run_call(unit, whole.append)
        if unit.case.recorded is not None:
            return _Ran(unit=unit, scope=scope, call=call, outcome=unit.case.recorded, whole=whole)

        async def performed() -> Outcome:
            await self._places.acquire()
            with _Place(self._places) as place:

                async def run(effects: Scope) -> "Receipt[Outcome]":
                    # The run keeps its place until it ends, even if the caller is cancelled;
                    # storing and judging the result does not block the next run, and takes turns,
                    # so that many that end at once hold up the next ones as little.
                    with place.passed_on():
                        receipt = await self._work.run(unit, effects)
                    with suppress(
                        asyncio.CancelledError
                    ):  # it is paid: also a run that ends has it
                        await self._turns.wait()
                    return receipt

                try:
                    return await scope.once(call, run)
                except ModelRefused as error:
                    if only_here is None or not await only_here(unit.case):
                        raise
                    return await scope.once(call, partial(_not_admitted, error))

        outcome = await _despite_losses(performed)
        return _Ran(unit=unit, scope=scope, call=call, outcome=outcome, whole=whole)

    async def _scored(self, ran: "_Ran") -> EvaluatedCase:
        unit, outcome, scope = ran.unit, ran.outcome, ran.scope

        async def to_score(effects: Scope) -> Outcome:
            if not outcome.withheld:
                return outcome
            if ran.whole:
                return ran.whole[-1]
            if unit.case.recorded is not None:
                raise _NotWhole("a key was removed from the recorded answer: record it again")
            # It ended before it was scored, and only a part of the answer was stored.
            again = replace(ran.call, request={"again": ran.call.request}, whole=None)
            return await effects.once(again, lambda inner: self._work.run(unit, inner))

        await self._turns.wait()
        scores = await _despite_losses(lambda: self._scores(ran, to_score))
        result = CaseResult(case=unit.case.id, draw=unit.draw, outcome=outcome, scores=scores)
        in_doubt = [score for score in scores if score.missing or score.unreachable]
        judged = self._judged(unit.case) if in_doubt else ()
        return EvaluatedCase(
            result=result,
            spends=scope.used,
            run="" if unit.case.recorded is not None else ran.call.key,
            outage=outage(result, judged),
            unjudged=unjudged(result, judged),
        )

    def not_run(self, unit: WorkUnit, reason: str) -> CaseResult:
        """The missing result of a case that nobody tried."""
        failure = Failure(kind=FailureKind.INFRASTRUCTURE, message=reason, attempts=0)
        return CaseResult(
            case=unit.case.id,
            draw=unit.draw,
            outcome=Outcome(failure=failure),
            scores=no_scores(self._metrics, reason),
        )

    def _judged(self, case: Case) -> list[str]:
        """The metrics that ask a model about this case, and whose scores count."""
        counting = (metric for metric in self._metrics if metric.name in self._weighted)
        return [metric.name for metric in counting if not metric.estimate(case).is_nothing]

    async def _scores(
        self, ran: "_Ran", to_score: Callable[[Scope], Awaitable[Outcome]]
    ) -> tuple[Score, ...]:
        case, outcome = ran.unit.case, ran.outcome
        if outcome.missing and outcome.failure is not None:
            return no_scores(self._metrics, outcome.failure.message)
        if outcome.failure is not None:
            reason = outcome.failure.message
            return tuple(
                Score.of_failure(metric.name, reason, judges=_judges(metric))
                for metric in self._metrics
            )
        if not self._metrics:
            return ()

        async def grade(effects: Scope) -> "Receipt[Scores]":
            try:
                return await self._work.grade(case, await to_score(effects), effects)
            except _NotWhole as error:
                return Receipt(
                    value=Scores(scores=no_scores(self._metrics, str(error))), missing=True
                )

        return (await ran.scope.once(self._score_call(case, ran.call.key), grade)).scores


@dataclass(frozen=True, kw_only=True)
class _Ran:
    """A run of a case that is not scored yet."""

    unit: WorkUnit
    scope: Scope
    call: Call[Outcome]
    outcome: Outcome
    whole: Sequence[Outcome]
    """The outcome before something that looks like a secret was removed, if it was run now."""


async def _despite_losses(work: Callable[[], Awaitable[T]]) -> T:
    """The result of work that begins again if its worker was lost."""
    while True:
        try:
            return await work()
        except WorkerLost:
            # Its calls in flight are billed; what the journal has is not paid again.
            continue


_OnlyHere: TypeAlias = Callable[[Case], Awaitable[bool]]
"""Whether another candidate is answered on this case."""


async def _not_admitted(error: ModelRefused, effects: Scope) -> Receipt[Outcome]:
    del effects
    failure = Failure(
        kind=FailureKind.INFRASTRUCTURE, message=error.message, error=type(error).__name__
    )
    return Receipt(value=Outcome(failure=failure), spend=ONE_RUN, missing=True)


def _judges(metric: Metric) -> bool:
    return metric.judges if isinstance(metric, DescribedMetric) else True


class Closable(Protocol):
    """Something that is open during a run."""

    async def close(self) -> None:
        """Close it."""
        ...


def is_closable(target: object) -> TypeGuard[Closable]:
    """Whether a target has resources to close."""
    return inspect.iscoroutinefunction(getattr(target, "close", None))


class WorkerPool(Closable, Protocol):
    """Workers in other processes that do the work on cases."""

    def work(self, metrics: Sequence[Metric], *, call_limit: float | None) -> CaseWork:
        """Work with these metrics of the run."""
        ...


class _StrategyIdentity(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def roles(self) -> Sequence[Role[Any, Any]]: ...


@runtime_checkable
class _KnowsModels(Protocol):
    def uses(self) -> Sequence[ModelUse]: ...


def uses_of(resources: Iterable[object]) -> list[ModelUse]:
    """The models that these resources may ask, each once."""
    holders = [each for each in resources if isinstance(each, _KnowsModels)]
    return every_model(each.uses() for each in holders)


_ON_WORKERS = {AGENT, JUDGE, EMBEDDINGS}
"""The roles whose models are asked where cases are run and scored."""


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """The target, cases, objective and limits of a run."""

    target: Target
    metrics: tuple[Metric, ...]
    second_metrics: tuple[Metric, ...] = ()
    """The metrics with another judge, which looks at baseline and best once at the end."""
    objective: Objective
    dataset: Dataset
    strategy: _StrategyIdentity
    seed: int = 42
    budget: Budget = field(default_factory=Budget)
    concurrency: int = 8
    case_policy: CasePolicy = field(default_factory=CasePolicy)
    wait_minutes: float = WAIT_MINUTES
    """Minutes to wait while nobody answers: a model, or the agent itself."""
    grace_seconds: float = 30.0
    """A run that is stopping finishes the current trial, unless no call ends for so long."""
    test_repeats: int = 1
    confirm: bool = False
    """Without a sealed test, measure baseline and best again at the end, on fresh draws."""
    stop_callbacks: Mapping[str, Callable[[], bool]] = field(
        default_factory=dict[str, Callable[[], bool]]
    )
    """User callables by label; one that returns True stops the run."""
    exporter: Exporter | None = None
    """Writes accepted candidates to the run's folder; by default each to its own folder."""
    project: Project = field(default_factory=Project)
    notes: tuple[str, ...] = ()
    """What the user should know before the start, such as an unknown price."""
    redact: Shapes = "known-keys"
    """What is removed from the files of the run."""
    tracking: TrackingSpec = field(default_factory=TrackingSpec)
    """Other systems that show the run."""
    pool: WorkerPool | None = None
    """The workers that run cases; by default, this process does."""
    resources: tuple[Closable, ...] = ()
    """Connections and engines that are closed with the run."""

    def model_uses(self) -> list[ModelUse]:
        """The models that the run may ask, each with its roles; scripted ones are left out."""
        return uses_of(self.resources)

    def preflight(self) -> list[ModelUse]:
        """The models that are asked once before anything else is paid.

        The embedded one cannot be away, and workers ask those of the cases from where they are.
        """
        away = _ON_WORKERS if self.pool is not None else set[str]()
        uses = [use for use in self.model_uses() if not use.is_embedded]
        return [use for use in uses if not away.issuperset(use.roles)]

    @cached_property
    def leak_watch(self) -> LeakWatch:
        """Finds text that no proposer may see: of held-out cases, and of the target's files."""
        held = self.target.held_texts if isinstance(self.target, HoldsTexts) else None
        return LeakWatch(self.dataset, held=held)

    @property
    def deciding_split(self) -> Split:
        """Holdout; train in a run without one."""
        return Split.HOLDOUT if self.dataset.holdout else Split.TRAIN

    def expected(self, cases: Collection[Case]) -> tuple[Spend, int]:
        """What one run of each of these cases should cost, and how many runs that are."""
        runs = [case for case in cases if case.recorded is None]
        spends = [replace(self.target.estimate(case), metric_calls=1) for case in runs]
        spends += [metric.estimate(case) for case in cases for metric in self.metrics]
        return total(spends), len(runs)

    @cached_property
    def second_judging(self) -> Spend:
        """What the second judge should cost, with baseline and best together."""
        cases = self.dataset.cases(self.deciding_split)
        judged = [metric.estimate(case) for case in cases for metric in self.second_metrics]
        return total(judged).times(2 * self.test_repeats)
