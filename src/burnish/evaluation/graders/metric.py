"""A user's function as a metric."""

import asyncio
import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from burnish.core.content import Json, canonical, short_id
from burnish.core.effects import Effects
from burnish.core.errors import NotJournalable
from burnish.evaluation.exchanges import Exchange
from burnish.evaluation.graders.context import GraderContext, GraderResult
from burnish.evaluation.turn_metric import TurnMetric, Verdict
from burnish.system.user_functions import UserFunction


@dataclass(frozen=True, kw_only=True)
class CodeGrader(TurnMetric):
    """Calls the function with a GraderContext; what it raises makes the score missing.

    A grader that is broken says nothing about the agent. It runs in a thread, since what it
    does is anybody's guess and other cases should not wait for it.
    """

    grader: UserFunction

    @property
    def fingerprint(self) -> str:
        """A hash of the function's file."""
        told: list[Json] = [self.grader.reference, self.grader.fingerprint]
        return short_id(["CodeGrader", self.version, self.name, self.threshold, *told])

    async def verdict(self, exchange: Exchange, *, effects: Effects) -> Verdict:
        """Ask the function."""
        del effects
        context = GraderContext.of(exchange)
        try:
            found = await asyncio.to_thread(self.grader.function, context)
            if inspect.isawaitable(found):
                found = await found
        except Exception as error:  # noqa: BLE001 - the border to a user's grader: never a 0
            return self._nothing(f"raised {type(error).__name__}: {error}")
        return self._read(found)

    def _read(self, found: object) -> Verdict:
        result = found if isinstance(found, GraderResult) else _as_result(found)
        if result is None:
            return self._nothing(
                f"gave {type(found).__name__}; it may give a bool, a number or a GraderResult"
            )
        value = _number(result.score)
        if value is None or not 0 <= value <= 1:
            return self._nothing(f"gave the score {result.score!r}; a score is in [0, 1]")
        return Verdict(
            value=value,
            passed=result.passed,
            reason=result.reason or ("" if value else f"{self.grader.name} gave 0"),
            details=_kept(result.details),
        )

    def _nothing(self, what: str) -> Verdict:
        return Verdict.missing(f"the grader {self.grader.reference} {what}")


def _as_result(found: object) -> GraderResult | None:
    if isinstance(found, bool):
        return GraderResult(float(found), passed=found)
    value = _number(found)
    return None if value is None else GraderResult(value)


def _number(found: object) -> float | None:
    """A finite number, of numpy's kinds too."""
    if isinstance(found, (str, bytes)) or not hasattr(found, "__float__"):
        return None
    value = float(cast("Any", found))
    return value if math.isfinite(value) else None


def _kept(details: Mapping[str, Any] | None) -> dict[str, Json]:
    """Details as they are, or in words where they are no JSON."""
    try:
        canonical(cast("Json", details))
    except NotJournalable:
        return {"details": repr(details)}
    return dict(details or {})
