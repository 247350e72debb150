"""The base of metrics in which a judge says yes or no to each numbered item."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from burnish.core.content import Json
from burnish.evaluation.exchanges import Exchange
from burnish.evaluation.judges.answers import NumberedAnswer, misnumbered
from burnish.evaluation.judges.evidence import REASON, excerpt, numbered, shown
from burnish.evaluation.judges.judged import JudgedMetric
from burnish.evaluation.turn_metric import Verdict


class NumberedRequest(BaseModel):
    """What the judge is shown."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    user_prompt: str
    reference: str
    passages: str
    items: str
    texts: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class NumberedJudge(JudgedMetric[NumberedRequest, NumberedAnswer]):
    """We take a text apart and number the parts; the judge answers for each number.

    So the score is a share of what was there, not of what the judge cared to list.
    """

    include_reason: bool = True
    """Whether the judge's words go into the reason, or only how many items failed."""

    request_type: ClassVar[type[BaseModel]] = NumberedRequest
    answer_type: ClassVar[type[BaseModel]] = NumberedAnswer
    fault: ClassVar[str]
    """What is said of the items that fail, after 'n of m'."""

    @abstractmethod
    def items(self, exchange: Exchange) -> Sequence[str] | Verdict | None:
        """What is judged one by one; None where the metric does not apply."""

    def worth(self, held: Sequence[bool]) -> float:
        """What the verdicts, in order, amount to: the share that held."""
        return sum(held) / len(held)

    def request(self, exchange: Exchange) -> NumberedRequest | Verdict | None:
        """The numbered items beside what they are judged by."""
        items = self.items(exchange)
        if items is None or isinstance(items, Verdict):
            return items
        return NumberedRequest(
            user_prompt=shown(exchange.asked),
            reference=shown(exchange.expected),
            passages=numbered(exchange.passages),
            items=numbered(items),
            texts=tuple(items),
        )

    def check(self, request: NumberedRequest, answer: NumberedAnswer) -> str:
        """Every item once."""
        return misnumbered(len(request.texts), [item.number for item in answer.items])

    def read(self, request: NumberedRequest, answer: NumberedAnswer) -> Verdict:
        """What the verdicts are worth; the reason quotes what failed."""
        items = sorted(answer.items, key=lambda item: item.number)
        failed = [
            f"'{excerpt(text)}': {excerpt(item.reason, REASON)}"
            for text, item in zip(request.texts, items, strict=True)
            if item.verdict == "no"
        ]
        kept: list[Json] = [
            {"item": excerpt(text), "verdict": item.verdict, "reason": excerpt(item.reason, REASON)}
            for text, item in zip(request.texts, items, strict=True)
        ]
        told = f"{len(failed)} of {len(items)} {self.fault}"
        quoted = f"{told}: {'; '.join(failed)}" if self.include_reason else told
        return Verdict(
            value=self.worth([item.verdict == "yes" for item in items]),
            reason=quoted if failed else "",
            details={"items": kept},
        )
