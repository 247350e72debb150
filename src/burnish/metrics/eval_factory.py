"""Metric items of EvalSets and PromptIter as metrics, by the names of the original systems.

Judges with a prompt of the user are among them: its variables, answers and scores.
"""

import difflib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar, cast

from pydantic import BaseModel, Field

from burnish.core.cases import Rubric
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.evaluations import mean
from burnish.metrics.computed import FinalResponse, LengthCompliance, ToolTrajectory
from burnish.metrics.document_matching import path_problem, read_path
from burnish.metrics.eval_metrics import MetricItem
from burnish.metrics.geval import FinalResponseJudge
from burnish.metrics.judged import (
    REASON,
    Evidence,
    ItemId,
    JudgeAnswer,
    JudgedMetric,
    Share,
    as_text,
    excerpt,
    guarded,
    reply_text,
    tags_in,
    unmatched,
)
from burnish.metrics.judges import (
    BindingField,
    BindingScope,
    MetricMaking,
    TemplateShape,
    VariableBinding,
    check_names,
)
from burnish.metrics.numbered_judges import Hallucinations
from burnish.metrics.overlap import ResponseMatch
from burnish.metrics.rubrics import (
    PairwiseVerifier,
    RubricCritic,
    RubricKnowledgeRecall,
    RubricReferenceCritic,
    RubricResponse,
    clash,
    rubric_problems,
    rubrics_for,
)
from burnish.metrics.turns import Exchange, TurnMetric, Verdict
from burnish.models.answers import Explanation
from burnish.models.roles import RolePrompt

# -- Judges with a prompt of the user --------------------------------------------------------------


_STEPS: tuple[BindingField, ...] = (
    "traceStepInput",
    "traceStepOutput",
    "traceStepTools",
    "traceStepSkills",
)
_FIELDS: Mapping[BindingScope, tuple[BindingField, ...]] = {
    "actual": ("userContent", "finalResponse", *_STEPS),
    "expected": ("userContent", "finalResponse"),
    "metric": ("rubrics",),
}


class _CannotBind(ValueError):
    """A turn has no value for a variable; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Binding:
    """A template variable and the source of its value."""

    variable: str
    scope: BindingScope
    field: BindingField
    node: str = ""
    """For fields of a step: the node, whose last step of the turn is used."""
    path: str = ""
    """A place inside the value; empty for all of it."""

    @property
    def needs_reference(self) -> bool:
        return self.scope == "expected" and self.field == "finalResponse"

    def problems(self, where: str) -> list[Problem]:
        """What is wrong with the binding."""
        problems: list[Problem] = []
        if self.field not in _FIELDS[self.scope]:
            remedy = f"{self.scope} has: {', '.join(_FIELDS[self.scope])}"
            message = f"{self.scope} has no field {self.field}"
            problems.append(Problem(where=where, message=message, remedy=remedy))
        if self.field in _STEPS and not self.node:
            message, remedy = f"{self.field} needs a node", "name the node in selector.nodeID"
            problems.append(Problem(where=where, message=message, remedy=remedy))
        if self.path and (message := path_problem(self.path)):
            problems.append(Problem(where=where, message=message))
        return problems

    def text(self, exchange: Exchange, rubrics: Sequence[Rubric]) -> str:
        """The value for a turn as text; raises _CannotBind."""
        whole = self._whole(exchange, rubrics)
        reading = read_path(whole, self.path or "$", into_texts=True)
        if reading.problem:
            raise _CannotBind(f"'{self.variable}' ({self.field}): {reading.problem}")
        return as_text(reading.value)

    def _whole(self, exchange: Exchange, rubrics: Sequence[Rubric]) -> Json:
        if self.field == "rubrics":
            return [{"id": rubric.id, "text": rubric.text} for rubric in rubrics]
        if self.field in _STEPS:
            return self._of_step(exchange)
        if self.field == "userContent":
            return exchange.asked if self.scope == "actual" else exchange.turn.input
        return reply_text(exchange) if self.scope == "actual" else exchange.expected or ""

    def _of_step(self, exchange: Exchange) -> Json:
        steps = exchange.steps
        step = next((step for step in reversed(steps) if step.node == self.node), None)
        if step is None:
            ran = ", ".join(dict.fromkeys(step.node for step in steps)) or "none"
            problem = f"node '{self.node}' did not run in this turn; nodes that ran: {ran}"
            raise _CannotBind(f"'{self.variable}': {problem}")
        if self.field == "traceStepTools":
            return [
                {
                    "name": tool.name,
                    "arguments": dict(tool.arguments),
                    "result": list(tool.passages) or None if tool.result is None else tool.result,
                    "error": tool.error,
                }
                for tool in step.tools
            ]
        if self.field == "traceStepSkills":
            raise _CannotBind(
                f"'{self.variable}': traces do not record skills; "
                "bind traceStepTools, or another field of the step"
            )
        value = step.input if self.field == "traceStepInput" else step.output
        if value is None:
            raise _CannotBind(
                f"'{self.variable}': the step of node '{self.node}' has no {self.field}"
            )
        return value


Answer = TypeVar("Answer", bound=JudgeAnswer)


class ScoreAnswer(JudgeAnswer):
    """A number and why."""

    reason: Explanation
    score: Share


class RubricScore(JudgeAnswer):
    """A number for one rubric."""

    id: ItemId
    reason: Explanation
    score: Share


class RubricScoresAnswer(JudgeAnswer):
    """A number for each rubric."""

    rubric_scores: list[RubricScore] = Field(alias="rubricScores")


class BooleanAnswer(JudgeAnswer):
    """Yes or no, and why."""

    reason: Explanation
    passed: bool = Field(strict=True)


class CategoryAnswer(JudgeAnswer):
    """A label and why."""

    reason: Explanation
    category: str


@dataclass(frozen=True, kw_only=True)
class Scorer(ABC, Generic[Answer]):
    """A kind of answer and how it is scored."""

    name: str

    answer_type: ClassVar[type[JudgeAnswer]]

    @abstractmethod
    def form(self, ids: Sequence[str]) -> str:
        """The instructions for the answer; `ids` are those of the rubrics."""

    @abstractmethod
    def read(self, answer: Answer, ids: Sequence[str]) -> Verdict:
        """The verdict for an answer."""

    def check(self, answer: Answer, ids: Sequence[str]) -> str:
        """What is wrong with a well-formed answer, for the judge to fix."""
        del answer, ids
        return ""

    def problems(self, where: str) -> list[Problem]:
        """What is wrong with the settings."""
        del where
        return []


@dataclass(frozen=True, kw_only=True)
class SingleScore(Scorer[ScoreAnswer]):
    """The judge gives a number from 0 to 1."""

    name: str = "single_score"

    answer_type: ClassVar[type[JudgeAnswer]] = ScoreAnswer

    def form(self, ids: Sequence[str]) -> str:
        del ids
        return "- reason: why, in a few sentences\n- score: a number from 0 to 1"

    def read(self, answer: ScoreAnswer, ids: Sequence[str]) -> Verdict:
        del ids
        return _graded(answer.score, f"{answer.score:g}", answer.reason)


@dataclass(frozen=True, kw_only=True)
class BooleanScore(Scorer[BooleanAnswer]):
    """The judge says whether it passes."""

    name: str = "boolean"

    answer_type: ClassVar[type[JudgeAnswer]] = BooleanAnswer

    def form(self, ids: Sequence[str]) -> str:
        del ids
        return "- reason: why, in a few sentences\n- passed: true or false"

    def read(self, answer: BooleanAnswer, ids: Sequence[str]) -> Verdict:
        del ids
        return _graded(float(answer.passed), "not passed", answer.reason)


@dataclass(frozen=True, kw_only=True)
class CategoricalScore(Scorer[CategoryAnswer]):
    """The judge names a category, which has a score."""

    name: str = "categorical"
    categories: Mapping[str, float]

    answer_type: ClassVar[type[JudgeAnswer]] = CategoryAnswer

    def form(self, ids: Sequence[str]) -> str:
        del ids
        return f"- reason: why, in a few sentences\n- category: one of: {self._labels}"

    def problems(self, where: str) -> list[Problem]:
        if not self.categories:
            return [Problem(where=where, message="a categorical scorer needs categories")]
        return [
            Problem(where=where, message=f"category '{label}': from 0 to 1, found {score:g}")
            for label, score in self.categories.items()
            if not 0 <= score <= 1
        ]

    def check(self, answer: CategoryAnswer, ids: Sequence[str]) -> str:
        del ids
        unknown = f"'{excerpt(answer.category)}' is no category; there are: {self._labels}"
        return "" if self._label(answer) else unknown

    def read(self, answer: CategoryAnswer, ids: Sequence[str]) -> Verdict:
        del ids
        label = self._label(answer)
        return _graded(self.categories[label], f"'{label}'", answer.reason, category=label)

    @property
    def _labels(self) -> str:
        return ", ".join(self.categories)

    def _label(self, answer: CategoryAnswer) -> str:
        named = answer.category.strip()
        if named in self.categories:
            return named
        near = [each for each in self.categories if each.casefold() == named.casefold()]
        return near[0] if len(near) == 1 else ""


@dataclass(frozen=True, kw_only=True)
class RubricScores(Scorer[RubricScoresAnswer]):
    """The judge gives each rubric a number from 0 to 1; their mean counts."""

    name: str = "rubric_scores"

    answer_type: ClassVar[type[JudgeAnswer]] = RubricScoresAnswer

    def form(self, ids: Sequence[str]) -> str:
        return (
            f"- rubricScores: a list with one item for each rubric ({', '.join(ids)})\n"
            "  - id: the id of the rubric\n"
            "  - reason: why, in a sentence or two\n"
            "  - score: a number from 0 to 1"
        )

    def check(self, answer: RubricScoresAnswer, ids: Sequence[str]) -> str:
        return unmatched(ids, [item.id for item in answer.rubric_scores])

    def read(self, answer: RubricScoresAnswer, ids: Sequence[str]) -> Verdict:
        items = {item.id: item for item in answer.rubric_scores}
        scores = [items[each] for each in ids]
        short = [
            f"'{item.id}' {item.score:g}: {excerpt(item.reason, REASON)}"
            for item in scores
            if item.score < 1
        ]
        records: list[Json] = [
            {"id": item.id, "score": item.score, "reason": excerpt(item.reason, REASON)}
            for item in scores
        ]
        value = mean([item.score for item in scores])
        return Verdict(value=value, reason="; ".join(short), details={"rubrics": records})


def _graded(value: float, word: str, reason: str, **details: Json) -> Verdict:
    text = excerpt(reason, REASON)
    return Verdict(
        value=value,
        reason="" if value == 1 else f"{word}: {text}",
        details={"reasoning": text, **details},
    )


class _TemplateRequest(Evidence):
    """The filled-in template and the instructions for the answer."""

    task: str
    answer_form: str
    ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class TemplateJudge(JudgedMetric[_TemplateRequest, JudgeAnswer]):
    """Asks what the template of the user asks, with its `{{ variables }}` filled in.

    The shipped prompt only says how to answer. Evidence cannot close a tag of the template.
    """

    name: str = "llm_judge_template"
    template: str
    bindings: tuple[Binding, ...] = ()
    scorer: Scorer[Any] = field(default_factory=SingleScore)
    rubrics: tuple[Rubric, ...] = ()

    role: ClassVar[str] = "judge_template"
    request_type: ClassVar[type[BaseModel]] = _TemplateRequest
    needs: ClassVar[str] = "everything that the variables of its template are bound to"
    answer_type: ClassVar[type[BaseModel]] = JudgeAnswer

    @property
    def graded(self) -> bool:
        return not isinstance(self.scorer, BooleanScore)

    def answers(self) -> type[JudgeAnswer]:
        return self.scorer.answer_type

    def problems(self) -> list[Problem]:
        where = f"{self.name}.template"
        shown, bound = self._prompt.fields, Counter(each.variable for each in self.bindings)
        loose = [f"{{{{ {name} }}}} is not bound" for name in shown if name not in bound]
        idle = [f"'{name}' is bound, but not in the prompt" for name in bound if name not in shown]
        twice = [f"'{name}' is bound {count} times" for name, count in bound.items() if count > 1]
        blank = [] if self.template.strip() else ["the prompt is empty"]
        return [
            *super().problems(),
            *rubric_problems(self.name, self.rubrics),
            *(Problem(where=where, message=text) for text in (*blank, *loose, *idle, *twice)),
            *(
                problem
                for each in self.bindings
                for problem in each.problems(f"{where} {each.variable}")
            ),
            *self.scorer.problems(where),
        ]

    def request(self, exchange: Exchange) -> _TemplateRequest | Verdict | None:
        if exchange.expected is None and any(each.needs_reference for each in self.bindings):
            return None
        bound = any(each.field == "rubrics" for each in self.bindings)
        by_rubrics = bound or isinstance(self.scorer, RubricScores)
        rubrics = rubrics_for(self.rubrics, exchange.case, self.name) if by_rubrics else ()
        if by_rubrics and not rubrics:
            return None
        if fault := clash(exchange.case, rubrics):
            return Verdict.missing(fault)
        tags = tags_in(self.template)
        try:
            values = {
                each.variable: guarded(each.text(exchange, rubrics), tags) for each in self.bindings
            }
        except _CannotBind as error:
            return Verdict.missing(f"the template cannot be filled in: {error}")
        filled = self._prompt.messages(dict(values))[1].content
        ids = tuple(rubric.id.strip() for rubric in rubrics)
        return _TemplateRequest(task=filled, answer_form=self.scorer.form(ids), ids=ids)

    def check(self, request: _TemplateRequest, answer: JudgeAnswer) -> str:
        return self.scorer.check(answer, request.ids)

    def read(self, request: _TemplateRequest, answer: JudgeAnswer) -> Verdict:
        return self.scorer.read(answer, request.ids)

    @cached_property
    def _prompt(self) -> RolePrompt:
        return RolePrompt(name=self.name, system="", user=self.template)


# -- Metrics by their names ------------------------------------------------------------------------


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
