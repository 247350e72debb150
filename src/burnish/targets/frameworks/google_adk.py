"""Agents of Google ADK, with their sub-agents."""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from importlib import import_module
from itertools import groupby
from typing import Any, cast

from burnish.core.surfaces import Value
from burnish.models.references import ModelRef
from burnish.targets.frameworks.adapters import TEMPERATURE, TeamAdapter
from burnish.targets.frameworks.own_models import model_of_client
from burnish.tracing.steps import OpenStep

_AGENTS: Any = import_module("google.adk.agents")
_EVENTS: Any = import_module("google.adk.events")
_MODELS: Any = import_module("google.adk.models")
_RUNNERS: Any = import_module("google.adk.runners")
_TOOLS: Any = import_module("google.adk.tools")
_TYPES: Any = import_module("google.genai.types")
_APP = "burnish"
_USER = "user"


class ADKAgent(TeamAdapter):
    """Instructions, descriptions of agents and function tools, and temperatures, of every agent.

    Instructions that a function makes stay as they are. `make_deps` makes the state of a session.
    """

    library = "Google ADK"

    @property
    def model(self) -> ModelRef | None:
        if not getattr(self.agent, "model", None):
            return None
        model = self.agent.canonical_model
        if not (isinstance(model, _MODELS.Gemini) and model.model.startswith("gemini")):
            return None
        return model_of_client("google", model.model, model.api_client)

    def team(self) -> list[Any]:
        team: list[Any] = [self.agent]
        for each in team:
            team += each.sub_agents
            team += [tool.agent for tool in _tools(each) if isinstance(tool, _TOOLS.AgentTool)]
        return team

    def texts(self, member: Any) -> Iterator[tuple[str, str]]:
        for field in ("instruction", "global_instruction", "static_instruction"):
            text = getattr(member, field, None)
            if isinstance(text, str):
                yield field, text
        yield "description", member.description
        for tool in _tools(member):
            if isinstance(tool, _TOOLS.FunctionTool):
                yield f"tools.{tool.name}.description", tool.description

    def temperature(self, member: Any) -> float | None:
        config = getattr(member, "generate_content_config", None)
        return None if config is None else config.temperature

    def with_values(self, values: Mapping[str, Value]) -> Any:
        return self._changed(self.agent, values)

    def _changed(self, agent: Any, values: Mapping[str, Value]) -> Any:
        """A copy of an agent and of all below it."""
        own = self.own(agent, values)
        copies = {id(each): self._changed(each, values) for each in agent.sub_agents}
        # An agent of a class of its own may also have its sub-agents as fields.
        fields = cast("dict[str, Any]", vars(agent))
        update: dict[str, Any] = {
            name: copies[id(value)] for name, value in fields.items() if id(value) in copies
        }
        update |= {name: value for name, value in own.items() if "." not in name}
        update["sub_agents"] = [*copies.values()]
        if tools := _tools(agent):
            update["tools"] = [self._tool(each, own, values) for each in tools]
        if TEMPERATURE in own:
            new = {"temperature": own[TEMPERATURE]}
            update["generate_content_config"] = agent.generate_content_config.model_copy(update=new)
        return agent.clone(update)

    def _tool(self, tool: Any, own: Mapping[str, Value], values: Mapping[str, Value]) -> Any:
        if isinstance(tool, _TOOLS.AgentTool):
            changed: Any = copy(tool)
            changed.agent = self._changed(tool.agent, values)
            changed.description = changed.agent.description
            return changed
        text = own.get(f"tools.{getattr(tool, 'name', '')}.description")
        return tool if text is None else _described(tool, str(text))

    def talk(self, agent: Any) -> "_ADKTalk":
        return _ADKTalk(agent, self.deps())


class _ADKTalk:
    """One session in memory."""

    def __init__(self, agent: Any, state: Any) -> None:
        self._runner = _RUNNERS.InMemoryRunner(agent=agent, app_name=_APP)
        self._agent = agent
        self._state = state
        self._session: Any = None

    async def send(self, message: str, history: list[dict[str, str]]) -> object:
        if self._session is None:
            self._session = await self._begun(history)
        events = list[Any]()
        try:
            async for event in self._runner.run_async(
                user_id=_USER, session_id=self._session.id, new_message=_content(_USER, message)
            ):
                events.append(event)
        finally:
            _record(events, message)
        if failed := next((event for event in events if event.error_code), None):
            raise RuntimeError(f"{failed.error_code}: {failed.error_message or 'no reason given'}")
        replies = [text for event in events if event.is_final_response() and (text := _text(event))]
        return replies[-1] if replies else ""

    async def _begun(self, history: list[dict[str, str]]) -> Any:
        service = self._runner.session_service
        session = await service.create_session(app_name=_APP, user_id=_USER, state=self._state)
        for each in history:
            role = _USER if each["role"] == "user" else "model"
            author = _USER if role == _USER else self._agent.name
            event = _EVENTS.Event(author=author, content=_content(role, each["content"]))
            await service.append_event(session, event)
        return session


def _record(events: Sequence[Any], message: str) -> None:
    """Record what each agent did in turn as a step."""
    inputs: object = message
    for node, turn in groupby(events, key=lambda event: event.author):
        own = [*turn]
        results = {each.id: each.response for event in own for each in _responses(event)}
        with OpenStep(node, inputs=inputs) as step:
            for event in own:
                for call in event.get_function_calls():
                    step.tool(call.name, dict(call.args or {}), results.get(call.id))
                if (used := event.usage_metadata) is not None:
                    step.used(
                        requests=1,
                        input_tokens=used.prompt_token_count or 0,
                        output_tokens=used.candidates_token_count or 0,
                    )
                step.output = _text(event) or step.output
            inputs = step.output


def _responses(event: Any) -> list[Any]:
    return event.get_function_responses()


def _content(role: str, text: str) -> Any:
    return _TYPES.Content(role=role, parts=[_TYPES.Part(text=text)])


def _text(event: Any) -> str:
    """What an event says, without what the model only thinks."""
    parts: list[Any] = (event.content.parts or []) if event.content else []
    return "".join(part.text for part in parts if part.text and not part.thought)


def _tools(agent: Any) -> list[Any]:
    """The tools of an agent; a plain function becomes one, as ADK itself would make it."""
    return [
        _TOOLS.FunctionTool(tool) if not hasattr(tool, "name") and callable(tool) else tool
        for tool in getattr(agent, "tools", ())
    ]


def _described(tool: Any, text: str) -> Any:
    """A function tool with another description: ADK itself takes that of the function."""
    changed: Any = copy(tool)
    changed.description = text

    def declaration() -> Any:
        return tool._get_declaration().model_copy(update={"description": text})

    changed._get_declaration = declaration
    return changed
