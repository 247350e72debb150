"""The reply against the reference, graded side by side in both orders: `llm_verifier_pairwise`."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict

from burnish.core.cases import Case, Rubric
from burnish.core.content import Json
from burnish.core.effects import Effects
from burnish.core.errors import Problem
from burnish.core.evaluations import mean
from burnish.core.money import Spend
from burnish.effects.executors import together
from burnish.evaluation.exchanges import Exchange
from burnish.evaluation.judges.answers import JudgeAnswer
from burnish.evaluation.judges.evidence import REASON, before, excerpt, said, shown
from burnish.evaluation.judges.judged import JudgedMetric
from burnish.evaluation.judges.rubric_lists import clash, listed, rubric_problems, rubrics_for
from burnish.evaluation.turn_metric import EPSILON, Verdict
from burnish.models.roles import ModelRole

GRADES = "ABCDEFGHIJKLMNOPQRST"
"""From the best to the worst, in equal steps."""
USUAL_CRITERIA = "Which answer serves the user better: correct, complete, to the point."


def _raised(value: object) -> object:
    return value.strip().upper() if isinstance(value, str) else value


Grade = Annotated[
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
    first_grade: Grade
    second_grade: Grade


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
            criteria="\n".join(filter(None, [self.criteria, listed(rubrics)])) or USUAL_CRITERIA,
            first_answer=shown(said(exchange)),
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
    told = f"the reply got {ours[0]} and {ours[1]}, the reference {theirs[0]} and {theirs[1]}"
    doubt = "" if agrees else "; the two orders disagree, so this says little"
    why = one.reason if values[0] <= values[1] else two.reason
    kept: list[Json] = [{"first": "reply", **one.details}, {"first": "reference", **two.details}]
    return Verdict(
        value=value,
        reason="" if agrees and value > 0.5 else f"{told} (A is best, T worst){doubt}: {why}",
        details={"orders": kept, "order_agrees": agrees},
    )


def _quality(grade: str) -> float:
    return 1 - GRADES.index(grade) / (len(GRADES) - 1)


def _side(value: float) -> int:
    return (value > 0.5 + EPSILON) - (value < 0.5 - EPSILON)
