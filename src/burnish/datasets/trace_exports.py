"""Exports of Langfuse and LangSmith, and lines of plain logs, as traces."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from burnish.core.cases import Message
from burnish.core.content import Json, short_id
from burnish.core.outcomes import ToolCall, Usage
from burnish.datasets.agent_cases import listed, mapped
from burnish.datasets.messages import (
    arguments_of,
    calls_in,
    first_of,
    plain,
    read_messages,
    unpacked,
)
from burnish.datasets.rows import ALIASES
from burnish.datasets.traces import Feedback, LoggedTrace, feedback_of

Record: TypeAlias = Mapping[str, Json]
Records: TypeAlias = Sequence[tuple[str, Record]]
"""Records with the names of their files."""
_EMPTY: Record = {}
_NAMED = ("input", "question", "query", "prompt", "text", "content", "output", "answer", "response")
"""Keys under which programs log what was said."""
FIELDS: Mapping[str, tuple[str, ...]] = {
    "input": (*ALIASES["input"], "request", "user"),
    "output": ("output", "reply", "response", "answer", "completion"),
    "messages": ("messages", "conversation"),
    "id": ("id", "trace_id", "request_id", "name"),
    "time": ("time", "timestamp", "created_at", "at"),
    "session": ("session", "session_id", "conversation_id"),
    "error": ("error", "exception"),
    "score": ("score",),
    "feedback": ("feedback", "rating", "thumbs"),
    "tags": ("tags", "tag", "labels", "label"),
    "expected": ("expected", "ground_truth", "reference", "expected_output"),
    "context": ("context", "retrieval_context"),
    "tools": ("tools", "tool_calls"),
}
"""The parts of a line of a plain log, and the names that they have unless others are given."""


def _said(value: Json, role: str) -> tuple[Message, ...]:
    """What a value says, as messages, or as one message of this role."""
    held = unpacked(value)
    if messages := read_messages(held):
        return messages
    if isinstance(held, dict):
        inner = first_of(held, *_NAMED, "generations", "output_message")
        if isinstance(inner, str | dict | list):
            return _said(inner, role)
        held = next(iter(held.values())) if len(held) == 1 else held
    if isinstance(held, list) and len(held) == 1:
        return _said(held[0], role)
    text = plain(held)
    speaker = "user" if role == "user" else "assistant"
    return (Message(role=speaker, content=text),) if text.strip() else ()


def _exchange(asked: Json, replied: Json) -> tuple[Message, ...]:
    """A conversation from input and output; an output that repeats the input stands for both."""
    before, after = _said(asked, "user"), _said(replied, "assistant")
    questions = [m.content for m in before if m.role == "user"]
    again = [m.content for m in after if m.role == "user"]
    if again and again[: len(questions)] == questions:
        return after
    return (*before, *(message for message in after if message.role != "user"))


def _seconds(start: Json, end: Json) -> float:
    try:
        apart = datetime.fromisoformat(plain(end)) - datetime.fromisoformat(plain(start))
    except (ValueError, TypeError):
        return 0.0
    return max(0.0, apart.total_seconds())


def _number(value: Json) -> float | None:
    try:
        return float(value) if isinstance(value, int | float | str) else None
    except ValueError:
        return None


def _mood(scores: Iterable[tuple[str, Json]]) -> Feedback:
    """The user's verdict; a bad one counts more than a good one."""
    words = {feedback_of(name, value) for name, value in scores}
    return "negative" if "negative" in words else "positive" if "positive" in words else ""


def _words(value: Json) -> tuple[str, ...]:
    held = unpacked(value)
    texts = held if isinstance(held, list) else [held]
    return tuple(dict.fromkeys(text for each in texts if (text := plain(each).strip())))


def langfuse_traces(records: Records, places: object) -> Iterator[LoggedTrace]:
    """Traces, or observations that belong to traces by their `traceId`."""
    del places
    parts: dict[str, list[Record]] = {}
    whole: dict[str, tuple[str, Record]] = {}
    for file, record in records:
        if record.get("traceId"):
            parts.setdefault(plain(record["traceId"]), []).append(record)
            whole.setdefault(plain(record["traceId"]), (file, {}))
        else:
            identity = plain(record.get("id")) or short_id(dict(record))
            whole[identity] = (file, record)
    for identity, (file, record) in whole.items():
        steps = [*map(mapped, listed(record.get("observations"))), *parts.get(identity, [])]
        yield _langfuse_trace(identity, file, record, [step for step in steps if step])


def _langfuse_trace(
    identity: str, file: str, record: Record, steps: Sequence[Record]
) -> LoggedTrace:
    ordered = sorted(steps, key=lambda step: plain(step.get("startTime")))
    ids = {plain(step.get("id")) for step in ordered}
    roots = [step for step in ordered if plain(step.get("parentObservationId")) not in ids]
    root = record or next((s for s in roots if s.get("input") is not None), _EMPTY)
    talks = [s for s in ordered if s.get("type") == "GENERATION"]
    messages = _exchange(root.get("input"), root.get("output"))
    asked = messages[-1:] and [m for m in messages if m.role == "user"]
    if not asked and talks:
        messages = _exchange(talks[-1].get("input"), talks[-1].get("output"))
    scores = _langfuse_scores(record)
    failed = next((s for s in (record, *roots) if s.get("level") == "ERROR"), _EMPTY)
    return LoggedTrace(
        id=identity,
        format="langfuse",
        messages=messages,
        calls=tuple(_langfuse_tool(s) for s in ordered if s.get("type") == "TOOL"),
        time=plain(first_of(root, "timestamp", "startTime")),
        session=plain(first_of(root, "sessionId", "session_id")),
        tags=_words(root.get("tags")),
        scores={n: number for n, value in scores if (number := _number(value)) is not None},
        feedback=_mood(scores),
        error=(plain(failed.get("statusMessage")) or "error") if failed else "",
        seconds=_number(root.get("latency"))
        or _seconds(root.get("startTime"), root.get("endTime")),
        file=file,
    )


def _langfuse_scores(record: Record) -> list[tuple[str, Json]]:
    held = unpacked(record.get("scores"))
    if isinstance(held, dict):
        return [(name, _first(value)) for name, value in held.items()]
    rows = map(mapped, listed(held))
    return [
        (plain(row.get("name")), first_of(row, "value", "stringValue") or row.get("value"))
        for row in rows
    ]


def _first(value: Json) -> Json:
    return value[0] if isinstance(value, list) and value else value


def _langfuse_tool(step: Record) -> ToolCall:
    failed = step.get("level") == "ERROR"
    return ToolCall(
        name=plain(step.get("name")),
        arguments=arguments_of(step.get("input")),
        result=unpacked(step.get("output")),
        error=(plain(step.get("statusMessage")) or "error") if failed else "",
    )


def langsmith_traces(records: Records, places: object) -> Iterator[LoggedTrace]:
    """Runs: a trace is its root run; tools and models are runs below it."""
    del places
    flat = [(file, run) for file, record in records for run in _with_children(record)]
    groups: dict[str, list[tuple[str, Record]]] = {}
    for file, run in flat:
        identity = plain(first_of(run, "trace_id", "id")) or short_id(dict(run))
        groups.setdefault(identity, []).append((file, run))
    for identity, runs in groups.items():
        ordered = sorted(
            runs, key=lambda pair: plain(first_of(pair[1], "dotted_order", "start_time"))
        )
        file, root = next((p for p in ordered if not p[1].get("parent_run_id")), ordered[0])
        yield _langsmith_trace(identity, file, root, [run for _, run in ordered])


def _with_children(run: Record) -> Iterator[Record]:
    """A run and those below it, which some exports have inside of it."""
    trace = first_of(run, "trace_id", "id")
    waiting = [run]
    while waiting:
        held = waiting.pop()
        yield held if held is run else {"trace_id": trace, "parent_run_id": run.get("id"), **held}
        waiting += map(mapped, listed(held.get("child_runs")))


def _langsmith_trace(identity: str, file: str, root: Record, runs: Sequence[Record]) -> LoggedTrace:
    messages = _exchange(root.get("inputs"), root.get("outputs"))
    feedback = _langsmith_scores(root)
    extra = mapped(mapped(root.get("extra")).get("metadata"))
    tools = [run for run in runs if run.get("run_type") == "tool"]
    passages = [
        plain(mapped(document).get("page_content"))
        for run in runs
        if run.get("run_type") == "retriever"
        for document in listed(mapped(run.get("outputs")).get("documents"))
    ]
    tokens = (_number(root.get("prompt_tokens")), _number(root.get("completion_tokens")))
    return LoggedTrace(
        id=identity,
        format="langsmith",
        messages=messages,
        calls=() if calls_in(messages) else tuple(map(_langsmith_tool, tools)),
        context=tuple(filter(None, passages)),
        time=plain(root.get("start_time")),
        session=plain(first_of(extra, "session_id", "thread_id", "conversation_id")),
        tags=_words(root.get("tags")),
        scores={n: number for n, value in feedback if (number := _number(value)) is not None},
        feedback=_mood(feedback),
        error=plain(root.get("error")) or ("error" if root.get("status") == "error" else ""),
        usage=Usage(input_tokens=int(tokens[0] or 0), output_tokens=int(tokens[1] or 0)),
        seconds=_seconds(root.get("start_time"), root.get("end_time")),
        file=file,
    )


def _langsmith_scores(root: Record) -> list[tuple[str, Json]]:
    stats = mapped(unpacked(root.get("feedback_stats")))
    means = [(name, mapped(value).get("avg")) for name, value in stats.items()]
    rows = map(mapped, listed(root.get("feedback")))
    return [*means, *((plain(row.get("key")), first_of(row, "score", "value")) for row in rows)]


def _langsmith_tool(run: Record) -> ToolCall:
    result = mapped(run.get("outputs"))
    return ToolCall(
        name=plain(run.get("name")),
        arguments=arguments_of(run.get("inputs")),
        result=result.get("output") if len(result) == 1 and "output" in result else dict(result),
        error=plain(run.get("error")),
    )


def plain_traces(records: Records, places: Mapping[str, tuple[str, ...]]) -> Iterator[LoggedTrace]:
    for file, record in records:
        yield _line_trace(file, _Line(record, places))


@dataclass(frozen=True)
class _Line:
    """A line of a plain log, with where its parts are."""

    record: Record
    places: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: FIELDS)

    def part(self, name: str) -> Json:
        values = (self._at(place) for place in self.places[name])
        return next((value for value in values if value not in (None, "", [], {})), None)

    def _at(self, place: str) -> Json:
        """The value under a name, or under names with dots between them."""
        if place in self.record:
            return self.record[place]
        value: Json = dict(self.record)
        for name in place.split("."):
            if isinstance(value, dict):
                value = value.get(name)
            elif isinstance(value, list) and name.isdigit() and int(name) < len(value):
                value = value[int(name)]
            else:
                return None
        return value


def _line_trace(file: str, line: _Line) -> LoggedTrace:
    said = read_messages(line.part("messages"))
    asked = said or _said(line.part("input"), "user")
    replied = _said(line.part("output"), "assistant")
    score, mood = line.part("score"), line.part("feedback")
    number = _number(score)
    # An id is optional in a log; a line that comes twice is the same trace.
    identity = plain(line.part("id")) or short_id(dict(line.record))
    rows = map(mapped, listed(unpacked(line.part("tools"))))
    expected = line.part("expected")
    return LoggedTrace(
        id=identity,
        format="jsonl",
        messages=_exchange_of(asked, replied),
        calls=tuple(
            ToolCall(
                name=plain(row.get("name")),
                arguments=arguments_of(first_of(row, "arguments", "args", "input")),
                result=first_of(row, "result", "output"),
            )
            for row in rows
        ),
        context=_words(line.part("context")),
        expected=None if expected is None else plain(expected),
        time=plain(line.part("time")),
        session=plain(line.part("session")),
        tags=_words(line.part("tags")),
        scores={} if number is None else {"score": number},
        feedback=feedback_of("feedback", mood),
        error="" if line.part("error") is False else plain(line.part("error")),
        file=file,
    )


def _exchange_of(asked: tuple[Message, ...], replied: tuple[Message, ...]) -> tuple[Message, ...]:
    ends = bool(asked) and asked[-1].role == "assistant" and asked[-1].content
    return asked if ends or not replied else (*asked, *replied)
