"""Agents of Google ADK: their parts, copies with their sub-agents, sessions and steps."""

from collections.abc import AsyncGenerator
from importlib import import_module
from typing import Any, cast

import pytest

from burnish.core.errors import ConfigError
from burnish.models.references import ModelRef, key_for
from tests.frameworks.adapters import known, steps, values

agents: Any = import_module("google.adk.agents")
models: Any = import_module("google.adk.models")
tools: Any = import_module("google.adk.tools")
types: Any = import_module("google.genai.types")


class Caller(cast("type[Any]", models.BaseLlm)):
    """Asks the tool for a price, then says what it was given."""

    async def generate_content_async(
        self, llm_request: Any, stream: bool = False
    ) -> AsyncGenerator[Any, None]:
        last, config = llm_request.contents[-1].parts[-1], llm_request.config
        offered: list[Any] = config.tools or []
        if last.text == "fail":
            yield models.LlmResponse(error_code="BROKEN", error_message="no model")
            return
        if last.function_response or not offered:
            told = [d.description for each in offered for d in each.function_declarations]
            head = config.system_instruction.splitlines()[0]
            part = types.Part(
                text=f"{len(llm_request.contents)} {head} {told} {config.temperature}"
            )
        else:
            part = types.Part(function_call=types.FunctionCall(name="price", args={"lamp": "red"}))
        yield models.LlmResponse(
            content=types.Content(role="model", parts=[part]),
            usage_metadata=types.GenerateContentResponseUsageMetadata(
                prompt_token_count=3, candidates_token_count=2
            ),
        )


def price(lamp: str) -> str:
    """The price of a lamp."""
    return f"40 for {lamp}"


def _desk() -> Any:
    return agents.Agent(
        name="desk",
        model=Caller(model="caller"),
        instruction="Sell lamps.",
        tools=[price],
        generate_content_config=types.GenerateContentConfig(temperature=0.4),
    )


async def test_an_agent_runs_as_a_copy_with_other_values() -> None:
    agent = _desk()
    adapter = known(agent)
    before = {
        "instruction": "Sell lamps.",
        "tools.price.description": "The price of a lamp.",
        "model.temperature": 0.4,
    }
    assert values(adapter) == before
    new = {
        "instruction": "Sell chairs.",
        "tools.price.description": "What it costs.",
        "model.temperature": 0.9,
    }
    copy = adapter.with_values(new)
    talk = adapter.talk(copy)
    assert await talk.send("hello", []) == "3 Sell chairs. ['What it costs.'] 0.9"
    assert await talk.send("again", []) == "7 Sell chairs. ['What it costs.'] 0.9"  # it remembers
    assert values(known(copy)) == new
    assert values(adapter) == before
    earlier = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    assert str(await adapter.talk(agent).send("c", earlier)).startswith("5 Sell lamps.")


def test_tool_calls_and_usage_are_recorded() -> None:
    (step,) = steps(_desk(), "hello", "3 Sell lamps. ['The price of a lamp.'] 0.4")
    (call,) = step.tools
    assert (call.name, call.arguments, call.result) == (
        "price",
        {"lamp": "red"},
        {"result": "40 for red"},
    )
    assert (step.node, step.usage.requests, step.usage.input_tokens) == ("desk", 2, 6)


def test_sub_agents_and_agents_behind_tools_are_copied_too() -> None:
    writer = agents.Agent(name="writer", model=Caller(model="m"), instruction="Write.")
    reader = agents.Agent(name="reader", model=Caller(model="m"), description="reads")
    writer.tools = [tools.AgentTool(agent=reader)]
    line = agents.SequentialAgent(name="line", sub_agents=[writer])
    adapter = known(line)
    assert values(adapter) == {"writer.instruction": "Write.", "reader.description": "reads"}
    copy = adapter.with_values({"writer.instruction": "Draw.", "reader.description": "looks"})
    assert copy.sub_agents[0].instruction == "Draw."
    assert copy.sub_agents[0].tools[0].agent.description == "looks"
    assert (writer.instruction, reader.description) == ("Write.", "reads")
    assert writer.parent_agent is line


async def test_an_error_of_the_model_fails_the_case() -> None:
    adapter = known(_desk())
    with pytest.raises(RuntimeError, match="BROKEN: no model"):
        await adapter.talk(adapter.agent).send("fail", [])


async def test_deps_are_the_state_of_the_session() -> None:
    agent = agents.Agent(name="desk", model=Caller(model="m"), instruction="Greet {name}.")
    adapter = known(agent, make_deps=lambda: {"name": "Ada"})
    reply = await adapter.talk(adapter.with_values({})).send("hello", [])
    assert reply == "1 Greet Ada. [] None"


OWN = "own-0123456789abcdef"
VARIABLES = ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE", "GEMINI_API_KEY")


@pytest.fixture
def _google_key(own_variables: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*VARIABLES, "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GOOGLE_API_KEY", OWN)


def _own(model: Any) -> ModelRef | None:
    return known(agents.Agent(name="desk", model=model, instruction="Sell lamps.")).model


@pytest.mark.usefixtures("_google_key")
def test_the_own_model_keeps_its_endpoint_and_its_key() -> None:
    assert _own("gemini-x") == ModelRef(provider="google", name="gemini-x")
    ref = _own(models.Gemini(model="gemini-x", base_url="http://127.0.0.1:9"))
    assert ref is not None
    assert (ref.label, ref.base_url, key_for(ref)) == ("google:gemini-x", "http://127.0.0.1:9", OWN)


@pytest.mark.usefixtures("_google_key")
def test_a_model_of_google_cloud_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("USE_VERTEXAI", "USE_ENTERPRISE"):
        monkeypatch.setenv(f"GOOGLE_GENAI_{name}", "true")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "ours")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "us-central1")
    with pytest.raises(ConfigError, match="cannot tell where the agent's google:gemini-x is"):
        _own("gemini-x")


def test_a_model_of_a_class_of_its_own_is_not_known() -> None:
    assert _own(Caller(model="gemini-x")) is None
