"""Agents and crews of CrewAI: their parts, copies with other values, tasks as steps."""

import os
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest

from burnish.core.errors import ConfigError
from burnish.models.references import ModelRef, key_for
from tests.frameworks.adapters import known, steps, values

os.environ.update(CREWAI_DISABLE_TELEMETRY="true", CREWAI_TRACING_ENABLED="false")
crewai: Any = import_module("crewai")
tools: Any = import_module("crewai.tools")


@pytest.fixture(autouse=True)
def _storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path))


class Caller(cast("type[Any]", crewai.BaseLLM)):
    """Asks the tool for a price if it has one, then says which of its texts it was given."""

    def call(self, messages: Any, *more: Any, **settings: Any) -> str:
        text = " ".join(str(each["content"]) for each in messages)
        if "price" in text and "40 for red" not in text:
            return 'Thought: ask.\nAction: price\nAction Input: {"lamp": "red"}'
        words = ("lamps", "chairs", "old", "young", "cost", "sums", "What it costs", "again")
        seen = [word for word in words if word in text]
        return f"Thought: done.\nFinal Answer: {seen} {self.temperature}"


@tools.tool("price")
def price(lamp: str) -> str:
    """The price."""
    return f"40 for {lamp}"


def _clerk(**more: Any) -> Any:
    model = Caller(model="caller", temperature=0.4)
    return crewai.Agent(
        role="clerk", goal="Sell lamps.", backstory="You are old.", llm=model, **more
    )


def _crew(**more: Any) -> Any:
    clerk = _clerk(**more)
    task = crewai.Task(description="The cost of {order}.", expected_output="sums", agent=clerk)
    return crewai.Crew(agents=[clerk], tasks=[task])


async def test_a_crew_runs_as_a_copy_with_other_values() -> None:
    crew = _crew(tools=[price])
    adapter = known(crew)
    before = {
        "goal": "Sell lamps.",
        "backstory": "You are old.",
        "tools.price.description": "The price.",
        "model.temperature": 0.4,
        "description": "The cost of {order}.",
        "expected_output": "sums",
    }
    assert values(adapter) == before
    new = {
        **before,
        "goal": "Sell chairs.",
        "backstory": "You are young.",
        "tools.price.description": "What it costs.",
        "model.temperature": 0.9,
    }
    copy = adapter.with_values(new)
    reply = "['chairs', 'young', 'cost', 'sums', 'What it costs'] 0.9"
    assert await adapter.talk(copy).send("a red one", []) == reply
    assert values(adapter) == before


def test_each_task_is_a_step_with_its_tool_calls_and_surfaces() -> None:
    clerk, other = _clerk(tools=[price]), _clerk()
    other.role = "helper"
    first = crewai.Task(
        name="first", description="{order} of lamps", expected_output="sums", agent=clerk
    )
    second = crewai.Task(description="chairs", expected_output="sums", agent=other)
    crew = crewai.Crew(agents=[clerk, other], tasks=[first, second])
    assert "helper.goal" in values(known(crew))
    reply = "['lamps', 'chairs', 'old', 'sums'] 0.4"
    one, two = steps(crew, "two", reply)
    (call,) = one.tools
    assert (call.name, call.arguments, call.result) == ("price", {"lamp": "red"}, "40 for red")
    assert (one.node, two.node, two.output) == ("clerk", "helper", reply)
    assert "first.description" in one.surfaces
    assert "clerk.goal" in one.surfaces
    assert set(two.surfaces) == {
        "helper.backstory",
        "helper.goal",
        "helper.model.temperature",
        "task2.description",
        "task2.expected_output",
    }


async def test_an_agent_alone_remembers_its_conversation() -> None:
    agent = _clerk()
    adapter = known(agent)
    assert values(adapter) == {
        "goal": "Sell lamps.",
        "backstory": "You are old.",
        "model.temperature": 0.4,
    }
    talk = adapter.talk(adapter.with_values({"goal": "Sell chairs."}))
    assert await talk.send("again", []) == "['chairs', 'old', 'again'] 0.4"
    assert await talk.send("and?", []) == "['chairs', 'old', 'again'] 0.4"
    assert agent.goal == "Sell lamps."


def test_a_crew_without_a_placeholder_cannot_get_the_query() -> None:
    crew = _crew()
    crew.tasks[0].description = "The cost."
    adapter: Any = known(crew)
    with pytest.raises(ConfigError, match="no task of the crew has a placeholder"):
        adapter.inputs("hello")


USUAL = "sk-usual-0123456789abcdef"
OWN = "sk-own-0123456789abcdef"
GATEWAY = "http://127.0.0.1:9/v1"


@pytest.fixture
def _usual_key(own_variables: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", USUAL)


def _own(**model: str) -> ModelRef | None:
    clerk = crewai.Agent(role="clerk", goal="g", backstory="b", llm=crewai.LLM(**model))
    return known(clerk).model


@pytest.mark.usefixtures("_usual_key")
def test_the_own_model_keeps_its_endpoint_and_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _own(model="gpt-4o") == ModelRef(provider="openai", name="gpt-4o")
    assert _own(model="ollama/m") == ModelRef(provider="ollama", name="m")
    for provider in ("openai", "anthropic"):
        ref = _own(model="m", provider=provider, base_url=GATEWAY, api_key=OWN)
        assert ref is not None
        assert (ref.label, ref.base_url, key_for(ref)) == (f"{provider}:m", GATEWAY, OWN)
    monkeypatch.setenv("OPENAI_API_BASE", GATEWAY)
    ref = _own(model="gpt-4o")
    assert ref is not None
    assert (ref.base_url, key_for(ref)) == (GATEWAY, USUAL)


@pytest.mark.usefixtures("_usual_key")
def test_a_model_that_cannot_be_told_is_refused() -> None:
    with pytest.raises(ConfigError, match="has a user, a password or a query") as refused:
        _own(model="gpt-4o", base_url="https://u:secret@models.example.org/v1")
    assert "secret" not in str(refused.value)


def test_a_model_of_a_class_of_its_own_is_not_known() -> None:
    assert known(_clerk()).model is None
