"""Logged traces of agents, and the cases that are made of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal, TypeAlias

from burnish.core.cases import Case, Message, Turn
from burnish.core.content import Json, short_id
from burnish.core.outcomes import Failure, FailureKind, Outcome, Step, ToolCall, Trace, Usage
from burnish.datasets.case_files import present
from burnish.datasets.messages import calls_in

SOURCE = "source"
"""The extra of a case that says which trace it comes from."""
Feedback: TypeAlias = Literal["positive", "negative", ""]
_NO_REPLY = "the trace has no reply"


_BAD = ("negative", "thumbs_down", "thumbs down", "down", "dislike", "bad", "no", "false", "👎")
_GOOD = ("positive", "thumbs_up", "thumbs up", "up", "like", "good", "yes", "true", "👍")
_OF_USERS = ("feedback", "user", "thumb", "rating", "csat")


def feedback_of(name: str, value: Json, label: str = "") -> Feedback:
    """What a user thought, from a logged score; empty if it is not the user's, or unclear.

    Numbers count from 0 to 1 or from -1 to 1; on another scale nobody knows what is bad.
    """
    if not any(word in name.lower() for word in _OF_USERS):
        return ""
    word = (label or (value if isinstance(value, str) else "")).strip().lower()
    if word in _BAD or value is False:
        return "negative"
    if word in _GOOD or value is True:
        return "positive"
    if isinstance(value, int | float) and -1 <= value <= 1:
        return "negative" if value < 0.5 else "positive"
    return ""


class ReplyUse(StrEnum):
    """What becomes of the reply that was logged."""

    KEEP = "keep"
    """It is noted beside the case, for whoever writes the expected answer."""
    RECORD = "record"
    """The case is a recording: `burnish eval` scores the reply, and nothing is run."""
    EXPECT = "expect"
    """It is the expected answer."""


@dataclass(frozen=True, kw_only=True)
class LoggedTrace:
    """One logged request to an agent: what was said, what was called, how it went."""

    id: str
    format: str
    """otel, langfuse, langsmith or jsonl."""
    messages: tuple[Message, ...]
    """The conversation up to the reply, which is the last one of the assistant."""
    calls: tuple[ToolCall, ...] = ()
    """Tool calls of the last turn that are no part of the messages."""
    context: tuple[str, ...] = ()
    """Passages that were retrieved."""
    expected: str | None = None
    time: str = ""
    session: str = ""
    tags: tuple[str, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    feedback: Feedback = ""
    """What the user thought of it, if that was logged."""
    error: str = ""
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0
    file: str = ""

    @property
    def asked(self) -> int | None:
        """The position of the last message of the user."""
        numbers = [n for n, message in enumerate(self.messages) if message.role == "user"]
        return numbers[-1] if numbers else None

    @property
    def input(self) -> str:
        return "" if self.asked is None else self.messages[self.asked].content

    @property
    def reply(self) -> str:
        """The last text of the assistant after the question."""
        after = self.messages[(self.asked or 0) + 1 :]
        return next((m.content for m in reversed(after) if _speaks(m)), "")

    @property
    def all_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of the last turn, in messages or in steps of their own."""
        said = calls_in(self.messages[(self.asked or 0) + 1 :])
        results = {call.id: call for call in self.calls if call.id}
        whole = tuple(_completed(call, results.get(call.id)) for call in said)
        known = {call.id for call in said if call.id}
        names = {call.name for call in said}
        more = (c for c in self.calls if c.id not in known and (c.id or c.name not in names))
        return (*whole, *more)

    @property
    def outcome(self) -> str:
        """How it went, as far as the log says: what samples are balanced by."""
        return "error" if self.error else self.feedback or "ok"


def _speaks(message: Message) -> bool:
    return message.role == "assistant" and bool(message.content.strip())


def _completed(call: ToolCall, step: ToolCall | None) -> ToolCall:
    if step is None:
        return call
    result = step.result if call.result is None else call.result
    return replace(call, result=result, error=call.error or step.error, passages=step.passages)


def case_of_trace(trace: LoggedTrace, use: ReplyUse = ReplyUse.KEEP) -> Case:
    """The case of a trace: its last turn, with the messages before it as history.

    What was logged about it is in `extras["source"]`. Messages of the system stay behind: they are
    the agent's own instructions, which it brings itself, and which may be what is improved.
    """
    history = trace.messages[: trace.asked or 0]
    expected = trace.expected
    if use is ReplyUse.EXPECT and expected is None:
        expected = trace.reply or None
    turn = Turn(input=trace.input, expected=expected, context=trace.context)
    return Case(
        name=trace.id,
        turns=(turn,),
        labels=trace.tags,
        history=tuple(message for message in history if message.role != "system"),
        recorded=_recorded(trace) if use is ReplyUse.RECORD else None,
        extras={SOURCE: _source(trace, with_reply=use is ReplyUse.KEEP)},
    )


def _recorded(trace: LoggedTrace) -> Outcome:
    """The logged run; an error of the agent scores 0, as it does when the agent is run."""
    error = trace.error or ("" if trace.reply else _NO_REPLY)
    step = Step(
        id="logged",
        node="agent",
        input=trace.input,
        output=trace.reply,
        tools=trace.all_calls,
        error=error,
        usage=trace.usage,
        seconds=trace.seconds,
    )
    return Outcome(
        replies=(trace.reply,) if trace.reply else (),
        trace=Trace(steps=(step,)),
        usage=trace.usage,
        nano_usd=None,
        seconds=trace.seconds,
        failure=Failure(kind=FailureKind.AGENT, message=error) if error else None,
    )


def _source(trace: LoggedTrace, *, with_reply: bool) -> dict[str, Json]:
    calls: list[Json] = [
        {"name": c.name, **present(arguments=dict(c.arguments), result=c.result)}
        for c in trace.all_calls
    ]
    return {
        "trace": trace.id,
        "format": trace.format,
        **present(
            time=trace.time or None,
            session=trace.session or None,
            file=trace.file or None,
            error=trace.error or None,
            feedback=trace.feedback or None,
            scores=dict(trace.scores),
            reply=(trace.reply or None) if with_reply else None,
            tools=calls if with_reply else None,
        ),
    }


def joined_sessions(traces: tuple[LoggedTrace, ...], use: ReplyUse) -> tuple[Case, ...]:
    """One case for each session, with a turn for each of its traces; other traces are alone.

    For logs in which a trace has its own question only. A trace that carries the conversation
    before it as messages already says what its session says, and only the last one is taken.
    """
    sessions: dict[str, list[LoggedTrace]] = {}
    for trace in traces:
        sessions.setdefault(f"s:{trace.session}" if trace.session else f"t:{trace.id}", []).append(
            trace
        )
    return tuple(_session_case(sorted(s, key=lambda t: t.time), use) for s in sessions.values())


def _session_case(traces: list[LoggedTrace], use: ReplyUse) -> Case:
    last = case_of_trace(traces[-1], use)
    carries = any(m.role == "user" for m in last.history)
    if len(traces) == 1 or carries:
        return last
    cases = [case_of_trace(trace, use) for trace in traces]
    recorded = [case.recorded for case in cases if case.recorded is not None]
    sources: list[Json] = [case.extras[SOURCE] for case in cases]
    return Case(
        name=traces[-1].session or short_id([trace.id for trace in traces]),
        turns=tuple(turn for case in cases for turn in case.turns),
        labels=tuple(dict.fromkeys(label for case in cases for label in case.labels)),
        history=cases[0].history,
        recorded=_talk(recorded) if recorded else None,
        extras={SOURCE: {"session": traces[-1].session, "traces": sources}},
    )


def _talk(outcomes: list[Outcome]) -> Outcome:
    """The outcomes of the turns as the outcome of their conversation."""
    steps = tuple(
        replace(step, id=f"logged-{turn + 1}", turn=turn)
        for turn, outcome in enumerate(outcomes)
        for step in outcome.trace.steps
    )
    failure = next((each.failure for each in outcomes if each.failure), None)
    return Outcome(
        replies=tuple(reply for outcome in outcomes for reply in outcome.replies),
        trace=Trace(steps=steps),
        usage=sum((each.usage for each in outcomes), Usage()),
        nano_usd=None,
        seconds=sum(each.seconds for each in outcomes),
        failure=failure,
    )
