"""Messages and tool calls of EvalSets, read and written without loss."""

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from pydantic import ValidationError

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

EVALSET, PROMPTITER = "evalset", "promptiter"


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


def _plain(text: str, speaker: Speaker, format: str) -> dict[str, Json]:  # noqa: A002
    if format == PROMPTITER:
        return {"role": speaker, "content": text}
    return {"role": "model" if speaker == "assistant" else speaker, "parts": [{"text": text}]}


def _message_extra(message: MessageShape | None, speaker: Speaker) -> dict[str, Json] | None:
    """The message if it is more than plain text, else None."""
    if message is None:
        return None
    whole, text = message.as_read(), text_of(message)
    return None if whole in [_plain(text, speaker, f) for f in (EVALSET, PROMPTITER)] else whole


def message_written(original: Json, text: str, speaker: Speaker, format: str) -> dict[str, Json]:  # noqa: A002
    """A message with this text: the original as far as the format can hold it."""
    message = _shape_of(original, MessageShape)
    if message is None or _format_of(message) != format:
        return _plain(text, speaker, format)
    if text_of(message) == text:
        return message.as_read()
    if format == PROMPTITER:
        rest = {k: v for k, v in message.as_read().items() if k != "content_parts"}
        return {**rest, "content": text}
    others: list[Json] = [part.as_read() for part in message.parts or () if not _is_text(part)]
    return {**message.as_read(), "parts": [{"text": text}, *others]}


def _shape_of(value: Json, model: type[S]) -> S | None:
    """The value as a `model`; None if it is invalid."""
    try:
        return None if value is None else model.model_validate(value)
    except ValidationError:
        return None


def _format_of(message: MessageShape) -> str:
    return PROMPTITER if message.parts is None else EVALSET


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


def tools_written(original: Json, calls: Sequence[ToolCall] | None) -> list[Json] | None:
    """Calls as Go writes them; the originals if they are unchanged."""
    if calls is None:
        return None
    shapes = [_shape_of(one, GoToolShape) for one in original] if isinstance(original, list) else []
    whole = [shape for shape in shapes if shape]
    if whole and _tools_as_calls(whole) == tuple(calls):
        return [shape.as_read() for shape in whole]
    return [
        {
            **present(id=call.id or None),
            "name": call.name,
            **present(arguments=dict(call.arguments)),
            **({} if call.result is None else {"result": call.result}),
        }
        for call in calls
    ]


def intermediate_written(original: Json, calls: Sequence[ToolCall] | None) -> dict[str, Json]:
    """Calls as Python's files hold them; the originals if they are unchanged."""
    held = _shape_of(original, IntermediateShape)
    if held is not None and _calls_in(held) == (None if calls is None else tuple(calls)):
        return held.as_read()
    middle = held.as_read().get("intermediate_responses") if held else None
    if calls is None:
        return present(intermediate_responses=middle)
    uses: list[Json] = [
        {**present(id=call.id or None), "name": call.name, **present(args=dict(call.arguments))}
        for call in calls
    ]
    responses: list[Json] = [
        {
            **present(id=call.id or None),
            "name": call.name,
            "response": call.result if isinstance(call.result, dict) else {"result": call.result},
        }
        for call in calls
        if call.result is not None
    ]
    return {"tool_uses": uses, **present(tool_responses=responses, intermediate_responses=middle)}


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


def _history_extra(messages: Sequence[MessageShape]) -> list[Json] | None:
    """The messages if plain ones would lose something, else None."""
    whole: list[Json] = [message.as_read() for message in messages]
    history = history_of(messages)
    return None if whole in [_written(history, style) for style in (EVALSET, PROMPTITER)] else whole


def history_written(original: Json, history: Sequence[Message], format: str) -> list[Json]:  # noqa: A002
    """The original messages if they still say this, else plain ones."""
    messages = [_shape_of(one, MessageShape) for one in listed(original)]
    whole = [message for message in messages if message]
    fits = len(whole) == len(messages) and all(_format_of(one) == format for one in whole)
    if whole and fits and history_of(whole) == tuple(history):
        return [message.as_read() for message in whole]
    return _written(history, format)


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


def _written(history: Sequence[Message], format: str) -> list[Json]:  # noqa: A002
    write = _for_go if format == PROMPTITER else _for_python
    return [write(message) for message in history]


def _for_python(message: Message) -> dict[str, Json]:
    if message.role == "tool":
        ids = present(id=message.answers or None, name=message.tool or None)
        response: Json = {**ids, "response": {"result": message.content}}
        return {"role": "user", "parts": [{"function_response": response}]}
    calls: list[Json] = [
        {
            "function_call": {
                **present(id=use.id or None),
                "name": use.name,
                "args": dict(use.arguments),
            }
        }
        for use in message.uses
    ]
    pictures: list[Json] = [
        {"inline_data": {"mime_type": image.media_type, "data": image.base64}}
        for image in message.images
    ]
    role = "model" if message.role == "assistant" else message.role
    return {"role": role, "parts": [{"text": message.content}, *pictures, *calls]}


def _for_go(message: Message) -> dict[str, Json]:
    calls: list[Json] = [
        {
            "type": "function",
            "id": use.id,
            # Go keeps these arguments as bytes, which its JSON writes in base64.
            "function": {
                "name": use.name,
                "arguments": base64.b64encode(json.dumps(dict(use.arguments)).encode()).decode(),
            },
        }
        for use in message.uses
    ]
    more = present(
        tool_id=message.answers or None, tool_name=message.tool or None, tool_calls=calls
    )
    return {"role": message.role, "content": message.content, **more}


def _unpacked(arguments: Json) -> Json:
    if not isinstance(arguments, str) or arguments.lstrip().startswith("{"):
        return arguments
    try:
        return base64.b64decode(arguments, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return arguments


RECORDED_TURNS = "recorded_turns"
"""The extra with the extras of recorded turns."""


def invocation_extras(shape: InvocationShape) -> dict[str, Json]:
    """The extras of a turn: ids, times, and messages that are more than plain text."""
    calls, middle = calls_of(shape), shape.intermediate_data
    raw = shape.as_read()
    tools, happened = raw.get("tools"), middle.as_read() if middle else None
    return present(
        invocation_id=shape.invocation_id or None,
        creation_timestamp=shape.creation_timestamp or None,
        user_content=_message_extra(shape.user_content, "user"),
        final_response=_message_extra(shape.final_response, "assistant"),
        tools=None if tools == tools_written(None, calls) else tools,
        intermediate_data=None if happened == intermediate_written(None, calls) else happened,
        tool_mock=shape.tool_mock,
        context_messages=raw.get("context_messages"),
        intermediate_responses=raw.get("intermediate_responses"),
    )


def case_extras(shape: EvalCaseShape) -> dict[str, Json]:
    """The extras of a case: session, times, switches and recorded turns."""
    scenario, traced = shape.conversation_scenario, shape.eval_mode == "trace"
    actual = shape.actual_conversation or ()
    # An empty list of calls is kept too: no outcome has a place for it.
    turns: list[Json] = [
        {**invocation_extras(one), **({"tools": []} if calls_of(one) == () else {})}
        for one in actual
    ]
    return present(
        session_input=shape.session_input.as_read() if shape.session_input else None,
        context_messages=_history_extra(shape.context_messages or ()),
        creation_timestamp=shape.creation_timestamp or None,
        eval_mode=None if traced else shape.eval_mode or None,
        expected_runner_enabled=shape.expected_runner_enabled or None,
        driver=scenario.driver or None if scenario else None,
        actual_conversation=None if traced else [one.as_read() for one in actual],
        **{RECORDED_TURNS: turns if traced and any(turns) else None},
    )


_GO_SCENARIO = frozenset({"stop_signal", "max_allowed_invocations", "driver"})
_GO_TURN = frozenset(
    {"metric_names", "tools", "tool_mock", "context_messages", "intermediate_responses"}
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


def is_go_case(case: EvalCaseShape) -> bool:
    """Whether a case has something that only Go's files have."""
    turns = [*(case.conversation or ()), *(case.actual_conversation or ())]
    replies = (turn.final_response for turn in turns if turn.final_response is not None)
    messages = [*(case.context_messages or ()), *(turn.user_content for turn in turns), *replies]
    keys = {
        *case.model_fields_set & {"expected_runner_enabled", "rubrics"},
        *(key for turn in turns for key in turn.model_fields_set & _GO_TURN),
    }
    if case.conversation_scenario is not None:
        keys |= case.conversation_scenario.model_fields_set & _GO_SCENARIO
    return bool(keys) or any(message.parts is None for message in messages)
