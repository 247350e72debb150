"""Messages as other systems log them: chat APIs, GenAI conventions, LangChain."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from burnish.core.cases import Message, Speaker, ToolUse
from burnish.core.content import Json
from burnish.core.outcomes import ToolCall
from burnish.datasets.agent_cases import listed, mapped

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
