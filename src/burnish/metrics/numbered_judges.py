"""Judges that rate numbered items: faithfulness, hallucinations, retrieval."""

import math
import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel

from burnish.core.content import Json
from burnish.metrics.judged import (
    REASON,
    Evidence,
    JudgeAnswer,
    JudgedMetric,
    Lowered,
    Number,
    NumberedAnswer,
    NumberedItem,
    YesNoUnsure,
    context_messages,
    conversation,
    excerpt,
    misnumbered,
    numbered,
    reply_text,
    tool_uses,
)
from burnish.metrics.turns import NEEDS_PASSAGES, NEEDS_REFERENCE, Exchange, Verdict
from burnish.models.answers import Explanation


class _FaithfulnessRequest(Evidence):
    """What the judge is shown."""

    user_prompt: str
    agent_response: str
    passages: str


class Claim(JudgeAnswer):
    """One claim of the reply, and whether the passages bear it out."""

    claim: str
    reason: Explanation
    verdict: YesNoUnsure


class FaithfulnessAnswer(JudgeAnswer):
    """The claims that the judge found."""

    claims: list[Claim]


@dataclass(frozen=True, kw_only=True)
class Faithfulness(JudgedMetric[_FaithfulnessRequest, FaithfulnessAnswer]):
    """The share of claims that the passages support.

    The judge finds the claims, since a sentence may hold several. A reply without claims, such
    as a question, scores 1; an empty reply scores 0.
    """

    name: str = "faithfulness"
    include_reason: bool = True
    """Whether the reason quotes the judge or only counts the failed claims."""

    role: ClassVar[str] = "judge_faithfulness"
    request_type: ClassVar[type[BaseModel]] = _FaithfulnessRequest
    answer_type: ClassVar[type[BaseModel]] = FaithfulnessAnswer
    needs: ClassVar[str] = NEEDS_PASSAGES

    def request(self, exchange: Exchange) -> _FaithfulnessRequest | Verdict | None:
        if not exchange.passages:
            return None
        if not reply_text(exchange).strip():
            return Verdict(value=0.0, reason="the reply is empty: it does not use the passages")
        return self.filled(exchange)

    def read(self, request: _FaithfulnessRequest, answer: FaithfulnessAnswer) -> Verdict:
        del request
        claims = answer.claims
        words = {"no": "is contradicted", "unsure": "is not in the passages"}
        failed = [
            f"'{excerpt(each.claim)}' {words[each.verdict]}: {excerpt(each.reason, REASON)}"
            for each in claims
            if each.verdict != "yes"
        ]
        summary = f"{len(failed)} of {len(claims)} claims are not supported by the passages"
        quoted = f"{summary}: {'; '.join(failed)}" if self.include_reason else summary
        return Verdict(
            value=(len(claims) - len(failed)) / len(claims) if claims else 1.0,
            reason=quoted if failed else "",
            details={"claims": [_record("claim", each.claim, each) for each in claims]},
        )


def _record(name: str, text: str, item: "Claim | NumberedItem | SentenceItem") -> Json:
    reason = excerpt(item.reason, REASON)
    return {name: excerpt(text), "verdict": item.verdict, "reason": reason}


class _NumberedRequest(Evidence):
    """What the judge is shown."""

    user_prompt: str
    reference: str
    passages: str
    items: str
    texts: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class NumberedJudge(JudgedMetric[_NumberedRequest, NumberedAnswer]):
    """Numbers the parts of a text, and asks the judge about each of them.

    So the score is a share of all parts, not of those that the judge chooses to list.
    """

    include_reason: bool = True
    """Whether the reason quotes the judge or only counts the failed items."""

    request_type: ClassVar[type[BaseModel]] = _NumberedRequest
    answer_type: ClassVar[type[BaseModel]] = NumberedAnswer
    fault: ClassVar[str]
    """What to say about failed items, after 'n of m'."""

    @abstractmethod
    def items(self, exchange: Exchange) -> Sequence[str] | Verdict | None:
        """The items to judge; None to skip the turn."""

    def worth(self, held: Sequence[bool]) -> float:
        """The score for these verdicts: the share that holds."""
        return sum(held) / len(held)

    def request(self, exchange: Exchange) -> _NumberedRequest | Verdict | None:
        items = self.items(exchange)
        if items is None or isinstance(items, Verdict):
            return items
        return self.filled(exchange, items=numbered(items), texts=tuple(items))

    def check(self, request: _NumberedRequest, answer: NumberedAnswer) -> str:
        return misnumbered(len(request.texts), [item.number for item in answer.items])

    def read(self, request: _NumberedRequest, answer: NumberedAnswer) -> Verdict:
        items = sorted(answer.items, key=lambda item: item.number)
        pairs = list(zip(request.texts, items, strict=True))
        failed = [
            f"'{excerpt(text)}': {excerpt(item.reason, REASON)}"
            for text, item in pairs
            if item.verdict == "no"
        ]
        summary = f"{len(failed)} of {len(items)} {self.fault}"
        quoted = f"{summary}: {'; '.join(failed)}" if self.include_reason else summary
        return Verdict(
            value=self.worth([item.verdict == "yes" for item in items]),
            reason=quoted if failed else "",
            details={"items": [_record("item", text, item) for text, item in pairs]},
        )


_FENCE = re.compile(
    r"^[ \t]*(```|~~~)[^`~\n]*\n.*?(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE
)
_MARKER = re.compile(r"\s*(?:[-*+•‣]|\d{1,3}[.)]|[A-Za-z][.)])\s+(?=\S)")
_END = re.compile(r"[.!?…]+[\"'”’)\]*_]*(?=\s)|[。！？]+[」』”’）]*")
_SHORT = re.compile(
    r"(?:al|approx|ca|cf|corp|dr|e\.g|eds?|eq|fig|i\.e|inc|jr|ltd|mrs?|ms|nos|pp|prof|resp|sr|st"
    r"|vol|vs|[^\W\d_])\."
)
"""Abbreviations and initials, whose full stop does not end a sentence."""


def sentences(text: str) -> tuple[str, ...]:
    """The sentences of a text that have a letter or digit; a code block is one sentence.

    A text that is not blank has at least one.
    """
    parts = (part for block in _blocks(text) for part in _parts(block))
    speaking = tuple(part for part in parts if any(each.isalnum() for each in part))
    whole = text.strip()
    return speaking or ((whole,) if whole else ())


def _blocks(text: str) -> Iterator[str]:
    at = 0
    for fence in _FENCE.finditer(text):
        yield from text[at : fence.start()].splitlines()
        yield fence[0]
        at = fence.end()
    yield from text[at:].splitlines()


def _parts(block: str) -> Iterator[str]:
    if "\n" in block:
        yield block.strip()
        return
    marker = _MARKER.match(block)
    start, after = 0, marker.end() if marker else 0
    for end in _END.finditer(block, after):
        part = block[start : end.end()]
        if not _SHORT.fullmatch(part.split()[-1].lstrip("\"'“‘([*_").lower()):
            yield part.strip()
            start = end.end()
    yield block[start:].strip()


_Support = Literal["supported", "unsupported", "contradictory", "disputed", "not_applicable"]


class _HallucinationRequest(Evidence):
    """What the judge is shown."""

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
    reason: Explanation
    verdict: Annotated[_Support, Lowered]


class HallucinationAnswer(JudgeAnswer):
    """What the judge says of every sentence."""

    items: list[SentenceItem]


@dataclass(frozen=True, kw_only=True)
class Hallucinations(JudgedMetric[_HallucinationRequest, HallucinationAnswer]):
    """The share of sentences that are supported or claim nothing.

    Evidence is what users said, context, passages and tool results up to this turn. What the
    agent said earlier is shown but is no evidence. An empty reply scores 0.
    """

    name: str = "llm_hallucinations"

    role: ClassVar[str] = "judge_hallucinations"
    request_type: ClassVar[type[BaseModel]] = _HallucinationRequest
    answer_type: ClassVar[type[BaseModel]] = HallucinationAnswer

    def request(self, exchange: Exchange) -> _HallucinationRequest | Verdict:
        parts = sentences(reply_text(exchange))
        if not parts:
            return Verdict(value=0.0, reason="the reply is empty: there is nothing to judge")
        # What tools retrieved is among their uses.
        turns = exchange.case.turns[: exchange.index + 1]
        passages = [passage for turn in turns for passage in turn.context]
        return self.filled(
            exchange,
            context_messages=context_messages(exchange.case),
            conversation=conversation(exchange),
            passages=numbered(passages),
            tool_uses=tool_uses(exchange.tools_so_far),
            sentences=numbered(parts),
            texts=parts,
        )

    def check(self, request: _HallucinationRequest, answer: HallucinationAnswer) -> str:
        return misnumbered(len(request.texts), [item.number for item in answer.items])

    def read(self, request: _HallucinationRequest, answer: HallucinationAnswer) -> Verdict:
        items = sorted(answer.items, key=lambda item: item.number)
        pairs = list(zip(request.texts, items, strict=True))
        failed = [
            f"'{excerpt(text)}' is {item.verdict}: {excerpt(item.reason, REASON)}"
            for text, item in pairs
            if item.verdict not in ("supported", "not_applicable")
        ]
        reason = f"{len(failed)} of {len(items)} sentences have no support: {'; '.join(failed)}"
        return Verdict(
            value=(len(items) - len(failed)) / len(items),
            reason=reason if failed else "",
            details={"sentences": [_record("sentence", text, item) for text, item in pairs]},
        )


@dataclass(frozen=True, kw_only=True)
class AnswerRelevancy(NumberedJudge):
    """The share of the reply's sentences that are relevant to the question; 0 if there are none."""

    name: str = "answer_relevancy"

    role: ClassVar[str] = "judge_answer_relevancy"
    fault: ClassVar[str] = "sentences of the reply are not relevant to the question"

    def items(self, exchange: Exchange) -> Sequence[str] | Verdict:
        parts = sentences(reply_text(exchange))
        return parts or Verdict(value=0.0, reason="the reply is empty: it answers nothing")


@dataclass(frozen=True, kw_only=True)
class ContextualRelevancy(NumberedJudge):
    """The share of the passages' sentences that are relevant to the question."""

    name: str = "contextual_relevancy"

    role: ClassVar[str] = "judge_contextual_relevancy"
    needs: ClassVar[str] = NEEDS_PASSAGES
    fault: ClassVar[str] = "retrieved sentences are not relevant to the question"

    def items(self, exchange: Exchange) -> Sequence[str] | None:
        return [part for passage in exchange.passages for part in sentences(passage)] or None


@dataclass(frozen=True, kw_only=True)
class ContextualPrecision(NumberedJudge):
    """Whether passages that help towards the expected answer come first.

    The mean, over the helpful passages, of the share of helpful ones up to each; 0 without any.
    """

    name: str = "contextual_precision"

    role: ClassVar[str] = "judge_contextual_precision"
    needs: ClassVar[str] = f"{NEEDS_REFERENCE}, and {NEEDS_PASSAGES}"
    fault: ClassVar[str] = "passages do not help towards the expected answer"

    def items(self, exchange: Exchange) -> Sequence[str] | None:
        return None if exchange.expected is None else exchange.passages or None

    def worth(self, held: Sequence[bool]) -> float:
        ranks = [rank for rank, helps in enumerate(held, 1) if helps]
        shares = [count / rank for count, rank in enumerate(ranks, 1)]
        return min(1.0, math.fsum(shares) / len(shares)) if shares else 0.0


@dataclass(frozen=True, kw_only=True)
class ContextualRecall(NumberedJudge):
    """The share of the expected answer's sentences that the passages support."""

    name: str = "contextual_recall"

    role: ClassVar[str] = "judge_contextual_recall"
    needs: ClassVar[str] = f"{NEEDS_REFERENCE}, and {NEEDS_PASSAGES}"
    fault: ClassVar[str] = "sentences of the expected answer are not in any passage"

    def items(self, exchange: Exchange) -> Sequence[str] | None:
        return (sentences(exchange.expected or "") or None) if exchange.passages else None
