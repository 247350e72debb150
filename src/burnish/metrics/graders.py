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

from burnish.core.content import Json, canonical, short_id
from burnish.core.errors import NotJournalable
from burnish.core.outcomes import ToolCall
from burnish.core.protocols import Effects
from burnish.metrics.turns import Exchange, TurnMetric, Verdict
from burnish.system.user_functions import UserFunction, load_function


@dataclass(frozen=True, kw_only=True)
class ToolInvocation:
    """One use of a tool, as graders see it."""

    name: str
    args: Mapping[str, Any] = field(default_factory=dict[str, Any])
    result: Any = None
    bytes: int = 0
    """How large the result is, as UTF-8 text."""
    duration_ms: int | None = None
    error: str | None = None

    @classmethod
    def of(cls, call: ToolCall) -> "ToolInvocation":
        """A tool call of a trace."""
        return cls(
            name=call.name,
            args=dict(call.arguments),
            result=call.result,
            bytes=_size(call.result),
            error=call.error or None,
        )


@dataclass(frozen=True, kw_only=True)
class GraderContext:
    """One turn of a case, with the same fields whether it is one of many or the only one."""

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
        """What a grader may know of an exchange."""
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
    """What a grader found; a bool or a number alone will do as well."""

    score: float
    passed: bool | None = None
    reason: str | None = None
    details: Mapping[str, Any] | None = None


def _size(result: Json) -> int:
    text = result.encode() if isinstance(result, str) else canonical(result)
    return 0 if result is None else len(text)


# -- Known paths ----------------------------------------------------------------------------------


_MODULES: dict[str, tuple[type, ...]] = {
    "holodeck": (),
    "holodeck.lib": (),
    "holodeck.lib.test_runner": (),
    "holodeck.lib.test_runner.code_grader": (GraderContext, GraderResult, ToolInvocation),
    "holodeck.models": (),
    "holodeck.models.test_result": (ToolInvocation,),
}


class StandIn(MetaPathFinder, Loader):
    """Makes the known modules; asked last, so that the real package always wins."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a known module."""
        del path, target
        if fullname not in _MODULES:
            return None
        inner = any(name.startswith(f"{fullname}.") for name in _MODULES)
        return ModuleSpec(fullname, self, origin="burnish", is_package=inner)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """An ordinary module."""
        del spec

    def exec_module(self, module: ModuleType) -> None:
        """Give it the names it is known for."""
        for kind in _MODULES[module.__name__]:
            setattr(module, kind.__name__, kind)


def _make_importable() -> None:
    """Let graders import what they import today."""
    if not any(isinstance(finder, StandIn) for finder in sys.meta_path):
        sys.meta_path.append(StandIn())


# -- Finding a grader -----------------------------------------------------------------------------


_REMEDY = "a grader is module.path:callable, importable from the folder of the agent file"
_UPWARDS = 6


def load_grader(reference: str, folder: Path) -> UserFunction:
    """The function that `module:callable` names, with the imports that such graders have.

    A candidate of an agent lies some folders below it: its graders are looked for upwards.
    """
    _make_importable()
    home = _home_of(reference.partition(".")[0].partition(":")[0], folder.resolve())
    return load_function(reference, home, what="grader", remedy=_REMEDY)


def _home_of(module: str, folder: Path) -> Path:
    """The nearest folder that has the module; the folder itself where none has."""
    places = (folder, *folder.parents[:_UPWARDS])
    return next((p for p in places if module and _has(p, module)), folder)


def _has(folder: Path, module: str) -> bool:
    return (folder / f"{module}.py").is_file() or (folder / module).is_dir()


# -- A user's function as a metric ----------------------------------------------------------------


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
        parts: list[Json] = [self.grader.reference, self.grader.fingerprint]
        return short_id(["CodeGrader", self.version, self.name, self.threshold, *parts])

    async def verdict(self, exchange: Exchange, *, effects: Effects) -> Verdict:
        """Ask the function."""
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
        result = answer if isinstance(answer, GraderResult) else _as_result(answer)
        if result is None:
            return self._nothing(
                f"gave {type(answer).__name__}; it may give a bool, a number or a GraderResult"
            )
        value = _number(result.score)
        if value is None or not 0 <= value <= 1:
            return self._nothing(f"gave the score {result.score!r}; a score is in [0, 1]")
        return Verdict(
            value=value,
            passed=result.passed,
            reason=result.reason or ("" if value else f"{self.grader.name} gave 0"),
            details=_journalable(result.details),
        )

    def _nothing(self, what: str) -> Verdict:
        return Verdict.missing(f"the grader {self.grader.reference} {what}")


def _as_result(answer: object) -> GraderResult | None:
    if isinstance(answer, bool):
        return GraderResult(float(answer), passed=answer)
    value = _number(answer)
    return None if value is None else GraderResult(value)


def _number(score: object) -> float | None:
    """A finite number, of numpy's kinds too."""
    if isinstance(score, (str, bytes)) or not hasattr(score, "__float__"):
        return None
    value = float(cast("Any", score))
    return value if math.isfinite(value) else None


def _journalable(details: Mapping[str, Any] | None) -> dict[str, Json]:
    """Details as they are, or in words where they are no JSON."""
    try:
        canonical(cast("Json", details))
    except NotJournalable:
        return {"details": repr(details)}
    return dict(details or {})
