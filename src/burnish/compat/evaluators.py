"""Registries of evaluators, criteria and tools of judges: what a program brings of its own."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar, TypeAlias, cast

from pydantic_core import ValidationError, to_jsonable_python

from burnish.compat.eval_types import (
    EvalStatus,
    Invocation,
    MetricEvaluation,
    actual_of,
    expected_of,
    function_calls,
)
from burnish.core.content import Json, short_id
from burnish.core.errors import ConfigError, Problem
from burnish.core.protocols import Effects, Metric
from burnish.metrics.eval_factory import make_metrics, metric_kinds
from burnish.metrics.eval_metrics import MetricItem
from burnish.metrics.geval import FinalResponseJudge
from burnish.metrics.judged import JudgedMetric, as_text
from burnish.metrics.judges import MetricMaking
from burnish.metrics.rubrics import RubricKnowledgeRecall, RubricResponse
from burnish.metrics.turns import (
    TOOLS_UNKNOWN,
    ComputedMetric,
    Exchange,
    TurnMetric,
    Verdict,
)
from burnish.models.chat import ToolSpec
from burnish.models.roles import RoleTool
from burnish.targets.user_code import qualified_name, source_hash

Compare: TypeAlias = Callable[[Any, Any], bool]


class CriterionType(StrEnum):
    """The criteria whose comparison can be replaced."""

    TEXT = "text"
    JSON = "json"
    TOOL_TRAJECTORY = "tool_trajectory"
    FINAL_RESPONSE = "final_response"


_METRIC_OF = {
    CriterionType.TEXT: "final_response_avg_score",
    CriterionType.JSON: "final_response_avg_score",
    CriterionType.FINAL_RESPONSE: "final_response_avg_score",
    CriterionType.TOOL_TRAJECTORY: "tool_trajectory_avg_score",
}


class EvaluatorBase(ABC):
    """A metric of a program: made for an item of the configuration, asked for each turn."""

    requires_reference: ClassVar[bool] = False

    def __init__(self, eval_metric: MetricItem) -> None:
        self.eval_metric = eval_metric

    @abstractmethod
    def evaluate_invocations(
        self,
        actual_invocations: list[Invocation],
        expected_invocations: list[Invocation] | None,
    ) -> Any:
        """An EvaluationResult, or a coroutine of one."""


class EvaluatorRegistry:
    """Evaluators by the name of their metric, and comparisons of built-in metrics."""

    def __init__(self) -> None:
        self._added: dict[str, type[Any]] = {}
        self.compares: dict[str, Compare] = {}
        """By metric."""

    def register(self, metric_name: str, evaluator_class: type[Any]) -> None:
        """Use a class for a metric, instead of a built-in one if there is one of this name."""
        self._added[metric_name] = evaluator_class

    def list_registered(self) -> list[str]:
        """The names of all metrics, sorted."""
        return sorted({*metric_kinds(), *self._added})

    def set_criterion_compare(self, metric_name: str, compare: Compare) -> None:
        """Compare with `compare(actual, expected)`: two texts, or two lists of tool calls."""
        if metric_name not in _METRIC_OF.values():
            names = ", ".join(dict.fromkeys(_METRIC_OF.values()))
            message = f"'{metric_name}' has no comparison to replace"
            problem = Problem(where="metric_name", message=message, remedy=f"there are: {names}")
            raise ConfigError([problem])
        self.compares[metric_name] = compare

    def get_evaluator(self, eval_metric: MetricItem) -> Any:
        """An instance of a registered class."""
        return self.get_evaluator_class(eval_metric)(eval_metric=eval_metric)

    def get_evaluator_class(self, eval_metric: MetricItem) -> type[Any]:
        """The registered class of a metric; ValueError for any other metric."""
        try:
            return self._added[eval_metric.metric_name]
        except KeyError:
            names = ", ".join(self._added) or "none"
            message = (
                f"no evaluator is registered for {eval_metric.metric_name}; there are: {names}"
            )
            raise ValueError(message) from None

    def make(self, items: Sequence[MetricItem], making: MetricMaking) -> tuple[TurnMetric, ...]:
        """The metrics of a configuration, in order."""
        own = {item.metric_name: self._own(item) for item in items}
        rest = [item for item in items if own[item.metric_name] is None]
        built_in = {metric.name: metric for metric in make_metrics(rest, making)}
        return tuple(own[item.metric_name] or built_in[item.metric_name] for item in items)

    def _own(self, item: MetricItem) -> TurnMetric | None:
        name, threshold = item.metric_name, item.threshold
        if name in self._added:
            return _Registered(name=name, threshold=threshold, evaluator=self.get_evaluator(item))
        if item.kind in self.compares:
            tools = item.kind == _METRIC_OF[CriterionType.TOOL_TRAJECTORY]
            compare = self.compares[item.kind]
            return _Compared(name=name, threshold=threshold, compare=compare, tools=tools)
        return None


class CriterionRegistry:
    """Comparisons by type of criterion."""

    def __init__(self, evaluators: EvaluatorRegistry) -> None:
        self._evaluators = evaluators

    def register(self, criterion_type: CriterionType | str, match_rule: Compare) -> None:
        """Compare with `match_rule(actual, expected)` instead of the built-in rule."""
        self._evaluators.set_criterion_compare(
            _METRIC_OF[CriterionType(criterion_type)], match_rule
        )


LLM_METRIC_NAMES = (FinalResponseJudge.name, RubricResponse.name, RubricKnowledgeRecall.name)
"""The metrics whose judges may have tools."""


class LLMEvaluatorRegistry:
    """Tools of judges, by the name of their metric."""

    def __init__(self) -> None:
        self._judge_tools: dict[str, list[Any]] = {}

    def register_judge_tools(self, metric_name: str, tools: Sequence[Any]) -> None:
        """Let the judge of a metric call these: functions, or objects with one in `func`."""
        if metric_name not in LLM_METRIC_NAMES:
            names = ", ".join(LLM_METRIC_NAMES)
            raise ValueError(f"{metric_name!r} is not judged by a model; there are: {names}")
        self._judge_tools[metric_name] = list(tools)

    def get_judge_tools(self, metric_name: str) -> list[Any] | None:
        """The registered tools of a metric."""
        return self._judge_tools.get(metric_name)

    def with_tools(self, metrics: Sequence[Metric]) -> tuple[Metric, ...]:
        """The metrics, each judged one with the tools of its kind."""
        return tuple(map(self._equipped, metrics))

    def _equipped(self, metric: Metric) -> Metric:
        if not isinstance(metric, JudgedMetric):
            return metric
        judged = cast("JudgedMetric[Any, Any]", metric)
        tools = self._judge_tools.get(type(judged).name)
        if not tools:
            return judged
        return replace(judged, panel=replace(judged.panel, tools=tuple(map(_judge_tool, tools))))


def _judge_tool(given: Any) -> RoleTool:
    from pydantic_ai.tools import Tool  # slow

    function = getattr(given, "func", given)
    if not callable(function):
        message = f"expected a function, found {type(given).__name__}"
        raise ConfigError([Problem(where="judge tools", message=message)])
    tool = Tool[None](
        function,
        takes_ctx=False,
        name=getattr(given, "name", None),
        description=getattr(given, "description", None),
    )
    schema = tool.function_schema
    spec = ToolSpec(
        name=tool.name,
        description=tool.description or "",
        parameters=cast("dict[str, Json]", schema.json_schema),
    )

    async def call(arguments: Mapping[str, Json]) -> str:
        try:
            values = schema.validator.validate_python(dict(arguments))
        except ValidationError as error:
            faults = (f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise ValueError("; ".join(faults)) from None
        result = await schema.call(values, cast("Any", None))
        return as_text(to_jsonable_python(result))

    seen: list[Json] = [spec.name, spec.description, dict(spec.parameters)]
    return RoleTool(spec=spec, call=call, fingerprint=short_id([*seen, source_hash(function)]))


@dataclass(frozen=True, kw_only=True)
class _Compared(ComputedMetric):
    """1 if a function of the program says that actual and expected match."""

    compare: Compare = field(repr=False)
    tools: bool = False

    @property
    def fingerprint(self) -> str:
        return _fingerprint(self, self.compare)

    def compute(self, exchange: Exchange) -> Verdict | None:
        if self.tools:
            if exchange.turn.expected_calls is None:
                return None
            if not exchange.tools_known:
                return Verdict.missing(TOOLS_UNKNOWN)
            pair = function_calls(exchange.tools), function_calls(exchange.turn.expected_calls)
        elif exchange.expected is None:
            return None
        else:
            pair = exchange.reply, exchange.expected
        name = getattr(self.compare, "__name__", "the comparison")
        return Verdict.of(held=bool(self.compare(*pair)), reason=f"{name} found a difference")


@dataclass(frozen=True, kw_only=True)
class _Registered(TurnMetric):
    """What a registered evaluator says of each turn."""

    evaluator: Any = field(repr=False)

    @property
    def fingerprint(self) -> str:
        return _fingerprint(self, type(self.evaluator))

    async def verdict(self, exchange: Exchange, *, effects: Effects) -> Verdict | None:
        del effects
        expected = None if exchange.expected is None else [expected_of(exchange)]
        if expected is None and getattr(self.evaluator, "requires_reference", False):
            return None
        answer = self.evaluator.evaluate_invocations([actual_of(exchange)], expected)
        answer = await answer if inspect.isawaitable(answer) else answer
        result = cast("MetricEvaluation", answer)
        if result.overall_score is None or result.overall_eval_status is EvalStatus.NOT_EVALUATED:
            return Verdict.missing(f"{type(self.evaluator).__name__} gave no score")
        reasons = (each.reason for each in result.per_invocation_results)
        return Verdict(
            value=result.overall_score,
            passed=result.overall_eval_status is EvalStatus.PASSED,
            reason=next(filter(None, reasons), ""),
        )


def _fingerprint(metric: TurnMetric, function: Any) -> str:
    source: list[Json] = [qualified_name(function), source_hash(function)]
    return short_id([type(metric).__name__, metric.name, metric.threshold, *source])


EVALUATOR_REGISTRY = EvaluatorRegistry()
"""The registry that AgentEvaluator uses."""
LLM_EVALUATOR_REGISTRY = LLMEvaluatorRegistry()
"""The tools of the judges of AgentEvaluator and AgentOptimizer."""
CRITERION_REGISTRY = CriterionRegistry(EVALUATOR_REGISTRY)
"""The comparisons that AgentEvaluator uses."""
