"""Agents of CrewAI, and crews of them with their tasks."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

from burnish.core.errors import ConfigError, Problem
from burnish.core.surfaces import Value
from burnish.models.references import ModelRef
from burnish.targets.frameworks.adapters import TEMPERATURE, AgentTalk, TeamAdapter, query_fields
from burnish.targets.frameworks.own_models import azure_model, model_of_client, unknown_model
from burnish.targets.user_code import in_thread
from burnish.tracing.steps import OpenStep

_CREWAI: Any = import_module("crewai")
_PROVIDERS = "crewai.llms.providers."
"""The module of models that name a provider; a class of a user's own only has a default there."""


class CrewAIAgent(TeamAdapter):
    """An agent: its goal, its backstory, the descriptions of its tools, its temperature.

    Its role stays as it is: it is the agent's name.
    """

    library = "CrewAI"

    @property
    def model(self) -> ModelRef | None:
        model = next((each.llm for each in self.team() if _is_agent(each)), None)
        if model is None or not type(model).__module__.startswith(_PROVIDERS):
            return None
        if model.provider == "azure":  # its client is of a library of Azure's own
            return _on_azure(model)
        return model_of_client(model.provider, model.model, model._get_sync_client())

    def team(self) -> list[Any]:
        return [self.agent]

    def texts(self, member: Any) -> Iterator[tuple[str, str]]:
        for field in _fields(member):
            yield field, _original(member, field)
        shared = list[Any]() if _is_agent(member) or not member.agent else _tools(member.agent)
        for tool in _tools(member):
            if all(tool is not each for each in shared):
                yield _description(tool), tool.description

    def temperature(self, member: Any) -> float | None:
        return getattr(getattr(member, "llm", None), "temperature", None)

    def with_values(self, values: Mapping[str, Value]) -> Any:
        agent = self.agent.copy()
        self._change(self.agent, agent, values)
        return agent

    def _change(self, member: Any, new: Any, values: Mapping[str, Value]) -> None:
        """Set the values of a member in its copy; a task has the tools of its agent too."""
        own = self.own(member, values)
        for field in _fields(member):
            setattr(new, field, own.get(field, _original(member, field)))
        shared = {} if _is_agent(member) or not member.agent else self.own(member.agent, values)
        texts = {**shared, **own}
        new.tools = [
            tool.model_copy(update={"description": texts.get(_description(tool), tool.description)})
            for tool in _tools(member)
        ]
        if TEMPERATURE in own:
            new.llm = new.llm.model_copy(update={"temperature": own[TEMPERATURE]})

    def talk(self, agent: Any) -> AgentTalk:
        return _AgentTalk(agent)


class CrewAICrew(CrewAIAgent):
    """A crew: what its agents have, and the description and expected output of each task.

    The query goes to the only placeholder in these texts, or is a JSON object of all of them.
    """

    @property
    def remembers(self) -> bool:
        return False

    def team(self) -> list[Any]:
        manager = self.agent.manager_agent
        return [*self.agent.agents, *([manager] if manager else []), *self.agent.tasks]

    def prefix(self, member: Any) -> str:
        if len(self.team()) == 2:  # one agent with one task
            return ""
        if _is_agent(member):
            return f"{_original(member, 'role').strip()}."
        number = next(n for n, each in enumerate(self.agent.tasks, 1) if each is member)
        return f"{member.name or f'task{number}'}."

    def with_values(self, values: Mapping[str, Value]) -> Any:
        crew = self.agent.copy()
        crew.stream = False
        for member, new in zip(self.team(), CrewAICrew(agent=crew).team(), strict=True):
            self._change(member, new, values)
        return crew

    def talk(self, agent: Any) -> AgentTalk:
        return _CrewTalk(agent, self)

    def inputs(self, message: str) -> dict[str, Any]:
        """The placeholders for a query."""
        if self.input:
            return {self.input: message}
        texts = (text for member in self.team() for _, text in self.texts(member))
        names = [name for text in texts for name in re.findall(r"\{(\w+)\}", text)]
        if not names:
            text = "no task of the crew has a placeholder for the query"
            remedy = "write one into the description of a task, such as {query}"
            raise ConfigError([Problem(where="agent", message=text, remedy=remedy)])
        return query_fields(message, [*dict.fromkeys(names)])


class _Call(NamedTuple):
    """A call of a tool."""

    name: str
    arguments: dict[str, Any]
    result: object
    error: str = ""


class _AgentTalk:
    """Keeps the messages of a conversation."""

    def __init__(self, agent: Any) -> None:
        self._agent = agent
        self._calls: list[_Call] = []
        self._messages: list[dict[str, str]] = []
        agent.tools = [_watched(tool, self._calls.append) for tool in _tools(agent)]

    async def send(self, message: str, history: list[dict[str, str]]) -> object:
        earlier = self._messages or history
        messages = [*earlier, {"role": "user", "content": message}]
        with OpenStep(self._agent.role.strip(), inputs=message) as step:
            try:
                result = await in_thread(partial(self._agent.kickoff, messages))
            finally:
                _note(step, self._calls)
            step.output = result.raw
            _use(step, result.usage_metrics or {})
        self._messages = [*messages, {"role": "assistant", "content": result.raw}]
        return result.raw


class _CrewTalk:
    """A crew has no memory here: each message is a run of its own."""

    def __init__(self, crew: Any, adapter: CrewAICrew) -> None:
        self._crew = crew
        self._adapter = adapter
        self._calls: list[_Call] = []
        self._turns: list[tuple[Any, list[_Call]]] = []
        for member in adapter.__class__(agent=crew).team():
            member.tools = [_watched(tool, self._calls.append) for tool in _tools(member)]
        for task, original in zip(crew.tasks, adapter.agent.tasks, strict=True):
            task.callback = partial(self._done, original.callback)

    async def send(self, message: str, history: list[dict[str, str]]) -> object:
        del history
        inputs = self._adapter.inputs(message)
        usage: dict[str, Any] = {}
        try:
            result = await in_thread(partial(self._crew.kickoff, inputs=inputs))
            usage = result.token_usage.model_dump()
        finally:
            self._record(usage)
        return result.raw

    def _done(self, then: Callable[[Any], Any] | None, output: Any) -> Any:
        """Called by CrewAI at the end of a task."""
        self._turns.append((output, [*self._calls]))
        self._calls.clear()
        return None if then is None else then(output)

    def _record(self, usage: Mapping[str, Any]) -> None:
        """Record each task as a step; the last has the usage, which is that of the whole crew."""
        for number, (output, calls) in enumerate(self._turns, start=1):
            surfaces = self._surfaces(output)
            with OpenStep(output.agent.strip(), inputs=output.description, surfaces=surfaces) as s:
                s.output = output.raw
                _note(s, calls)
                if number == len(self._turns):
                    _use(s, usage)
        self._turns.clear()

    def _surfaces(self, output: Any) -> list[str]:
        """The parts of the task that gave this output, and of its agent."""
        number = next((n for n, t in enumerate(self._crew.tasks) if t.output is output), None)
        if number is None:
            return []
        task = self._adapter.agent.tasks[number]
        members = [task, *([task.agent] if task.agent else [])]
        return [p.surface.id for each in members for p in self._adapter.parts_of(each)]


def _note(step: OpenStep, calls: list[_Call]) -> None:
    for call in calls:
        step.tool(call.name, call.arguments, call.result, call.error)
    calls.clear()


def _use(step: OpenStep, usage: Mapping[str, Any]) -> None:
    step.used(
        requests=usage.get("successful_requests") or 0,
        input_tokens=usage.get("prompt_tokens") or 0,
        output_tokens=usage.get("completion_tokens") or 0,
    )


def _watched(tool: Any, note: Callable[[_Call], None]) -> Any:
    """A copy of a tool whose calls are noted."""
    new = tool.model_copy()

    def run(*args: Any, **arguments: Any) -> Any:
        try:
            result = tool._run(*args, **arguments)
        except Exception as error:
            note(_Call(tool.name, arguments, None, f"{type(error).__name__}: {error}"))
            raise
        note(_Call(tool.name, arguments, result))
        return result

    object.__setattr__(new, "_run", run)  # the model itself refuses what is no field
    return new


def _on_azure(model: Any) -> ModelRef:
    address = model._make_client_kwargs()["endpoint"]
    if not (model.is_azure_openai_endpoint and model.api_key):
        raise unknown_model(f"burnish cannot tell where the agent's azure:{model.model} is")
    return azure_model(
        model.model, address=address, key=model.api_key, api_version=model.api_version
    )


def _is_agent(member: Any) -> bool:
    return not isinstance(member, _CREWAI.Task)


def _fields(member: Any) -> tuple[str, ...]:
    return ("goal", "backstory") if _is_agent(member) else ("description", "expected_output")


def _original(member: Any, field: str) -> str:
    """A text as it was written: a run of the crew fills its placeholders."""
    return getattr(member, f"_original_{field}", None) or getattr(member, field)


def _tools(member: Any) -> list[Any]:
    return member.tools or []


def _description(tool: Any) -> str:
    return f"tools.{tool.name}.description"
