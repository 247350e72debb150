"""Agents of frameworks: how their texts and numbers are found, replaced and run, and the target.

An adapter is found by the type of the agent. No framework is imported before an agent of it is
there.
"""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar, cast

from burnish.core.cases import Case, Outcome, Step, Trace
from burnish.core.content import Json, codec
from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.core.protocols import Description, Effects, Receipt
from burnish.core.surfaces import (
    Candidate,
    Demonstration,
    DemosSurface,
    NumberSurface,
    Origin,
    Surface,
    TextSurface,
    Value,
    out_of_bounds,
    placeholders_in,
)
from burnish.core.thoughts import without_thoughts
from burnish.models.references import ModelRef
from burnish.system.extras import PURPOSES, install_command, installed_version
from burnish.system.user_code import installed
from burnish.targets.callables import CallableTarget, CallingTarget
from burnish.targets.callables.target import Reply
from burnish.targets.user_code import CurrentPrompts, providing

_GROUP = "burnish.agents"
"""The entry points of other adapters: the name is `package.Class`, the value an AgentAdapter."""
_HOME = "burnish.targets.frameworks"
_BUILT_IN = {
    "pydantic_ai.AbstractAgent": ("pydantic_ai:PydanticAgent", "pydantic-ai-slim"),
    "agents.Agent": ("openai_agents:OpenAIAgent", "openai-agents"),
    "langgraph.Pregel": ("langgraph:LangGraphAgent", "langgraph"),
    "dspy.Module": ("dspy:DSPyProgram", "dspy"),
    "google.adk.BaseAgent": ("google_adk:ADKAgent", "google-adk"),
    "crewai.BaseAgent": ("crewai:CrewAIAgent", "crewai"),
    "crewai.Crew": ("crewai:CrewAICrew", "crewai"),
}
"""By a package and the name of a class, the adapter for it and the classes derived from it, and
the distribution that it comes with."""
_COMMON_NAMES = ("agents",)
"""Packages that a project may well have itself under the same name."""
TEMPERATURE = "model.temperature"
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class AgentPart:
    """Something of an agent that may be edited, and its value."""

    surface: Surface
    value: Value

    @classmethod
    def text(cls, name: str, text: str) -> "AgentPart":
        """A text; its placeholders must stay."""
        surface = TextSurface(id=name, placeholders=placeholders_in(text))
        return cls(surface=surface, value=text)

    @classmethod
    def temperature(cls, name: str, value: float) -> "AgentPart":
        """A temperature between 0 and 1, or as high as it is."""
        surface = NumberSurface(id=name, low=0.0, high=max(1.0, value))
        return cls(surface=surface, value=float(value))

    @classmethod
    def demos(cls, name: str, demos: tuple[Demonstration, ...]) -> "AgentPart":
        return cls(surface=DemosSurface(id=name), value=demos)


class AgentTalk(Protocol):
    """A conversation with an agent."""

    async def send(self, message: str, history: list[dict[str, str]]) -> object:
        """The agent's answer; `history` are the earlier messages of both sides."""
        ...


@dataclass(frozen=True)
class _Answers:
    """A conversation of which the agent's answers count, not what its model thought."""

    talk: AgentTalk

    async def send(self, message: str, history: list[dict[str, str]]) -> object:
        answer = await self.talk.send(message, history)
        return without_thoughts(answer) if isinstance(answer, str) else answer


@dataclass(frozen=True, kw_only=True)
class AgentAdapter(ABC):
    """One framework's way to an agent."""

    agent: Any
    make_deps: Callable[[], Any] | None = None
    """Makes what the framework passes to tools and instructions, once for each conversation."""
    input: str = ""
    """The field or state key that gets the query, where it is not the usual one."""
    output: str = ""
    """The field or state key that is the reply, where it is not the usual one."""

    library: ClassVar[str]
    """The name of the framework."""

    @abstractmethod
    def parts(self) -> Iterator[AgentPart]:
        """What may be edited, in a stable order."""

    @abstractmethod
    def with_values(self, values: Mapping[str, Value]) -> Any:
        """A copy of the agent with these values; the agent itself is not changed."""

    @abstractmethod
    def talk(self, agent: Any) -> AgentTalk:
        """Begin a conversation with such a copy, whose steps are recorded."""

    @property
    def model(self) -> ModelRef | None:
        """The agent's own model, with its endpoint and its key; None if burnish does not know it.

        ConfigError says why burnish cannot call it. It must not be a model at another endpoint.
        """
        return None

    @property
    def remembers(self) -> bool:
        """Whether a later turn of a conversation knows of an earlier one."""
        return True

    @property
    def demonstrates(self) -> bool:
        """Whether a case can be a demonstration: not for a part that sees other fields."""
        return True

    def deps(self) -> Any:
        return None if self.make_deps is None else self.make_deps()


class TeamAdapter(AgentAdapter):
    """The way to several agents that work together, each with parts of the same kinds.

    A part has the name of its member before its own; for one member alone it has not.
    """

    @abstractmethod
    def team(self) -> list[Any]:
        """The agent, and all that it can hand over to, directly or not."""

    @abstractmethod
    def texts(self, member: Any) -> Iterator[tuple[str, str]]:
        """The texts of a member by name; empty ones are no parts."""

    @abstractmethod
    def temperature(self, member: Any) -> float | None:
        """The temperature that is set for a member."""

    def prefix(self, member: Any) -> str:
        """What the names of a member's parts begin with."""
        return "" if len(self.team()) == 1 else f"{member.name}."

    def parts(self) -> Iterator[AgentPart]:
        for member in self.team():
            yield from self.parts_of(member)

    def parts_of(self, member: Any) -> Iterator[AgentPart]:
        """What may be edited of one member."""
        prefix = self.prefix(member)
        for name, text in self.texts(member):
            if text:
                yield AgentPart.text(f"{prefix}{name}", text)
        if (temperature := self.temperature(member)) is not None:
            yield AgentPart.temperature(f"{prefix}{TEMPERATURE}", temperature)

    def own(self, member: Any, values: Mapping[str, Value]) -> dict[str, Value]:
        """The values of one member, by the names that it has for them."""
        prefix = self.prefix(member)
        ids = [part.surface.id for part in self.parts_of(member)]
        return {name.removeprefix(prefix): values[name] for name in ids if name in values}


Adapters: TypeAlias = type[AgentAdapter]


def adapter_for(agent: object, **options: Any) -> AgentAdapter | None:
    """The adapter of an agent of a known framework; None for anything else.

    `options` are fields of the adapter: `make_deps`, `input`, `output`.
    """
    for kind in type(agent).__mro__:
        for package in accumulate(kind.__module__.split("."), "{}.{}".format):
            name = f"{package}.{kind.__qualname__}"
            try:
                if (found := _adapter_of(name)) is not None:
                    adapter = found(agent=agent, **options)
                    list(adapter.parts())
                    return adapter
            except BurnishError:
                raise
            except Exception as error:
                # The library's own code and objects: another version may have others.
                raise _misfit(name, error) from error
    return None


@cache
def _adapter_of(name: str) -> Adapters | None:
    if name in _BUILT_IN:
        place, distribution = _BUILT_IN[name]
        if name.partition(".")[0] in _COMMON_NAMES and not installed_version(distribution):
            return None
        module, _, attribute = place.partition(":")
        return cast("Adapters", getattr(import_module(f"{_HOME}.{module}"), attribute))
    point = next((each for each in installed(_GROUP) if each.name == name), None)
    return None if point is None else cast("Adapters", point.load())


def _misfit(name: str, error: Exception) -> BurnishError:
    message = f"the adapter for {name} failed: {type(error).__name__}: {error}"
    _, distribution = _BUILT_IN.get(name, ("", ""))
    version = installed_version(distribution) if distribution else None
    if version is not None:
        message = f"{message}; installed is {distribution} {version}"
    extra = distribution if distribution in PURPOSES else ""
    remedy = install_command(extra) if extra else "pip install --upgrade burnish"
    return BurnishError(message, remedy=remedy)


def numbered(name: str, texts: list[str]) -> Iterator[tuple[str, str]]:
    """Texts with ids: the name itself for one, `name.1` and so on for several."""
    for number, text in enumerate(texts, start=1):
        yield (name if len(texts) == 1 else f"{name}.{number}"), text


def query_fields(message: str, fields: Sequence[str]) -> dict[str, Any]:
    """The input fields for a query: it is the only one, or a JSON object of all of them."""
    if len(fields) == 1:
        return {fields[0]: message}
    with suppress(ValueError):
        data: Any = json.loads(message)
        if isinstance(data, dict):
            return cast("dict[str, Any]", data)
    names = ", ".join(fields)
    text = f"the agent has several input fields ({names}), and the case is no JSON object"
    remedy = "write the case's input as a JSON object, or set `input` to one field"
    raise ConfigError([Problem(message=text, remedy=remedy)])


# -- Values in a file ------------------------------------------------------------------------------


def values_as_json(values: Mapping[str, Value]) -> str:
    """Values as the text of a file."""
    data = {
        name: [codec(Demonstration).encode(demo) for demo in value]
        if isinstance(value, tuple)
        else value
        for name, value in values.items()
    }
    return f"{json.dumps(data, ensure_ascii=False, indent=2)}\n"


def values_from_json(text: str, path: Path) -> dict[str, Value]:
    """The values of such a file."""
    try:
        data = cast("dict[str, Json]", json.loads(text))
        return {
            name: tuple(codec(Demonstration).decode(demo) for demo in value)
            if isinstance(value, list)
            else cast("Value", value)
            for name, value in data.items()
        }
    except (ValueError, AttributeError, BurnishError) as error:
        message = f"these are not values of an agent: {error}"
        remedy = "restore the file that `burnish adopt` wrote"
        raise ConfigError([Problem(where=str(path), message=message, remedy=remedy)]) from None


def with_values(agent: T, path: str | os.PathLike[str]) -> T:
    """A copy of an agent with the values of a file that `burnish adopt` wrote.

    Without such a file it is the agent itself.
    """
    file = Path(path)
    adapter = adapter_for(agent)
    if adapter is None:
        message = f"{type(agent).__module__}.{type(agent).__qualname__} is no agent that is known"
        raise ConfigError([Problem(where="with_values", message=message, remedy=KNOWN)])
    if not file.exists():
        return agent
    values = values_from_json(file.read_bytes().decode(), file)
    surfaces = {part.surface.id: part.surface for part in adapter.parts()}
    if problems := out_of_bounds(values, surfaces):
        raise ConfigError(problems, remedy=f"correct {file}, or delete it")
    return cast("T", adapter.with_values(values))


KNOWN = (
    "known are agents of pydantic-ai, OpenAI Agents, LangGraph, Google ADK and CrewAI, and programs"
    " of DSPy"
)


# -- The target ------------------------------------------------------------------------------------


_VALUES = "values.json"
"""The file of a candidate with all its values."""


@dataclass(frozen=True, kw_only=True)
class FrameworkTarget(CallingTarget):
    """Runs a copy of the agent with the values of a candidate; the agent itself stays as it is."""

    adapter: AgentAdapter
    name: str
    fingerprint: str = ""
    """A hash of its source."""
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Texts that no library knows of: the agent asks for them with `burnish.prompt(name)`."""

    @property
    def calls_function(self) -> bool:
        return True

    @property
    def remembers(self) -> bool:
        return self.adapter.remembers

    @cached_property
    def _parts(self) -> Sequence[AgentPart]:
        named = (AgentPart.text(name, text) for name, text in self.texts.items())
        return (*self.adapter.parts(), *named)

    @property
    def surfaces(self) -> Sequence[Surface]:
        return [part.surface for part in self._parts]

    @cached_property
    def _baseline(self) -> Candidate:
        values = {part.surface.id: part.value for part in self._parts}
        return Candidate(values=values, origin=Origin(kind="baseline"))

    @property
    def baseline(self) -> Candidate:
        return self._baseline

    @property
    def description(self) -> Description:
        """Its name, its framework, its surfaces and a hash of its file."""
        config: dict[str, Json] = {
            "call": self.name,
            "library": self.adapter.library,
            "source": self.fingerprint,
            "surfaces": [surface.id for surface in self.surfaces],
        }
        return self._described("framework", config)

    def problems(self) -> Sequence[Problem]:
        ids = [surface.id for surface in self.surfaces]
        return [
            Problem(
                where=f"agent {self.name}",
                message=f"two of its parts would have the name '{name}'",
                remedy="give each agent and each tool a name of its own",
            )
            for name in dict.fromkeys(ids)
            if ids.count(name) > 1
        ]

    def check(self, candidate: Candidate) -> Sequence[Problem]:
        try:
            self._agent(candidate)
        except ConfigError as error:
            return error.problems
        except (TypeError, ValueError) as error:
            return [Problem(where=self.name, message=f"the agent cannot be made: {error}")]
        return ()

    def conversation(self) -> AbstractAsyncContextManager[Reply]:
        return self.conversation_with(self.baseline)

    def conversation_with(self, candidate: Candidate) -> AbstractAsyncContextManager[Reply]:
        agent = self._agent(candidate)
        return CallableTarget(
            agent=lambda: _Answers(self.adapter.talk(agent)),
            name=self.name,
            fingerprint=self.fingerprint,
        ).conversation()

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects
    ) -> Receipt[Outcome]:
        texts = {name: str(candidate.values[name]) for name in self.texts}
        with providing(CurrentPrompts(texts=texts, make_folder=_no_folder)):
            receipt = await super().run(candidate, case, draw=draw, effects=effects)
        steps = tuple(map(self._attributed, receipt.value.trace.steps))
        return replace(receipt, value=replace(receipt.value, trace=Trace(steps=steps)))

    def _agent(self, candidate: Candidate) -> Any:
        """A copy of the agent with the values of a candidate."""
        own = {k: value for k, value in candidate.values.items() if k not in self.texts}
        return self.adapter.with_values(own)

    def _attributed(self, step: Step) -> Step:
        """A step with its node's surfaces; with all of them where none has the node's name."""
        if step.surfaces:
            return step
        every = [surface.id for surface in self.surfaces]
        own = [name for name in every if name.startswith(f"{step.node}.")]
        return replace(step, surfaces=tuple(sorted(own or every)))

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        """All values in one file, and each text in its own."""
        del home
        texts = {
            f"{name.replace('/', '_')}.md": value.encode()
            for name, value in candidate.values.items()
            if isinstance(value, str)
        }
        return {_VALUES: values_as_json(candidate.values).encode(), **texts}


def _no_folder() -> Path:
    message = "the texts of this agent are not in a folder"
    raise ConfigError([Problem(message=message, remedy="take them with burnish.prompt(name)")])
