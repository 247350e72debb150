"""Callbacks around an evaluation: before and after, inference and evaluation, set and case."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from burnish.core.cases import Case
from burnish.core.errors import BurnishError
from burnish.core.evaluations import Evaluation
from burnish.core.outcomes import Outcome
from burnish.core.scores import Score


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


CallbackFunction: TypeAlias = Callable[[dict[str, Any], Moment], Any]
"""Given the context of the set, a dict of the callbacks' own, and the moment. May be async."""


@dataclass(frozen=True, kw_only=True)
class Callback:
    """Up to eight functions."""

    before_inference_set: CallbackFunction | None = None
    after_inference_set: CallbackFunction | None = None
    before_inference_case: CallbackFunction | None = None
    after_inference_case: CallbackFunction | None = None
    before_evaluate_set: CallbackFunction | None = None
    after_evaluate_set: CallbackFunction | None = None
    before_evaluate_case: CallbackFunction | None = None
    after_evaluate_case: CallbackFunction | None = None


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
class Telling:
    """Calls the callbacks of one set."""

    callbacks: Callbacks
    eval_set_id: str
    context: dict[str, Any] = field(default_factory=dict[str, Any])

    async def tell(self, point: str, **known: Any) -> None:
        """Call what is registered for this point."""
        moment = Moment(eval_set_id=self.eval_set_id, **known)
        for name, callback in self.callbacks.named:
            function: CallbackFunction | None = getattr(callback, point)
            if function is not None:
                await self._call(f"{point} of {name}", function, moment)

    async def _call(self, what: str, function: CallbackFunction, moment: Moment) -> None:
        try:
            given = function(self.context, moment)
            if inspect.isawaitable(given):
                given = await given
        except Exception as error:
            raise CallbackFailed(f"{what} raised {type(error).__name__}: {error}") from error
        if isinstance(given, CallbackResult) and given.context is not None:
            self.context["context"] = given.context
