"""Agents of the OpenAI Agents SDK, with those that they hand over to."""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from importlib import import_module
from itertools import groupby
from typing import Any, cast

from burnish.core.content import from_json
from burnish.core.surfaces import Value
from burnish.models.references import ModelRef
from burnish.targets.frameworks.adapters import TEMPERATURE, TeamAdapter
from burnish.targets.frameworks.own_models import model_of_client
from burnish.tracing.steps import OpenStep

_SDK: Any = import_module("agents")


class OpenAIAgent(TeamAdapter):
    """Instructions, descriptions of tools and handoffs, and temperatures, of every agent.

    Instructions that a function makes stay as they are.
    """

    library = "OpenAI Agents"

    @property
    def model(self) -> ModelRef | None:
        model = self.agent.model
        if isinstance(model, str):
            # As a run finds it: at the client, the key or the address that the SDK was given.
            model = _SDK.RunConfig().model_provider.get_model(model)
        if not isinstance(model, (_SDK.OpenAIChatCompletionsModel, _SDK.OpenAIResponsesModel)):
            return None
        return model_of_client("openai", str(model.model), model._get_client())

    def team(self) -> list[Any]:
        team: list[Any] = [self.agent]
        for each in team:
            for handoff in each.handoffs:
                other = _target(handoff)
                if other is not None and all(other is not known for known in team):
                    team.append(other)
        return team

    def texts(self, member: Any) -> Iterator[tuple[str, str]]:
        if isinstance(member.instructions, str):
            yield "instructions", member.instructions
        yield "handoff_description", member.handoff_description
        for tool in member.tools:
            if isinstance(tool, _SDK.FunctionTool):
                yield f"tools.{tool.name}.description", tool.description

    def temperature(self, member: Any) -> float | None:
        return member.model_settings.temperature

    def with_values(self, values: Mapping[str, Value]) -> Any:
        team = self.team()
        # Shallow copies first, since agents may hand over to each other in a circle.
        copies = {id(agent): copy(agent) for agent in team}
        for agent in team:
            own, changed = self.own(agent, values), copies[id(agent)]
            for field in ("instructions", "handoff_description"):
                setattr(changed, field, own.get(field, getattr(agent, field)))
            changed.tools = [_described(tool, own) for tool in agent.tools]
            changed.handoffs = [_redirected(each, copies) for each in agent.handoffs]
            if (temperature := own.get(TEMPERATURE)) is not None:
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


def _described(tool: Any, values: Mapping[str, Value]) -> Any:
    text = values.get(f"tools.{tool.name}.description")
    return tool if text is None else replace(tool, description=text)


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
