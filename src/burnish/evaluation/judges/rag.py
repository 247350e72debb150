"""Retrieval metrics over numbered items: how much of what was retrieved, or said, bears on it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from burnish.evaluation.exchanges import Exchange
from burnish.evaluation.judges.evidence import said
from burnish.evaluation.judges.numbered_judge import NumberedJudge
from burnish.evaluation.judges.sentences import sentences
from burnish.evaluation.turn_metric import Verdict


@dataclass(frozen=True, kw_only=True)
class AnswerRelevancy(NumberedJudge):
    """The share of the reply's sentences that bear on what was asked. No reply, no relevance: 0."""

    name: str = "answer_relevancy"

    role: ClassVar[str] = "judge_answer_relevancy"
    fault: ClassVar[str] = "sentences of the reply do not bear on what was asked"

    def items(self, exchange: Exchange) -> Sequence[str] | Verdict:
        """The sentences of the reply."""
        parts = sentences(said(exchange))
        return parts or Verdict(value=0.0, reason="the reply is empty: it answers nothing")


@dataclass(frozen=True, kw_only=True)
class ContextualRelevancy(NumberedJudge):
    """The share of the passages' sentences that bear on what was asked."""

    name: str = "contextual_relevancy"

    role: ClassVar[str] = "judge_contextual_relevancy"
    fault: ClassVar[str] = "sentences that were retrieved do not bear on what was asked"

    def items(self, exchange: Exchange) -> Sequence[str] | None:
        """The sentences of the passages."""
        return [part for passage in exchange.passages for part in sentences(passage)] or None


@dataclass(frozen=True, kw_only=True)
class ContextualPrecision(NumberedJudge):
    """Whether the passages that help towards the expected answer come before those that do not.

    The mean, over the helpful passages, of the share of helpful ones up to each: a useless
    passage in front costs more than one at the end. Without a helpful one it is 0.
    """

    name: str = "contextual_precision"

    role: ClassVar[str] = "judge_contextual_precision"
    fault: ClassVar[str] = "passages do not help towards the expected answer"

    def items(self, exchange: Exchange) -> Sequence[str] | None:
        """The passages, in the order in which they were retrieved."""
        return None if exchange.expected is None else exchange.passages or None

    def worth(self, held: Sequence[bool]) -> float:
        """The rank-weighted precision."""
        ranks = [rank for rank, helps in enumerate(held, 1) if helps]
        shares = [count / rank for count, rank in enumerate(ranks, 1)]
        return min(1.0, sum(shares) / len(shares)) if shares else 0.0


@dataclass(frozen=True, kw_only=True)
class ContextualRecall(NumberedJudge):
    """The share of the expected answer's sentences that the passages bear out."""

    name: str = "contextual_recall"

    role: ClassVar[str] = "judge_contextual_recall"
    fault: ClassVar[str] = "sentences of the expected answer are in no passage"

    def items(self, exchange: Exchange) -> Sequence[str] | None:
        """The sentences of the expected answer."""
        return (sentences(exchange.expected or "") or None) if exchange.passages else None
