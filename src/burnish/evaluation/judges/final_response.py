"""Whether the reply is a valid answer beside a reference: `llm_final_response`."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from burnish.evaluation.exchanges import Exchange
from burnish.evaluation.judges.answers import JudgeAnswer, Lowered
from burnish.evaluation.judges.evidence import REASON, before, excerpt, said, shown
from burnish.evaluation.judges.judged import JudgedMetric
from burnish.evaluation.turn_metric import Verdict


class FinalResponseRequest(BaseModel):
    """What the judge is shown."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    user_prompt: str
    conversation: str
    agent_response: str
    reference: str


class FinalResponseAnswer(JudgeAnswer):
    """What the judge says."""

    reasoning: str
    is_the_agent_response_valid: Annotated[Literal["valid", "invalid"], Lowered]


@dataclass(frozen=True, kw_only=True)
class FinalResponseJudge(JudgedMetric[FinalResponseRequest, FinalResponseAnswer]):
    """1 where a judge takes the reply for as good as the reference, else 0."""

    name: str = "llm_final_response"

    role: ClassVar[str] = "judge_final_response"
    request_type: ClassVar[type[BaseModel]] = FinalResponseRequest
    answer_type: ClassVar[type[BaseModel]] = FinalResponseAnswer

    def request(self, exchange: Exchange) -> FinalResponseRequest | None:
        """Both answers; nothing without a reference."""
        if exchange.expected is None:
            return None
        return FinalResponseRequest(
            user_prompt=shown(exchange.asked),
            conversation=before(exchange),
            agent_response=shown(said(exchange)),
            reference=shown(exchange.expected),
        )

    def read(self, request: FinalResponseRequest, answer: FinalResponseAnswer) -> Verdict:
        """Valid or not."""
        del request
        reason = excerpt(answer.reasoning, REASON)
        valid = answer.is_the_agent_response_valid == "valid"
        return Verdict.of(held=valid, reason=f"not a valid answer: {reason}", reasoning=reason)
