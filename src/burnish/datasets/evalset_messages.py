"""Messages and tool calls of EvalSets: read, checked, and written back without loss."""

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from pydantic import ValidationError

from burnish.core.cases import Image, Message, Speaker, ToolUse
from burnish.core.content import Json
from burnish.core.outcomes import ToolCall
from burnish.datasets.agent_cases import listed, mapped
from burnish.datasets.case_files import present
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
    """What a message says: its texts by line, without what the model only thought."""
    if message is None:
        return ""
    if message.parts is not None:
        return "\n".join(part.text or "" for part in message.parts if _is_text(part))
    if message.content_parts:
        texts = [part.get("text") for part in message.content_parts]
        return "\n".join(text for text in texts if isinstance(text, str))
    return message.content or ""


def _says_nothing(message: MessageShape) -> bool:
    """Whether there is nothing at all in a message."""
    held = (message.content, message.parts, message.content_parts, message.tool_calls)
    return all(value is None or value == [] for value in held)


def _plain(text: str, speaker: Speaker, format: str) -> dict[str, Json]:  # noqa: A002
    """A message of one text, as the format writes it."""
    if format == PROMPTITER:
        return {"role": speaker, "content": text}
    return {"role": "model" if speaker == "assistant" else speaker, "parts": [{"text": text}]}


def _message_extra(message: MessageShape | None, speaker: Speaker) -> dict[str, Json] | None:
    """The message where it is more than a plain text, else None."""
    if message is None:
        return None
    whole, text = message.as_read(), text_of(message)
    return None if whole in [_plain(text, speaker, f) for f in (EVALSET, PROMPTITER)] else whole


def message_written(original: Json, text: str, speaker: Speaker, format: str) -> dict[str, Json]:  # noqa: A002
    """A message that says `text`: the one that was kept, as far as the format can hold it."""
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
    """What was kept, looked into; None where it is not what it should be."""
    try:
        return None if value is None else model.model_validate(value)
    except ValidationError:
        return None


def _format_of(message: MessageShape) -> str:
    """Whose files have such messages."""
    return PROMPTITER if message.parts is None else EVALSET


def _is_text(part: PartShape) -> bool:
    return part.text is not None and not part.thought


# -- Tool calls of an EvalSet ---------------------------------------------------------------------


def calls_of(invocation: InvocationShape) -> tuple[ToolCall, ...] | None:
    """The uses of tools in a turn, in order; None where there is no list of them."""
    if invocation.tools is not None:
        return _tools_as_calls(invocation.tools)
    return _calls_in(invocation.intermediate_data)


def _calls_in(held: IntermediateShape | None) -> tuple[ToolCall, ...] | None:
    """The calls in what happened before the reply, each with the response that belongs to it.

    Events in which no tool is called are no list of calls, and say nothing about them.
    """
    if held is None:
        return None
    messages = [event.content for event in held.invocation_events or ()]
    parts = [part for message in messages for part in _parts(message)]
    calls = [*(held.tool_uses or ()), *(p.function_call for p in parts if p.function_call)]
    responses = [
        *(held.tool_responses or ()),
        *(p.function_response for p in parts if p.function_response),
    ]
    return _joined(calls, responses) if calls or held.tool_uses is not None else None


def _tools_as_calls(tools: Iterable[GoToolShape]) -> tuple[ToolCall, ...]:
    """Go's uses of tools."""
    calls: list[ToolCall] = []
    for tool in tools:
        arguments = arguments_in(tool.arguments)
        assert isinstance(arguments, dict)
        calls.append(
            ToolCall(name=tool.name, arguments=arguments, result=tool.result, id=tool.id or "")
        )
    return tuple(calls)


def tools_written(original: Json, calls: Sequence[ToolCall] | None) -> list[Json] | None:
    """Calls as Go writes them: as they were kept, while they are still the same."""
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
    """Calls as Python's files hold them: as they were kept, while they are still the same."""
    held = _shape_of(original, IntermediateShape)
    if held is not None and _calls_in(held) == (None if calls is None else tuple(calls)):
        return held.as_read()
    responses = present(
        intermediate_responses=held.as_read().get("intermediate_responses") if held else None
    )
    return responses if calls is None else {**_uses_written(calls), **responses}


def _uses_written(calls: Sequence[ToolCall]) -> dict[str, Json]:
    responses: list[Json] = [
        {**present(id=call.id or None), "name": call.name, "response": _response(call.result)}
        for call in calls
        if call.result is not None
    ]
    return {
        "tool_uses": [
            {
                **present(id=call.id or None),
                "name": call.name,
                **present(args=dict(call.arguments)),
            }
            for call in calls
        ],
        **present(tool_responses=responses),
    }


def _joined(
    calls: Sequence[FunctionCallShape], responses: Sequence[FunctionResponseShape]
) -> tuple[ToolCall, ...]:
    """By id where both have one; what lacks one goes to the next call of its tool, in order."""
    ids = {call.id for call in calls if call.id}
    by_id = {response.id: response for response in responses if response.id in ids}
    rest = [response for response in responses if response.id not in by_id]
    joined: list[ToolCall] = []
    for call in calls:
        response = by_id.get(call.id) if call.id in by_id else _taken(call, rest)
        result = response.response if response else None
        joined.append(
            ToolCall(name=call.name, arguments=call.args or {}, result=result, id=call.id or "")
        )
    return tuple(joined)


def _taken(
    call: FunctionCallShape, rest: list[FunctionResponseShape]
) -> FunctionResponseShape | None:
    """The first response that may belong to the call, taken out of the rest."""
    for position, response in enumerate(rest):
        if not (call.id and response.id) and response.name in (None, "", call.name):
            return rest.pop(position)
    return None


def _parts(message: MessageShape | None) -> Sequence[PartShape]:
    return message.parts or () if message else ()


def _response(result: Json) -> dict[str, Json]:
    """A result as a response, which must be a mapping."""
    return result if isinstance(result, dict) else {"result": result}


# -- What was said before a case begins -----------------------------------------------------------


_SPEAKERS: dict[str, Speaker] = {
    "system": "system",
    "model": "assistant",
    "assistant": "assistant",
    "tool": "tool",
}


def history_of(messages: Sequence[MessageShape]) -> tuple[Message, ...]:
    """The messages as a case holds them; what a tool gave back is a message of its own."""
    return tuple(entry for message in messages for entry in _messages_in(message))


def _history_extra(messages: Sequence[MessageShape]) -> list[Json] | None:
    """The messages where writing them plainly would not give them back, else None."""
    whole: list[Json] = [message.as_read() for message in messages]
    history = history_of(messages)
    return None if whole in [_written(history, style) for style in (EVALSET, PROMPTITER)] else whole


def history_written(original: Json, history: Sequence[Message], format: str) -> list[Json]:  # noqa: A002
    """Messages that say this: those that were kept while they still do, else plain ones."""
    messages = [_shape_of(one, MessageShape) for one in listed(original)]
    whole = [message for message in messages if message]
    fits = len(whole) == len(messages) and all(_format_of(one) == format for one in whole)
    if whole and fits and history_of(whole) == tuple(history):
        return [message.as_read() for message in whole]
    return _written(history, format)


def _messages_in(message: MessageShape) -> Iterator[Message]:
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


def _written(history: Sequence[Message], format: str) -> list[Json]:  # noqa: A002
    write = _for_go if format == PROMPTITER else _for_python
    return [write(message) for message in history]


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
    filled = {key: value for key, value in more.items() if value}
    return {"role": message.role, "content": message.content, **filled}


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


# -- Evalset extras -------------------------------------------------------------------------------


RECORDED_TURNS = "recorded_turns"
"""The extra with the extras of the turns of a recorded conversation."""


def invocation_extras(shape: InvocationShape) -> dict[str, Json]:
    """The extras of one turn: ids, times, and messages and calls that are more than plain."""
    calls, middle = calls_of(shape), shape.intermediate_data
    tools: list[Json] | None = None
    if shape.tools is not None:
        tools = [tool.as_read() for tool in shape.tools]
    happened = middle.as_read() if middle else None
    return present(
        invocation_id=shape.invocation_id or None,
        creation_timestamp=shape.creation_timestamp or None,
        user_content=_message_extra(shape.user_content, "user"),
        final_response=_message_extra(shape.final_response, "assistant"),
        tools=None if tools == tools_written(None, calls) else tools,
        intermediate_data=None if happened == intermediate_written(None, calls) else happened,
        tool_mock=shape.tool_mock,
        context_messages=_messages(shape, "context_messages"),
        intermediate_responses=_messages(shape, "intermediate_responses"),
    )


def case_extras(shape: EvalCaseShape) -> dict[str, Json]:
    """The extras of one case: its session, times, switches, and turns that are not its own."""
    scenario, traced = shape.conversation_scenario, shape.eval_mode == "trace"
    actual = shape.actual_conversation or ()
    turns: list[Json] = [_recorded_extras(one) for one in actual]
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


def _recorded_extras(shape: InvocationShape) -> dict[str, Json]:
    """The extras of a recorded turn, an empty list of calls too: no outcome has a place for it."""
    no_calls: dict[str, Json] = {"tools": []} if calls_of(shape) == () else {}
    return {**invocation_extras(shape), **no_calls}


def _messages(shape: InvocationShape, name: str) -> Json:
    return shape.as_read().get(name)


# -- What the shape of an EvalSet's case alone does not say ---------------------------------------


_GO_CASE = frozenset({"expected_runner_enabled", "rubrics"})
_GO_SCENARIO = frozenset({"stop_signal", "max_allowed_invocations", "driver"})
_GO_TURN = frozenset(
    {"metric_names", "tools", "tool_mock", "context_messages", "intermediate_responses"}
)


def broken_rules(case: EvalCaseShape) -> list[tuple[str, str]]:
    """What is wrong with a case, each with what to do."""
    broken = _of_a_trace(case) if case.eval_mode == "trace" else _of_a_run(case)
    for name in ("conversation", "actual_conversation"):
        invocations: list[InvocationShape] | None = getattr(case, name)
        if invocations == []:
            broken.append((f"{name} is empty", "add a turn, or leave it out"))
        broken += [
            (f"{name}[{index}].user_content says nothing", "give it parts with a text")
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
            remedy += ", or say eval_mode 'trace' if the actual_conversation is to be scored"
        return [("there is neither conversation nor conversation_scenario", remedy)]
    return []


def _of_a_trace(case: EvalCaseShape) -> list[tuple[str, str]]:
    broken: list[tuple[str, str]] = []
    if case.actual_conversation is None:
        remedy = "give what the agent did, or leave out eval_mode to have it run"
        broken.append(("eval_mode 'trace' needs an actual_conversation", remedy))
    if case.conversation_scenario is not None:
        remedy = "a trace is scored as it stands: remove the scenario"
        broken.append(("eval_mode 'trace' cannot have a conversation_scenario", remedy))
    return broken


def is_go_case(case: EvalCaseShape) -> bool:
    """Whether a case says something that only Go's files say."""
    turns = [*(case.conversation or ()), *(case.actual_conversation or ())]
    scenario = case.conversation_scenario
    return bool(
        _GO_CASE & case.model_fields_set
        or any(_GO_TURN & turn.model_fields_set for turn in turns)
        or (scenario and _GO_SCENARIO & scenario.model_fields_set)
        or any(message.parts is None for message in _all_messages(case, turns))
    )


def _all_messages(case: EvalCaseShape, turns: list[InvocationShape]) -> Iterator[MessageShape]:
    yield from case.context_messages or ()
    for turn in turns:
        yield turn.user_content
        if turn.final_response is not None:
            yield turn.final_response
