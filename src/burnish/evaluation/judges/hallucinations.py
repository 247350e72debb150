"""How much of a reply rests on evidence, sentence by sentence: `llm_hallucinations`."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from burnish.core.content import Json
from burnish.evaluation.exchanges import Exchange
from burnish.evaluation.judges.answers import JudgeAnswer, Lowered, Number, misnumbered
from burnish.evaluation.judges.evidence import (
    REASON,
    context_messages,
    conversation,
    excerpt,
    numbered,
    said,
    shown,
    tool_uses,
)
from burnish.evaluation.judges.judged import JudgedMetric
from burnish.evaluation.judges.sentences import sentences
from burnish.evaluation.turn_metric import Verdict

Support = Literal["supported", "unsupported", "contradictory", "disputed", "not_applicable"]
_GROUNDED = ("supported", "not_applicable")


class HallucinationRequest(BaseModel):
    """What the judge is shown."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    context_messages: str
    conversation: str
    user_prompt: str
    passages: str
    tool_uses: str
    sentences: str
    texts: tuple[str, ...]


class SentenceItem(JudgeAnswer):
    """What the judge says of one sentence."""

    number: Number
    reason: str
    verdict: Annotated[Support, Lowered]


class HallucinationAnswer(JudgeAnswer):
    """What the judge says of every sentence."""

    items: list[SentenceItem]


@dataclass(frozen=True, kw_only=True)
class Hallucinations(JudgedMetric[HallucinationRequest, HallucinationAnswer]):
    """The share of sentences that are supported, or that claim nothing.

    Evidence is what users said, context, passages, and what tools gave up to this turn. What the
    agent itself said earlier is shown, and is no evidence. An empty reply scores 0: silence must
    not look well-founded.
    """

    name: str = "llm_hallucinations"

    role: ClassVar[str] = "judge_hallucinations"
    request_type: ClassVar[type[BaseModel]] = HallucinationRequest
    answer_type: ClassVar[type[BaseModel]] = HallucinationAnswer

    def request(self, exchange: Exchange) -> HallucinationRequest | Verdict:
        """The reply in numbered sentences, beside everything it may rest on."""
        parts = sentences(said(exchange))
        if not parts:
            return Verdict(value=0.0, reason="the reply is empty: there is nothing to judge")
        return HallucinationRequest(
            context_messages=context_messages(exchange.case),
            conversation=conversation(exchange),
            user_prompt=shown(exchange.asked),
            passages=numbered(_passages(exchange)),
            tool_uses=tool_uses(exchange.tools_so_far),
            sentences=numbered(parts),
            texts=parts,
        )

    def check(self, request: HallucinationRequest, answer: HallucinationAnswer) -> str:
        """Every sentence once."""
        return misnumbered(len(request.texts), [item.number for item in answer.items])

    def read(self, request: HallucinationRequest, answer: HallucinationAnswer) -> Verdict:
        """The share that is grounded; the reason quotes what is not."""
        items = sorted(answer.items, key=lambda item: item.number)
        told = [
            f"'{excerpt(text)}' is {item.verdict}: {excerpt(item.reason, REASON)}"
            for text, item in zip(request.texts, items, strict=True)
            if item.verdict not in _GROUNDED
        ]
        count = len(items)
        words = f"{len(told)} of {count} sentences have no support: {'; '.join(told)}"
        kept: list[Json] = [
            {
                "sentence": excerpt(text),
                "verdict": item.verdict,
                "reason": excerpt(item.reason, REASON),
            }
            for text, item in zip(request.texts, items, strict=True)
        ]
        value = (count - len(told)) / count
        return Verdict(value=value, reason=words if told else "", details={"sentences": kept})


def _passages(exchange: Exchange) -> list[str]:
    """What the case gives as context, up to this turn. What tools retrieved is among their uses."""
    turns = exchange.case.turns[: exchange.index + 1]
    return [passage for turn in turns for passage in turn.context]
