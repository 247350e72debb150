"""Agents of frameworks: their parts, copies with other values, conversations."""

from typing import Any

import pytest
from langchain_core.messages import SystemMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from burnish import Case, evaluate
from burnish.core.errors import ConfigError
from burnish.targets.frameworks import AgentAdapter, adapter_for, with_values

SYSTEM = SystemMessage("Be kind.")


def _echo(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    tools = [tool.description for tool in info.function_tools]
    settings = dict(info.model_settings or {})
    said = f"{len(messages)} {info.instructions} {tools} {settings.get('temperature')}"
    return ModelResponse(parts=[TextPart(said)])


def _desk() -> Agent[None, str]:
    agent = Agent(
        FunctionModel(_echo), instructions="Sell lamps.", model_settings={"temperature": 0.4}
    )

    @agent.tool_plain
    def price(lamp: str) -> str:  # pyright: ignore[reportUnusedFunction]
        """The price of a lamp."""
        return lamp

    return agent


def _known(agent: object) -> AgentAdapter:
    adapter = adapter_for(agent)
    assert adapter is not None
    return adapter


def _values(adapter: AgentAdapter) -> dict[str, Any]:
    return {part.surface.id: part.value for part in adapter.parts()}


async def test_an_agent_of_pydantic_ai_runs_as_a_copy_with_other_values() -> None:
    agent = _desk()
    adapter = _known(agent)
    before = {
        "instructions": "Sell lamps.",
        "tools.price.description": "The price of a lamp.",
        "model.temperature": 0.4,
    }
    assert _values(adapter) == before
    new = {
        "instructions": "Sell chairs.",
        "tools.price.description": "What it costs.",
        "model.temperature": 0.9,
    }
    copy = adapter.with_values(new)
    talk = adapter.talk(copy)
    assert await talk.send("hello", []) == "1 Sell chairs. ['What it costs.'] 0.9"
    assert str(await talk.send("again", [])).startswith("3 ")  # it remembers
    assert _values(_known(copy)) == new
    assert _values(adapter) == before  # and the agent is as it was


def test_evaluate_takes_the_agent_and_records_its_steps() -> None:
    expected = "1 Sell lamps. ['The price of a lamp.'] 0.4"
    found = evaluate(_desk(), cases=[Case.single("hello", expected)], metric="equality")
    assert found.passed
    (result,) = found.evaluation.results
    (step,) = result.outcome.trace.steps
    assert step.surfaces == ("instructions", "model.temperature", "tools.price.description")


def test_what_its_model_thought_is_no_part_of_an_answer() -> None:
    def think(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del messages, info
        return ModelResponse(parts=[TextPart("<think>Hm.</think>\n\n200")])

    found = evaluate(
        Agent(FunctionModel(think)), cases=[Case.single("100 + 100?", "200")], metric="equality"
    )
    assert found.passed


def _shout(messages: list[Any]) -> str:
    return " / ".join(message.content for message in messages)


def _node(state: MessagesState) -> Any:
    return {"messages": [("assistant", _shout([SYSTEM, *state["messages"]]))]}


async def test_prompts_in_the_nodes_of_a_graph_are_found_and_replaced_in_copies() -> None:
    builder: Any = StateGraph(MessagesState)
    builder.add_node("desk", _node)
    builder.add_edge(START, "desk")
    builder.add_edge("desk", END)
    adapter = _known(builder.compile())
    assert _values(adapter) == {"SYSTEM": "Be kind."}
    changed = adapter.talk(adapter.with_values({"SYSTEM": "Be rude."}))
    assert await changed.send("hello", []) == "Be rude. / hello"
    same = adapter.talk(adapter.with_values({}))
    assert await same.send("hello", []) == "Be kind. / hello"
    assert SYSTEM.content == "Be kind."


def test_something_else_has_no_adapter() -> None:
    assert adapter_for(len) is None
    with pytest.raises(ConfigError, match="no agent that is known"):
        with_values(3, "values.json")


def test_values_of_a_file_are_loaded_and_checked(tmp_path: Any) -> None:
    file, agent = tmp_path / "desk.values.json", _desk()
    assert with_values(agent, file) is agent
    file.write_text('{"instructions": "Sell rugs."}')
    assert _values(_known(with_values(agent, file)))["instructions"] == "Sell rugs."
    file.write_text('{"unknown": "x"}')
    with pytest.raises(ConfigError, match="no such surface"):
        with_values(agent, file)
    file.write_text("[")
    with pytest.raises(ConfigError, match="not values of an agent"):
        with_values(agent, file)
