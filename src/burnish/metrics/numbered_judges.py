"""Judges that say yes or no to numbered items: faithfulness, hallucinations, retrieval."""

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from burnish.core.content import Json
from burnish.metrics.judged import (
    REASON,
    JudgeAnswer,
    JudgedMetric,
    Lowered,
    Number,
    NumberedAnswer,
    YesNoUnsure,
    context_messages,
    conversation,
    excerpt,
    misnumbered,
    numbered,
    reply_text,
    shown,
    tool_uses,
)
from burnish.metrics.turns import Exchange, Verdict


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
        reply = reply_text(exchange)
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
        summary = f"{len(failed)} of {len(claims)} claims are not borne out by the passages"
        quoted = f"{summary}: {'; '.join(failed)}" if self.include_reason else summary
        records: list[Json] = [
            {"claim": excerpt(c.claim), "verdict": c.verdict, "reason": excerpt(c.reason, REASON)}
            for c in claims
        ]
        return Verdict(
            value=(len(claims) - len(failed)) / len(claims) if claims else 1.0,
            reason=quoted if failed else "",
            details={"claims": records},
        )


# -- Numbered judge -------------------------------------------------------------------------------


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
        records: list[Json] = [
            {"item": excerpt(text), "verdict": item.verdict, "reason": excerpt(item.reason, REASON)}
            for text, item in zip(request.texts, items, strict=True)
        ]
        summary = f"{len(failed)} of {len(items)} {self.fault}"
        quoted = f"{summary}: {'; '.join(failed)}" if self.include_reason else summary
        return Verdict(
            value=self.worth([item.verdict == "yes" for item in items]),
            reason=quoted if failed else "",
            details={"items": records},
        )


# -- Sentences ------------------------------------------------------------------------------------


_FENCE = re.compile(
    r"^[ \t]*(```|~~~)[^`~\n]*\n.*?(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE
)
_MARKER = re.compile(r"\s*(?:[-*+•‣]|\d{1,3}[.)]|[A-Za-z][.)])\s+(?=\S)")
_END = re.compile(r"[.!?…]+[\"'”’)\]*_]*(?=\s)|[。！？]+[」』”’）]*")
_SHORT = re.compile(
    r"(?:al|approx|ca|cf|corp|dr|e\.g|eds?|eq|fig|i\.e|inc|jr|ltd|mrs?|ms|nos|pp|prof|resp|sr|st"
    r"|vol|vs|[^\W\d_])\."
)
"""Words whose full stop does not end a sentence, single letters among them."""


def sentences(text: str) -> tuple[str, ...]:
    """The parts in order. A code block is one part; a part without a letter or digit is none.

    A text that says anything at all has at least one part.
    """
    parts = tuple(part for block in _blocks(text) for part in _parts(block) if _speaks(part))
    whole = text.strip()
    return parts or ((whole,) if whole else ())


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
        if _closes(block[start : end.end()]):
            yield block[start : end.end()].strip()
            start = end.end()
    yield block[start:].strip()


def _closes(part: str) -> bool:
    """Whether the stop at the end of a part ends a sentence: not after 'e.g.' or an initial."""
    last = part.split()[-1].lstrip("\"'“‘([*_").lower()
    return _SHORT.fullmatch(last) is None


def _speaks(part: str) -> bool:
    return any(each.isalnum() for each in part)


# -- How much of a reply rests on evidence, sentence by sentence ----------------------------------


_Support = Literal["supported", "unsupported", "contradictory", "disputed", "not_applicable"]
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
    verdict: Annotated[_Support, Lowered]


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
        parts = sentences(reply_text(exchange))
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
        unsupported = [
            f"'{excerpt(text)}' is {item.verdict}: {excerpt(item.reason, REASON)}"
            for text, item in zip(request.texts, items, strict=True)
            if item.verdict not in _GROUNDED
        ]
        count = len(items)
        words = f"{len(unsupported)} of {count} sentences have no support: {'; '.join(unsupported)}"
        records: list[Json] = [
            {
                "sentence": excerpt(text),
                "verdict": item.verdict,
                "reason": excerpt(item.reason, REASON),
            }
            for text, item in zip(request.texts, items, strict=True)
        ]
        value = (count - len(unsupported)) / count
        return Verdict(
            value=value, reason=words if unsupported else "", details={"sentences": records}
        )


def _passages(exchange: Exchange) -> list[str]:
    """What the case gives as context, up to this turn. What tools retrieved is among their uses."""
    turns = exchange.case.turns[: exchange.index + 1]
    return [passage for turn in turns for passage in turn.context]


# -- Retrieval metrics over numbered items --------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class AnswerRelevancy(NumberedJudge):
    """The share of the reply's sentences that bear on what was asked. No reply, no relevance: 0."""

    name: str = "answer_relevancy"

    role: ClassVar[str] = "judge_answer_relevancy"
    fault: ClassVar[str] = "sentences of the reply do not bear on what was asked"

    def items(self, exchange: Exchange) -> Sequence[str] | Verdict:
        """The sentences of the reply."""
        parts = sentences(reply_text(exchange))
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
