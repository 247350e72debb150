"""Metric items of EvalSets and PromptIter as metrics, by the names of the original systems."""

import difflib
from collections.abc import Callable, Sequence
from typing import Any, cast

from burnish.core.errors import ConfigError, Problem
from burnish.metrics.computed import FinalResponse, LengthCompliance, ToolTrajectory
from burnish.metrics.eval_metrics import MetricItem
from burnish.metrics.geval import FinalResponseJudge
from burnish.metrics.judged import JudgedMetric
from burnish.metrics.judges import MetricMaking, TemplateShape, VariableBinding, check_names
from burnish.metrics.numbered_judges import Hallucinations
from burnish.metrics.overlap import ResponseMatch
from burnish.metrics.rubrics import (
    PairwiseVerifier,
    RubricCritic,
    RubricKnowledgeRecall,
    RubricReferenceCritic,
    RubricResponse,
)
from burnish.metrics.templates import (
    Binding,
    BooleanScore,
    CategoricalScore,
    RubricScores,
    Scorer,
    SingleScore,
    TemplateJudge,
)
from burnish.metrics.turns import TurnMetric


def make_metrics(items: Sequence[MetricItem], making: MetricMaking) -> tuple[TurnMetric, ...]:
    """The metrics of the items; all problems are raised together."""
    check_names([item.metric_name for item in items])
    metrics: list[TurnMetric] = []
    problems: list[Problem] = []
    for item in items:
        try:
            metrics.append(make_metric(item, making))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return tuple(metrics)


def make_metric(item: MetricItem, making: MetricMaking) -> TurnMetric:
    """The metric of one item."""
    if item.kind not in _KINDS:
        near = difflib.get_close_matches(item.kind, _KINDS, n=1)
        meant = f"did you mean '{near[0]}'? " if near else ""
        names = f"{meant}known metrics: {', '.join(_KINDS)}"
        remedy = f"{names}; name it in evaluator_name if metric_name is a name of your own"
        problem = Problem(where=item.kind, message="there is no such metric", remedy=remedy)
        raise ConfigError([problem])
    kind, settings = _KINDS[item.kind]
    values: dict[str, Any] = {
        "name": item.metric_name,
        "threshold": item.threshold,
        "explicit": item.require_explicit_selection,
        **settings(item),
    }
    if issubclass(kind, JudgedMetric):
        values["prompt"] = making.prompt(kind.role)
        values["panel"] = making.panel(item.metric_name, values["prompt"], item.judged)
    return cast("type[TurnMetric]", kind)(**values)


def _trajectory(item: MetricItem) -> dict[str, Any]:
    criterion = item.criterion.tool_trajectory
    return {"rule": criterion.rule()} if criterion else {}


def _final_response(item: MetricItem) -> dict[str, Any]:
    criterion = item.criterion.final_response
    parts = {"text": "text", "json": "json_", "xml": "xml", "rouge": "rouge"}
    shapes = {name: getattr(criterion, key, None) for name, key in parts.items()}
    return {name: part.rule() for name, part in shapes.items() if part is not None}


def _length(item: MetricItem) -> dict[str, Any]:
    if item.criterion.length is not None:
        return item.criterion.length.model_dump()
    response = item.criterion.final_response
    text = response.text.length if response and response.text else None
    if text is not None:
        return {"min": text.min, "max": text.max}
    remedy = "set criterion.length with min and max, and optionally preferred_min and preferred_max"
    message = "this metric does not say how long a response may be"
    raise ConfigError([Problem(where=item.metric_name, message=message, remedy=remedy)])


def _rubrics(item: MetricItem) -> dict[str, Any]:
    return {"rubrics": tuple(shape.rubric() for shape in item.judged.rubrics)}


def _recall(item: MetricItem) -> dict[str, Any]:
    return {**_rubrics(item), "knowledge_tool_names": tuple(item.judged.knowledge_tool_names)}


def _pairwise(item: MetricItem) -> dict[str, Any]:
    # The usual threshold of 1 would ask for the best grade beside the worst.
    usual = {} if "threshold" in item.model_fields_set else {"threshold": None}
    return {**_rubrics(item), **usual}


def _template(item: MetricItem) -> dict[str, Any]:
    template = item.judged.template
    if template is None:
        message = "this metric needs criterion.llmJudge.template with a prompt"
        raise ConfigError([Problem(where=item.metric_name, message=message)])
    return {
        **_rubrics(item),
        "template": template.prompt,
        "bindings": tuple(map(_binding, template.variable_bindings)),
        "scorer": _scorer(template),
    }


def _binding(shape: VariableBinding) -> Binding:
    source = shape.source
    return Binding(
        variable=shape.template_variable,
        scope=source.scope,
        field=source.field,
        node=source.selector.node_id if source.selector else "",
        path=source.path or "$",
    )


def _scorer(template: TemplateShape) -> Scorer[Any]:
    if template.response_scorer_name == "categorical":
        categories = template.response_scorer_options.categories
        return CategoricalScore(categories={each.label: each.score for each in categories})
    plain = {"single_score": SingleScore, "boolean": BooleanScore, "rubric_scores": RubricScores}
    return plain[template.response_scorer_name]()


_KINDS: dict[str, tuple[type[TurnMetric], Callable[[MetricItem], dict[str, Any]]]] = {
    "tool_trajectory_avg_score": (ToolTrajectory, _trajectory),
    "final_response_avg_score": (FinalResponse, _final_response),
    "final_response_length_compliance": (LengthCompliance, _length),
    "response_match_score": (ResponseMatch, lambda _: {}),
    "llm_final_response": (FinalResponseJudge, lambda _: {}),
    "llm_hallucinations": (Hallucinations, lambda _: {}),
    "llm_rubric_response": (RubricResponse, _rubrics),
    "llm_rubric_critic": (RubricCritic, _rubrics),
    "llm_rubric_reference_critic": (RubricReferenceCritic, _rubrics),
    "llm_rubric_knowledge_recall": (RubricKnowledgeRecall, _recall),
    "llm_judge_template": (TemplateJudge, _template),
    "llm_verifier_pairwise": (PairwiseVerifier, _pairwise),
}
"""By name: the class of a metric, and the settings of an item that only this class has."""


def metric_kinds() -> list[str]:
    """The names of all kinds of metrics that an item may have."""
    return list(_KINDS)
