"""Agents of the OpenAI Agents SDK: their parts, copies that hand over to copies, their steps."""

from importlib import import_module
from typing import Any, cast

from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from tests.frameworks.adapters import known, steps, values

sdk: Any = import_module("agents")
sdk.set_tracing_disabled(True)


class Caller(cast("type[Any]", sdk.Model)):
    """Asks the tool for a price, then says it."""

    async def get_response(self, system_instructions: Any, input: Any, *more: Any, **_: Any) -> Any:  # noqa: A002
        last = input[-1]
        if last.get("type") == "function_call_output":
            text = ResponseOutputText(text=last["output"], type="output_text", annotations=[])
            said: Any = ResponseOutputMessage(
                id="m", type="message", role="assistant", status="completed", content=[text]
            )
        else:
            said = ResponseFunctionToolCall(
                name="price", arguments='{"lamp": "red"}', call_id="c", type="function_call"
            )
        usage = sdk.Usage(requests=1, input_tokens=3, output_tokens=2, total_tokens=5)
        return sdk.ModelResponse(output=[said], usage=usage, response_id=None)

    def stream_response(self, *more: Any, **_: Any) -> Any:
        raise NotImplementedError


def _desk() -> Any:
    def price(lamp: str) -> str:
        """The price of a lamp."""
        return f"40 for {lamp}"

    return sdk.Agent(
        name="desk",
        instructions="Sell lamps.",
        tools=[sdk.function_tool(price)],
        model=Caller(),
        model_settings=sdk.ModelSettings(temperature=0.4),
    )


def test_an_agent_runs_as_a_copy_with_other_values() -> None:
    agent = _desk()
    before = {
        "instructions": "Sell lamps.",
        "tools.price.description": "The price of a lamp.",
        "model.temperature": 0.4,
    }
    assert values(known(agent)) == before
    new = {**before, "tools.price.description": "What it costs.", "model.temperature": 0.9}
    assert values(known(known(agent).with_values(new))) == new
    assert values(known(agent)) == before
    (step,) = steps(agent, "How much is a red lamp?", "40 for red")
    assert [(call.name, call.result) for call in step.tools] == [("price", "40 for red")]
    assert (step.node, step.usage.input_tokens) == ("desk", 6)


async def test_agents_hand_over_to_copies() -> None:
    clerk = sdk.Agent(name="clerk", instructions="You are a clerk.", handoff_description="helps")
    desk = sdk.Agent(name="desk", instructions="You are the desk.", handoffs=[clerk])
    clerk.handoffs = [sdk.handoff(desk)]
    copy = known(desk).with_values({"clerk.instructions": "You are kind."})
    assert copy.handoffs[0].instructions == "You are kind."
    assert clerk.instructions == "You are a clerk."
    assert await copy.handoffs[0].handoffs[0].on_invoke_handoff(None, "") is copy
