"""How an evaluation calls an agent: behind a runner, and with callbacks around runs and scores."""

import asyncio
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias, cast

from pydantic_core import to_jsonable_python

from burnish.core.cases import Case, Outcome, Step, ToolCall, Trace, Usage
from burnish.core.content import Json
from burnish.core.errors import BurnishError, Problem
from burnish.core.evaluations import Evaluation, Score
from burnish.core.money import Spend
from burnish.core.protocols import Description, Effects, Metric, Receipt, Scope, Target, held
from burnish.core.surfaces import Candidate, Surface
from burnish.projects.measurements import threshold_of

_USER = "user"


@dataclass(frozen=True)
class RunnerAgent:
    """Calls `runner.run_async(user_id=…, session_id=…, new_message=…)` for each turn.

    The reply is the text of the final response, and the tools are those that events call. If the
    runner has a session service, each conversation gets a session of its own.
    """

    runner: Any
    user_id: str = _USER

    async def __call__(self, query: str, session: str) -> Outcome:
        await self._ensure_session(session)
        events = [
            event
            async for event in self.runner.run_async(
                user_id=self.user_id, session_id=session, new_message=_message(query)
            )
        ]
        calls = _tool_calls(events)
        reply = _reply(events)
        step = Step(id="agent", node="agent", input=query, output=reply, tools=calls)
        usage = sum((_usage(event) for event in events), Usage())
        return Outcome(replies=(reply,), trace=Trace(steps=(step,)), usage=usage, nano_usd=None)

    async def _ensure_session(self, session: str) -> None:
        service = getattr(self.runner, "session_service", None)
        if service is None:
            return
        place = {
            "app_name": getattr(self.runner, "app_name", ""),
            "user_id": self.user_id,
            "session_id": session,
        }
        if await _awaited(service.get_session(**place)) is None:
            await _awaited(service.create_session(**place))


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _message(text: str) -> Any:
    """The message as google-genai's type where that is installed, else as plain attributes."""
    with suppress(ImportError):
        types = importlib.import_module("google.genai.types")
        return types.Content(role=_USER, parts=[types.Part(text=text)])
    return SimpleNamespace(role=_USER, parts=[SimpleNamespace(text=text)])


def _parts(event: Any) -> list[Any]:
    return list(getattr(getattr(event, "content", None), "parts", None) or ())


def _reply(events: list[Any]) -> str:
    """The text of the last final response; of the last text at all if no event says it is final."""
    texts = [event for event in events if _text(event) and not getattr(event, "partial", False)]
    final = [event for event in texts if _is_final(event)]
    return _text((final or texts)[-1]) if texts else ""


def _is_final(event: Any) -> bool:
    says = getattr(event, "is_final_response", None)
    return bool(says()) if callable(says) else False


def _text(event: Any) -> str:
    parts = [part for part in _parts(event) if not getattr(part, "thought", False)]
    return "\n".join(part.text for part in parts if getattr(part, "text", None))


def _tool_calls(events: list[Any]) -> tuple[ToolCall, ...]:
    """The calls in order, each with its result; events of a stream may repeat a call."""
    calls: dict[str, ToolCall] = {}
    for number, call in enumerate(_of(events, "function_call")):
        key = str(getattr(call, "id", None) or number)
        arguments = cast("dict[str, Json]", to_jsonable_python(getattr(call, "args", None) or {}))
        calls[key] = ToolCall(name=call.name, arguments=arguments, id=key)
    for answer in _of(events, "function_response"):
        same = [
            key
            for key, call in calls.items()
            if key == getattr(answer, "id", None)
            or (
                not getattr(answer, "id", None) and call.name == answer.name and call.result is None
            )
        ]
        if same:
            result = cast("Json", to_jsonable_python(getattr(answer, "response", None)))
            calls[same[0]] = replace(calls[same[0]], result=result)
    return tuple(calls.values())


def _of(events: list[Any], kind: str) -> Iterator[Any]:
    for event in events:
        if not getattr(event, "partial", False):
            yield from (each for p in _parts(event) if (each := getattr(p, kind, None)) is not None)


def _usage(event: Any) -> Usage:
    metadata = getattr(event, "usage_metadata", None)
    if metadata is None:
        return Usage()
    return Usage(
        requests=1,
        input_tokens=getattr(metadata, "prompt_token_count", None) or 0,
        output_tokens=getattr(metadata, "candidates_token_count", None) or 0,
    )


@dataclass(frozen=True, kw_only=True)
class AroundTarget:
    """Wraps another target and forwards everything to it."""

    target: Target

    @property
    def description(self) -> Description:
        return self.target.description

    @property
    def surfaces(self) -> Sequence[Surface]:
        return self.target.surfaces

    @property
    def baseline(self) -> Candidate:
        return self.target.baseline

    @property
    def leaf(self) -> bool:
        return self.target.leaf

    def check(self, candidate: Candidate) -> Sequence[Problem]:
        return self.target.check(candidate)

    def estimate(self, case: Case) -> Spend:
        return self.target.estimate(case)

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        return self.target.export(candidate, home)

    def held(self, candidate: Candidate) -> AbstractAsyncContextManager[object]:
        return held(self.target, candidate)

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Scope
    ) -> Receipt[Outcome]:
        return await self.target.run(candidate, case, draw=draw, effects=effects)


@dataclass(frozen=True, kw_only=True)
class AroundMetric:
    """Wraps another metric and forwards everything to it."""

    metric: Metric

    @property
    def name(self) -> str:
        return self.metric.name

    @property
    def fingerprint(self) -> str:
        return self.metric.fingerprint

    @property
    def threshold(self) -> float | None:
        return threshold_of(self.metric)

    def estimate(self, case: Case) -> Spend:
        return self.metric.estimate(case)

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        return await self.metric.score(case, outcome, effects=effects)


@dataclass(frozen=True, kw_only=True)
class Moment:
    """What a callback receives; fields that do not apply are None."""

    eval_set_id: str
    eval_case_id: str = ""
    """Empty in callbacks for a whole set."""
    run_id: int | None = None
    """The number of the run of this case, from 1, in inference callbacks."""
    case: Case | None = None
    outcome: Outcome | None = None
    scores: tuple[Score, ...] = ()
    error: Exception | None = None
    """The exception that the agent raised."""
    evaluation: Evaluation | None = None
    """The whole evaluation, at the end of a set."""


@dataclass(frozen=True, kw_only=True)
class CallbackResult:
    """What a callback may return; later callbacks see it as `context["context"]`."""

    context: Any = None


_CallbackFunction: TypeAlias = Callable[[dict[str, Any], Moment], Any]
"""Takes the context of the set, a dict shared by the callbacks, and the moment. May be async."""


@dataclass(frozen=True, kw_only=True)
class Callback:
    """Up to eight functions, one for each moment."""

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
    """Named callbacks, called in the order of registration."""

    named: list[tuple[str, Callback]] = field(default_factory=list[tuple[str, Callback]])

    def register(self, name: str, callback: Callback) -> "Callbacks":
        """Add a callback; its name appears in errors."""
        self.named.append((name, callback))
        return self


class CallbackFailed(BurnishError):
    """A callback raised an exception."""


@dataclass(kw_only=True)
class CallbackDispatcher:
    """Calls the callbacks of one set."""

    callbacks: Callbacks
    eval_set_id: str
    context: dict[str, Any] = field(default_factory=dict[str, Any])

    async def dispatch(self, point: str, **fields: Any) -> None:
        """Call the functions registered for this point."""
        moment = Moment(eval_set_id=self.eval_set_id, **fields)
        for name, callback in self.callbacks.named:
            function: _CallbackFunction | None = getattr(callback, point)
            if function is None:
                continue
            try:
                answer = function(self.context, moment)
                if inspect.isawaitable(answer):
                    answer = await answer
            except Exception as error:  # the border to the user's callback
                message = f"{point} of {name} raised {type(error).__name__}: {error}"
                raise CallbackFailed(message) from error
            if isinstance(answer, CallbackResult) and answer.context is not None:
                self.context["context"] = answer.context


@dataclass(frozen=True, kw_only=True)
class WatchedTarget(AroundTarget):
    """Wraps a target with callbacks before and after every run of a case."""

    dispatcher: CallbackDispatcher

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Scope
    ) -> Receipt[Outcome]:
        fields = {"eval_case_id": case.id, "case": case, "run_id": draw + 1}
        await self.dispatcher.dispatch("before_inference_case", **fields)
        try:
            receipt = await self.target.run(candidate, case, draw=draw, effects=effects)
        except BurnishError:
            raise
        except Exception as error:  # callbacks hear of every failure
            await self.dispatcher.dispatch("after_inference_case", **fields, error=error)
            raise
        await self.dispatcher.dispatch("after_inference_case", **fields, outcome=receipt.value)
        return receipt


@dataclass(kw_only=True)
class _Scored:
    """An outcome that is being scored."""

    pending: int
    """How many metrics have not scored it yet."""
    begun: bool = False
    scores: list[Score] = field(default_factory=list[Score])
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True, kw_only=True)
class _WatchedMetric(AroundMetric):
    """Wraps a metric; callbacks run before the first and after the last score of an outcome."""

    dispatcher: CallbackDispatcher
    metrics: int
    under_way: dict[int, _Scored]

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        # All metrics of one run of a case get the same object.
        one = self.under_way.setdefault(id(outcome), _Scored(pending=self.metrics))
        fields = {"eval_case_id": case.id, "case": case, "outcome": outcome}
        async with one.lock:
            if not one.begun:
                one.begun = True
                await self.dispatcher.dispatch("before_evaluate_case", **fields)
        try:
            scores = await self.metric.score(case, outcome, effects=effects)
            one.scores += scores
        finally:
            one.pending -= 1
            if not one.pending:
                del self.under_way[id(outcome)]
        if not one.pending:
            together = tuple(one.scores)
            await self.dispatcher.dispatch("after_evaluate_case", **fields, scores=together)
        return scores


def watched_metrics(
    metrics: Sequence[Metric], dispatcher: CallbackDispatcher
) -> tuple[Metric, ...]:
    """The metrics, with one callback before and one after all of them score an outcome."""
    under_way: dict[int, _Scored] = {}
    return tuple(
        _WatchedMetric(
            metric=metric, dispatcher=dispatcher, metrics=len(metrics), under_way=under_way
        )
        for metric in metrics
    )
