"""Agents of pydantic-ai."""

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import replace
from typing import Any

from pydantic_ai import Agent, FunctionToolset
from pydantic_ai.agent import WrapperAgent
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    UserPromptPart,
)
from pydantic_ai.models import infer_model
from pydantic_ai.models.wrapper import WrapperModel

from burnish.core.errors import ConfigError, Problem
from burnish.core.surfaces import Value
from burnish.models.references import ModelRef
from burnish.targets.frameworks.adapters import TEMPERATURE, AgentAdapter, AgentPart, numbered
from burnish.targets.frameworks.own_models import model_of_client
from burnish.tracing.pydantic_ai import traced_agent


class PydanticAgent(AgentAdapter):
    """Instructions, system prompts, descriptions of tools, and the temperature.

    Instructions that a function makes stay as they are.
    """

    library = "pydantic-ai"

    @property
    def model(self) -> ModelRef | None:
        if self._inner.model is None:
            return None
        model = infer_model(self._inner.model)
        while isinstance(model, WrapperModel):
            model = model.wrapped
        client = None if model.provider is None else model.provider.client
        return model_of_client(model.system, model.model_name, client)

    @property
    def _inner(self) -> Any:
        """The agent itself, below what wraps it."""
        agent = self.agent
        while _is(agent, WrapperAgent):
            agent = agent.wrapped
        if not _is(agent, Agent):
            message = f"{type(agent).__name__} has no instructions that can be read"
            raise ConfigError([Problem(where="agent", message=message, remedy="pass an Agent")])
        return agent

    def parts(self) -> Iterator[AgentPart]:
        agent = self._inner
        for name, text in numbered("instructions", _static(agent)):
            yield AgentPart.text(name, text)
        for name, text in numbered("system_prompt", [*agent._system_prompts]):
            yield AgentPart.text(name, text)
        for name, tool in _tools(agent).items():
            if tool.description:
                yield AgentPart.text(f"tools.{name}.description", tool.description)
        if _is(agent.model_settings, dict):
            temperature = agent.model_settings.get("temperature")
            if temperature is not None:
                yield AgentPart.temperature(TEMPERATURE, temperature)

    def with_values(self, values: Mapping[str, Value]) -> Any:
        agent = copy(self._inner)
        names = {text: name for name, text in numbered("instructions", _static(agent))}

        def reworded(instruction: Any) -> Any:
            text = _text(instruction)
            if not isinstance(text, str):
                return instruction
            new = values.get(names[text], text)
            return new if instruction is text else replace(instruction, instruction=new)

        agent._instructions = [reworded(each) for each in agent._instructions]
        agent._system_prompts = tuple(
            str(values.get(name, text))
            for name, text in numbered("system_prompt", [*agent._system_prompts])
        )
        agent._function_toolset = _described(agent._function_toolset, values)
        agent._user_toolsets = [_described(each, values) for each in agent._user_toolsets]
        if TEMPERATURE in values and _is(agent.model_settings, dict):
            agent.model_settings = {**agent.model_settings, "temperature": values[TEMPERATURE]}
        return agent

    def talk(self, agent: Any) -> "_PydanticTalk":
        return _PydanticTalk(traced_agent(agent), self.deps())


class _PydanticTalk:
    """Keeps the messages of a conversation, tool calls included."""

    def __init__(self, agent: Any, deps: Any) -> None:
        self._agent = agent
        self._deps = deps
        self._messages: list[ModelMessage] | None = None

    async def send(self, message: str, history: list[dict[str, str]]) -> object:
        earlier = self._messages or [_message(each["role"], each["content"]) for each in history]
        result = await self._agent.run(message, message_history=earlier, deps=self._deps)
        self._messages = result.all_messages()
        return result.output


def _message(role: str, content: str) -> ModelMessage:
    if role == "user":
        return ModelRequest(parts=[UserPromptPart(content=content)])
    return ModelResponse(parts=[TextPart(content=content)])


def _static(agent: Any) -> list[str]:
    """The instructions that are texts, each once."""
    texts = (_text(each) for each in agent._instructions)
    return list(dict.fromkeys(text for text in texts if isinstance(text, str)))


def _text(instruction: Any) -> Any:
    """The text or function of an instruction; newer versions also store its source."""
    return getattr(instruction, "instruction", instruction)


def _tools(agent: Any) -> dict[str, Any]:
    toolsets = (agent._function_toolset, *agent._user_toolsets)
    known = (each for each in toolsets if _is(each, FunctionToolset))
    return {name: tool for each in known for name, tool in each.tools.items()}


def _described(toolset: Any, values: Mapping[str, Value]) -> Any:
    """A toolset of functions with the new descriptions; others stay as they are."""
    if not _is(toolset, FunctionToolset):
        return toolset
    changed: Any = copy(toolset)
    changed.tools = {name: copy(tool) for name, tool in toolset.tools.items()}
    for name, tool in changed.tools.items():
        tool.description = values.get(f"tools.{name}.description", tool.description)
    return changed


def _is(value: Any, kind: type[Any]) -> bool:
    """Without telling the type checker, for which these generic types are unknown."""
    return isinstance(value, kind)
