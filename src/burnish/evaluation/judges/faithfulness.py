"""Whether the claims of a reply are borne out by the passages: `faithfulness`."""

from dataclasses import dataclass
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from burnish.core.content import Json
from burnish.evaluation.exchanges import Exchange
from burnish.evaluation.judges.answers import JudgeAnswer, YesNoUnsure
from burnish.evaluation.judges.evidence import REASON, excerpt, numbered, said, shown
from burnish.evaluation.judges.judged import JudgedMetric
from burnish.evaluation.turn_metric import Verdict


class FaithfulnessRequest(BaseModel):
    """What the judge is shown."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    user_prompt: str
    agent_response: str
    passages: str


class Claim(JudgeAnswer):
    """One claim of the reply, and whether the passages bear it out."""

    claim: str
    reason: str
    verdict: YesNoUnsure


class FaithfulnessAnswer(JudgeAnswer):
    """The claims that the judge found."""

    claims: list[Claim]


@dataclass(frozen=True, kw_only=True)
class Faithfulness(JudgedMetric[FaithfulnessRequest, FaithfulnessAnswer]):
    """The share of claims that the passages bear out; one they do not speak of does not count.

    The judge finds the claims, since a sentence may hold several. A reply that claims nothing,
    such as a question back, is faithful: 1. An empty reply is none: 0.
    """

    name: str = "faithfulness"
    include_reason: bool = True
    """Whether the judge's words go into the reason, or only how many claims failed."""

    role: ClassVar[str] = "judge_faithfulness"
    request_type: ClassVar[type[BaseModel]] = FaithfulnessRequest
    answer_type: ClassVar[type[BaseModel]] = FaithfulnessAnswer

    def request(self, exchange: Exchange) -> FaithfulnessRequest | Verdict | None:
        """The reply beside the passages; nothing without passages."""
        if not exchange.passages:
            return None
        reply = said(exchange)
        if not reply.strip():
            return Verdict(value=0.0, reason="the reply is empty: it makes nothing of the passages")
        return FaithfulnessRequest(
            user_prompt=shown(exchange.asked),
            agent_response=reply,
            passages=numbered(exchange.passages),
        )

    def read(self, request: FaithfulnessRequest, answer: FaithfulnessAnswer) -> Verdict:
        """The share borne out; the reason quotes the other claims."""
        del request
        claims = answer.claims
        words = {"no": "is contradicted", "unsure": "is not in the passages"}
        failed = [
            f"'{excerpt(each.claim)}' {words[each.verdict]}: {excerpt(each.reason, REASON)}"
            for each in claims
            if each.verdict != "yes"
        ]
        told = f"{len(failed)} of {len(claims)} claims are not borne out by the passages"
        quoted = f"{told}: {'; '.join(failed)}" if self.include_reason else told
        kept: list[Json] = [
            {"claim": excerpt(c.claim), "verdict": c.verdict, "reason": excerpt(c.reason, REASON)}
            for c in claims
        ]
        return Verdict(
            value=(len(claims) - len(failed)) / len(claims) if claims else 1.0,
            reason=quoted if failed else "",
            details={"claims": kept},
        )
