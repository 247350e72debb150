"""Metric items of EvalSets and PromptIter as metrics, by the names of the original systems."""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from burnish.core.errors import ConfigError, Problem
from burnish.metrics.computed import FinalResponse, LengthCompliance, ToolTrajectory
from burnish.metrics.eval_metrics import MetricItem
from burnish.metrics.factory import MetricMaking, check_names
from burnish.metrics.geval import FinalResponseJudge
from burnish.metrics.judge_shapes import TemplateShape, VariableBinding
from burnish.metrics.judged import JudgedMetric
from burnish.metrics.numbered_judges import Hallucinations
from burnish.metrics.overlap import ResponseMatch
from burnish.metrics.rubrics import (
    PairwiseVerifier,
    RubricCritic,
    RubricJudge,
    RubricKnowledgeRecall,
    RubricReferenceCritic,
    RubricResponse,
)
from burnish.metrics.templates import (
    Binding,
    BindingField,
    BindingScope,
    BooleanScore,
    CategoricalScore,
    RubricScores,
    Scorer,
    SingleScore,
    TemplateJudge,
)
from burnish.metrics.tool_matching import STRICT
from burnish.metrics.turns import TurnMetric

Judged = TypeVar("Judged", bound=JudgedMetric[Any, Any])


def make_metrics(items: Sequence[MetricItem], making: MetricMaking) -> tuple[TurnMetric, ...]:
    """The metrics that the items ask for; everything that is wrong is said at once."""
    check_names([item.metric_name for item in items])
    made: list[TurnMetric] = []
    problems: list[Problem] = []
    for item in items:
        try:
            made.append(make_metric(item, making))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return tuple(made)


def make_metric(item: MetricItem, making: MetricMaking) -> TurnMetric:
    """One metric."""
    maker = _MAKERS.get(item.kind)
    if maker is None:
        raise _unknown(item.kind)
    return maker(item, making)


def _trajectory(item: MetricItem, making: MetricMaking) -> TurnMetric:
    del making
    criterion = item.criterion.tool_trajectory
    return ToolTrajectory(**_common(item), rule=criterion.rule() if criterion else STRICT)


def _final_response(item: MetricItem, making: MetricMaking) -> TurnMetric:
    del making
    criterion = item.criterion.final_response
    parts = {"text": "text", "json": "json_", "xml": "xml", "rouge": "rouge"}
    shapes = {name: getattr(criterion, key, None) for name, key in parts.items()}
    rules = {name: part.rule() for name, part in shapes.items() if part is not None}
    return FinalResponse(**_common(item), **rules)


def _response_match(item: MetricItem, making: MetricMaking) -> TurnMetric:
    del making
    return ResponseMatch(**_common(item))


def _length_compliance(item: MetricItem, making: MetricMaking) -> TurnMetric:
    del making
    length = item.criterion.length
    response = item.criterion.final_response
    text = response.text.length if response and response.text else None
    if length is not None:
        return LengthCompliance(**_common(item), **length.model_dump())
    if text is not None:
        return LengthCompliance(**_common(item), min=text.min, max=text.max)
    remedy = "give criterion.length with min and max, and preferred_min and preferred_max if any"
    message = "this metric does not say how long a response may be"
    raise ConfigError([Problem(where=item.metric_name, message=message, remedy=remedy)])


def _answer(item: MetricItem, making: MetricMaking) -> TurnMetric:
    return _judged(FinalResponseJudge, item, making)


def _hallucinations(item: MetricItem, making: MetricMaking) -> TurnMetric:
    return _judged(Hallucinations, item, making)


def _rubrics(kind: type[RubricJudge]) -> Callable[[MetricItem, MetricMaking], TurnMetric]:
    def make(item: MetricItem, making: MetricMaking) -> TurnMetric:
        return _judged(kind, item, making, rubrics=_rubrics_of(item))

    return make


def _recall(item: MetricItem, making: MetricMaking) -> TurnMetric:
    tools = tuple(item.judged.knowledge_tool_names)
    rubrics = _rubrics_of(item)
    return _judged(RubricKnowledgeRecall, item, making, rubrics=rubrics, knowledge_tool_names=tools)


def _pairwise(item: MetricItem, making: MetricMaking) -> TurnMetric:
    made = _judged(PairwiseVerifier, item, making, rubrics=_rubrics_of(item))
    # The usual threshold of 1 would ask for the best grade beside the worst.
    return made if "threshold" in item.model_fields_set else replace(made, threshold=None)


def _template(item: MetricItem, making: MetricMaking) -> TurnMetric:
    template = item.judged.template
    if template is None:
        message = "this metric needs criterion.llmJudge.template with a prompt"
        raise ConfigError([Problem(where=item.metric_name, message=message)])
    return _judged(
        TemplateJudge,
        item,
        making,
        rubrics=_rubrics_of(item),
        template=template.prompt,
        bindings=tuple(map(_binding, template.variable_bindings)),
        scorer=_scorer(template),
    )


def _binding(shape: VariableBinding) -> Binding:
    source = shape.source
    return Binding(
        variable=shape.template_variable,
        scope=BindingScope(source.scope),
        field=BindingField(source.field),
        node=source.selector.node_id if source.selector else "",
        path=source.path or "$",
    )


def _scorer(template: TemplateShape) -> Scorer[Any]:
    if template.response_scorer_name == "categorical":
        categories = template.response_scorer_options.categories
        return CategoricalScore(categories={each.label: each.score for each in categories})
    plain = {"single_score": SingleScore, "boolean": BooleanScore, "rubric_scores": RubricScores}
    return plain[template.response_scorer_name]()


def _judged(kind: type[Judged], item: MetricItem, making: MetricMaking, **more: Any) -> Judged:
    prompt = making.prompt(kind.role)
    panel = making.panel(item.metric_name, prompt, item.judged)
    return kind(**_common(item), prompt=prompt, panel=panel, **more)


def _common(item: MetricItem) -> dict[str, Any]:
    return {
        "name": item.metric_name,
        "threshold": item.threshold,
        "explicit": item.require_explicit_selection,
    }


def _rubrics_of(item: MetricItem) -> tuple[Any, ...]:
    return tuple(shape.rubric() for shape in item.judged.rubrics)


_MAKERS: dict[str, Callable[[MetricItem, MetricMaking], TurnMetric]] = {
    "tool_trajectory_avg_score": _trajectory,
    "final_response_avg_score": _final_response,
    "final_response_length_compliance": _length_compliance,
    "response_match_score": _response_match,
    "llm_final_response": _answer,
    "llm_hallucinations": _hallucinations,
    "llm_rubric_response": _rubrics(RubricResponse),
    "llm_rubric_critic": _rubrics(RubricCritic),
    "llm_rubric_reference_critic": _rubrics(RubricReferenceCritic),
    "llm_rubric_knowledge_recall": _recall,
    "llm_judge_template": _template,
    "llm_verifier_pairwise": _pairwise,
}


def _unknown(kind: str) -> ConfigError:
    near = difflib.get_close_matches(kind, _MAKERS, n=1)
    meant = f"did you mean '{near[0]}'? " if near else ""
    names = ", ".join(_MAKERS)
    return ConfigError(
        [
            Problem(
                where=kind,
                message="there is no such metric",
                remedy=f"{meant}there are: {names}; name it in evaluator_name if metric_name is "
                "a name of your own",
            )
        ]
    )
