"""What was said before a case begins: messages of an EvalSet with their calls and pictures."""

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence

from burnish.core.content import Json
from burnish.core.messages import Image, Message, Speaker, ToolUse
from burnish.evaluation.datasets.complaints import listed, mapped
from burnish.evaluation.datasets.evalset_message_shapes import (
    FunctionResponseShape,
    MessageShape,
    PartShape,
    arguments_in,
)
from burnish.evaluation.datasets.evalset_messages import (
    EVALSET,
    PROMPTITER,
    format_of,
    shape_of,
    text_of,
)

_SPEAKERS: dict[str, Speaker] = {
    "system": "system",
    "model": "assistant",
    "assistant": "assistant",
    "tool": "tool",
}


def history_of(messages: Sequence[MessageShape]) -> tuple[Message, ...]:
    """The messages as a case holds them; what a tool gave back is a message of its own."""
    return tuple(said for message in messages for said in _said(message))


def kept_history(messages: Sequence[MessageShape]) -> list[Json] | None:
    """The messages where writing them plainly would not give them back, else None."""
    whole: list[Json] = [message.kept() for message in messages]
    said = history_of(messages)
    return None if whole in [_written(said, style) for style in (EVALSET, PROMPTITER)] else whole


def history_told(kept: Json, said: Sequence[Message], format: str) -> list[Json]:  # noqa: A002
    """Messages that say this: those that were kept while they still do, else plain ones."""
    messages = [shape_of(one, MessageShape) for one in listed(kept)]
    whole = [message for message in messages if message]
    fits = len(whole) == len(messages) and all(format_of(one) == format for one in whole)
    if whole and fits and history_of(whole) == tuple(said):
        return [message.kept() for message in whole]
    return _written(said, format)


def _said(message: MessageShape) -> Iterator[Message]:
    parts = message.parts or []
    answered = [part.function_response for part in parts if part.function_response]
    uses = (*_uses_in_parts(parts), *_uses_in_calls(message.tool_calls))
    images = tuple(_images(parts))
    if uses or images or text_of(message) or not _other(message):
        yield Message(
            role=_SPEAKERS.get(message.role or "", "user"),
            content=text_of(message),
            images=images,
            uses=uses,
            answers=str(message.tool_id or ""),
            tool=str(message.tool_name or ""),
        )
    for response in answered:
        content = _text_of_response(response)
        name, use = response.name or "", response.id or ""
        yield Message(role="tool", content=content, answers=use, tool=name)


def _other(message: MessageShape) -> bool:
    """Whether there is something in a message, but nothing that was said."""
    parts = message.parts or []
    return bool(parts) and all(part.text is None or bool(part.thought) for part in parts)


def _uses_in_parts(parts: Sequence[PartShape]) -> Iterator[ToolUse]:
    calls = (part.function_call for part in parts if part.function_call)
    yield from (ToolUse(id=c.id or "", name=c.name, arguments=c.args or {}) for c in calls)


def _uses_in_calls(calls: Json) -> Iterator[ToolUse]:
    for call in map(mapped, listed(calls)):
        function = mapped(call.get("function"))
        arguments = mapped(arguments_in(_unpacked(function.get("arguments"))))
        name, use = str(function.get("name") or ""), str(call.get("id") or "")
        yield ToolUse(id=use, name=name, arguments=arguments)


def _images(parts: Sequence[PartShape]) -> Iterator[Image]:
    for held in (mapped(part.inline_data) for part in parts):
        kind, content = held.get("mime_type", held.get("mimeType")), held.get("data")
        if isinstance(kind, str) and isinstance(content, str) and kind.startswith("image/"):
            yield Image(media_type=kind, base64=content)


def _text_of_response(response: FunctionResponseShape) -> str:
    held = response.response or {}
    alone = held.get("result") if held.keys() == {"result"} else None
    return alone if isinstance(alone, str) else json.dumps(held, ensure_ascii=False)


def _written(said: Sequence[Message], format: str) -> list[Json]:  # noqa: A002
    write = _for_go if format == PROMPTITER else _for_python
    return [write(message) for message in said]


def _for_python(message: Message) -> dict[str, Json]:
    if message.role == "tool":
        ids = {"id": message.answers, "name": message.tool}
        named: dict[str, Json] = {key: text for key, text in ids.items() if text}
        response: Json = {**named, "response": {"result": message.content}}
        return {"role": "user", "parts": [{"function_response": response}]}
    calls: list[Json] = [
        {"function_call": {**({"id": use.id} if use.id else {}), "name": use.name,
                           "args": dict(use.arguments)}}
        for use in message.uses
    ]  # fmt: skip
    pictures: list[Json] = [
        {"inline_data": {"mime_type": image.media_type, "data": image.base64}}
        for image in message.images
    ]
    text: list[Json] = [{"text": message.content}]
    role = "model" if message.role == "assistant" else message.role
    return {"role": role, "parts": [*text, *pictures, *calls]}


def _for_go(message: Message) -> dict[str, Json]:
    calls: list[Json] = [
        {
            "type": "function",
            "id": use.id,
            "function": {"name": use.name, "arguments": _packed(use.arguments)},
        }
        for use in message.uses
    ]
    more: dict[str, Json] = {
        "tool_id": message.answers,
        "tool_name": message.tool,
        "tool_calls": calls,
    }
    kept = {key: value for key, value in more.items() if value}
    return {"role": message.role, "content": message.content, **kept}


def _packed(arguments: Mapping[str, Json]) -> str:
    """Go keeps these arguments as bytes, which its JSON writes in base64."""
    return base64.b64encode(json.dumps(dict(arguments)).encode()).decode()


def _unpacked(arguments: Json) -> Json:
    """Arguments out of base64, where they are in it."""
    if not isinstance(arguments, str) or arguments.lstrip().startswith("{"):
        return arguments
    try:
        return base64.b64decode(arguments, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return arguments
