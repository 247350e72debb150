"""The base of metrics by rubrics, each of which gets a verdict of its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from burnish.core.cases import Rubric
from burnish.core.content import Json
from burnish.core.errors import Problem
from burnish.evaluation.exchanges import Exchange
from burnish.evaluation.judges.answers import ItemId, JudgeAnswer, YesNo, unmatched
from burnish.evaluation.judges.evidence import (
    EXCERPT,
    REASON,
    before,
    excerpt,
    numbered,
    said,
    shown,
)
from burnish.evaluation.judges.judged import JudgedMetric
from burnish.evaluation.judges.rubric_lists import clash, listed, rubric_problems, rubrics_for
from burnish.evaluation.turn_metric import Verdict


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
        told = f"{len(failed)} of {count} rubrics did not hold: {'; '.join(failed)}"
        return Verdict(
            value=(count - len(failed)) / count,
            reason=told if failed else "",
            details={"rubrics": [_kept(items[each]) for each in request.ids]},
        )

    def about(self, exchange: Exchange, rubrics: Sequence[Rubric]) -> RubricRequest | Verdict:
        """The request by these rubrics; a verdict where that is clear without asking."""
        return RubricRequest(
            user_prompt=shown(exchange.asked),
            conversation=before(exchange),
            agent_response=shown(said(exchange)),
            reference=shown(exchange.expected),
            knowledge=numbered(self.knowledge(exchange)),
            rubrics=listed(rubrics),
            ids=tuple(rubric.id.strip() for rubric in rubrics),
            texts=tuple(rubric.text for rubric in rubrics),
        )

    def knowledge(self, exchange: Exchange) -> Sequence[str]:
        """What was retrieved: the passages of the turn."""
        return exchange.passages


def _kept(item: RubricItem) -> Json:
    return {
        "id": item.id,
        "verdict": item.verdict,
        "reason": excerpt(item.reason, REASON),
        "evidence": excerpt(item.evidence, EXCERPT),
    }
