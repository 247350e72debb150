"""Asking a role once: its answer or its failure, and a run of a case as a role reads it."""

import asyncio
from dataclasses import dataclass
from itertools import zip_longest
from typing import Generic, TypeVar

from burnish.core.cases import Case
from burnish.core.content import Codec, Json, canonical, codec
from burnish.core.errors import RoleFailed
from burnish.core.evaluations import CaseResult
from burnish.core.money import NOTHING
from burnish.core.protocols import Call, Effects, Receipt, Role, Scope
from burnish.core.trials import Proposal
from burnish.journal.executors import task_cancelled

Request = TypeVar("Request")
Answer = TypeVar("Answer")

_MOST_CHARS = 1200
"""Of one text in a transcript; the middle of a longer one is left out."""


@dataclass(frozen=True, kw_only=True)
class _Reply(Generic[Answer]):
    """What came back: an answer, or why there is none."""

    answer: Answer | None = None
    failure: str = ""
    mended: tuple[str, ...] = ()
    """What was wrong with the answer as it was written, and read as it was meant."""


@dataclass(frozen=True, kw_only=True)
class Asked(Generic[Answer]):
    """One of several things a role was asked: its answer, or why there is none."""

    answer: Answer | None
    proposal: Proposal
    """What it saw and said, for the record."""


def as_asked(role: Role[Request, Answer], seen: Json, reply: _Reply[Answer]) -> Asked[Answer]:
    """A reply, with what it was given to."""
    answer = None if reply.answer is None else role.answers.encode(reply.answer)
    proposal = Proposal(
        role=role.name, request=seen, answer=answer, error=reply.failure, mended=reply.mended
    )
    return Asked(answer=reply.answer, proposal=proposal)


class _ReplyCodec(Codec[_Reply[Answer]]):
    def __init__(self, answers: Codec[Answer]) -> None:
        self._answers = answers

    def encode(self, value: _Reply[Answer]) -> Json:
        if value.answer is None:
            return {"failure": value.failure}
        mended: dict[str, Json] = {"mended": list(value.mended)} if value.mended else {}
        return {"answer": self._answers.encode(value.answer), **mended}

    def decode(self, data: Json) -> _Reply[Answer]:
        assert isinstance(data, dict)
        if "failure" in data:
            return _Reply(failure=str(data["failure"]))
        mended = codec(tuple[str, ...]).decode(data.get("mended", []))
        return _Reply(answer=self._answers.decode(data["answer"]), mended=mended)


async def ask_once(
    role: Role[Request, Answer], request: Request, *, draw: int, scope: Scope
) -> _Reply[Answer]:
    """Ask through the journal. A failure is a result: it is not asked for again."""

    async def perform(effects: Effects) -> Receipt[_Reply[Answer]]:
        try:
            receipt = await role.answer(request, draw=draw, effects=effects)
        except RoleFailed as error:
            failed: _Reply[Answer] = _Reply(failure=error.message)
            return Receipt(value=failed, spend=error.spend, missing=True)
        except asyncio.CancelledError:
            if task_cancelled():
                raise
            return Receipt(
                value=_Reply(failure=f"the {role.name} raised CancelledError"), missing=True
            )
        reply = _Reply(answer=receipt.value, mended=receipt.mended)
        return Receipt(value=reply, spend=receipt.spend)

    call = Call(
        kind=f"role:{role.name}",
        request={"role": role.fingerprint, "request": role.encode(request)},
        codec=_ReplyCodec(role.answers),
        draw=draw,
        estimate=role.estimate(request) if role.leaf else NOTHING,
        retried_as_a_whole=True,
        otherwise=lambda error: _Reply(failure=error.message),
    )
    return await scope.once(call, perform)


def transcript(result: CaseResult, case: Case) -> str:
    """One run as a proposer reads it: asked, expected, done, said, and why it failed."""
    outcome = result.outcome
    lines = [f"case {result.case}"]
    questions = outcome.asked or [turn.input for turn in case.turns]
    expected = [turn.expected for turn in case.turns]
    for message, reference, reply in zip_longest(questions, expected, outcome.replies):
        lines.append(f"asked: {_cut(message or '')}")
        if reference is not None:
            lines.append(f"expected: {_cut(reference)}")
        lines.append(f"replied: {_cut(reply) if reply else '(nothing)'}")
    lines += [
        f"used {tool.name} with {_cut(canonical(dict(tool.arguments)).decode())}"
        f"{f', which failed: {_cut(tool.error)}' if tool.error else ''}"
        for step in outcome.trace.steps
        for tool in step.tools
    ]
    if outcome.failure is not None:
        return "\n".join([*lines, f"it failed: {_cut(outcome.failure.message)}"])
    lines += [f"{s.metric}: {_cut(s.reason)}" for s in result.scores if s.reason and not s.passed]
    return "\n".join(lines)


def _cut(text: str) -> str:
    if len(text) <= _MOST_CHARS:
        return text
    half = _MOST_CHARS // 2
    return f"{text[:half]} […] {text[-half:]}"
