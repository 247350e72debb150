"""Logged traces of agents: their messages, and which of them become cases."""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from operator import ge, gt, le, lt
from typing import Literal, TypeAlias

from burnish.core.cases import (
    Case,
    Failure,
    FailureKind,
    Message,
    Outcome,
    Speaker,
    Step,
    ToolCall,
    ToolUse,
    Trace,
    Turn,
    Usage,
)
from burnish.core.content import Json, codec, short_id, stream
from burnish.core.errors import ConfigError, Problem
from burnish.datasets.agent_cases import listed, mapped, present
from burnish.system.redaction import DataRedactor

_SPEAKERS: Mapping[str, Speaker] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "aimessagechunk": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
}
_ANSWER_KEYS = ("response", "result", "content", "output")
_TEXT_KEYS = ("text", "content", "output_text", "input_text", "thinking")
_SILENT = ("reasoning", "thinking", "redacted_thinking")
"""Parts of a message that nobody was told."""


def plain(value: Json) -> str:
    """A value as text: itself, or compact JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def unpacked(value: Json) -> Json:
    """The JSON value that a text holds, if it holds a list or a mapping."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        document: Json = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return document


def first_of(record: Mapping[str, Json], *names: str) -> Json:
    """The first value that is there and not empty."""
    return next(
        (record[name] for name in names if record.get(name) not in (None, "", [], {})), None
    )


def read_messages(value: Json) -> tuple[Message, ...]:
    """The messages in a logged value; none if it holds no list of messages."""
    value = unpacked(value)
    if isinstance(value, dict):
        held = first_of(value, "messages", "input_messages", "chat_history")
        return read_messages(held) if held is not None else _one(value)
    items = listed(value)
    if len(items) == 1 and isinstance(items[0], list):
        return read_messages(items[0])
    if not items or not all(isinstance(item, dict) and _role(item) for item in items):
        return ()
    return tuple(message for item in items for message in _one(mapped(item)))


def _one(raw: Mapping[str, Json]) -> tuple[Message, ...]:
    """The message in a mapping; several if tools answer in the parts of one."""
    role = _role(raw)
    if role is None:
        return ()
    fields = mapped(raw.get("kwargs")) or mapped(raw.get("data")) or raw
    parts = _Parts.of(fields)
    answers = tuple(
        Message(role="tool", content=plain(first_of(each, *_ANSWER_KEYS)), answers=_id(each))
        for each in parts.answers
    )
    uses = (*parts.uses, *_uses(fields))
    if answers and not parts.text and not uses:
        return answers
    message = Message(
        role=role,
        content=parts.text,
        uses=uses if role == "assistant" else (),
        answers=plain(fields.get("tool_call_id")) if role == "tool" else "",
        tool=plain(fields.get("name")) if role == "tool" else "",
    )
    return (*answers, message)


def _role(raw: Mapping[str, Json]) -> Speaker | None:
    kind = raw.get("id")
    if isinstance(kind, list) and kind and "kwargs" in raw:  # as LangChain serializes an object
        return _SPEAKERS.get(str(kind[-1]).lower().removesuffix("chunk").removesuffix("message"))
    if "content" not in raw and not {"parts", "data", "tool_calls", "text"} & raw.keys():
        return None
    word = first_of(raw, "role", "type")
    return _SPEAKERS.get(word.lower()) if isinstance(word, str) else None


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """What the content of a message consists of."""

    text: str
    uses: tuple[ToolUse, ...] = ()
    answers: tuple[Mapping[str, Json], ...] = ()

    @classmethod
    def of(cls, fields: Mapping[str, Json]) -> "_Parts":
        content = first_of(fields, "parts", "content", "contents", "text")
        if not isinstance(content, list):
            return cls(text=plain(content))
        blocks = [mapped(part) if isinstance(part, dict) else {"text": part} for part in content]
        texts = [_text(block) for block in blocks if block.get("type") not in _SILENT]
        calls = [block for block in blocks if block.get("type") in ("tool_call", "tool_use")]
        answers = [b for b in blocks if b.get("type") in ("tool_call_response", "tool_result")]
        return cls(
            text="\n".join(filter(None, texts)),
            uses=tuple(_use(call) for call in calls),
            answers=tuple(answers),
        )


def _text(block: Mapping[str, Json]) -> str:
    if str(block.get("type", "text")).startswith("tool_"):
        return ""
    held = first_of(block, *_TEXT_KEYS)
    return held if isinstance(held, str) else ""


def _uses(fields: Mapping[str, Json]) -> Iterator[ToolUse]:
    more = mapped(fields.get("additional_kwargs")).get("tool_calls")
    for call in listed(fields.get("tool_calls")) or listed(more):
        if isinstance(call, dict):
            yield _use(call)


def _use(call: Mapping[str, Json]) -> ToolUse:
    inner = mapped(call.get("function")) or call
    arguments = unpacked(first_of(inner, "arguments", "args", "input"))
    return ToolUse(
        id=_id(call),
        name=plain(inner.get("name")),
        arguments=arguments_of(arguments),
    )


def _id(call: Mapping[str, Json]) -> str:
    return plain(first_of(call, "id", "tool_call_id", "tool_use_id"))


def arguments_of(value: Json) -> dict[str, Json]:
    """The arguments of a call; what is no mapping is one argument."""
    held = unpacked(value)
    if isinstance(held, dict):
        return held
    return {} if held in (None, "") else {"input": held}


def calls_in(messages: Iterable[Message]) -> tuple[ToolCall, ...]:
    """The tool calls that messages request, each with its result where a tool answered."""
    held = tuple(messages)
    results = {m.answers: m.content for m in held if m.role == "tool" and m.answers}
    return tuple(
        ToolCall(name=use.name, arguments=use.arguments, result=results.get(use.id), id=use.id)
        for message in held
        for use in message.uses
    )


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


_Condition: TypeAlias = Callable[[LoggedTrace], bool]
_COMPARED = re.compile(r"(?P<name>[^<>=]+?)\s*(?P<sign><=|>=|<|>)\s*(?P<value>-?\d*\.?\d+)")
_SIGNS: Mapping[str, Callable[[float, float], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
_STATES: Mapping[str, _Condition] = {
    "error": lambda trace: bool(trace.error),
    "ok": lambda trace: not trace.error,
    "negative": lambda trace: trace.feedback == "negative",
    "positive": lambda trace: trace.feedback == "positive",
}
_IDENTIFIES = ("trace", "time", "session", "file", "format")
"""What is kept of a trace as it is: numbers in it are no telephone numbers."""


def where(texts: Sequence[str]) -> _Condition:
    """All of these conditions; each is one alternative or several, with commas between them."""
    groups = [[_condition(part.strip()) for part in text.split(",")] for text in texts]
    return lambda trace: all(any(holds(trace) for holds in group) for group in groups)


def _condition(text: str) -> _Condition:
    if text in _STATES:
        return _STATES[text]
    if text.startswith("tag=") and (tag := text.removeprefix("tag=")):
        return lambda trace: tag in trace.tags
    compared = _COMPARED.fullmatch(text)
    if compared is None:
        remedy = (
            "write error, ok, negative, positive, tag=NAME or a score: score<0.5, helpful>=0.8; "
            "commas between alternatives"
        )
        raise ConfigError(
            [Problem(where="--where", message=f"not usable: {text!r}", remedy=remedy)]
        )
    name, sign, bar = compared["name"], _SIGNS[compared["sign"]], float(compared["value"])

    def holds(trace: LoggedTrace) -> bool:
        # A log with one score need not call it `score`.
        only = [*trace.scores.values()] if name == "score" and len(trace.scores) == 1 else []
        value = trace.scores.get(name, only[0] if only else None)
        return value is not None and sign(value, bar)

    return holds


def sample(traces: Sequence[LoggedTrace], size: int, seed: int) -> tuple[LoggedTrace, ...]:
    """So many traces, at random, in shares like those of all by outcome and first tag.

    Each such group is in the sample at least once, if there is room: so rare ones weigh more than
    they should in a mean. The order of the log is kept.
    """
    groups: dict[tuple[str, str], list[LoggedTrace]] = defaultdict(list)
    for trace in traces:
        groups[trace.outcome, trace.tags[0] if trace.tags else ""].append(trace)
    if size >= len(traces):
        return tuple(traces)
    shares = _shares({key: len(held) for key, held in groups.items()}, size)
    chosen = {
        trace.id
        for key, held in groups.items()
        for trace in stream(seed, "sample of traces", *key).sample(
            sorted(held, key=lambda trace: trace.id), shares[key]
        )
    }
    return tuple(trace for trace in traces if trace.id in chosen)


def _shares(counts: Mapping[tuple[str, str], int], size: int) -> dict[tuple[str, str], int]:
    """How many of each group, by the largest remainders, with at least one where possible."""
    whole = sum(counts.values())
    least = 1 if size >= len(counts) else 0
    exact = {key: size * count / whole for key, count in counts.items()}
    shares = {key: min(counts[key], max(least, int(exact[key]))) for key in sorted(counts)}
    while (rest := size - sum(shares.values())) != 0:
        step = 1 if rest > 0 else -1
        open_keys = [k for k in shares if least <= shares[k] + step <= counts[k]]
        best = max(open_keys, key=lambda key: step * (exact[key] - shares[key]))
        shares[best] += step
    return shares


@dataclass(frozen=True, kw_only=True)
class Distinct:
    """Cases without those that ask the same again."""

    cases: tuple[Case, ...]
    repeated: int


def distinct(cases: Iterable[Case]) -> Distinct:
    """One case for each question: the first."""
    held = tuple(cases)
    first: dict[str, Case] = {}
    for case in held:
        first.setdefault(case.question_id, case)
    return Distinct(cases=tuple(first.values()), repeated=len(held) - len(first))


def redacted(case: Case, redactor: DataRedactor) -> Case:
    """The case without keys and personal data; what identifies its trace stays."""
    source = mapped(case.extras.get(SOURCE))
    bare = replace(case, name="", extras={**case.extras, SOURCE: _unidentified(source)})
    clean = codec(Case).decode(redactor.json(codec(Case).encode(bare)))
    again = _identified(mapped(clean.extras.get(SOURCE)), source)
    return replace(clean, name=case.name, extras={**clean.extras, SOURCE: again})


def _unidentified(source: Mapping[str, Json]) -> dict[str, Json]:
    rows = source.get("traces")
    inner = [_unidentified(mapped(row)) for row in rows] if isinstance(rows, list) else []
    bare = {key: value for key, value in source.items() if key not in _IDENTIFIES}
    return {**bare, **({"traces": [*inner]} if inner else {})}


def _identified(clean: Mapping[str, Json], source: Mapping[str, Json]) -> dict[str, Json]:
    kept = {key: value for key, value in source.items() if key in _IDENTIFIES}
    rows, before = clean.get("traces"), source.get("traces")
    if not isinstance(rows, list) or not isinstance(before, list):
        return {**kept, **clean}
    pairs = zip(rows, before, strict=True)
    return {**kept, **clean, "traces": [_identified(mapped(a), mapped(b)) for a, b in pairs]}
