"""Traces become cases: the question, what came before it, the tools, and where it is from."""

import csv
import json
from pathlib import Path

import pytest

from burnish.core.errors import ConfigError
from burnish.datasets.formats import read_cases, write_cases
from burnish.datasets.trace_exports import TraceLog, read_traces
from burnish.datasets.traces import (
    LoggedTrace,
    ReplyUse,
    case_of_trace,
    distinct,
    feedback_of,
    joined_sessions,
    redacted,
    sample,
    where,
)
from burnish.system.redaction import DataRedactor, Redactor
from tests.datasets.trace_logs import (
    LANGFUSE,
    LANGSMITH,
    OPENINFERENCE,
    agent_spans,
    otlp,
    write_lines,
)


def only(log: TraceLog) -> LoggedTrace:
    (trace,) = log.traces
    return trace


def test_genai_spans_of_an_agent(tmp_path: Path) -> None:
    path = tmp_path / "spans.json"
    path.write_text(json.dumps(otlp(*agent_spans())), encoding="utf-8")
    trace = only(read_traces(path))
    assert (trace.format, trace.id, trace.session) == ("otel", "t1", "talk-1")
    assert trace.time == "2025-11-17T00:00:00+00:00"
    assert trace.seconds == 2.0
    assert trace.usage.input_tokens == 30
    assert trace.input == "Where is order 7?"
    assert trace.reply == "It is on its way."
    (call,) = trace.all_calls
    assert (call.name, call.arguments, call.result) == ("orders", {"id": 7}, "shipped")
    case = case_of_trace(trace)
    assert trace.messages[0].content == "Be brief."
    assert [m.role for m in case.history] == ["user", "assistant"]  # the agent has its own system
    assert case.extras["source"] == {
        "trace": "t1",
        "format": "otel",
        "time": "2025-11-17T00:00:00+00:00",
        "session": "talk-1",
        "file": "spans.json",
        "reply": "It is on its way.",
        "tools": [{"name": "orders", "arguments": {"id": 7}, "result": "shipped"}],
    }


def test_spans_of_one_trace_on_several_lines_and_one_span_per_line(tmp_path: Path) -> None:
    first, second, third = agent_spans()
    flat = {
        "context": {"trace_id": "0xt1", "span_id": "0xb"},
        "parent_id": "a",
        "start_time": "2026-11-17T00:00:01Z",
        "attributes": {row["key"]: row["value"]["stringValue"] for row in third["attributes"]},
    }
    path = write_lines(tmp_path / "spans.jsonl", otlp(first), otlp(second), flat)
    assert len(only(read_traces(path)).all_calls) == 1


def test_openinference_attributes(tmp_path: Path) -> None:
    trace = only(read_traces(write_lines(tmp_path / "phoenix.jsonl", otlp(OPENINFERENCE))))
    assert trace.input == "Why was I charged?"
    assert (trace.session, trace.tags, trace.error) == ("s9", ("billing",), "rate limited")
    assert trace.all_calls[0].name == "invoices"
    assert trace.all_calls[0].arguments == {"n": 3}
    recorded = case_of_trace(trace, ReplyUse.RECORD).recorded
    assert recorded is not None
    assert recorded.failed


def test_events_of_earlier_genai_conventions(tmp_path: Path) -> None:
    span = agent_spans()[0]
    span["events"] = [
        {"name": "gen_ai.user.message", "attributes": [_text("content", "Hi")]},
        {"name": "gen_ai.choice", "attributes": [_text("message", '{"content": "Hello"}')]},
        {
            "name": "gen_ai.evaluation.result",
            "attributes": [
                _text("gen_ai.evaluation.name", "user_feedback"),
                {"key": "gen_ai.evaluation.score.value", "value": {"doubleValue": 0.0}},
            ],
        },
    ]
    trace = only(read_traces(write_lines(tmp_path / "old.jsonl", otlp(span))))
    assert (trace.input, trace.reply) == ("Hi", "Hello")
    assert trace.scores == {"user_feedback": 0.0}
    assert trace.feedback == "negative"


def _text(key: str, value: str) -> dict[str, object]:
    return {"key": key, "value": {"stringValue": value}}


def test_langfuse_traces_with_scores_and_tools(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps({"data": LANGFUSE, "meta": {}}), encoding="utf-8")
    refund, why = read_traces(path).traces
    assert refund.format == "langfuse"
    assert (refund.input, refund.reply) == ("I want my money back", "No.")
    assert (refund.feedback, refund.scores["helpful"]) == ("negative", 0.25)
    assert refund.all_calls[0].result == "denied"
    assert (why.feedback, why.session) == ("positive", "s1")


def test_langfuse_observations_belong_to_their_trace(tmp_path: Path) -> None:
    rows = [
        {"id": "1", "traceId": "t", "type": "SPAN", "startTime": "2026-11-01T10:00:00Z",
         "input": "Is it open?", "output": "Yes.", "level": "DEFAULT"},
        {"id": "2", "traceId": "t", "type": "TOOL", "parentObservationId": "1", "name": "hours",
         "startTime": "2026-11-01T10:00:01Z", "input": {"day": "Monday"}, "output": "9-17",
         "level": "ERROR", "statusMessage": "slow"},
    ]  # fmt: skip
    trace = only(read_traces(write_lines(tmp_path / "observations.jsonl", *rows)))
    assert (trace.id, trace.input, trace.reply) == ("t", "Is it open?", "Yes.")
    assert trace.all_calls[0].error == "slow"
    assert trace.error == ""  # a tool that failed is not a failed trace


def test_langfuse_csv(tmp_path: Path) -> None:
    path = tmp_path / "traces.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "timestamp", "sessionId", "input", "output", "tags"])
        messages = json.dumps([{"role": "user", "content": "Hi, you"}])
        writer.writerow(["x", "2026-11-01", "s", messages, '"Hello"', '["a", "b"]'])
    trace = only(read_traces(path))
    assert (trace.format, trace.input, trace.tags) == ("langfuse", "Hi, you", ("a", "b"))


def test_langsmith_runs(tmp_path: Path) -> None:
    sums, who = read_traces(write_lines(tmp_path / "runs.jsonl", *LANGSMITH)).traces
    assert (sums.format, sums.id, sums.feedback) == ("langsmith", "r1", "positive")
    assert (sums.input, sums.reply, sums.seconds) == ("What is 2 + 2?", "4", 3.0)
    (call,) = sums.all_calls
    assert (call.name, call.result) == ("add", "4")
    assert (who.input, who.reply, who.error) == ("Who?", "", "TimeoutError()")


def test_plain_logs_with_fields_of_any_name(tmp_path: Path) -> None:
    line = {"req": {"text": "Hi"}, "res": ["Hello"], "when": "today", "ok": 0.2, "thumbs": "down"}
    path = write_lines(tmp_path / "app.jsonl", line)
    fields = ["input=req.text", "output=res.0", "time=when", "score=ok"]
    trace = only(read_traces(path, fields=fields))
    assert (trace.input, trace.reply, trace.time) == ("Hi", "Hello", "today")
    assert (trace.scores, trace.feedback) == ({"score": 0.2}, "negative")


def test_a_folder_of_several_formats(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", *LANGSMITH)
    (tmp_path / "b").mkdir()
    write_lines(tmp_path / "b" / "c.jsonl", {"input": "x", "output": "y"})
    write_lines(tmp_path / ".hidden.jsonl", {"input": "no"})
    log = read_traces(tmp_path)
    assert log.formats == ("jsonl", "langsmith")
    assert [trace.file for trace in log.traces] == ["a.jsonl", "a.jsonl", "b/c.jsonl"]


def test_broken_lines_are_counted(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "log.jsonl", '{"input": "x"', {"input": "x"}, "[1]", {"a": 1})
    log = read_traces(path)
    assert len(log.traces) == 1
    assert [problem.where.partition(":")[0] for problem in log.broken] == ["log.jsonl"] * 3
    assert "no question" in log.broken[-1].message


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": 1}', "\x00\x01", '{"input": ""}'])
def test_nothing_to_read_is_an_error_with_a_remedy(tmp_path: Path, text: str) -> None:
    for name in ("log.json", "log.jsonl", "log.csv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match="--field input=NAME"):
            read_traces(path)


def test_unknown_formats_and_fields_are_named(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "log.jsonl", {"input": "x"})
    with pytest.raises(ConfigError, match="langsmith"):
        read_traces(path, format="langsmit")
    with pytest.raises(ConfigError, match="the parts are input, output"):
        read_traces(path, fields=["question=x"])
    with pytest.raises(ConfigError, match="no such file"):
        read_traces(tmp_path / "none.jsonl")


@pytest.mark.parametrize(
    ("name", "value", "mood"),
    [
        ("user-feedback", 0, "negative"),
        ("thumbs", "👍", "positive"),
        ("user_rating", 4, ""),  # of five, or of ten: nobody knows
        ("helpfulness", 0, ""),  # a judge's, not the user's
        ("feedback", False, "negative"),
    ],
)
def test_what_a_user_thought(name: str, value: str | float, mood: str) -> None:
    assert feedback_of(name, value) == mood


def logged(number: int, **fields: object) -> LoggedTrace:
    from burnish.core.cases import Message

    messages = (Message(role="user", content=f"question {number}"),)
    return LoggedTrace(id=f"t{number}", format="jsonl", messages=messages, **fields)  # pyright: ignore[reportArgumentType]


def test_conditions() -> None:
    traces = [
        logged(1, error="timeout"),
        logged(2, feedback="negative", tags=("refund",)),
        logged(3, scores={"helpful": 0.2}),
        logged(4, scores={"helpful": 0.9, "safe": 0.1}),
    ]

    def matching(*texts: str) -> list[str]:
        return [trace.id for trace in traces if where(texts)(trace)]

    assert matching("error,negative,helpful<0.5") == ["t1", "t2", "t3"]
    assert matching("score<0.5") == ["t3"]  # one score alone needs no name
    assert matching("ok", "tag=refund") == ["t2"]
    assert matching() == ["t1", "t2", "t3", "t4"]
    with pytest.raises(ConfigError, match="--where"):
        where(["helpful=0.5"])


def test_a_sample_is_balanced_and_the_same_again() -> None:
    traces = [logged(n, error="x" if n % 20 == 0 else "") for n in range(1, 101)]
    chosen = sample(traces, 20, seed=1)
    assert len(chosen) == 20
    assert sum(bool(trace.error) for trace in chosen) == 1
    assert chosen == sample(list(reversed(traces)), 20, seed=1)[::-1]
    assert chosen != sample(traces, 20, seed=2)
    assert len(sample(traces, 1, seed=1)) == 1
    assert len(sample(traces, 1000, seed=1)) == 100


def test_a_rare_outcome_is_in_the_sample() -> None:
    traces = [logged(n, error="x" if n == 1 else "") for n in range(1, 1001)]
    assert any(trace.error for trace in sample(traces, 10, seed=5))


def test_one_case_for_each_question() -> None:
    twice = [
        case_of_trace(logged(1)),
        case_of_trace(logged(1, error="x")),
        case_of_trace(logged(2)),
    ]
    once = distinct(twice)
    assert (len(once.cases), once.repeated) == (2, 1)


def test_sessions_become_conversations(tmp_path: Path) -> None:
    traces = read_traces(write_lines(tmp_path / "x.jsonl", *reversed(LANGFUSE))).traces
    (case,) = joined_sessions(traces, ReplyUse.RECORD)
    assert [turn.input for turn in case.turns] == ["I want my money back", "And why?"]
    assert case.recorded is not None
    assert case.recorded.replies == ("No.", "Because of the terms.")
    write_cases(tmp_path / "cases.jsonl", [case])
    assert read_cases(tmp_path / "cases.jsonl").cases == (case,)


def test_private_data_is_removed_and_counted(tmp_path: Path) -> None:
    line = {
        "id": "4111 1111 1111 1111",
        "input": "I am jo@example.org, +44 20 7946 0958, card 4111 1111 1111 1111, order A-77",
        "output": "Your key sk-abcdefghijklmnopqrstuvwx is fine",
        "tools": [{"name": "login", "arguments": {"password": "hunter2"}}],
    }
    trace = only(read_traces(write_lines(tmp_path / "log.jsonl", line)))
    redactor = DataRedactor(secrets=Redactor.from_environment({}), patterns=(r"A-\d+",))
    case = redacted(case_of_trace(trace), redactor)
    assert case.input == "I am [email], [phone], card [card], order [redacted]"
    assert case.name == "4111 1111 1111 1111"  # which trace it was, a reader must be able to tell
    text = json.dumps(case.extras)
    assert "sk-abc" not in text
    assert "hunter2" not in text
    assert redactor.summary() == (
        "2 keys, 1 match of --redact, 1 e-mail address, 1 telephone number, 1 card number"
    )


@pytest.mark.parametrize(
    "text",
    ["2026-11-17 00:05", "192.168.100.200", "1 000 000 000", "12345678901234", "10 20 30 40 50"],
)
def test_other_numbers_stay(text: str) -> None:
    redactor = DataRedactor(secrets=Redactor.from_environment({}))
    assert redactor.json(text) == text
