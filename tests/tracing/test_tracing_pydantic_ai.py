"""pydantic-ai agents as nodes: every run is a step with what it was asked, used and answered."""

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import burnish
from burnish.core.cases import Step
from burnish.tracing.pydantic_ai import traced_agent
from burnish.tracing.recorder import recording


def scripted(*answers: ModelResponse) -> FunctionModel:
    """A model that gives these answers, one after the other."""
    left = iter(answers)

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return next(left)

    return FunctionModel(answer)


def says(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)])


def calls(**tools: dict[str, Any]) -> ModelResponse:
    return ModelResponse(parts=[ToolCallPart(name, args, name) for name, args in tools.items()])


class Total(BaseModel):
    total: int


async def test_a_run_is_a_step_with_its_tools_and_tokens() -> None:
    model = scripted(
        calls(price={"item": "tea"}, stock={"item": "tea"}), calls(final_result={"total": 3})
    )
    agent = Agent(model, instructions="Add up.", output_type=Total, retries=2)

    @agent.tool_plain
    def price(item: str) -> int:  # pyright: ignore[reportUnusedFunction]
        return 3

    @agent.tool_plain
    def stock(item: str) -> int:  # pyright: ignore[reportUnusedFunction]
        raise ModelRetry("ask again")

    shop = traced_agent(agent, node="shop")
    with recording() as recorder:
        assert (await shop.run("How much is tea?")).output == Total(total=3)
    (step,) = recorder.trace().steps
    assert step.node == "shop"
    assert step.input == {"instructions": "Add up.", "prompt": "How much is tea?"}
    assert step.output == {"total": 3}
    assert [(use.name, use.arguments, use.result, use.error) for use in step.tools] == [
        ("price", {"item": "tea"}, 3, ""),
        ("stock", {"item": "tea"}, None, "ask again"),
    ]
    assert step.usage.requests == 2
    assert step.usage.input_tokens > 0


async def test_agents_in_tools_are_inner_steps_and_history_is_told() -> None:
    helper = traced_agent(Agent(scripted(says("Oslo"))), node="helper")
    agent = Agent(scripted(calls(ask={"question": "where?"}), says("In Oslo.")), name="guide")

    @agent.tool_plain
    async def ask(question: str) -> str:  # pyright: ignore[reportUnusedFunction]
        return (await helper.run(question)).output

    guide = traced_agent(agent)
    history = (await Agent(scripted(says("Hello."))).run("Hi")).all_messages()
    with recording() as recorder:
        await guide.run("Where is it?", message_history=history)
    inner, outer = recorder.trace().steps
    assert (inner.node, inner.output) == ("guide/helper", "Oslo")
    assert (outer.node, outer.predecessors) == ("guide", (inner.id,))
    assert isinstance(outer.input, dict)
    assert outer.input["history"] == [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello."},
    ]
    assert outer.usage.requests == 2


async def test_a_tool_that_crashes_is_where_the_run_failed() -> None:
    agent = Agent(scripted(calls(look={})))

    @agent.tool_plain
    def look() -> str:  # pyright: ignore[reportUnusedFunction]
        raise RuntimeError("dark")

    with recording() as recorder, pytest.raises(RuntimeError, match="dark"):
        await traced_agent(agent, node="seer").run("Look!")
    (step,) = recorder.trace().steps
    assert step.error == "RuntimeError: dark"
    assert [use.error for use in step.tools] == ["RuntimeError: dark"]


async def test_agents_at_once_fan_out_and_in() -> None:
    def node(name: str) -> Any:
        return traced_agent(Agent(scripted(says(name))), node=name)

    with recording() as recorder:
        await node("plan").run("go")
        await asyncio.gather(node("a").run("go"), node("b").run("go"))
        await node("end").run("go")
    found: dict[str, Step] = {step.node: step for step in recorder.trace().steps}
    assert found["a"].predecessors == found["b"].predecessors == ("plan-1",)
    assert found["end"].predecessors == ("a-1", "b-1")


async def test_where_nobody_records_it_is_the_agent_it_was() -> None:
    agent = traced_agent(Agent(scripted(says("hi"), says("ho"))))
    assert (await agent.run("x")).output == "hi"
    with recording() as recorder, burnish.step("outer"):
        assert (await agent.run("x")).output == "ho"
    assert [step.node for step in recorder.trace().steps] == ["outer/agent", "outer"]
