"""Messages and tool calls of EvalSets."""

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from burnish.core.cases import Image, Message, Speaker, ToolCall, ToolUse
from burnish.core.content import Json
from burnish.datasets.agent_cases import listed, mapped, present
from burnish.datasets.evalset_shapes import (
    EvalCaseShape,
    EvalShape,
    FunctionCallShape,
    FunctionResponseShape,
    GoToolShape,
    IntermediateShape,
    InvocationShape,
    MessageShape,
    PartShape,
    arguments_in,
)

S = TypeVar("S", bound=EvalShape)


def text_of(message: MessageShape | None) -> str:
    """The text of a message, without thoughts of the model."""
    if message is None:
        return ""
    if message.parts is not None:
        return "\n".join(part.text or "" for part in message.parts if _is_text(part))
    if message.content_parts:
        texts = [part.get("text") for part in message.content_parts]
        return "\n".join(text for text in texts if isinstance(text, str))
    return message.content or ""


def _says_nothing(message: MessageShape) -> bool:
    held = (message.content, message.parts, message.content_parts, message.tool_calls)
    return all(value is None or value == [] for value in held)


def _is_text(part: PartShape) -> bool:
    return part.text is not None and not part.thought


def calls_of(invocation: InvocationShape) -> tuple[ToolCall, ...] | None:
    """The tool calls of a turn, in order; None if there is no list."""
    if invocation.tools is not None:
        return _tools_as_calls(invocation.tools)
    return _calls_in(invocation.intermediate_data)


def _calls_in(held: IntermediateShape | None) -> tuple[ToolCall, ...] | None:
    """The calls before the reply with their responses; None for events without calls."""
    if held is None:
        return None
    messages = [event.content for event in held.invocation_events or () if event.content]
    parts = [part for message in messages for part in message.parts or ()]
    calls = [*(held.tool_uses or ()), *(p.function_call for p in parts if p.function_call)]
    responses = [
        *(held.tool_responses or ()),
        *(p.function_response for p in parts if p.function_response),
    ]
    return _joined(calls, responses) if calls or held.tool_uses is not None else None


def _tools_as_calls(tools: Iterable[GoToolShape]) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(
            name=tool.name,
            arguments=mapped(arguments_in(tool.arguments)),
            result=tool.result,
            id=tool.id or "",
        )
        for tool in tools
    )


def _joined(
    calls: Sequence[FunctionCallShape], responses: Sequence[FunctionResponseShape]
) -> tuple[ToolCall, ...]:
    """Match calls and responses by id, or else in order by tool name."""
    ids = {call.id for call in calls if call.id}
    by_id = {response.id or "": response for response in responses if response.id in ids}
    rest = [response for response in responses if response.id not in by_id]
    joined: list[ToolCall] = []
    for call in calls:
        response = by_id.get(call.id or "")
        if response is None:
            fitting = (
                other
                for other in rest
                if not (call.id and other.id) and other.name in (None, "", call.name)
            )
            response = next(fitting, None)
            rest = [other for other in rest if other is not response]
        result = response.response if response else None
        joined.append(
            ToolCall(name=call.name, arguments=call.args or {}, result=result, id=call.id or "")
        )
    return tuple(joined)


def history_of(messages: Sequence[MessageShape]) -> tuple[Message, ...]:
    """The messages of a case; the response of a tool is a separate message."""
    return tuple(entry for message in messages for entry in _messages_in(message))


def _messages_in(message: MessageShape) -> Iterator[Message]:
    parts = message.parts or []
    roles: dict[str, Speaker] = {
        "system": "system",
        "model": "assistant",
        "assistant": "assistant",
        "tool": "tool",
    }
    uses, images = tuple(_uses(message)), tuple(_images(parts))
    if uses or images or not parts or any(map(_is_text, parts)):
        yield Message(
            role=roles.get(message.role or "", "user"),
            content=text_of(message),
            images=images,
            uses=uses,
            answers=str(message.tool_id or ""),
            tool=str(message.tool_name or ""),
        )
    for response in (part.function_response for part in parts if part.function_response):
        held = response.response or {}
        alone = held.get("result") if held.keys() == {"result"} else None
        content = alone if isinstance(alone, str) else json.dumps(held, ensure_ascii=False)
        name, use = response.name or "", response.id or ""
        yield Message(role="tool", content=content, answers=use, tool=name)


def _uses(message: MessageShape) -> Iterator[ToolUse]:
    calls = (part.function_call for part in message.parts or () if part.function_call)
    yield from (ToolUse(id=c.id or "", name=c.name, arguments=c.args or {}) for c in calls)
    for call in map(mapped, listed(message.tool_calls)):
        function = mapped(call.get("function"))
        arguments = mapped(arguments_in(_unpacked(function.get("arguments"))))
        name, use = str(function.get("name") or ""), str(call.get("id") or "")
        yield ToolUse(id=use, name=name, arguments=arguments)


def _images(parts: Sequence[PartShape]) -> Iterator[Image]:
    for held in (mapped(part.inline_data) for part in parts):
        kind, content = held.get("mime_type", held.get("mimeType")), held.get("data")
        if isinstance(kind, str) and isinstance(content, str) and kind.startswith("image/"):
            yield Image(media_type=kind, base64=content)


def _unpacked(arguments: Json) -> Json:
    if not isinstance(arguments, str) or arguments.lstrip().startswith("{"):
        return arguments
    try:
        return base64.b64decode(arguments, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return arguments


def case_extras(shape: EvalCaseShape) -> dict[str, Json]:
    """What has no place in a case: its session, and whether the expected runner answers first."""
    return present(
        session_input=shape.session_input.as_read() if shape.session_input else None,
        expected_runner_enabled=shape.expected_runner_enabled or None,
    )


def broken_rules(case: EvalCaseShape) -> list[tuple[str, str]]:
    """The problems of a case, each with a remedy."""
    broken = _of_a_trace(case) if case.eval_mode == "trace" else _of_a_run(case)
    for name in ("conversation", "actual_conversation"):
        invocations: list[InvocationShape] | None = getattr(case, name)
        if invocations == []:
            broken.append((f"{name} is empty", "add a turn, or leave it out"))
        broken += [
            (f"{name}[{index}].user_content is empty", "add a part with text")
            for index, one in enumerate(invocations or ())
            if _says_nothing(one.user_content)
        ]
    return broken


def _of_a_run(case: EvalCaseShape) -> list[tuple[str, str]]:
    if case.conversation is not None and case.conversation_scenario is not None:
        return [("conversation and conversation_scenario are both given", "keep one of them")]
    if case.conversation is None and case.conversation_scenario is None:
        remedy = "give one of them"
        if case.actual_conversation is not None:
            remedy += ", or set eval_mode 'trace' to score the actual_conversation"
        return [("there is neither conversation nor conversation_scenario", remedy)]
    return []


def _of_a_trace(case: EvalCaseShape) -> list[tuple[str, str]]:
    broken: list[tuple[str, str]] = []
    if case.actual_conversation is None:
        remedy = "add what the agent did, or omit eval_mode to run the agent"
        broken.append(("eval_mode 'trace' needs an actual_conversation", remedy))
    if case.conversation_scenario is not None:
        remedy = "a trace is scored as it is: remove the scenario"
        broken.append(("eval_mode 'trace' cannot have a conversation_scenario", remedy))
    return broken
