"""Traces of OpenTelemetry: OTLP JSON with the GenAI conventions or OpenInference's attributes."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import cast

from burnish.core.cases import Message, ToolCall, Usage
from burnish.core.content import Json
from burnish.datasets.agent_cases import listed, mapped
from burnish.datasets.traces import (
    LoggedTrace,
    arguments_of,
    feedback_of,
    first_of,
    plain,
    read_messages,
    unpacked,
)

_INDEX = re.compile(r"\.(\d{1,6})(?=\.|$)")
_EVENT_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.choice": "assistant",
}
_NOTHING: Mapping[str, Json] = {}
_EVALUATION = "gen_ai.evaluation.result"


@dataclass(frozen=True, kw_only=True)
class _Span:
    """One span, with its attributes as plain values."""

    trace: str
    id: str
    parent: str
    name: str
    start: int
    end: int
    attributes: Mapping[str, Json]
    events: tuple[tuple[str, Mapping[str, Json]], ...] = ()
    error: str = ""
    tree: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """The attributes with dots and numbers in their names as mappings and lists."""

    @property
    def kind(self) -> str:
        """What it stands for, in the words of OpenInference."""
        named = plain(self.attributes.get("openinference.span.kind")).upper()
        operation = plain(self.attributes.get("gen_ai.operation.name"))
        return named or {"execute_tool": "TOOL", "invoke_agent": "AGENT"}.get(operation, "")

    def messages(self) -> tuple[Message, ...]:
        """The conversation that the span has, with the answer at its end."""
        instructions = _system(self.attributes.get("gen_ai.system_instructions"))
        said = read_messages(self.attributes.get("gen_ai.input.messages"))
        if said or self.attributes.get("gen_ai.output.messages"):
            reply = read_messages(self.attributes.get("gen_ai.output.messages"))
            return (*instructions, *said, *reply)
        flat = self._numbered("llm", "input_messages") or self._numbered("gen_ai", "prompt")
        if flat:
            answer = self._numbered("llm", "output_messages")
            return (*flat, *(answer or self._numbered("gen_ai", "completion", "assistant")))
        return self._events()

    def _numbered(self, *path: str) -> tuple[Message, ...]:
        """Messages in attributes such as `llm.input_messages.0.message.role`."""
        root, name, *usual = path
        rows = listed(mapped(self.tree.get(root)).get(name))
        held: list[Json] = [_flat_message(mapped(row), usual[0] if usual else "") for row in rows]
        return read_messages(held)

    def _events(self) -> tuple[Message, ...]:
        rows: list[Json] = []
        for name, body in self.events:
            if name not in _EVENT_ROLES:
                continue
            whole = {**body, **mapped(unpacked(body.get("body")))}
            inner = mapped(unpacked(whole.get("message"))) or whole
            rows.append({"content": "", "role": _EVENT_ROLES[name], **inner})
        return read_messages(rows)

    def exchange(self) -> tuple[str, str]:
        """The values of input and output, where there are no messages."""
        value = unpacked(self.attributes.get("input.value"))
        return _worded(value), _worded(unpacked(self.attributes.get("output.value")))


def _flat_message(row: Mapping[str, Json], usual: str) -> dict[str, Json]:
    inner = mapped(row.get("message")) or row
    calls = [
        mapped(mapped(c).get("tool_call")) or mapped(c) for c in listed(inner.get("tool_calls"))
    ]
    contents = [mapped(mapped(c).get("message_content")) for c in listed(inner.get("contents"))]
    more: dict[str, Json] = {"tool_calls": cast("Json", calls)} if calls else {}
    return {
        "role": inner.get("role") or usual,
        "content": first_of(inner, "content") or cast("Json", contents) or "",
        "tool_call_id": inner.get("tool_call_id"),
        "name": inner.get("name"),
        **more,
    }


def _worded(value: Json) -> str:
    """The text of a value that programs write in many ways."""
    if isinstance(value, dict):
        messages = read_messages(value)
        if messages:
            return messages[-1].content
        named = ("input", "question", "query", "prompt", "output", "answer", "content", "text")
        inner = first_of(value, *named)
        return plain(inner if isinstance(inner, str) else value)
    return plain(value)


def _system(value: Json) -> tuple[Message, ...]:
    parts = [plain(mapped(unpacked(part)).get("content")) for part in listed(unpacked(value))]
    text = "\n".join(filter(None, parts)) or (value if isinstance(value, str) and not parts else "")
    return (Message(role="system", content=text),) if text else ()


def holds_spans(record: Mapping[str, Json]) -> bool:
    """Whether a record is an OTLP export, or a single span."""
    if {"resourceSpans", "resource_spans"} & record.keys():
        return True
    context = mapped(record.get("context"))
    has_id = bool({"traceId", "trace_id"} & {*record, *context})
    return has_id and "attributes" in record and bool({"spanId", "span_id"} & {*record, *context})


def otel_traces(records: Iterable[Mapping[str, Json]]) -> Iterator[LoggedTrace]:
    """The traces of some exports; the spans of one trace may be in several."""
    spans: dict[str, list[_Span]] = {}
    for record in records:
        for raw, resource in _raw_spans(record):
            span = _span(raw, resource)
            spans.setdefault(span.trace, []).append(span)
    for held in spans.values():
        yield _trace(sorted(held, key=lambda span: (span.start, span.end)))


def _raw_spans(
    record: Mapping[str, Json],
) -> Iterator[tuple[Mapping[str, Json], Mapping[str, Json]]]:
    groups = first_of(record, "resourceSpans", "resource_spans")
    if groups is None:
        yield record, {}
        return
    for group in map(mapped, listed(groups)):
        resource = _attributes(mapped(group.get("resource")).get("attributes"))
        scopes = first_of(group, "scopeSpans", "scope_spans", "instrumentationLibrarySpans")
        for scope in map(mapped, listed(scopes)):
            yield from ((mapped(span), resource) for span in listed(scope.get("spans")))


def _span(raw: Mapping[str, Json], resource: Mapping[str, Json]) -> _Span:
    context = mapped(raw.get("context"))
    attributes = {**resource, **_attributes(raw.get("attributes"))}
    events = tuple(
        (plain(event.get("name")), _attributes(event.get("attributes")))
        for event in map(mapped, listed(raw.get("events")))
    )
    return _Span(
        trace=plain(first_of({**context, **raw}, "traceId", "trace_id")).removeprefix("0x"),
        id=plain(first_of({**context, **raw}, "spanId", "span_id")).removeprefix("0x"),
        parent=plain(first_of(raw, "parentSpanId", "parent_span_id", "parent_id")),
        name=plain(raw.get("name")),
        start=_nanoseconds(
            first_of(raw, "startTimeUnixNano", "start_time_unix_nano", "start_time")
        ),
        end=_nanoseconds(first_of(raw, "endTimeUnixNano", "end_time_unix_nano", "end_time")),
        attributes=attributes,
        events=events,
        error=_error(mapped(raw.get("status")), attributes, events),
        tree=_tree(attributes),
    )


def _attributes(value: Json) -> dict[str, Json]:
    """Attributes as a mapping: OTLP writes a list of keys and typed values."""
    if isinstance(value, dict):
        return value
    rows = (mapped(row) for row in listed(value))
    return {plain(row.get("key")): _value(row.get("value")) for row in rows}


def _value(value: Json) -> Json:
    if not isinstance(value, dict) or len(value) != 1:
        return value
    ((kind, held),) = value.items()
    if kind in ("arrayValue", "array_value"):
        return [_value(each) for each in listed(mapped(held).get("values"))]
    if kind in ("kvlistValue", "kvlist_value"):
        return _attributes(mapped(held).get("values"))
    if kind in ("intValue", "int_value") and isinstance(held, str) and held.lstrip("-").isdigit():
        return int(held[:19])
    return held if kind.lower().endswith("value") else value


def _tree(attributes: Mapping[str, Json]) -> dict[str, Json]:
    """Nested values for numbered names; lists where the names are numbers."""
    root: dict[str, Json] = {}
    for name, value in attributes.items():
        if not _INDEX.search(name):
            continue
        place = root
        *path, last = name.split(".")
        for part in path:
            inner = place.setdefault(part, {})
            if not isinstance(inner, dict):
                break
            place = inner
        else:
            place[last] = value
    return {name: _with_lists(value) for name, value in root.items()}


def _with_lists(value: Json) -> Json:
    if not isinstance(value, dict):
        return value
    inner = {name: _with_lists(each) for name, each in value.items()}
    if inner and all(name.isdigit() for name in inner):
        return [inner[name] for name in sorted(inner, key=int)]
    return inner


def _nanoseconds(value: Json) -> int:
    if isinstance(value, int | float):
        return int(value)
    text = plain(value)
    if text.isdigit():
        return int(text[:19])
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return 0
    return int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1000


def _error(
    status: Mapping[str, Json],
    attributes: Mapping[str, Json],
    events: Iterable[tuple[str, Mapping[str, Json]]],
) -> str:
    code = plain(first_of(status, "code", "status_code"))
    kind = plain(attributes.get("error.type"))
    if code not in ("2", "ERROR", "STATUS_CODE_ERROR") and not kind:
        return ""
    raised = next((body for name, body in events if name == "exception"), _NOTHING)
    message = first_of(status, "message", "description") or raised.get("exception.message")
    return plain(message) or kind or plain(raised.get("exception.type")) or "error"


def _trace(spans: list[_Span]) -> LoggedTrace:
    """One trace: the conversation of its last model call or agent, the tools of its spans."""
    ids = {span.id for span in spans}
    roots = [span for span in spans if span.parent not in ids] or spans[:1]
    root = roots[0]
    merged = {key: value for span in reversed(spans) for key, value in span.attributes.items()}
    scores, words = _evaluations(spans)
    started = min(span.start for span in spans)
    usage = [_usage(span) for span in spans if span.kind not in ("AGENT", "CHAIN")]
    return LoggedTrace(
        id=root.trace,
        format="otel",
        messages=_conversation(roots, spans),
        calls=tuple(_tool(span) for span in spans if span.kind == "TOOL"),
        context=tuple(text for span in spans for text in _passages(span)),
        time=datetime.fromtimestamp(started / 1e9, UTC).isoformat() if started else "",
        session=plain(first_of(merged, "gen_ai.conversation.id", "session.id")),
        tags=tuple(map(plain, listed(unpacked(merged.get("tag.tags"))))),
        scores=scores,
        feedback="negative" if words & {"negative"} else "positive" if words else "",
        error=next((span.error for span in roots if span.error), ""),
        usage=sum(usage, Usage()),
        seconds=max(0.0, (max(span.end for span in spans) - started) / 1e9),
    )


def _conversation(roots: list[_Span], spans: list[_Span]) -> tuple[Message, ...]:
    """The longest conversation: an agent's own, or that of the last call of its model.

    A model that was called by a tool or by another agent talks about something else: its first
    question is another one.
    """
    talks = [held for span in spans if span.kind != "TOOL" and (held := span.messages())]
    own = [held for span in roots if (held := span.messages())]
    question, answer = next((pair for span in roots if any(pair := span.exchange())), ("", ""))
    if own or talks:
        first = _first_question((own or talks)[0])
        same = [talk for talk in (*talks, *own) if _first_question(talk) == first]
        longest = max(same, key=lambda talk: (len(talk), talk[-1].role == "assistant"))
        ends = longest[-1].role == "assistant" and longest[-1].content
        said = () if ends or not answer else (Message(role="assistant", content=answer),)
        return (*longest, *said)
    asked = (Message(role="user", content=question),) if question else ()
    return (*asked, *((Message(role="assistant", content=answer),) if answer else ()))


def _first_question(messages: tuple[Message, ...]) -> str:
    return next((m.content for m in messages if m.role == "user"), "")


def _tool(span: _Span) -> ToolCall:
    held = span.attributes
    named = first_of(held, "gen_ai.tool.name", "tool.name", "tool_call.function.name")
    given = ("gen_ai.tool.call.arguments", "tool.parameters", "input.value")
    result = first_of(held, "gen_ai.tool.call.result", "output.value")
    return ToolCall(
        name=plain(named) or span.name.removeprefix("execute_tool "),
        arguments=arguments_of(first_of(held, *given)),
        result=unpacked(result),
        error=span.error,
        id=plain(first_of(held, "gen_ai.tool.call.id", "tool_call.id")),
        passages=_passages(span),
    )


def _passages(span: _Span) -> tuple[str, ...]:
    held = mapped(span.tree.get("retrieval")).get("documents")
    rows = (mapped(mapped(row).get("document")) for row in listed(held))
    return tuple(text for row in rows if (text := plain(row.get("content"))))


def _usage(span: _Span) -> Usage:
    held = span.attributes
    asked = first_of(held, "gen_ai.usage.input_tokens", "llm.token_count.prompt")
    said = first_of(held, "gen_ai.usage.output_tokens", "llm.token_count.completion")
    if asked is None and said is None:
        return Usage()
    return Usage(requests=1, input_tokens=_whole(asked), output_tokens=_whole(said))


def _whole(value: Json) -> int:
    return int(value) if isinstance(value, int | float) else 0


def _evaluations(spans: Iterable[_Span]) -> tuple[dict[str, float], set[str]]:
    """The scores that events of the spans report, and what users thought."""
    scores: dict[str, float] = {}
    words: set[str] = set()
    for body in (body for span in spans for name, body in span.events if name == _EVALUATION):
        name = plain(body.get("gen_ai.evaluation.name")) or "score"
        value = body.get("gen_ai.evaluation.score.value")
        if isinstance(value, int | float):
            scores[name] = float(value)
        words.add(feedback_of(name, value, plain(body.get("gen_ai.evaluation.score.label"))))
    return scores, words - {""}
