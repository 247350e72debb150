"""pydantic-ai agents as nodes: every run is a step."""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from pydantic_ai.agent import AbstractAgent, AgentRun, WrapperAgent
from pydantic_ai.messages import (
    ERROR_OUTCOMES,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from burnish.core.content import Json
from burnish.tracing.steps import OpenStep, error_text, plain

Deps = TypeVar("Deps")
Output = TypeVar("Output")
_Run = AgentRun[Any, Any]


def traced_agent(
    agent: AbstractAgent[Deps, Output], node: str | None = None
) -> "TracedAgent[Deps, Output]":
    """Wrap an agent so that each of its runs is a step where a recording is open.

    The node is named `node`, else after the agent, else `agent`.
    """
    return TracedAgent(agent, node)


class TracedAgent(WrapperAgent[Deps, Output]):
    """An agent that records its prompts, tool calls and output."""

    def __init__(self, wrapped: AbstractAgent[Deps, Output], node: str | None) -> None:
        super().__init__(wrapped)
        self._node = node

    @asynccontextmanager
    async def iter(  # pyright: ignore[reportIncompatibleMethodOverride] - whatever the wrapped agent takes
        self, user_prompt: Any = None, **more: Any
    ) -> AsyncGenerator[_Run, None]:
        """Every way to run an agent goes through here."""
        with OpenStep(self._node or self.name or "agent", inputs=_words(user_prompt)) as step:
            async with self.wrapped.iter(user_prompt, **more) as run:
                try:
                    yield run
                except BaseException as error:  # cancelled or failed, the step says so
                    _record_run(step, run, error)
                    raise
                _record_run(step, run, None)


def _record_run(step: OpenStep, run: _Run, error: BaseException | None) -> None:
    if step.record is None:
        return
    everything, own = run.all_messages(), run.new_messages()
    inputs = {
        "instructions": "\n\n".join(dict.fromkeys(_instructions(own))),
        "history": [
            remark for each in everything[: -len(own) or None] for remark in _messages(each)
        ],
        "prompt": step.record.input,
    }
    step.record.input = plain({name: value for name, value in inputs.items() if value})
    step.output = run.result.output if run.result is not None else None
    for answer in (each for each in own if isinstance(each, ModelResponse)):
        used = answer.usage
        step.used(requests=1, input_tokens=used.input_tokens, output_tokens=used.output_tokens)
    _record_tools(step, run, error_text(error) if error is not None else "")


def _record_tools(step: OpenStep, run: _Run, crash: str) -> None:
    """Record each tool call; one without a result is where the run crashed."""
    parts = [part for message in run.new_messages() for part in message.parts]
    returned = {part.tool_call_id: part for part in parts if isinstance(part, ToolReturnPart)}
    calls = [part for part in parts if isinstance(part, ToolCallPart)]
    if not calls:
        return
    # By output tools, which are not tools of the agent, the model gives its structured answer.
    tool_defs = run.ctx.deps.tool_manager.tool_defs
    output_tools = {each.name for each in tool_defs if each.kind == "output"}
    for call in calls:
        if call.tool_name in output_tools:
            continue
        back = returned.get(call.tool_call_id)
        result, error = _result_and_error(back) if back is not None else (None, crash)
        step.tool(call.tool_name, _arguments(call), result, error, id=call.tool_call_id)


def _result_and_error(part: ToolReturnPart) -> tuple[Json, str]:
    if part.outcome in ERROR_OUTCOMES:
        content = plain(part.content)
        return None, content if isinstance(content, str) else part.model_response_str()
    return plain(part.content), ""


def _arguments(call: ToolCallPart) -> Mapping[str, Any]:
    try:
        return call.args_as_dict()
    except (ValueError, AssertionError):  # the model wrote something that is no object
        return {"arguments": call.args}


def _instructions(messages: Sequence[ModelMessage]) -> Iterator[str]:
    for message in messages:
        if isinstance(message, ModelRequest):
            yield from (
                part.content for part in message.parts if isinstance(part, SystemPromptPart)
            )
            if message.instructions:
                yield message.instructions


def _messages(message: ModelMessage) -> Iterator[dict[str, Json]]:
    for part in message.parts:
        if isinstance(part, UserPromptPart):
            yield {"role": "user", "content": _words(part.content)}
        elif isinstance(part, TextPart):
            yield {"role": "assistant", "content": part.content}


def _words(prompt: Any) -> Json:
    """The prompt as text; other content, such as an image, is only named."""
    if prompt is None or isinstance(prompt, str):
        return prompt
    pieces = (
        each if isinstance(each, str) else f"<{getattr(each, 'media_type', type(each).__name__)}>"
        for each in prompt
    )
    return "\n".join(pieces)
