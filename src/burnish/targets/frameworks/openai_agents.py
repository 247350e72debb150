"""Agents of the OpenAI Agents SDK, with those that they hand over to."""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import groupby
from typing import Any, cast

from burnish.core.content import from_json
from burnish.core.surfaces import Value
from burnish.targets.frameworks.adapters import AgentAdapter, AgentPart
from burnish.tracing.steps import OpenStep

_SDK: Any = import_module("agents")


class OpenAIAgent(AgentAdapter):
    """Instructions, descriptions of tools and handoffs, and temperatures, of every agent.

    Instructions that a function makes stay as they are.
    """

    @property
    def library(self) -> str:
        return "OpenAI Agents"

    @property
    def model(self) -> str:
        model = self.agent.model
        return f"openai:{model}" if isinstance(model, str) and "/" not in model else ""

    def parts(self) -> Iterator[AgentPart]:
        team = _team(self.agent)
        for agent in team:
            name = partial(_name, agent, alone=len(team) == 1)
            if isinstance(agent.instructions, str):
                yield AgentPart.text(name("instructions"), agent.instructions)
            if agent.handoff_description:
                yield AgentPart.text(name("handoff_description"), agent.handoff_description)
            for tool in agent.tools:
                if isinstance(tool, _SDK.FunctionTool) and tool.description:
                    yield AgentPart.text(name(f"tools.{tool.name}.description"), tool.description)
            if agent.model_settings.temperature is not None:
                temperature = agent.model_settings.temperature
                yield AgentPart.temperature(name("model.temperature"), temperature)

    def with_values(self, values: Mapping[str, Value]) -> Any:
        team = _team(self.agent)
        # Shallow copies first, since agents may hand over to each other in a circle.
        copies = {id(agent): copy(agent) for agent in team}
        for agent in team:
            name, changed = partial(_name, agent, alone=len(team) == 1), copies[id(agent)]
            for field in ("instructions", "handoff_description"):
                setattr(changed, field, values.get(name(field), getattr(agent, field)))
            changed.tools = [
                replace(tool, description=values.get(name(f"tools.{tool.name}.description")))
                if name(f"tools.{tool.name}.description") in values
                else tool
                for tool in agent.tools
            ]
            changed.handoffs = [_redirected(each, copies) for each in agent.handoffs]
            if (temperature := values.get(name("model.temperature"))) is not None:
                changed.model_settings = replace(agent.model_settings, temperature=temperature)
        return copies[id(self.agent)]

    def talk(self, agent: Any) -> "_OpenAITalk":
        return _OpenAITalk(agent, self.deps())


class _OpenAITalk:
    """Goes on with the agent that spoke last."""

    def __init__(self, agent: Any, context: Any) -> None:
        self._agent = agent
        self._context = context
        self._items: list[Any] | None = None

    async def send(self, message: str, history: list[dict[str, str]]) -> object:
        earlier = [*history] if self._items is None else self._items
        new = {"role": "user", "content": message}
        try:
            result = await _SDK.Runner.run(self._agent, [*earlier, new], context=self._context)
        except _SDK.AgentsException as error:
            if error.run_data is not None:
                details = error.run_data
                _record(details.new_items, details.raw_responses, message, error)
            raise
        _record(result.new_items, result.raw_responses, message, None)
        self._items = result.to_input_list()
        self._agent = result.last_agent
        return result.final_output


def _record(
    items: Sequence[Any], responses: Sequence[Any], message: str, error: Exception | None
) -> None:
    """Record what each agent did in turn as a step."""
    inputs: object = message
    turns = [(node, [*own]) for node, own in groupby(items, key=lambda item: item.agent.name)]
    for number, (node, own) in enumerate(turns, start=1):
        with OpenStep(node, inputs=inputs) as step:
            outputs = {each.call_id: each for each in own if each.type == "tool_call_output_item"}
            for item in own:
                if item.type == "tool_call_item" and getattr(item.raw_item, "name", ""):
                    back = outputs.get(item.call_id)
                    result = None if back is None else back.output
                    failed = str(error) if back is None and error is not None else ""
                    step.tool(
                        item.raw_item.name, _arguments(item.raw_item.arguments), result, failed
                    )
                elif item.type == "message_output_item":
                    step.output = _SDK.ItemHelpers.text_message_output(item)
                elif item.type == "handoff_output_item":
                    step.output = f"handed over to {item.target_agent.name}"
            if number == len(turns):
                for each in responses:
                    used = each.usage
                    step.used(
                        requests=1, input_tokens=used.input_tokens, output_tokens=used.output_tokens
                    )
            inputs = step.output


def _arguments(text: str) -> dict[str, Any]:
    try:
        data = from_json(text)
    except ValueError:
        data = None
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {"arguments": text}


def _name(agent: Any, part: str, *, alone: bool) -> str:
    return part if alone else f"{agent.name}.{part}"


def _team(agent: Any) -> list[Any]:
    """The agent, and every agent that it can hand over to, directly or not."""
    team: list[Any] = [agent]
    for each in team:
        for handoff in each.handoffs:
            other = _target(handoff)
            if other is not None and all(other is not known for known in team):
                team.append(other)
    return team


def _target(handoff: Any) -> Any:
    """The agent behind a handoff; None if it is only known when it happens."""
    if isinstance(handoff, _SDK.Agent):
        return handoff
    reference = getattr(handoff, "_agent_ref", None)
    return None if reference is None else reference()


def _redirected(handoff: Any, copies: Mapping[int, Any]) -> Any:
    """The same handoff to the copy of its agent."""
    if not isinstance(handoff, _SDK.Handoff):
        return copies.get(id(handoff), handoff)

    async def invoke(context: Any, arguments: str) -> Any:
        agent = await handoff.on_invoke_handoff(context, arguments)
        return copies.get(id(agent), agent)

    old = _target(handoff)
    new = copies.get(id(old))
    text = handoff.tool_description
    if new is not None and old.handoff_description:
        text = text.replace(old.handoff_description, new.handoff_description)
    return replace(handoff, on_invoke_handoff=invoke, tool_description=text)
