"""Evaluating a delegation: expressions, metrics, zones."""

import ast
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from pydantic import BaseModel, ConfigDict

from burnish.core.content import Json, short_id
from burnish.core.errors import FileTrouble, RoleFailed
from burnish.delegation.answers import Defect, Judgement, contents
from burnish.delegation.workers import WorkContext
from burnish.metrics.judged import fenced
from burnish.models.chat import ModelClient
from burnish.models.roles import ModelRole, RolePrompt
from burnish.system.user_code import SlowPattern, search
from burnish.targets.artifacts.task import NoNumbers, Scoring, read_numbers

_Action: TypeAlias = Literal["accept", "pass", "retry", "fail", "cannot_tell"]


@dataclass(frozen=True, kw_only=True)
class Zones:
    """What the total score means."""

    accept: float = 0.85
    retry: float = 0.65
    """Below this, a completion is rejected."""
    fail: float = 0.40


@dataclass(frozen=True, kw_only=True)
class Final:
    """The input of metrics."""

    task: str
    result: str
    confidence: float | None
    files: Mapping[str, bytes]
    declared: tuple[str, ...]
    defects: tuple[Defect, ...]
    remaining: float
    draw: int
    """The number of this attempt to complete."""


@dataclass(frozen=True, kw_only=True)
class MetricMeasurement:
    """The result of one metric: a score, or an error."""

    name: str
    kind: str
    score: float | None
    weight: float
    threshold: float | None
    """What it should reach; None if it has no target."""
    evidence: str = ""
    error: str = ""

    def below(self, usual: float = 0.0) -> bool:
        """Whether the score is below its target, or below `usual` if it has none."""
        target = usual if self.threshold is None else self.threshold
        return self.score is not None and self.score < target


@dataclass(frozen=True, kw_only=True)
class DelegationMetric(ABC):
    """Scores a finished delegation from 0 to 1."""

    name: str
    kind: str
    weight: float = 1.0
    threshold: float | None = None
    """What it should reach; None if it has no target."""
    asks: bool = False
    """Whether it calls a model, which is not possible once the budget is used up."""
    settings: Mapping[str, Json] = field(default_factory=dict[str, Json])

    @property
    def fingerprint(self) -> str:
        return short_id([self.name, self.kind, self.weight, self.threshold, dict(self.settings)])

    @property
    def reads(self) -> frozenset[str]:
        """What it reads of the run besides the files, such as `budget.remaining`."""
        return frozenset()

    @abstractmethod
    async def score(self, final: Final, context: WorkContext) -> tuple[float, str]:
        """A score and the evidence for it; raises _CannotScore."""


class _CannotScore(Exception):
    """Why there is no score."""


@dataclass(frozen=True, kw_only=True)
class DelegationEvaluation:
    """The results of all metrics."""

    measured: tuple[MetricMeasurement, ...]
    zones: Zones = field(default_factory=Zones)

    @property
    def total(self) -> float | None:
        weighted = [(each.score, each.weight) for each in self.measured if each.score is not None]
        weight = math.fsum(each for _, each in weighted)
        if not weight:
            return None
        return math.fsum(score * each for score, each in weighted) / weight

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.measured if each.score is None)

    @property
    def action(self) -> _Action:
        """What follows from the total; undecided while a metric is missing."""
        total = self.total
        if total is None or self.missing:
            return "cannot_tell"
        if total < self.zones.fail:
            return "fail"
        if total < self.zones.retry:
            return "retry"
        return "accept" if total >= self.zones.accept else "pass"

    @property
    def per_metric(self) -> dict[str, float]:
        return {each.name: each.score for each in self.measured if each.score is not None}

    def to_json(self) -> dict[str, Json]:
        total = self.total
        return {
            "total_score": None if total is None else round(total, 6),
            "per_metric": dict[str, Json](self.per_metric),
            "thresholds": {
                each.name: each.threshold for each in self.measured if each.threshold is not None
            },
            "zones": dict(vars(self.zones)),
            "action": self.action,
            "missing": list(self.missing),
            "metrics": [dict(vars(each)) for each in self.measured],
        }


async def measure(
    metrics: Sequence[DelegationMetric], final: Final, context: WorkContext, zones: Zones
) -> DelegationEvaluation:
    """Run every metric in turn."""
    measurements = [await _measured(metric, final, context) for metric in metrics]
    return DelegationEvaluation(measured=tuple(measurements), zones=zones)


async def _measured(
    metric: DelegationMetric, final: Final, context: WorkContext
) -> MetricMeasurement:
    score, evidence, error = None, "", ""
    if metric.asks and (reason := context.tally.no_more_calls()):
        error = f"the budget is used up: {reason}"
    else:
        try:
            value, evidence = await metric.score(final, context)
            score = _usable(value)
        except _CannotScore as trouble:
            error = str(trouble)
    return MetricMeasurement(
        name=metric.name,
        kind=metric.kind,
        score=score,
        weight=metric.weight,
        threshold=metric.threshold,
        evidence=evidence,
        error=error,
    )


def _usable(value: float) -> float:
    """The score; NaN and numbers outside 0 to 1 are rejected, not clipped."""
    if not math.isfinite(value) or not 0 <= value <= 1:
        raise _CannotScore(f"{value} is not a score from 0 to 1")
    return float(value)


_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda item, whole: item in whole,
    ast.NotIn: lambda item, whole: item not in whole,
}
_COMPUTE: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
}
_MOST_CHARS = 500


class BadExpression(ValueError):
    """An expression that cannot be used, and why."""


def parse(text: str) -> ast.expr:
    """Parse an expression; raises BadExpression for unsupported syntax."""
    if len(text) > _MOST_CHARS:
        raise BadExpression(f"it is longer than {_MOST_CHARS} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError) as error:
        raise BadExpression(f"it cannot be parsed: {error}") from error
    for node in ast.walk(tree):
        if not isinstance(node, _KNOWN):
            raise BadExpression(f"{type(node).__name__} is not known here")
    return tree


def evaluate(text: str, names: Mapping[str, Any]) -> float:
    """The expression's value as a number: true is 1, false is 0."""
    try:
        value = _value(parse(text), names)
    except (TypeError, ZeroDivisionError, OverflowError) as error:
        raise BadExpression(str(error)) from error
    if not isinstance(value, bool | int | float):
        raise BadExpression(f"it gives {type(value).__name__}, not true, false or a number")
    return float(value)


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value):
            return value
        case ast.Name(name):
            return _looked_up(names, name)
        case ast.Attribute(owner, name):
            return _looked_up(_value(owner, names), name)
        case ast.UnaryOp(op, operand):
            value = _value(operand, names)
            return not value if isinstance(op, ast.Not) else -value
        case ast.BinOp(left, op, right):
            return _COMPUTE[type(op)](_number(left, names), _number(right, names))
        case _:
            return _decided(node, names)


def _number(node: ast.expr, names: Mapping[str, Any]) -> float:
    value = _value(node, names)
    if not isinstance(value, int | float):
        raise BadExpression("arithmetic needs numbers")
    return value


def _decided(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.BoolOp(op, values):
            # Lazily, as in Python: `exists("x") and size("x") > 3` must not fail on the second.
            both = (_value(each, names) for each in values)
            return all(both) if isinstance(op, ast.And) else any(both)
        case ast.Compare(left, ops, rights):
            operands = [_value(each, names) for each in (left, *rights)]
            pairs = zip(operands, ops, operands[1:], strict=False)
            return all(_COMPARE[type(op)](a, b) for a, op, b in pairs)
        case ast.Call(function, arguments):
            called = _value(function, names)
            if not callable(called):
                raise BadExpression("only exists, size, text and len can be called")
            return called(*(_value(each, names) for each in arguments))
        case _:
            raise BadExpression(f"{type(node).__name__} is not known here")


def _looked_up(owner: Any, name: str) -> Any:
    if not isinstance(owner, Mapping) or name not in owner:
        names = ", ".join(map(str, owner)) if isinstance(owner, Mapping) else ""  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        raise BadExpression(f"'{name}' is unknown; known names: {names}")
    return owner[name]  # pyright: ignore[reportUnknownVariableType]


_KNOWN = (
    ast.Constant, ast.Name, ast.Attribute, ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare,
    ast.Call, ast.Load, ast.And, ast.Or, ast.Not, ast.USub, *_COMPARE, *_COMPUTE,
)  # fmt: skip


JUDGE = "delegation_judge"


@dataclass(frozen=True, kw_only=True)
class Expression(DelegationMetric):
    """An expression that is true or false, or gives a number from 0 to 1."""

    expr: str

    @property
    def reads(self) -> frozenset[str]:
        nodes = ast.walk(parse(self.expr))
        names = {ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)}
        return frozenset(name for name in names if not name.startswith("files."))

    async def score(self, final: Final, context: WorkContext) -> tuple[float, str]:
        try:
            return evaluate(self.expr, _names(final, context)), self.expr
        except BadExpression as error:
            raise _CannotScore(f"{self.expr}: {error}") from error


@dataclass(frozen=True, kw_only=True)
class Assertion(DelegationMetric):
    """Whether a file exists and contains, or does not contain, a text."""

    path: str
    contains: str | None = None
    matches: str | None = None
    lacks: str | None = None

    async def score(self, final: Final, context: WorkContext) -> tuple[float, str]:
        del context
        content = final.files.get(self.path)
        if content is None:
            return 0.0, f"there is no file {self.path}"
        text = content.decode("utf-8", "replace")
        if self.contains is not None and self.contains not in text:
            return 0.0, f"{self.path} does not contain '{self.contains}'"
        if self.lacks is not None and self.lacks in text:
            return 0.0, f"{self.path} contains '{self.lacks}'"
        if self.matches is not None and not self._matched(text):
            return 0.0, f"nothing in {self.path} matches {self.matches}"
        return 1.0, ""

    def _matched(self, text: str) -> bool:
        try:
            return search(str(self.matches), text, lines=True)
        except SlowPattern as error:
            raise _CannotScore(str(error)) from error


@dataclass(frozen=True, kw_only=True)
class CommandScore(DelegationMetric):
    """A command in the workspace that prints a score; its changes are undone."""

    command: str
    timeout_seconds: float = 300.0

    async def score(self, final: Final, context: WorkContext) -> tuple[float, str]:
        async def act() -> Json:
            try:
                ran = await context.commands.run(
                    self.command, seconds=self.timeout_seconds, own=True
                )
            except FileTrouble as error:
                return {"error": error.message}
            if not ran.ok:
                return {"error": context.commands.why(ran)}
            return {"stdout": context.commands.plain(ran.stdout)}

        request: dict[str, Json] = {"metric": self.fingerprint, "draw": final.draw}
        answer = cast(
            "dict[str, str]", await context.workspace.step("metric", request, act, leaves="litter")
        )
        if "error" in answer:
            raise _CannotScore(answer["error"])
        try:
            numbers = read_numbers(answer["stdout"], Scoring(), "score")
        except NoNumbers as error:
            raise _CannotScore(str(error)) from error
        return numbers.measures["score"], numbers.feedback


@dataclass(frozen=True, kw_only=True)
class BudgetUtility(DelegationMetric):
    """The share of the budget that is left."""

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(("budget.remaining",))

    async def score(self, final: Final, context: WorkContext) -> tuple[float, str]:
        del context
        return final.remaining, f"{final.remaining:.0%} of the budget is left"


@dataclass(frozen=True, kw_only=True)
class PolicyScore(DelegationMetric):
    """1 unless the last critiques found a policy violation."""

    async def score(self, final: Final, context: WorkContext) -> tuple[float, str]:
        del context
        broken = [d.description for d in final.defects if d.category == "policy_violation"]
        return (0.0, broken[0]) if broken else (1.0, "")


class JudgeRequest(BaseModel):
    """What a judge is shown."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rubric: str
    task: str
    result: str
    files: str


@dataclass(frozen=True, kw_only=True)
class DelegationJudge(DelegationMetric):
    """A model that judges the deliverables by a rubric."""

    rubric: str
    role: ModelRole[JudgeRequest, Judgement]
    asks: bool = True

    async def score(self, final: Final, context: WorkContext) -> tuple[float, str]:
        existing = set(context.workspace.files)
        delivered = [path for path in final.declared if path in existing]
        delivered = delivered or [path for path in final.files if path in existing]
        request = JudgeRequest(
            rubric=self.rubric,
            task=final.task,
            result=final.result,
            files=contents(context.workspace.store, context.workspace.state, delivered),
        )
        try:
            shown = fenced(request, self.role.prompt)
            answer = await self.role.answer(shown, draw=final.draw, effects=context.effects)
        except RoleFailed as error:
            raise _CannotScore(error.message) from error
        return answer.value.score, answer.value.reason


def judge_role(client: ModelClient, prompt: RolePrompt) -> ModelRole[JudgeRequest, Judgement]:
    """The role that judges by a rubric."""
    return ModelRole(
        name=JUDGE, request_type=JudgeRequest, answer_type=Judgement, prompt=prompt, client=client
    )


def _names(final: Final, context: WorkContext) -> dict[str, Any]:
    sizes = {path: len(content) for path, content in final.files.items()}
    tally = context.tally
    return {
        "result": {
            "confidence": 0.0 if final.confidence is None else final.confidence,
            "text": final.result,
            "length": len(final.result),
        },
        "files": {"count": len(sizes), "bytes": sum(sizes.values())},
        "budget": {
            "remaining": final.remaining,
            "loops": tally.loops,
            "workers": tally.workers,
            "tool_calls": tally.tool_calls,
        },
        "exists": sizes.__contains__,
        "size": lambda path="": sizes.get(path, 0),
        "text": lambda path="": final.files.get(path, b"").decode("utf-8", "replace"),
        "len": len,
    }
