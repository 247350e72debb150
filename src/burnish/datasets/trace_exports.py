"""Exports of Langfuse and LangSmith and lines of plain logs: recognised, and read as traces."""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

from burnish.core.cases import Message, ToolCall, Usage
from burnish.core.content import Json, canonical, short_id
from burnish.core.errors import ConfigError, NotJournalable, Problem
from burnish.datasets.agent_cases import Complaints, listed, mapped
from burnish.datasets.otel_traces import holds_spans, otel_traces
from burnish.datasets.rows import ALIASES, raw_objects, raw_rows
from burnish.datasets.traces import (
    Feedback,
    LoggedTrace,
    arguments_of,
    calls_in,
    feedback_of,
    first_of,
    plain,
    read_messages,
    unpacked,
)
from burnish.system.config import near
from burnish.system.files import read_text, translated
from burnish.system.yaml import parse_json

_Record: TypeAlias = Mapping[str, Json]
Records: TypeAlias = Sequence[tuple[str, _Record]]
"""Records with the names of their files."""
_EMPTY: _Record = {}
_NAMED = ("input", "question", "query", "prompt", "text", "content", "output", "answer", "response")
"""Keys under which programs log what was said."""
_FIELDS: Mapping[str, tuple[str, ...]] = {
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


def _langfuse_traces(records: Records, places: object) -> Iterator[LoggedTrace]:
    """Traces, or observations that belong to traces by their `traceId`."""
    del places
    parts: dict[str, list[_Record]] = {}
    whole: dict[str, tuple[str, _Record]] = {}
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
    identity: str, file: str, record: _Record, steps: Sequence[_Record]
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


def _langfuse_scores(record: _Record) -> list[tuple[str, Json]]:
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


def _langfuse_tool(step: _Record) -> ToolCall:
    failed = step.get("level") == "ERROR"
    return ToolCall(
        name=plain(step.get("name")),
        arguments=arguments_of(step.get("input")),
        result=unpacked(step.get("output")),
        error=(plain(step.get("statusMessage")) or "error") if failed else "",
    )


def _langsmith_traces(records: Records, places: object) -> Iterator[LoggedTrace]:
    """Runs: a trace is its root run; tools and models are runs below it."""
    del places
    flat = [(file, run) for file, record in records for run in _with_children(record)]
    groups: dict[str, list[tuple[str, _Record]]] = {}
    for file, run in flat:
        identity = plain(first_of(run, "trace_id", "id")) or short_id(dict(run))
        groups.setdefault(identity, []).append((file, run))
    for identity, runs in groups.items():
        ordered = sorted(
            runs, key=lambda pair: plain(first_of(pair[1], "dotted_order", "start_time"))
        )
        file, root = next((p for p in ordered if not p[1].get("parent_run_id")), ordered[0])
        yield _langsmith_trace(identity, file, root, [run for _, run in ordered])


def _with_children(run: _Record) -> Iterator[_Record]:
    """A run and those below it, which some exports have inside of it."""
    trace = first_of(run, "trace_id", "id")
    waiting = [run]
    while waiting:
        held = waiting.pop()
        yield held if held is run else {"trace_id": trace, "parent_run_id": run.get("id"), **held}
        waiting += map(mapped, listed(held.get("child_runs")))


def _langsmith_trace(
    identity: str, file: str, root: _Record, runs: Sequence[_Record]
) -> LoggedTrace:
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


def _langsmith_scores(root: _Record) -> list[tuple[str, Json]]:
    stats = mapped(unpacked(root.get("feedback_stats")))
    means = [(name, mapped(value).get("avg")) for name, value in stats.items()]
    rows = map(mapped, listed(root.get("feedback")))
    return [*means, *((plain(row.get("key")), first_of(row, "score", "value")) for row in rows)]


def _langsmith_tool(run: _Record) -> ToolCall:
    result = mapped(run.get("outputs"))
    return ToolCall(
        name=plain(run.get("name")),
        arguments=arguments_of(run.get("inputs")),
        result=result.get("output") if len(result) == 1 and "output" in result else dict(result),
        error=plain(run.get("error")),
    )


def _plain_traces(records: Records, places: Mapping[str, tuple[str, ...]]) -> Iterator[LoggedTrace]:
    for file, record in records:
        yield _line_trace(file, _Line(record, places))


@dataclass(frozen=True)
class _Line:
    """A line of a plain log, with where its parts are."""

    record: _Record
    places: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _FIELDS)

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


_SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv")


@dataclass(frozen=True, kw_only=True)
class TraceLog:
    """The traces of a file or a folder, and what could not be read."""

    traces: tuple[LoggedTrace, ...]
    broken: tuple[Problem, ...] = ()
    """Lines and records that are no JSON, or that have no question."""
    files: int = 1

    @property
    def formats(self) -> tuple[str, ...]:
        return tuple(sorted({trace.format for trace in self.traces}))


def read_traces(
    path: Path,
    *,
    format: str | None = None,  # noqa: A002
    fields: Sequence[str] = (),
) -> TraceLog:
    """The traces of a file, or of all files of a folder; what is broken is counted.

    `fields` are like `input=request.text`: where a line of a plain log has a part. Raises
    ConfigError if nothing at all can be read.
    """
    if format is not None and format not in _READERS:
        known = near(format, list(_READERS)) or f"known: {', '.join(_READERS)}"
        message = f"unknown format {format!r} of traces"
        raise ConfigError([Problem(where="--from", message=message, remedy=known)])
    places = _field_paths(fields)
    complaints: list[Problem] = []
    by_format: dict[str, list[tuple[str, _Record]]] = {}
    paths = _files(path)
    for file in paths:
        records = list(_records(file, complaints))
        kind = format or ("jsonl" if fields else _recognised(record for _, record in records))
        by_format.setdefault(kind, []).extend((_shown(file, path), r) for _, r in records)
    read = [
        trace for kind, records in by_format.items() for trace in _READERS[kind](records, places)
    ]
    traces = {trace.id: trace for trace in read if _is_usable(trace)}
    complaints += [
        Problem(where=f"{t.file or path.name}: {t.id}", message="this trace has no question")
        for t in read
        if not _is_usable(t)
    ]
    if not traces:
        raise _nothing(path, complaints, paths)
    return TraceLog(traces=tuple(traces.values()), broken=tuple(complaints), files=len(paths))


def _is_usable(trace: LoggedTrace) -> bool:
    return bool(trace.input.strip())


def _nothing(path: Path, broken: Sequence[Problem], files: Sequence[Path]) -> ConfigError:
    message = f"no trace could be read from {len(files)} file(s)"
    remedy = (
        "name the format with --from otel|langfuse|langsmith|jsonl; for other names of fields: "
        "--from jsonl --field input=NAME --field output=NAME"
    )
    return ConfigError([Problem(where=str(path), message=message), *broken[:3]], remedy=remedy)


def _field_paths(fields: Sequence[str]) -> dict[str, tuple[str, ...]]:
    places = dict(_FIELDS)
    for each in fields:
        part, equals, name = each.partition("=")
        if part not in _FIELDS or not equals or not name:
            remedy = f"write PART=NAME; the parts are {', '.join(_FIELDS)}"
            raise ConfigError(
                [Problem(where="--field", message=f"not usable: {each!r}", remedy=remedy)]
            )
        places[part] = (name,)
    return places


def _files(path: Path) -> list[Path]:
    with translated("read", path):
        if not path.is_dir():
            if not path.exists():
                message, remedy = "no such file or folder", "name an export of traces"
                raise ConfigError([Problem(where=str(path), message=message, remedy=remedy)])
            return [path]
        found = sorted(p for p in path.rglob("*") if p.suffix in _SUFFIXES and p.is_file())
    visible = [p for p in found if not any(n.startswith(".") for n in p.relative_to(path).parts)]
    if not visible:
        message = f"the folder has no {', '.join(_SUFFIXES)} files"
        raise ConfigError([Problem(where=str(path), message=message)])
    return visible


def _shown(file: Path, path: Path) -> str:
    return file.name if file == path else file.relative_to(path).as_posix()


def _records(path: Path, broken: list[Problem]) -> Iterator[tuple[str, _Record]]:
    """The records of a file with their places."""
    if path.suffix == ".csv":
        try:
            for number, row in enumerate(raw_rows(path), start=2):
                yield str(number), {name: unpacked(cell) for name, cell in row.items()}
        except (ConfigError, csv.Error) as error:
            broken.append(Problem(where=path.name, message=str(error)))
        return
    document = _document(path) if path.suffix == ".json" else None
    if document is not None:
        for number, row in enumerate(_unwrapped(document), start=1):
            if _is_record(row, path, number, broken):
                yield str(number), mapped(row)
        return
    complaints, read = Complaints(source=path.name), 0
    for line, record in raw_objects(path, complaints):
        read += 1
        yield from ((str(line), mapped(row)) for row in _unwrapped(record))
    # A file that is one broken value is one problem, however many lines it has.
    broken += complaints.problems if read else complaints.problems[:1]


def _is_record(row: Json, path: Path, number: int, broken: list[Problem]) -> bool:
    try:
        if isinstance(row, dict):
            canonical(row)
            return True
        message = "expected a JSON object"
    except NotJournalable as error:
        message = error.message
    broken.append(Problem(where=f"{path.name} record {number}", message=message))
    return False


def _document(path: Path) -> Json:
    """The value of a JSON file; None if it holds one value per line, or is broken."""
    try:
        return parse_json(read_text(path).removeprefix("\ufeff"), source=path.name)
    except ConfigError:
        return None


def _unwrapped(document: Json) -> list[Json]:
    """The records of a document: a list, a page of an API, a session with its traces."""
    whole: list[Json] = [document]
    if isinstance(document, list):
        return document
    held = mapped(document)
    for key in ("data", "traces", "runs", "observations"):
        rows = held.get(key)
        if isinstance(rows, list) and not {"input", "inputs", "run_type"} & held.keys():
            return rows
    return whole


def _recognised(records: Iterable[_Record]) -> str:
    """The format of a file, by the first of its records that shows it."""
    for record in records:
        if holds_spans(record):
            return "otel"
        if {"run_type", "dotted_order"} & record.keys():
            return "langsmith"
        if _LANGFUSE & record.keys() and {"input", "output"} & record.keys():
            return "langfuse"
    return "jsonl"


_LANGFUSE = frozenset(
    ("observations", "traceId", "sessionId", "userId", "bookmarked", "htmlPath", "statusMessage")
)

_Reading = Callable[[Records, Mapping[str, tuple[str, ...]]], Iterator[LoggedTrace]]


def _otel(records: Records, places: object) -> Iterator[LoggedTrace]:
    del places
    names = {file for file, _ in records}
    file = names.pop() if len(names) == 1 else ""
    yield from (replace(t, file=file) for t in otel_traces(record for _, record in records))


_READERS: Mapping[str, _Reading] = {
    "otel": _otel,
    "langfuse": _langfuse_traces,
    "langsmith": _langsmith_traces,
    "jsonl": _plain_traces,
}
