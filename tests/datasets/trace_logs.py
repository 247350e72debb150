"""Exports of tracing services as tests write them."""

import json
from pathlib import Path
from typing import Any, cast


def attributes(**values: Any) -> list[dict[str, Any]]:
    """Attributes as OTLP writes them; `__` in a name stands for a dot."""
    return [{"key": k.replace("__", "."), "value": _typed(v)} for k, v in values.items()]


def _typed(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"arrayValue": {"values": [_typed(each) for each in cast("list[Any]", value)]}}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"stringValue": value if isinstance(value, str) else json.dumps(value)}


def otlp(*spans: dict[str, Any]) -> dict[str, Any]:
    """One OTLP export."""
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"spans": list(spans)}]}]}


def said(role: str, text: str) -> dict[str, Any]:
    """A message of the GenAI conventions."""
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def agent_spans(trace: str = "t1") -> list[dict[str, Any]]:
    """An agent that calls a tool and answers, as GenAI spans."""
    call = {"type": "tool_call", "id": "c1", "name": "orders", "arguments": {"id": 7}}
    answer = {"type": "tool_call_response", "id": "c1", "response": "shipped"}
    talk = [
        said("user", "Hello"),
        said("assistant", "Hi, what can I do?"),
        said("user", "Where is order 7?"),
        {"role": "assistant", "parts": [call]},
        {"role": "tool", "parts": [answer]},
    ]
    return [
        {
            "traceId": trace,
            "spanId": "a",
            "name": "invoke_agent shop",
            "startTimeUnixNano": "1763337600000000000",
            "endTimeUnixNano": "1763337602000000000",
            "attributes": attributes(
                gen_ai__operation__name="invoke_agent", gen_ai__conversation__id="talk-1"
            ),
        },
        {
            "traceId": trace,
            "spanId": "b",
            "parentSpanId": "a",
            "name": "chat",
            "startTimeUnixNano": "1763337601000000000",
            "endTimeUnixNano": "1763337602000000000",
            "attributes": attributes(
                gen_ai__operation__name="chat",
                gen_ai__system_instructions=[{"type": "text", "content": "Be brief."}],
                gen_ai__input__messages=json.dumps(talk),
                gen_ai__output__messages=json.dumps([said("assistant", "It is on its way.")]),
                gen_ai__usage__input_tokens=30,
                gen_ai__usage__output_tokens=5,
            ),
        },
        {
            "traceId": trace,
            "spanId": "c",
            "parentSpanId": "a",
            "name": "execute_tool orders",
            "startTimeUnixNano": "1763337600500000000",
            "endTimeUnixNano": "1763337600600000000",
            "attributes": attributes(
                gen_ai__operation__name="execute_tool",
                gen_ai__tool__name="orders",
                gen_ai__tool__call__id="c1",
                gen_ai__tool__call__arguments='{"id": 7}',
                gen_ai__tool__call__result="shipped",
            ),
        },
    ]


OPENINFERENCE = {
    "traceId": "phoenix-1",
    "spanId": "a",
    "startTimeUnixNano": "1763337600000000000",
    "endTimeUnixNano": "1763337600500000000",
    "status": {"code": 2, "message": "rate limited"},
    "attributes": attributes(
        openinference__span__kind="LLM",
        session__id="s9",
        tag__tags=["billing"],
        llm__token_count__prompt=12,
        **{
            "llm.input_messages.0.message.role": "system",
            "llm.input_messages.0.message.content": "Answer from the handbook.",
            "llm.input_messages.1.message.role": "user",
            "llm.input_messages.1.message.contents.0.message_content.type": "text",
            "llm.input_messages.1.message.contents.0.message_content.text": "Why was I charged?",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.tool_calls.0.tool_call.id": "k",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "invoices",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"n": 3}',
        },
    ),
}
LANGFUSE = [
    {
        "id": "lf-1",
        "timestamp": "2026-11-01T10:00:00Z",
        "name": "chat",
        "sessionId": "s1",
        "tags": ["refund"],
        "input": {"messages": [{"role": "user", "content": "I want my money back"}]},
        "output": {"role": "assistant", "content": "No."},
        "latency": 1.5,
        "scores": [{"name": "user-feedback", "value": 0}, {"name": "helpful", "value": 0.25}],
        "observations": [
            {
                "id": "o1",
                "type": "TOOL",
                "name": "refund",
                "input": {"order": 1},
                "output": "denied",
            }
        ],
    },
    {
        "id": "lf-2",
        "timestamp": "2026-11-01T11:00:00Z",
        "sessionId": "s1",
        "input": "And why?",
        "output": "Because of the terms.",
        "scores": [{"name": "user-feedback", "value": 1}],
    },
]
LANGSMITH = [
    {
        "id": "r1",
        "trace_id": "r1",
        "run_type": "chain",
        "dotted_order": "1",
        "start_time": "2026-11-01T10:00:00",
        "end_time": "2026-11-01T10:00:03",
        "inputs": {"messages": [{"type": "human", "content": "What is 2 + 2?"}]},
        "outputs": {
            "messages": [
                {"type": "human", "content": "What is 2 + 2?"},
                {
                    "type": "ai",
                    "content": "",
                    "tool_calls": [{"id": "x", "name": "add", "args": {"a": 2, "b": 2}}],
                },
                {"type": "tool", "content": "4", "tool_call_id": "x", "name": "add"},
                {"type": "ai", "content": "4"},
            ]
        },
        "feedback_stats": {"user_score": {"n": 1, "avg": 1.0}},
        "tags": ["math"],
    },
    {"id": "r2", "trace_id": "r1", "parent_run_id": "r1", "run_type": "tool", "name": "add",
     "dotted_order": "1.2", "inputs": {"a": 2}, "outputs": {"output": "4"}},
    {"id": "r3", "trace_id": "r3", "run_type": "chain", "inputs": {"question": "Who?"},
     "outputs": None, "error": "TimeoutError()"},
]  # fmt: skip


def write_lines(path: Path, *records: Any) -> Path:
    """A file with one JSON value per line; texts as they are."""
    lines = (each if isinstance(each, str) else json.dumps(each) for each in records)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
