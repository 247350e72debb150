"""Judges by a prompt of the user: variables, answers, scores."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from burnish.core.cases import Rubric
from burnish.core.content import Json
from burnish.core.errors import Problem
from burnish.core.evaluations import mean
from burnish.core.outcomes import Step, ToolCall
from burnish.metrics.json_matching import path_problem, read_path
from burnish.metrics.judged import (
    REASON,
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
from burnish.metrics.rubrics import clash, rubric_problems, rubrics_for
from burnish.metrics.turns import Exchange, Verdict
from burnish.models.roles import RolePrompt


class BindingScope(StrEnum):
    """Whose value it is."""

    ACTUAL = "actual"
    EXPECTED = "expected"
    METRIC = "metric"


class BindingField(StrEnum):
    """Which value it is."""

    USER_CONTENT = "userContent"
    FINAL_RESPONSE = "finalResponse"
    STEP_INPUT = "traceStepInput"
    STEP_OUTPUT = "traceStepOutput"
    STEP_TOOLS = "traceStepTools"
    STEP_SKILLS = "traceStepSkills"
    RUBRICS = "rubrics"


_STEPS = (
    BindingField.STEP_INPUT,
    BindingField.STEP_OUTPUT,
    BindingField.STEP_TOOLS,
    BindingField.STEP_SKILLS,
)
_TALK = (BindingField.USER_CONTENT, BindingField.FINAL_RESPONSE)
_FIELDS = {
    BindingScope.ACTUAL: (*_TALK, *_STEPS),
    BindingScope.EXPECTED: _TALK,
    BindingScope.METRIC: (BindingField.RUBRICS,),
}


class CannotBind(ValueError):
    """A turn has no value for a variable; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Binding:
    """One variable and where its value comes from."""

    variable: str
    scope: BindingScope
    field: BindingField
    node: str = ""
    """The node of the trace, for fields of a step: its last step of the turn is taken."""
    path: str = ""
    """A place inside the value; empty for all of it."""

    @property
    def needs_reference(self) -> bool:
        """Whether it asks for the reference answer."""
        return self.scope is BindingScope.EXPECTED and self.field is BindingField.FINAL_RESPONSE

    def problems(self, where: str) -> list[Problem]:
        """What can never be bound."""
        problems: list[Problem] = []
        if self.field not in _FIELDS[self.scope]:
            remedy = f"{self.scope} has: {', '.join(_FIELDS[self.scope])}"
            message = f"{self.scope} has no field {self.field}"
            problems.append(Problem(where=where, message=message, remedy=remedy))
        if self.field in _STEPS and not self.node:
            remedy = "name the node in selector.nodeID"
            problems.append(
                Problem(where=where, message=f"{self.field} is of which node?", remedy=remedy)
            )
        if self.path and (message := path_problem(self.path)):
            problems.append(Problem(where=where, message=message))
        return problems

    def text(self, exchange: Exchange, rubrics: Sequence[Rubric]) -> str:
        """The value for a turn: a string as it is, anything else as JSON. Raises CannotBind."""
        whole = self._whole(exchange, rubrics)
        reading = read_path(whole, self.path or "$", into_texts=True)
        if reading.problem:
            raise CannotBind(f"'{self.variable}' ({self.field}): {reading.problem}")
        return as_text(reading.value)

    def _whole(self, exchange: Exchange, rubrics: Sequence[Rubric]) -> Json:
        if self.field is BindingField.RUBRICS:
            return [{"id": rubric.id, "text": rubric.text} for rubric in rubrics]
        if self.field in _STEPS:
            return self._of_step(_last_step(self.variable, exchange, self.node))
        if self.field is BindingField.USER_CONTENT:
            return exchange.asked if self.scope is BindingScope.ACTUAL else exchange.turn.input
        return (
            reply_text(exchange) if self.scope is BindingScope.ACTUAL else exchange.expected or ""
        )

    def _of_step(self, step: Step) -> Json:
        if self.field is BindingField.STEP_TOOLS:
            return [_use(tool) for tool in step.tools]
        if self.field is BindingField.STEP_SKILLS:
            raise CannotBind(
                f"'{self.variable}': traces here do not record skills; "
                "bind traceStepTools, or another field of the step"
            )
        value = step.input if self.field is BindingField.STEP_INPUT else step.output
        if value is None:
            raise CannotBind(
                f"'{self.variable}': the step of node '{self.node}' has no {self.field}"
            )
        return value


def _last_step(variable: str, exchange: Exchange, node: str) -> Step:
    for step in reversed(exchange.steps):
        if step.node == node:
            return step
    ran = ", ".join(dict.fromkeys(step.node for step in exchange.steps)) or "none"
    raise CannotBind(f"'{variable}': node '{node}' did not run in this turn; nodes that ran: {ran}")


def _use(tool: ToolCall) -> Json:
    return {
        "name": tool.name,
        "arguments": dict(tool.arguments),
        "result": tool.result if tool.result is not None else list(tool.passages) or None,
        "error": tool.error,
    }


# -- The forms in which a judge may answer a template ---------------------------------------------


Answer = TypeVar("Answer", bound=JudgeAnswer)


class ScoreAnswer(JudgeAnswer):
    """A number and why."""

    reason: str
    score: Share


class RubricScore(JudgeAnswer):
    """A number for one rubric."""

    id: ItemId
    reason: str
    score: Share


class RubricScoresAnswer(JudgeAnswer):
    """A number for each rubric."""

    rubric_scores: list[RubricScore] = Field(alias="rubricScores")


class BooleanAnswer(JudgeAnswer):
    """Yes or no, and why."""

    reason: str
    passed: bool = Field(strict=True)


class CategoryAnswer(JudgeAnswer):
    """A label and why."""

    reason: str
    category: str


@dataclass(frozen=True, kw_only=True)
class Scorer(ABC, Generic[Answer]):
    """One form of answers."""

    name: str
    """What files call it."""

    answer_type: ClassVar[type[JudgeAnswer]]

    @abstractmethod
    def form(self, ids: Sequence[str]) -> str:
        """What the judge must answer, in words; `ids` are those of the rubrics."""

    @abstractmethod
    def read(self, answer: Answer, ids: Sequence[str]) -> Verdict:
        """What an answer is worth."""

    def check(self, answer: Answer, ids: Sequence[str]) -> str:
        """What is wrong with an answer that keeps its schema, in words that help to mend it."""
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
        """A number and why."""
        del ids
        return "- reason: why, in a few sentences\n- score: a number from 0 to 1"

    def read(self, answer: ScoreAnswer, ids: Sequence[str]) -> Verdict:
        """The number."""
        del ids
        return _graded(answer.score, f"{answer.score:g}", answer.reason)


@dataclass(frozen=True, kw_only=True)
class BooleanScore(Scorer[BooleanAnswer]):
    """The judge says whether it passes."""

    name: str = "boolean"

    answer_type: ClassVar[type[JudgeAnswer]] = BooleanAnswer

    def form(self, ids: Sequence[str]) -> str:
        """True or false, and why."""
        del ids
        return "- reason: why, in a few sentences\n- passed: true or false"

    def read(self, answer: BooleanAnswer, ids: Sequence[str]) -> Verdict:
        """1 or 0."""
        del ids
        return _graded(float(answer.passed), "not passed", answer.reason)


@dataclass(frozen=True, kw_only=True)
class CategoricalScore(Scorer[CategoryAnswer]):
    """The judge names one of the categories, each of which has its score."""

    name: str = "categorical"
    categories: Mapping[str, float]

    answer_type: ClassVar[type[JudgeAnswer]] = CategoryAnswer

    def form(self, ids: Sequence[str]) -> str:
        """A label and why."""
        del ids
        return f"- reason: why, in a few sentences\n- category: one of: {self._labels}"

    def problems(self, where: str) -> list[Problem]:
        """There must be categories, with scores from 0 to 1."""
        if not self.categories:
            return [Problem(where=where, message="a categorical scorer needs categories")]
        return [
            Problem(where=where, message=f"category '{label}': from 0 to 1, found {score:g}")
            for label, score in self.categories.items()
            if not 0 <= score <= 1
        ]

    def check(self, answer: CategoryAnswer, ids: Sequence[str]) -> str:
        """One of the categories."""
        del ids
        unknown = f"'{excerpt(answer.category)}' is no category; there are: {self._labels}"
        return "" if self._label(answer) else unknown

    def read(self, answer: CategoryAnswer, ids: Sequence[str]) -> Verdict:
        """What the category is worth."""
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
        """A number for each rubric, and why."""
        return (
            f"- rubricScores: a list with one item for each rubric ({', '.join(ids)})\n"
            "  - id: the id of the rubric\n"
            "  - reason: why, in a sentence or two\n"
            "  - score: a number from 0 to 1"
        )

    def check(self, answer: RubricScoresAnswer, ids: Sequence[str]) -> str:
        """Every rubric once."""
        return unmatched(ids, [item.id for item in answer.rubric_scores])

    def read(self, answer: RubricScoresAnswer, ids: Sequence[str]) -> Verdict:
        """The mean over the rubrics that were asked about."""
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


# -- A judge by a prompt of the user's own --------------------------------------------------------


class TemplateRequest(BaseModel):
    """The user's prompt, filled in, and the form that the answer must have."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: str
    answer_form: str
    ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class TemplateJudge(JudgedMetric[TemplateRequest, JudgeAnswer]):
    """Asks what the user's template asks, with its `{{ variables }}` filled in for the turn.

    The shipped prompt is only the frame: it says how to answer. Evidence cannot close a tag of
    the template.
    """

    name: str = "llm_judge_template"
    template: str
    bindings: tuple[Binding, ...] = ()
    scorer: Scorer[Any] = field(default_factory=SingleScore)
    rubrics: tuple[Rubric, ...] = ()

    role: ClassVar[str] = "judge_template"
    request_type: ClassVar[type[BaseModel]] = TemplateRequest
    answer_type: ClassVar[type[BaseModel]] = JudgeAnswer

    def answers(self) -> type[JudgeAnswer]:
        """What the scorer reads."""
        return self.scorer.answer_type

    def problems(self) -> list[Problem]:
        """Placeholders and bindings must fit each other."""
        where = f"{self.name}.template"
        shown, bound = self._prompt.fields, Counter(each.variable for each in self.bindings)
        loose = [f"{{{{ {name} }}}} is bound to nothing" for name in shown if name not in bound]
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

    def request(self, exchange: Exchange) -> TemplateRequest | Verdict | None:
        """The template filled in; missing where a variable has no value for this turn."""
        if exchange.expected is None and any(each.needs_reference for each in self.bindings):
            return None
        by_rubrics = self._by_rubrics
        rubrics = rubrics_for(self.rubrics, exchange.case, self.name) if by_rubrics else ()
        if by_rubrics and not rubrics:
            return None
        fault = clash(exchange.case, rubrics)
        if fault:
            return Verdict.missing(fault)
        try:
            filled = self._filled(exchange, rubrics)
        except CannotBind as error:
            return Verdict.missing(f"the template cannot be filled in: {error}")
        ids = tuple(rubric.id.strip() for rubric in rubrics)
        return TemplateRequest(task=filled, answer_form=self.scorer.form(ids), ids=ids)

    def check(self, request: TemplateRequest, answer: JudgeAnswer) -> str:
        """As the scorer needs it."""
        return self.scorer.check(answer, request.ids)

    def read(self, request: TemplateRequest, answer: JudgeAnswer) -> Verdict:
        """As the scorer reads it."""
        return self.scorer.read(answer, request.ids)

    @property
    def _by_rubrics(self) -> bool:
        bound = any(each.field is BindingField.RUBRICS for each in self.bindings)
        return bound or isinstance(self.scorer, RubricScores)

    def _filled(self, exchange: Exchange, rubrics: tuple[Rubric, ...]) -> str:
        tags = tags_in(self.template)
        values = {
            each.variable: guarded(each.text(exchange, rubrics), tags) for each in self.bindings
        }
        return self._prompt.messages(dict(values))[1].content

    @cached_property
    def _prompt(self) -> RolePrompt:
        return RolePrompt(name=self.name, system="", user=self.template)
