"""Groundedness, relevance, coherence and fluency: a judge's 1 to 5, brought to [0, 1]."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from burnish.core.errors import Problem
from burnish.evaluation.exchanges import Exchange
from burnish.evaluation.judges.answers import JudgeAnswer, Number
from burnish.evaluation.judges.evidence import REASON, before, excerpt, numbered, said, shown
from burnish.evaluation.judges.judged import JudgedMetric
from burnish.evaluation.turn_metric import Verdict

WORST, BEST = 1, 5


class QualityRequest(BaseModel):
    """What the judge is shown, and the rules that this project adds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    user_prompt: str
    conversation: str
    agent_response: str
    passages: str
    custom_prompt: str


class QualityAnswer(JudgeAnswer):
    """What the judge says."""

    reasoning: str
    score: Annotated[Number, Field(ge=WORST, le=BEST)]


@dataclass(frozen=True, kw_only=True)
class QualityJudge(JudgedMetric[QualityRequest, QualityAnswer]):
    """A judge's 1 to 5, as (score − 1) / 4. A threshold above 1 is on the judge's own scale."""

    custom_prompt: str = ""
    """Rules of the project; where they differ from the prompt's own, they win."""

    request_type: ClassVar[type[BaseModel]] = QualityRequest
    answer_type: ClassVar[type[BaseModel]] = QualityAnswer
    needs_passages: ClassVar[bool] = False

    def problems(self) -> list[Problem]:
        """A threshold may be on either scale."""
        if self.threshold is None or 0 <= self.threshold <= BEST:
            return []
        message = f"a threshold is from 0 to 1, or above 1 and up to {BEST}"
        where = f"{self.name}.threshold"
        return [Problem(where=where, message=f"{message}, found {self.threshold:g}")]

    @property
    def bar(self) -> float:
        """From here on a judge's score passes, in [0, 1]."""
        if self.threshold is None or self.threshold <= 1:
            return super().bar
        return _share(self.threshold)

    def request(self, exchange: Exchange) -> QualityRequest | None:
        """The reply with what went before it."""
        if self.needs_passages and not exchange.passages:
            return None
        return QualityRequest(
            user_prompt=shown(exchange.asked),
            conversation=before(exchange),
            agent_response=shown(said(exchange)),
            passages=numbered(exchange.passages),
            custom_prompt=shown(self.custom_prompt),
        )

    def read(self, request: QualityRequest, answer: QualityAnswer) -> Verdict:
        """The score brought to [0, 1]; the judge's own number is kept beside it."""
        del request
        told = f"{answer.score} of {BEST}: {excerpt(answer.reasoning, REASON)}"
        return Verdict(
            value=_share(answer.score),
            reason="" if answer.score == BEST else told,
            details={"raw": answer.score},
        )


@dataclass(frozen=True, kw_only=True)
class Groundedness(QualityJudge):
    """How far the reply rests on the passages of the turn."""

    name: str = "groundedness"

    role: ClassVar[str] = "judge_groundedness"
    needs_passages: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class Relevance(QualityJudge):
    """How far the reply answers what was asked."""

    name: str = "relevance"

    role: ClassVar[str] = "judge_relevance"


@dataclass(frozen=True, kw_only=True)
class Coherence(QualityJudge):
    """How well the parts of the reply hang together."""

    name: str = "coherence"

    role: ClassVar[str] = "judge_coherence"


@dataclass(frozen=True, kw_only=True)
class Fluency(QualityJudge):
    """How well the reply is written."""

    name: str = "fluency"

    role: ClassVar[str] = "judge_fluency"


def _share(score: float) -> float:
    return (score - WORST) / (BEST - WORST)
