"""What an EvalSet says beyond a case, kept under Python's names so that it can be written again."""

from burnish.core.content import Json
from burnish.evaluation.datasets.case_writing import present
from burnish.evaluation.datasets.evalset_calls import (
    calls_of,
    intermediate_written,
    tools_written,
)
from burnish.evaluation.datasets.evalset_history import kept_history
from burnish.evaluation.datasets.evalset_messages import kept_message
from burnish.evaluation.datasets.evalset_shapes import EvalCaseShape, InvocationShape

RECORDED_TURNS = "recorded_turns"
"""The extra with the extras of the turns of a recorded conversation."""


def invocation_extras(shape: InvocationShape) -> dict[str, Json]:
    """The extras of one turn: ids, times, and messages and calls that are more than plain."""
    calls, middle = calls_of(shape), shape.intermediate_data
    tools: list[Json] | None = None
    if shape.tools is not None:
        tools = [tool.kept() for tool in shape.tools]
    happened = middle.kept() if middle else None
    return present(
        invocation_id=shape.invocation_id or None,
        creation_timestamp=shape.creation_timestamp or None,
        user_content=kept_message(shape.user_content, "user"),
        final_response=kept_message(shape.final_response, "assistant"),
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
        session_input=shape.session_input.kept() if shape.session_input else None,
        context_messages=kept_history(shape.context_messages or ()),
        creation_timestamp=shape.creation_timestamp or None,
        eval_mode=None if traced else shape.eval_mode or None,
        expected_runner_enabled=shape.expected_runner_enabled or None,
        driver=scenario.driver or None if scenario else None,
        actual_conversation=None if traced else [one.kept() for one in actual],
        **{RECORDED_TURNS: turns if traced and any(turns) else None},
    )


def _recorded_extras(shape: InvocationShape) -> dict[str, Json]:
    """The extras of a recorded turn, an empty list of calls too: no outcome has a place for it."""
    no_calls: dict[str, Json] = {"tools": []} if calls_of(shape) == () else {}
    return {**invocation_extras(shape), **no_calls}


def _messages(shape: InvocationShape, name: str) -> Json:
    return shape.kept().get(name)
