"""Judges with rubrics, and the pairwise verifier."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict

from burnish.core.cases import Case, Rubric
from burnish.core.content import Json
from burnish.core.errors import Problem
from burnish.core.evaluations import mean
from burnish.core.money import Spend
from burnish.core.outcomes import ToolCall
from burnish.core.protocols import Effects
from burnish.journal.executors import together
from burnish.metrics.judged import (
    EXCERPT,
    REASON,
    ItemId,
    JudgeAnswer,
    JudgedMetric,
    YesNo,
    before,
    brought,
    excerpt,
    numbered,
    reply_text,
    shown,
    unmatched,
)
from burnish.metrics.turns import EPSILON, Exchange, Verdict
from burnish.models.roles import ModelRole


def rubrics_for(own: Sequence[Rubric], case: Case, metric: str) -> tuple[Rubric, ...]:
    """The metric's own rubrics and those that the case adds to it."""
    return (*own, *(rubric for rubric in case.rubrics if rubric.metric in ("", metric)))


def _rubric_faults(rubrics: Sequence[Rubric]) -> list[str]:
    """Why a judge could not be asked by these rubrics."""
    counts = Counter(rubric.id.strip() for rubric in rubrics)
    faults = [f"two rubrics have the id '{each}'" for each, n in counts.items() if each and n > 1]
    if counts[""]:
        faults.append("a rubric has no id")
    return faults + [
        f"the rubric '{rubric.id}' has no text" for rubric in rubrics if not rubric.text.strip()
    ]


def rubric_problems(metric: str, rubrics: Sequence[Rubric]) -> list[Problem]:
    """The same as problems of a metric's settings."""
    remedy = "give each rubric an id of its own and a text"
    where = f"{metric}.rubrics"
    return [Problem(where=where, message=text, remedy=remedy) for text in _rubric_faults(rubrics)]


def clash(case: Case, rubrics: Sequence[Rubric]) -> str:
    """What is wrong with the rubrics of a metric and a case together; empty if nothing."""
    faults = _rubric_faults(rubrics)
    return f"case '{case.id}': {'; '.join(faults)}" if faults else ""


def _listed(rubrics: Sequence[Rubric]) -> str:
    """The rubrics as a judge is shown them."""
    return "\n".join(f"{rubric.id.strip()}: {' '.join(rubric.text.split())}" for rubric in rubrics)


# -- The reply against the reference, graded side by side in both orders --------------------------


_GRADES = "ABCDEFGHIJKLMNOPQRST"
"""From the best to the worst, in equal steps."""
_USUAL_CRITERIA = "Which answer serves the user better: correct, complete, to the point."


def _raised(value: object) -> object:
    return value.strip().upper() if isinstance(value, str) else value


_Grade = Annotated[
    Literal[
        "A", "B", "C", "D", "E", "F", "G", "H", "I", "J",
        "K", "L", "M", "N", "O", "P", "Q", "R", "S", "T",
    ],
    BeforeValidator(_raised),
]  # fmt: skip


class PairRequest(BaseModel):
    """What the judge is shown: two answers, of which it is not told whose is whose."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    user_prompt: str
    conversation: str
    criteria: str
    first_answer: str
    second_answer: str

    def swapped(self) -> "PairRequest":
        """The same two the other way round."""
        places = {"first_answer": self.second_answer, "second_answer": self.first_answer}
        return self.model_copy(update=places)


class PairAnswer(JudgeAnswer):
    """What the judge says of the two."""

    reasoning: str
    first_grade: _Grade
    second_grade: _Grade


@dataclass(frozen=True, kw_only=True)
class PairwiseVerifier(JudgedMetric[PairRequest, PairAnswer]):
    """0.5 where the reply is as good as the reference, more where it is better.

    Judges favour a place, so each is asked twice, once in either order, and the mean counts. The
    original reads the grades' token probabilities; endpoints seldom give them, so here the
    grades themselves are taken.
    """

    name: str = "llm_verifier_pairwise"
    criteria: str = ""
    rubrics: tuple[Rubric, ...] = ()

    role: ClassVar[str] = "judge_pairwise"
    request_type: ClassVar[type[BaseModel]] = PairRequest
    answer_type: ClassVar[type[BaseModel]] = PairAnswer

    def problems(self) -> list[Problem]:
        """The rubrics too must be fit to be asked about."""
        return [*super().problems(), *rubric_problems(self.name, self.rubrics)]

    def estimate(self, case: Case) -> Spend:
        """Two calls for each turn, judge and sample."""
        return self.panel.estimate(case, calls=2)

    def request(self, exchange: Exchange) -> PairRequest | Verdict | None:
        """The reply in the first place; nothing without a reference."""
        if exchange.expected is None:
            return None
        rubrics = rubrics_for(self.rubrics, exchange.case, self.name)
        fault = clash(exchange.case, rubrics)
        if fault:
            return Verdict.missing(fault)
        return PairRequest(
            user_prompt=shown(exchange.asked),
            conversation=before(exchange),
            criteria="\n".join(filter(None, [self.criteria, _listed(rubrics)])) or _USUAL_CRITERIA,
            first_answer=shown(reply_text(exchange)),
            second_answer=shown(exchange.expected),
        )

    async def sample(
        self,
        role: ModelRole[PairRequest, PairAnswer],
        request: PairRequest,
        *,
        draw: int,
        effects: Effects,
    ) -> Verdict:
        """Both orders; without either there is no verdict."""
        one, two = await together(
            [
                super().sample(role, request, draw=draw, effects=effects),
                super().sample(role, request.swapped(), draw=draw, effects=effects),
            ]
        )
        if one.value is None or two.value is None:
            return one if one.value is None else two
        return _compared(one, two, (one.value, 1 - two.value))

    def read(self, request: PairRequest, answer: PairAnswer) -> Verdict:
        """How the answer in the first place fares in this order."""
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
    """The mean of both orders: the reply comes first in one, the reference in two."""
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


# -- The base of metrics by rubrics, each of which gets a verdict of its own ----------------------


class RubricRequest(BaseModel):
    """What the judge is shown."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
    reason: str
    verdict: YesNo


class RubricAnswer(JudgeAnswer):
    """What the judge says of every rubric."""

    items: list[RubricItem]


@dataclass(frozen=True, kw_only=True)
class RubricJudge(JudgedMetric[RubricRequest, RubricAnswer]):
    """The share of rubrics that hold: the metric's own, and those that the case adds.

    It is a share of the rubrics that were asked about, so a judge that forgets one, or makes one
    up, is told so and cannot move the score.
    """

    rubrics: tuple[Rubric, ...] = ()

    request_type: ClassVar[type[BaseModel]] = RubricRequest
    answer_type: ClassVar[type[BaseModel]] = RubricAnswer
    needs_reference: ClassVar[bool] = False

    def problems(self) -> list[Problem]:
        """The rubrics too must be fit to be asked about."""
        return [*super().problems(), *rubric_problems(self.name, self.rubrics)]

    def request(self, exchange: Exchange) -> RubricRequest | Verdict | None:
        """The reply beside its rubrics, and beside the reference where there is one."""
        rubrics = rubrics_for(self.rubrics, exchange.case, self.name)
        if not rubrics or (self.needs_reference and exchange.expected is None):
            return None
        fault = clash(exchange.case, rubrics)
        if fault:
            return Verdict.missing(fault)
        return self.about(exchange, rubrics)

    def check(self, request: RubricRequest, answer: RubricAnswer) -> str:
        """Every rubric once."""
        return unmatched(request.ids, [item.id for item in answer.items])

    def read(self, request: RubricRequest, answer: RubricAnswer) -> Verdict:
        """The share that holds; the reason names each that does not."""
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
            details={"rubrics": [_item_details(items[each]) for each in request.ids]},
        )

    def about(self, exchange: Exchange, rubrics: Sequence[Rubric]) -> RubricRequest | Verdict:
        """The request by these rubrics; a verdict where that is clear without asking."""
        return RubricRequest(
            user_prompt=shown(exchange.asked),
            conversation=before(exchange),
            agent_response=shown(reply_text(exchange)),
            reference=shown(exchange.expected),
            knowledge=numbered(self.knowledge(exchange)),
            rubrics=_listed(rubrics),
            ids=tuple(rubric.id.strip() for rubric in rubrics),
            texts=tuple(rubric.text for rubric in rubrics),
        )

    def knowledge(self, exchange: Exchange) -> Sequence[str]:
        """What was retrieved: the passages of the turn."""
        return exchange.passages


def _item_details(item: RubricItem) -> Json:
    return {
        "id": item.id,
        "verdict": item.verdict,
        "reason": excerpt(item.reason, REASON),
        "evidence": excerpt(item.evidence, EXCERPT),
    }


# -- Replies --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RubricResponse(RubricJudge):
    """Whether the reply fulfils the rubrics; the reference is there to check facts by."""

    name: str = "llm_rubric_response"

    role: ClassVar[str] = "judge_rubric_response"


@dataclass(frozen=True, kw_only=True)
class RubricCritic(RubricJudge):
    """A strict reviewer: the reference is the golden answer, and any doubt is a no."""

    name: str = "llm_rubric_critic"

    role: ClassVar[str] = "judge_rubric_critic"
    needs_reference: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class RubricReferenceCritic(RubricJudge):
    """The reference shows how good is good enough; other words for it will do."""

    name: str = "llm_rubric_reference_critic"

    role: ClassVar[str] = "judge_rubric_reference_critic"
    needs_reference: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class RubricKnowledgeRecall(RubricJudge):
    """The share of rubrics that the retrieved knowledge bears out; the reply is not looked at.

    A turn that retrieved nothing has recalled nothing: that is 0, and no judge is asked.
    """

    name: str = "llm_rubric_knowledge_recall"
    knowledge_tool_names: tuple[str, ...] = ("knowledge_search",)

    role: ClassVar[str] = "judge_rubric_knowledge_recall"

    def knowledge(self, exchange: Exchange) -> Sequence[str]:
        """What the knowledge tools brought back in this turn."""
        return [text for tool in self._uses(exchange) for text in brought(tool)]

    def about(self, exchange: Exchange, rubrics: Sequence[Rubric]) -> RubricRequest | Verdict:
        """The retrieved knowledge beside the rubrics."""
        if self.knowledge(exchange):
            return super().about(exchange, rubrics)
        return Verdict(value=0.0, reason=f"nothing was retrieved: {self._why(exchange)}")

    def _uses(self, exchange: Exchange) -> list[ToolCall]:
        return [tool for tool in exchange.tools if tool.name in self.knowledge_tool_names]

    def _why(self, exchange: Exchange) -> str:
        used = self._uses(exchange)
        if used:
            errors = "; ".join(excerpt(tool.error) for tool in used if tool.error)
            problem = f"{_names(used)} was called and gave nothing"
            return f"{problem} ({errors})" if errors else problem
        names = " or ".join(self.knowledge_tool_names)
        others = _names(exchange.tools)
        called = f"only {others}" if others else "and neither was any other tool"
        return f"{names} was not called in this turn, {called}"


def _names(tools: Sequence[ToolCall]) -> str:
    return ", ".join(dict.fromkeys(tool.name for tool in tools))
