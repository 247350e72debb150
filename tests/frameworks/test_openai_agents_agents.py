"""Agents of the OpenAI Agents SDK: their parts, copies that hand over to copies, their steps."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any, cast

import pytest
from openai import AsyncOpenAI
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from burnish.models.references import key_for
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


USUAL = "sk-usual-0123456789abcdef"
OWN = "sk-own-0123456789abcdef"


def _at(model: Any) -> tuple[str, str, str | None]:
    ref = known(sdk.Agent(name="desk", instructions="Sell lamps.", model=model)).model
    assert ref is not None
    return ref.label, ref.base_url, key_for(ref)


@pytest.fixture
def _default_client() -> Iterator[None]:
    """The SDK's client for all agents is gone after a test that sets it."""
    yield
    shared: Any = import_module("agents.models._openai_shared")
    shared.set_default_openai_client(None)


@pytest.mark.usefixtures("own_variables")
def test_the_own_model_keeps_its_endpoint_and_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", USUAL)
    own = AsyncOpenAI(base_url="http://127.0.0.1:9/v1", api_key=OWN)
    chat = sdk.OpenAIChatCompletionsModel(model="m", openai_client=own)
    assert _at(chat) == ("openai:m", "http://127.0.0.1:9/v1", OWN)
    assert _at("gpt-4o") == ("openai:gpt-4o", "", USUAL)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v2")
    assert _at("gpt-4o")[1] == "http://127.0.0.1:9/v2"


@pytest.mark.usefixtures("own_variables", "_default_client")
def test_the_client_of_all_agents_says_where_their_models_are() -> None:
    own = AsyncOpenAI(base_url="http://127.0.0.1:9/v1", api_key=OWN)
    sdk.set_default_openai_client(own, use_for_tracing=False)
    assert _at("gpt-4o") == ("openai:gpt-4o", "http://127.0.0.1:9/v1", OWN)


def test_a_model_of_a_class_of_its_own_is_not_known() -> None:
    assert known(_desk()).model is None
