"""Callbacks around an evaluation, and the targets and metrics that call them."""

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from burnish.core.cases import Case
from burnish.core.errors import BurnishError, Problem
from burnish.core.evaluations import Evaluation, Score
from burnish.core.money import Spend
from burnish.core.outcomes import Outcome
from burnish.core.protocols import Description, Effects, Metric, Receipt, Scope, Target, held
from burnish.core.surfaces import Candidate, Surface
from burnish.projects.measurements import threshold_of


@dataclass(frozen=True, kw_only=True)
class AroundTarget:
    """Another target, as it is."""

    target: Target

    @property
    def description(self) -> Description:
        """The other's."""
        return self.target.description

    @property
    def surfaces(self) -> Sequence[Surface]:
        """The other's."""
        return self.target.surfaces

    @property
    def baseline(self) -> Candidate:
        """The other's."""
        return self.target.baseline

    @property
    def leaf(self) -> bool:
        """The other's."""
        return self.target.leaf

    def check(self, candidate: Candidate) -> Sequence[Problem]:
        """The other's."""
        return self.target.check(candidate)

    def estimate(self, case: Case) -> Spend:
        """The other's."""
        return self.target.estimate(case)

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        """The other's."""
        return self.target.export(candidate, home)

    def held(self, candidate: Candidate) -> AbstractAsyncContextManager[object]:
        """The candidate's turn, where the other takes turns."""
        return held(self.target, candidate)

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Scope
    ) -> Receipt[Outcome]:
        """The other's."""
        return await self.target.run(candidate, case, draw=draw, effects=effects)


@dataclass(frozen=True, kw_only=True)
class AroundMetric:
    """Another metric, as it is."""

    metric: Metric

    @property
    def name(self) -> str:
        """The other's."""
        return self.metric.name

    @property
    def fingerprint(self) -> str:
        """The other's."""
        return self.metric.fingerprint

    @property
    def threshold(self) -> float | None:
        """The other's."""
        return threshold_of(self.metric)

    def estimate(self, case: Case) -> Spend:
        """The other's."""
        return self.metric.estimate(case)

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """The other's."""
        return await self.metric.score(case, outcome, effects=effects)


# -- Callbacks around an evaluation ---------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Moment:
    """What a callback is told; what is not known yet, or not of this moment, is None."""

    eval_set_id: str
    eval_case_id: str = ""
    """Empty in callbacks of a set."""
    run_id: int | None = None
    """Which run of the case this is, from 1, where the agent is called."""
    case: Case | None = None
    outcome: Outcome | None = None
    """What the agent gave."""
    scores: tuple[Score, ...] = ()
    error: Exception | None = None
    """What the agent raised."""
    evaluation: Evaluation | None = None
    """Everything, at the end of a set."""


@dataclass(frozen=True, kw_only=True)
class CallbackResult:
    """What a callback may give back: later callbacks find it as `context["context"]`."""

    context: Any = None


_CallbackFunction: TypeAlias = Callable[[dict[str, Any], Moment], Any]
"""Given the context of the set, a dict of the callbacks' own, and the moment. May be async."""


@dataclass(frozen=True, kw_only=True)
class Callback:
    """Up to eight functions."""

    before_inference_set: _CallbackFunction | None = None
    after_inference_set: _CallbackFunction | None = None
    before_inference_case: _CallbackFunction | None = None
    after_inference_case: _CallbackFunction | None = None
    before_evaluate_set: _CallbackFunction | None = None
    after_evaluate_set: _CallbackFunction | None = None
    before_evaluate_case: _CallbackFunction | None = None
    after_evaluate_case: _CallbackFunction | None = None


@dataclass
class Callbacks:
    """Callbacks by name, called in the order in which they were registered."""

    named: list[tuple[str, Callback]] = field(default_factory=list[tuple[str, Callback]])

    def register(self, name: str, callback: Callback) -> "Callbacks":
        """Add some; the name is for errors."""
        self.named.append((name, callback))
        return self


class CallbackFailed(BurnishError):
    """A callback raised: that is a bug of the callback, not of the agent."""


@dataclass(kw_only=True)
class CallbackDispatcher:
    """Calls the callbacks of one set."""

    callbacks: Callbacks
    eval_set_id: str
    context: dict[str, Any] = field(default_factory=dict[str, Any])

    async def dispatch(self, point: str, **fields: Any) -> None:
        """Call what is registered for this point."""
        moment = Moment(eval_set_id=self.eval_set_id, **fields)
        for name, callback in self.callbacks.named:
            function: _CallbackFunction | None = getattr(callback, point)
            if function is not None:
                await self._call(f"{point} of {name}", function, moment)

    async def _call(self, what: str, function: _CallbackFunction, moment: Moment) -> None:
        try:
            answer = function(self.context, moment)
            if inspect.isawaitable(answer):
                answer = await answer
        except Exception as error:
            raise CallbackFailed(f"{what} raised {type(error).__name__}: {error}") from error
        if isinstance(answer, CallbackResult) and answer.context is not None:
            self.context["context"] = answer.context


# -- Watching -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class WatchedTarget(AroundTarget):
    """Another target, and callbacks around every run of a case."""

    dispatcher: CallbackDispatcher

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Scope
    ) -> Receipt[Outcome]:
        """Tell, run, tell."""
        fields = {"eval_case_id": case.id, "case": case, "run_id": draw + 1}
        await self.dispatcher.dispatch("before_inference_case", **fields)
        try:
            receipt = await self.target.run(candidate, case, draw=draw, effects=effects)
        except BurnishError:
            raise
        except Exception as error:
            await self.dispatcher.dispatch("after_inference_case", **fields, error=error)
            raise
        await self.dispatcher.dispatch("after_inference_case", **fields, outcome=receipt.value)
        return receipt


@dataclass(kw_only=True)
class _Scored:
    """One outcome while its metrics are at work."""

    metrics: int
    """How many have not said anything yet."""
    begun: bool = False
    scores: list[Score] = field(default_factory=list[Score])
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(kw_only=True)
class ScoringCallbacks:
    """Tells once before the first metric looks at an outcome, and once after the last."""

    dispatcher: CallbackDispatcher
    metrics: int
    under_way: dict[int, _Scored] = field(default_factory=dict[int, _Scored])

    def watch(self, metrics: Sequence[Metric]) -> tuple[Metric, ...]:
        """The metrics, each of which lets this know."""
        return tuple(_WatchedMetric(metric=metric, scoring=self) for metric in metrics)

    async def score(
        self, metric: Metric, case: Case, outcome: Outcome, effects: Effects
    ) -> Sequence[Score]:
        """Score, and tell where this is the first or the last to do so."""
        # All metrics of one case are given the same object, and nobody else is.
        one = self.under_way.setdefault(id(outcome), _Scored(metrics=self.metrics))
        fields = {"eval_case_id": case.id, "case": case, "outcome": outcome}
        async with one.lock:
            if not one.begun:
                one.begun = True
                await self.dispatcher.dispatch("before_evaluate_case", **fields)
        try:
            scores = await metric.score(case, outcome, effects=effects)
            one.scores += scores
        finally:
            one.metrics -= 1
            if not one.metrics:
                del self.under_way[id(outcome)]
        if not one.metrics:
            together = tuple(one.scores)
            await self.dispatcher.dispatch("after_evaluate_case", **fields, scores=together)
        return scores


@dataclass(frozen=True, kw_only=True)
class _WatchedMetric(AroundMetric):
    """Another metric, and callbacks around it, which change nothing."""

    scoring: ScoringCallbacks

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """The other's."""
        return await self.scoring.score(self.metric, case, outcome, effects)
