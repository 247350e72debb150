"""A judge by a prompt of the user's own: `llm_judge_template`."""

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from burnish.core.cases import Rubric
from burnish.core.errors import Problem
from burnish.evaluation.exchanges import Exchange
from burnish.evaluation.judges.answers import JudgeAnswer
from burnish.evaluation.judges.evidence import guarded, tags_in
from burnish.evaluation.judges.judged import JudgedMetric
from burnish.evaluation.judges.rubric_lists import clash, rubric_problems, rubrics_for
from burnish.evaluation.judges.template_bindings import Binding, CannotBind, Source
from burnish.evaluation.judges.template_scorers import RubricScores, Scorer, SingleScore
from burnish.evaluation.turn_metric import Verdict
from burnish.models.roles import RolePrompt


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
                found
                for each in self.bindings
                for found in each.problems(f"{where} {each.variable}")
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
        bound = any(each.field is Source.RUBRICS for each in self.bindings)
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
