"""Tool calls of an EvalSet: calls and responses joined, and taken apart again."""

from collections.abc import Iterable, Sequence

from burnish.core.content import Json
from burnish.core.outcomes import ToolCall
from burnish.evaluation.datasets.case_writing import present
from burnish.evaluation.datasets.evalset_message_shapes import (
    FunctionCallShape,
    FunctionResponseShape,
    IntermediateShape,
    MessageShape,
    PartShape,
    ToolShape,
    arguments_in,
)
from burnish.evaluation.datasets.evalset_messages import shape_of
from burnish.evaluation.datasets.evalset_shapes import InvocationShape


def calls_of(invocation: InvocationShape) -> tuple[ToolCall, ...] | None:
    """The uses of tools in a turn, in order; None where there is no list of them."""
    if invocation.tools is not None:
        return tools_as_calls(invocation.tools)
    return calls_in(invocation.intermediate_data)


def calls_in(held: IntermediateShape | None) -> tuple[ToolCall, ...] | None:
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


def tools_as_calls(tools: Iterable[ToolShape]) -> tuple[ToolCall, ...]:
    """Go's uses of tools."""
    found: list[ToolCall] = []
    for tool in tools:
        arguments = arguments_in(tool.arguments)
        assert isinstance(arguments, dict)
        found.append(
            ToolCall(name=tool.name, arguments=arguments, result=tool.result, id=tool.id or "")
        )
    return tuple(found)


def tools_written(kept: Json, calls: Sequence[ToolCall] | None) -> list[Json] | None:
    """Calls as Go writes them: as they were kept, while they are still the same."""
    if calls is None:
        return None
    shapes = [shape_of(one, ToolShape) for one in kept] if isinstance(kept, list) else []
    whole = [shape for shape in shapes if shape]
    if whole and tools_as_calls(whole) == tuple(calls):
        return [shape.kept() for shape in whole]
    return [
        {
            **present(id=call.id or None),
            "name": call.name,
            **present(arguments=dict(call.arguments)),
            **({} if call.result is None else {"result": call.result}),
        }
        for call in calls
    ]


def intermediate_written(kept: Json, calls: Sequence[ToolCall] | None) -> dict[str, Json]:
    """Calls as Python's files hold them: as they were kept, while they are still the same."""
    held = shape_of(kept, IntermediateShape)
    if held is not None and calls_in(held) == (None if calls is None else tuple(calls)):
        return held.kept()
    said = present(
        intermediate_responses=held.kept().get("intermediate_responses") if held else None
    )
    return said if calls is None else {**_uses_written(calls), **said}


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
    found: list[ToolCall] = []
    for call in calls:
        response = by_id.get(call.id) if call.id in by_id else _taken(call, rest)
        result = response.response if response else None
        found.append(
            ToolCall(name=call.name, arguments=call.args or {}, result=result, id=call.id or "")
        )
    return tuple(found)


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
