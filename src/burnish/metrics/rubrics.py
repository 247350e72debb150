"""Judges with rubrics, and the pairwise verifier."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator

from burnish.core.cases import Case, Rubric, ToolCall
from burnish.core.content import Json
from burnish.core.errors import Problem
from burnish.core.evaluations import mean
from burnish.core.money import Spend
from burnish.core.protocols import Effects
from burnish.journal.executors import together
from burnish.metrics.judged import (
    EXCERPT,
    REASON,
    Evidence,
    ItemId,
    JudgeAnswer,
    JudgedMetric,
    YesNo,
    brought,
    excerpt,
    numbered,
    reply_text,
    shown,
    unmatched,
)
from burnish.metrics.turns import EPSILON, NEEDS_REFERENCE, Exchange, Verdict
from burnish.models.answers import Explanation
from burnish.models.roles import ModelRole


def rubrics_for(own: Sequence[Rubric], case: Case, metric: str) -> tuple[Rubric, ...]:
    """The metric's own rubrics and those that the case adds."""
    return (*own, *(rubric for rubric in case.rubrics if rubric.metric in ("", metric)))


def _rubric_faults(rubrics: Sequence[Rubric]) -> list[str]:
    counts = Counter(rubric.id.strip() for rubric in rubrics)
    faults = [f"two rubrics have the id '{each}'" for each, n in counts.items() if each and n > 1]
    if counts[""]:
        faults.append("a rubric has no id")
    return faults + [
        f"the rubric '{rubric.id}' has no text" for rubric in rubrics if not rubric.text.strip()
    ]


def rubric_problems(metric: str, rubrics: Sequence[Rubric]) -> list[Problem]:
    """What is wrong with the rubrics in a metric's settings."""
    remedy = "give each rubric its own id and a text"
    where = f"{metric}.rubrics"
    return [Problem(where=where, message=text, remedy=remedy) for text in _rubric_faults(rubrics)]


def clash(case: Case, rubrics: Sequence[Rubric]) -> str:
    """What is wrong with the rubrics of a metric and a case together; empty if nothing."""
    faults = _rubric_faults(rubrics)
    return f"case '{case.id}': {'; '.join(faults)}" if faults else ""


def _listed(rubrics: Sequence[Rubric]) -> str:
    return "\n".join(f"{rubric.id.strip()}: {' '.join(rubric.text.split())}" for rubric in rubrics)


_GRADES = "ABCDEFGHIJKLMNOPQRST"
"""From the best to the worst, in equal steps."""
_USUAL_CRITERIA = "Which answer serves the user better: correct, complete, to the point."
_Grade = Annotated[
    Literal[
        "A", "B", "C", "D", "E", "F", "G", "H", "I", "J",
        "K", "L", "M", "N", "O", "P", "Q", "R", "S", "T",
    ],
    BeforeValidator(lambda value: value.strip().upper() if isinstance(value, str) else value),
]  # fmt: skip


class _PairRequest(Evidence):
    """What the judge is shown: two answers, of which it is not told whose is whose."""

    user_prompt: str
    conversation: str
    criteria: str
    first_answer: str
    second_answer: str


class PairAnswer(JudgeAnswer):
    """What the judge says of the two."""

    reasoning: Explanation
    first_grade: _Grade
    second_grade: _Grade


@dataclass(frozen=True, kw_only=True)
class PairwiseVerifier(JudgedMetric[_PairRequest, PairAnswer]):
    """0.5 if the reply is as good as the reference, more if it is better.

    Judges prefer a position, so each is asked in both orders, and the mean counts. The original
    uses the token probabilities of the grades, which few endpoints provide.
    """

    name: str = "llm_verifier_pairwise"
    criteria: str = ""
    rubrics: tuple[Rubric, ...] = ()

    role: ClassVar[str] = "judge_pairwise"
    request_type: ClassVar[type[BaseModel]] = _PairRequest
    answer_type: ClassVar[type[BaseModel]] = PairAnswer
    needs: ClassVar[str] = NEEDS_REFERENCE

    def problems(self) -> list[Problem]:
        return [*super().problems(), *rubric_problems(self.name, self.rubrics)]

    def estimate(self, case: Case) -> Spend:
        return self.panel.estimate(case, calls=2)

    def request(self, exchange: Exchange) -> _PairRequest | Verdict | None:
        if exchange.expected is None:
            return None
        rubrics = rubrics_for(self.rubrics, exchange.case, self.name)
        if fault := clash(exchange.case, rubrics):
            return Verdict.missing(fault)
        return self.filled(
            exchange,
            criteria="\n".join(filter(None, [self.criteria, _listed(rubrics)])) or _USUAL_CRITERIA,
            first_answer=shown(reply_text(exchange)),
            second_answer=shown(exchange.expected),
        )

    async def sample(
        self,
        role: ModelRole[_PairRequest, PairAnswer],
        request: _PairRequest,
        *,
        draw: int,
        effects: Effects,
    ) -> Verdict:
        places = {"first_answer": request.second_answer, "second_answer": request.first_answer}
        one, two = await together(
            [
                super().sample(role, request, draw=draw, effects=effects),
                super().sample(role, request.model_copy(update=places), draw=draw, effects=effects),
            ]
        )
        if one.value is None or two.value is None:
            return one if one.value is None else two
        return _compared(one, two, (one.value, 1 - two.value))

    def read(self, request: _PairRequest, answer: PairAnswer) -> Verdict:
        del request
        margin = _quality(answer.first_grade) - _quality(answer.second_grade)
        return Verdict(
            value=0.5 + margin / 2,
            reason=excerpt(answer.reasoning, REASON),
            details={
                "first_grade": answer.first_grade,
                "second_grade": answer.second_grade,
                "first_margin": margin,
            },
        )


def _compared(one: Verdict, two: Verdict, values: tuple[float, float]) -> Verdict:
    """The mean of both orders: the reply is first in `one`, the reference in `two`."""
    value = mean(values)
    agrees = _side(values[0]) == _side(values[1])
    ours = (one.details["first_grade"], two.details["second_grade"])
    theirs = (one.details["second_grade"], two.details["first_grade"])
    grades = f"the reply got {ours[0]} and {ours[1]}, the reference {theirs[0]} and {theirs[1]}"
    doubt = "" if agrees else "; the two orders disagree, so this says little"
    why = one.reason if values[0] <= values[1] else two.reason
    orders: list[Json] = [{"first": "reply", **one.details}, {"first": "reference", **two.details}]
    return Verdict(
        value=value,
        reason="" if agrees and value > 0.5 else f"{grades} (A is best, T worst){doubt}: {why}",
        details={"orders": orders, "order_agrees": agrees},
    )


def _quality(grade: str) -> float:
    return 1 - _GRADES.index(grade) / (len(_GRADES) - 1)


def _side(value: float) -> int:
    return (value > 0.5 + EPSILON) - (value < 0.5 - EPSILON)


class _RubricRequest(Evidence):
    """What the judge is shown."""

    user_prompt: str
    conversation: str
    agent_response: str
    reference: str
    knowledge: str
    rubrics: str
    ids: tuple[str, ...]
    texts: tuple[str, ...]


class RubricItem(JudgeAnswer):
    """What the judge says of one rubric."""

    id: ItemId
    evidence: str
    reason: Explanation
    verdict: YesNo


class RubricAnswer(JudgeAnswer):
    """What the judge says of every rubric."""

    items: list[RubricItem]


@dataclass(frozen=True, kw_only=True)
class RubricJudge(JudgedMetric[_RubricRequest, RubricAnswer]):
    """The share of rubrics that hold: those of the metric and of the case.

    A judge that forgets a rubric, or invents one, is told so and cannot change the score.
    """

    rubrics: tuple[Rubric, ...] = ()

    request_type: ClassVar[type[BaseModel]] = _RubricRequest
    answer_type: ClassVar[type[BaseModel]] = RubricAnswer
    needs: ClassVar[str] = "rubrics of the metric or of the case"
    needs_reference: ClassVar[bool] = False

    def problems(self) -> list[Problem]:
        return [*super().problems(), *rubric_problems(self.name, self.rubrics)]

    def request(self, exchange: Exchange) -> _RubricRequest | Verdict | None:
        rubrics = rubrics_for(self.rubrics, exchange.case, self.name)
        if not rubrics or (self.needs_reference and exchange.expected is None):
            return None
        if fault := clash(exchange.case, rubrics):
            return Verdict.missing(fault)
        return self.about(exchange, rubrics)

    def check(self, request: _RubricRequest, answer: RubricAnswer) -> str:
        return unmatched(request.ids, [item.id for item in answer.items])

    def read(self, request: _RubricRequest, answer: RubricAnswer) -> Verdict:
        items = {item.id: item for item in answer.items}
        failed = [
            f"'{each}' ({excerpt(text)}): {excerpt(items[each].reason, REASON)}"
            for each, text in zip(request.ids, request.texts, strict=True)
            if items[each].verdict == "no"
        ]
        count = len(request.ids)
        reason = f"{len(failed)} of {count} rubrics did not hold: {'; '.join(failed)}"
        return Verdict(
            value=(count - len(failed)) / count,
            reason=reason if failed else "",
            details={
                "rubrics": [
                    {
                        "id": each,
                        "verdict": items[each].verdict,
                        "reason": excerpt(items[each].reason, REASON),
                        "evidence": excerpt(items[each].evidence, EXCERPT),
                    }
                    for each in request.ids
                ]
            },
        )

    def about(self, exchange: Exchange, rubrics: Sequence[Rubric]) -> _RubricRequest | Verdict:
        """The request for these rubrics, or a verdict if none is needed."""
        return self.filled(
            exchange,
            knowledge=numbered(self.knowledge(exchange)),
            rubrics=_listed(rubrics),
            ids=tuple(rubric.id.strip() for rubric in rubrics),
            texts=tuple(rubric.text for rubric in rubrics),
        )

    def knowledge(self, exchange: Exchange) -> Sequence[str]:
        """What was retrieved in the turn."""
        return exchange.passages


@dataclass(frozen=True, kw_only=True)
class RubricResponse(RubricJudge):
    """Whether the reply fulfils the rubrics; the reference helps to check facts."""

    name: str = "llm_rubric_response"

    role: ClassVar[str] = "judge_rubric_response"


@dataclass(frozen=True, kw_only=True)
class RubricCritic(RubricJudge):
    """A strict reviewer: the reference is the golden answer, and any doubt is a no."""

    name: str = "llm_rubric_critic"

    role: ClassVar[str] = "judge_rubric_critic"
    needs: ClassVar[str] = f"rubrics, and {NEEDS_REFERENCE}"
    needs_reference: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class RubricReferenceCritic(RubricJudge):
    """The reference shows what is good enough; other wordings are fine."""

    name: str = "llm_rubric_reference_critic"

    role: ClassVar[str] = "judge_rubric_reference_critic"
    needs: ClassVar[str] = f"rubrics, and {NEEDS_REFERENCE}"
    needs_reference: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class RubricKnowledgeRecall(RubricJudge):
    """The share of rubrics that the retrieved knowledge supports; 0 if there is none."""

    name: str = "llm_rubric_knowledge_recall"
    knowledge_tool_names: tuple[str, ...] = ("knowledge_search",)

    role: ClassVar[str] = "judge_rubric_knowledge_recall"

    def knowledge(self, exchange: Exchange) -> Sequence[str]:
        used = (tool for tool in exchange.tools if tool.name in self.knowledge_tool_names)
        return [text for tool in used for text in brought(tool)]

    def about(self, exchange: Exchange, rubrics: Sequence[Rubric]) -> _RubricRequest | Verdict:
        if self.knowledge(exchange):
            return super().about(exchange, rubrics)
        return Verdict(value=0.0, reason=f"nothing was retrieved: {self._why(exchange)}")

    def _why(self, exchange: Exchange) -> str:
        used = [tool for tool in exchange.tools if tool.name in self.knowledge_tool_names]
        if used:
            errors = "; ".join(excerpt(tool.error) for tool in used if tool.error)
            problem = f"{_names(used)} was called and returned nothing"
            return f"{problem} ({errors})" if errors else problem
        names = " or ".join(self.knowledge_tool_names)
        others = _names(exchange.tools)
        called = f"only {others}" if others else "and neither was any other tool"
        return f"{names} was not called in this turn, {called}"


def _names(tools: Sequence[ToolCall]) -> str:
    return ", ".join(dict.fromkeys(tool.name for tool in tools))
