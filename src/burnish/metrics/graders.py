"""Code graders: a function of the user as a metric."""

import asyncio
import inspect
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from burnish.core.cases import ToolCall
from burnish.core.content import Json, canonical, short_id
from burnish.core.errors import NotJournalable
from burnish.core.protocols import Effects
from burnish.metrics.turns import Exchange, TurnMetric, Verdict
from burnish.system.user_code import UserFunction, load_function


@dataclass(frozen=True, kw_only=True)
class ToolInvocation:
    """One tool call, as graders see it."""

    name: str
    args: Mapping[str, Any] = field(default_factory=dict[str, Any])
    result: Any = None
    bytes: int = 0
    """The size of the result as UTF-8 text."""
    duration_ms: int | None = None
    error: str | None = None

    @classmethod
    def of(cls, call: ToolCall) -> "ToolInvocation":
        """Convert a tool call of a trace."""
        text = call.result if isinstance(call.result, str) else canonical(call.result).decode()
        return cls(
            name=call.name,
            args=dict(call.arguments),
            result=call.result,
            bytes=0 if call.result is None else len(text.encode()),
            error=call.error or None,
        )


@dataclass(frozen=True, kw_only=True)
class GraderContext:
    """One turn of a case, as graders see it."""

    turn_input: str
    agent_response: str
    ground_truth: str | None = None
    tool_invocations: tuple[ToolInvocation, ...] = ()
    retrieval_context: list[str] | None = None
    turn_index: int = 0
    test_case_name: str | None = None
    turn_config: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def of(cls, exchange: Exchange) -> "GraderContext":
        """Convert an exchange."""
        return cls(
            turn_input=exchange.asked,
            agent_response=exchange.reply,
            ground_truth=exchange.expected,
            tool_invocations=tuple(map(ToolInvocation.of, exchange.tools)),
            retrieval_context=list(exchange.passages) or None,
            turn_index=exchange.index,
            test_case_name=exchange.case.id,
            turn_config=dict(exchange.turn.settings),
        )


@dataclass(frozen=True)
class GraderResult:
    """The result of a grader, which may also return a bool or a number."""

    score: float
    passed: bool | None = None
    reason: str | None = None
    details: Mapping[str, Any] | None = None


_MODULES: dict[str, tuple[type, ...]] = {
    "holodeck": (),
    "holodeck.lib": (),
    "holodeck.lib.test_runner": (),
    "holodeck.lib.test_runner.code_grader": (GraderContext, GraderResult, ToolInvocation),
    "holodeck.models": (),
    "holodeck.models.test_result": (ToolInvocation,),
}


class _StandIn(MetaPathFinder, Loader):
    """Provides these modules if the real package is not installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if fullname not in _MODULES:
            return None
        inner = any(name.startswith(f"{fullname}.") for name in _MODULES)
        return ModuleSpec(fullname, self, origin="burnish", is_package=inner)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        del spec

    def exec_module(self, module: ModuleType) -> None:
        for kind in _MODULES[module.__name__]:
            setattr(module, kind.__name__, kind)


def load_grader(reference: str, folder: Path) -> UserFunction:
    """Load `module:callable` from the folder, or from the nearest folder above that has the module.

    The candidates of an agent are in folders below it.
    """
    if not any(isinstance(finder, _StandIn) for finder in sys.meta_path):
        sys.meta_path.append(_StandIn())
    module, start = reference.partition(".")[0].partition(":")[0], folder.resolve()
    homes = (
        home
        for home in (start, *start.parents[:6])
        if module and ((home / f"{module}.py").is_file() or (home / module).is_dir())
    )
    remedy = "a grader is module.path:callable, importable from the folder of the agent file"
    return load_function(reference, next(homes, start), what="grader", remedy=remedy)


@dataclass(frozen=True, kw_only=True)
class CodeGrader(TurnMetric):
    """Calls the function in a thread; if it raises, the score is missing.

    A broken grader says nothing about the agent.
    """

    grader: UserFunction

    @property
    def fingerprint(self) -> str:
        parts: list[Json] = [self.grader.reference, self.grader.fingerprint]
        return short_id(["CodeGrader", self.version, self.name, self.threshold, *parts])

    async def verdict(self, exchange: Exchange, *, effects: Effects) -> Verdict:
        del effects
        context = GraderContext.of(exchange)
        try:
            answer = await asyncio.to_thread(self.grader.function, context)
            if inspect.isawaitable(answer):
                answer = await answer
        except Exception as error:  # noqa: BLE001 - the border to a user's grader: never a 0
            return self._nothing(f"raised {type(error).__name__}: {error}")
        return self._read(answer)

    def _read(self, answer: object) -> Verdict:
        if isinstance(answer, GraderResult):
            result = answer
        elif isinstance(answer, bool):
            result = GraderResult(float(answer), passed=answer)
        elif (number := _number(answer)) is not None:
            result = GraderResult(number)
        else:
            allowed = "it must return a bool, a number or a GraderResult"
            return self._nothing(f"returned {type(answer).__name__}; {allowed}")
        value = _number(result.score)
        if value is None or not 0 <= value <= 1:
            return self._nothing(f"returned the score {result.score!r}; a score must be in [0, 1]")
        return Verdict(
            value=value,
            passed=result.passed,
            reason=result.reason or ("" if value else f"{self.grader.name} returned 0"),
            details=_journalable(result.details),
        )

    def _nothing(self, what: str) -> Verdict:
        return Verdict.missing(f"the grader {self.grader.reference} {what}")


def _number(score: object) -> float | None:
    """The value as a finite float; numpy's numbers are accepted."""
    if isinstance(score, (str, bytes)) or not hasattr(score, "__float__"):
        return None
    value = float(cast("Any", score))
    return value if math.isfinite(value) else None


def _journalable(details: Mapping[str, Any] | None) -> dict[str, Json]:
    try:
        canonical(cast("Json", details))
    except NotJournalable:
        return {"details": repr(details)}
    return dict(details or {})
