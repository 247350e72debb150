"""Asks roles through the journal without held-out text, and shows them runs of cases."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Generic, TypeVar

from burnish.core.cases import Case, ToolCall
from burnish.core.content import Codec, Json, canonical, codec, of_canonical
from burnish.core.errors import HoldoutLeak, Problem, ProposerFailed, RoleFailed
from burnish.core.evaluations import CaseResult, Score
from burnish.core.leaks import LeakWatch
from burnish.core.money import NOTHING
from burnish.core.protocols import Call, Effects, Receipt, Role, Scope
from burnish.core.surfaces import Candidate
from burnish.core.trials import Proposal
from burnish.journal.executors import task_cancelled
from burnish.runs.events import EventData, TextWithheld, Warned

Request = TypeVar("Request")
Answer = TypeVar("Answer")


class LeakGuard:
    """Looks at every request before it is sent, and at everything that may end up in one.

    What an agent, a scorer or a role repeats of a held-out case is withheld and reported: it is no
    reason to end the search. If nothing repeated it, the strategy took it from a held-out case
    itself, and HoldoutLeak is raised.
    """

    def __init__(self, watch: LeakWatch, tell: Callable[[EventData, str], None]) -> None:
        self._watch = watch
        self._tell = tell
        self._sources: dict[str, str] = {}
        """By case or file that is held out, what repeated its text first."""

    def cleared(
        self, role: Role[Request, Answer], request: Request, *, trial: int
    ) -> tuple[Request, Json]:
        """The request without held-out text, and what the role will see of it."""
        seen, watch = role.encode(request), self._watch
        names = watch.leaks(seen)
        if not names:
            return request, seen
        for name in names:
            if name not in self._sources:
                raise _leak(role.name, name)
        request = watch.withhold(request)
        seen = role.encode(request)
        if (name := watch.leaked(seen)) is not None:
            # It is in the role's own prompt, which is not part of a request.
            raise _leak(role.name, name)
        for name in names:
            event = TextWithheld(name=name, role=role.name, trial=trial, source=self._sources[name])
            self._tell(event, f"text_withheld:{name}")
            self._tell(Warned(message=event.words), f"text_withheld:{name}:warning")
        return request, seen

    def problems_of(self, candidate: Candidate) -> list[Problem]:
        """What a candidate repeats of held-out text."""
        return [
            Problem(where=name, message=f"it contains text of '{case}', which is held out")
            for name, value in candidate.values.items()
            if isinstance(value, str) and (case := self._watch.leaked(value)) is not None
        ]

    def note_runs(self, candidate: Candidate, results: Sequence[CaseResult]) -> None:
        """Remember which held-out text runs of train cases repeat: agents, scorers, judges."""
        if self._watch.empty:
            return
        for result in results:
            for name in self._watch.leaks(codec(CaseResult).encode(result)):
                source = f"the run of '{result.case}' with candidate {candidate.id}"
                self._sources.setdefault(name, source)

    def note_answer(self, proposal: Proposal) -> None:
        """The same for the answer of a role."""
        for name in self._watch.leaks(proposal.answer):
            self._sources.setdefault(name, f"an answer of the {proposal.role}")


def _leak(role: str, name: str) -> HoldoutLeak:
    return HoldoutLeak(
        f"the request to the role '{role}' contains text of '{name}', which no proposer may see",
        remedy="build requests from train cases only",
    )


# -- Asking ----------------------------------------------------------------------------------------


GIVE_UP_AFTER = 3
"""The number of failures after which a role that never answered is given up."""
_MOST_CHARS = 1200
"""The longest text in a transcript; the middle of a longer one is left out."""


@dataclass(frozen=True, kw_only=True)
class _Reply(Generic[Answer]):
    """An answer, or why there is none."""

    answer: Answer | None = None
    failure: str = ""
    mended: tuple[str, ...] = ()
    """Errors in the answer that were repaired."""
    unusable: tuple[str, ...] = ()
    """What the model answered and could not be used."""
    unreachable: bool = False
    """Whether nobody answered, rather than something of no use."""

    @property
    def outage(self) -> str:
        return self.failure if self.unreachable else ""


@dataclass(frozen=True, kw_only=True)
class Asked(Generic[Answer]):
    """A role's answer to one request, or why there is none."""

    answer: Answer | None
    proposal: Proposal
    """The request and the answer, for the record."""


def as_asked(role: Role[Request, Answer], seen: Json, reply: _Reply[Answer]) -> Asked[Answer]:
    """A reply together with its request."""
    answer = None if reply.answer is None else role.answers.encode(reply.answer)
    proposal = Proposal(
        role=role.name,
        request=seen,
        answer=answer,
        error=reply.failure,
        mended=reply.mended,
        unusable=reply.unusable,
    )
    return Asked(answer=reply.answer, proposal=proposal)


class _ReplyCodec(Codec[_Reply[Answer]]):
    def __init__(self, answers: Codec[Answer]) -> None:
        self._answers = answers

    def encode(self, value: _Reply[Answer]) -> Json:
        # What is empty is left out: most replies need nothing mended.
        about = {"mended": value.mended, "unusable": value.unusable}
        fields: dict[str, Json] = {name: list(texts) for name, texts in about.items() if texts}
        if value.answer is None:
            away: dict[str, Json] = {"unreachable": True} if value.unreachable else {}
            return {"failure": value.failure, **away, **fields}
        return {"answer": self._answers.encode(value.answer), **fields}

    def decode(self, data: Json) -> _Reply[Answer]:
        assert isinstance(data, dict)
        mended, unusable = (
            codec(tuple[str, ...]).decode(data.get(name, [])) for name in ("mended", "unusable")
        )
        if "failure" in data:
            return _Reply(
                failure=str(data["failure"]),
                unreachable=data.get("unreachable") is True,
                mended=mended,
                unusable=unusable,
            )
        answer = self._answers.decode(data["answer"])
        return _Reply(answer=answer, mended=mended, unusable=unusable)

    def read(self, spelled: bytes) -> _Reply[Answer]:
        return self.decode(of_canonical(spelled))


async def ask_once(
    role: Role[Request, Answer], request: Request, *, draw: int, scope: Scope
) -> _Reply[Answer]:
    """Ask through the journal. A failure is stored too, and not requested again."""

    async def perform(effects: Effects) -> Receipt[_Reply[Answer]]:
        try:
            receipt = await role.answer(request, draw=draw, effects=effects)
        except RoleFailed as error:
            failed: _Reply[Answer] = _Reply(
                failure=error.message, unreachable=error.missing, unusable=error.unusable
            )
            return Receipt(value=failed, spend=error.spend, missing=True)
        except asyncio.CancelledError:
            if task_cancelled():
                raise
            return Receipt(
                value=_Reply(failure=f"the {role.name} raised CancelledError"), missing=True
            )
        reply = _Reply(answer=receipt.value, mended=receipt.mended, unusable=receipt.unusable)
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


class RoleAnswers:
    """Counts the answers and failures of roles; a replay counts the same."""

    def __init__(self) -> None:
        self._answers = Counter[str]()
        self._failures = Counter[str]()
        self._last: dict[str, str] = {}

    def count(self, role: str, failure: str = "") -> None:
        """Count an answer of a role, or a failure."""
        if failure:
            self._failures[role] += 1
            self._last[role] = failure
        else:
            self._answers[role] += 1

    @property
    def silent(self) -> tuple[str, ...]:
        """The roles that never gave a usable answer, in the order in which they were asked."""
        return tuple(role for role in self._failures if not self._answers[role])

    def words(self, role: str) -> str:
        """The message about a silent role."""
        return f"the {role} never gave a usable answer: {self._last[role]}"

    def require(self, *roles: str, after: int) -> None:
        """Raise ProposerFailed if one of these is silent after so many requests."""
        for role in self.silent:
            if role in roles and self._failures[role] >= after:
                raise self.failed(role)

    def failed(self, role: str) -> ProposerFailed:
        """The error for a silent proposer."""
        return ProposerFailed(
            self.words(role),
            remedy="fix its model or settings, then start a new run that asks again: "
            "--fork RUN --retry-missing",
        )


def transcript(result: CaseResult, case: Case) -> str:
    """One run as a proposer reads it: input, expectation, reply, tools, and why it failed."""
    outcome = result.outcome
    lines = [f"case {result.case}"]
    questions = outcome.asked or [turn.input for turn in case.turns]
    expected = [turn.expected for turn in case.turns]
    turns = zip_longest(questions, expected, outcome.replies)
    for number, (message, reference, reply) in enumerate(turns):
        lines.append(f"asked: {_cut(message or '')}")
        if reference is not None:
            lines.append(f"expected: {_cut(reference)}")
        steps = [step for step in outcome.trace.steps if step.turn == number]
        lines += [_use(tool) for step in steps for tool in step.tools]
        lines.append(f"replied: {_cut(reply) if reply else '(nothing)'}")
    if outcome.failure is not None:
        return "\n".join([*lines, f"it failed: {_cut(outcome.failure.message)}"])
    return "\n".join([*lines, *(line for score in result.scores if (line := _grade(score)))])


def _use(tool: ToolCall) -> str:
    """One use of a tool, with what it returned."""
    used = f"used {tool.name} with {_cut(canonical(dict(tool.arguments)).decode())}"
    if tool.error:
        return f"{used}, which failed: {_cut(tool.error)}"
    result = "\n".join(tool.passages) if tool.result is None else tool.result
    text = result if isinstance(result, str) else canonical(result).decode()
    return f"{used}, which gave: {_cut(text)}" if text else used


def _grade(score: Score) -> str:
    """What is missing to the best score; empty where nothing is, or nothing is known."""
    if score.value is None or (score.passed is not False and score.value >= 1):
        return f"{score.metric}: {_cut(score.reason)}" if score.missing and score.reason else ""
    turn = "" if score.turn is None else f", turn {score.turn + 1}"
    return f"{score.metric}{turn}: {_cut(score.reason or f'score {score.value:.3f}')}"


def _cut(text: str) -> str:
    if len(text) <= _MOST_CHARS:
        return text
    half = _MOST_CHARS // 2
    return f"{text[:half]} […] {text[-half:]}"
