"""Compiled graphs of LangGraph: the prompts, tools and temperatures inside their nodes."""

import uuid
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from functools import cached_property, partial
from types import CellType, FunctionType, MethodType
from typing import Any, TypeAlias, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import SystemMessage
from langchain_core.runnables import Runnable

from burnish.core.errors import ConfigError, Problem
from burnish.core.surfaces import Value
from burnish.targets.frameworks.adapters import AgentAdapter, AgentPart
from burnish.tracing.langgraph import traced_graph

_PROMPT_NAMES = ("prompt", "instruction", "system")
"""A global text that a node uses is a prompt if its name has one of these words."""
_Swap: TypeAlias = Callable[[str, object], object]
"""Called for each value that may be edited, with its name: what stands there instead."""


class LangGraphAgent(AgentAdapter):
    """System messages, global prompt texts, descriptions of tools and temperatures of all nodes.

    They are found by looking through the functions of the nodes, and replaced in copies of these
    functions. Texts that a node makes itself are not found: `burnish.prompt` names those.
    """

    library = "LangGraph"

    @cached_property
    def _found(self) -> dict[str, object]:
        """The values that may be edited, by name."""
        found: dict[str, object] = {}

        def note(name: str, value: object) -> object:
            found.setdefault(name, value)
            return value

        for name, node in self.agent.nodes.items():
            _Rebuild(name, note).of(node.bound)
        return found

    def parts(self) -> Iterator[AgentPart]:
        for name, value in self._found.items():
            if isinstance(value, str):
                yield AgentPart.text(name, value)
            elif isinstance(value, int | float):
                yield AgentPart.temperature(name, value)

    def with_values(self, values: Mapping[str, Value]) -> Any:
        def swap(name: str, value: object) -> object:
            # Another module may have another prompt of the same name.
            return values.get(name, value) if self._found.get(name) == value else value

        nodes = {
            name: node.copy({"bound": _Rebuild(name, swap).of(node.bound)})
            for name, node in self.agent.nodes.items()
        }
        return self.agent.copy({"nodes": nodes})

    def talk(self, agent: Any) -> "_GraphTalk":
        return _GraphTalk(traced_graph(agent), self)


class _GraphTalk:
    """Keeps the messages of a conversation, unless the graph has a memory of its own."""

    def __init__(self, graph: Any, adapter: LangGraphAgent) -> None:
        self._graph = graph
        self._input = adapter.input or "messages"
        self._output = adapter.output or self._input
        self._context = adapter.deps()
        self._config = {"configurable": {"thread_id": uuid.uuid4().hex}}
        self._messages: list[Any] | None = None

    async def send(self, message: str, history: list[dict[str, str]]) -> object:
        content: object = message
        if self._input == "messages":
            earlier = [*history] if self._messages is None else self._messages
            content = [*earlier, {"role": "user", "content": message}]
        state = await self._graph.ainvoke(
            {self._input: content}, self._config, context=self._context
        )
        if self._output not in state:
            names = ", ".join(state)
            text = f"the state of the graph has no key '{self._output}': it has {names}"
            remedy = "set `input` and `output` to keys of the state"
            raise ConfigError([Problem(message=text, remedy=remedy)])
        if self._output != "messages":
            return state[self._output]
        remembers = self._graph.checkpointer not in (None, False)
        self._messages = [] if remembers else state["messages"]
        structured = state.get("structured_response")
        return state["messages"][-1].text if structured is None else structured


class _Rebuild:
    """Copies what a node is made of, as far as something inside it is replaced."""

    def __init__(self, node: str, swap: _Swap) -> None:
        self._node = node
        self._swap = swap
        self._seen: dict[int, object] = {}
        self._prompts: dict[str, str] = {}
        """By text, the name of a system message: a node may have several."""

    def of(self, value: Any) -> Any:
        """The value itself, or its copy with the replaced parts."""
        if id(value) not in self._seen:
            self._seen[id(value)] = value  # what contains itself is left as it is
            self._seen[id(value)] = self._rebuilt(value)
        return self._seen[id(value)]

    def _rebuilt(self, value: Any) -> Any:
        if isinstance(value, SystemMessage):
            number = len(self._prompts) + 1
            usual = "prompt" if number == 1 else f"prompt.{number}"
            return self._message(self._prompts.setdefault(value.text, usual), value)
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, MethodType):
            inner = self.of(value.__self__)
            return value if inner is value.__self__ else MethodType(value.__func__, inner)
        if isinstance(value, dict):
            return self._mapping(cast("dict[Any, Any]", value))
        if isinstance(value, list | tuple):
            items = cast("list[Any] | tuple[Any, ...]", value)
            new = [self.of(each) for each in items]
            same = all(a is b for a, b in zip(items, new, strict=True))
            return cast("object", value) if same or hasattr(items, "_fields") else type(items)(new)
        if isinstance(value, Runnable | partial):
            return self._object(value)
        return value

    def _new(self, name: str, value: object) -> object:
        return self._swap(f"{self._node}.{name}", value)

    def _message(self, name: str, message: SystemMessage, *, shared: bool = False) -> SystemMessage:
        if not isinstance(message.content, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            return message  # blocks with settings of their own
        new = (self._swap if shared else self._new)(name, message.content)
        return message if new == message.content else SystemMessage(content=cast("str", new))

    def _mapping(self, value: dict[Any, Any]) -> Any:
        """A mapping; if it describes a tool to a model, with another description."""
        new = {key: self.of(each) for key, each in value.items()}
        text = value.get("description")
        if isinstance(value.get("name"), str) and isinstance(text, str) and "parameters" in value:
            new["description"] = self._new(f"tools.{value['name']}.description", text)
        return value if all(new[key] is value[key] for key in value) else new

    def _function(self, function: FunctionType) -> FunctionType:
        cells = function.__closure__ or ()
        contents = [_content(cell) for cell in cells]
        inner = [self.of(each) for each in contents]
        names = {
            name: function.__globals__[name]
            for name in _global_names(function)
            if name in function.__globals__
        }
        globals_ = {name: self._global(name, value) for name, value in names.items()}
        same = all(a is b for a, b in zip(contents, inner, strict=True))
        if same and all(globals_[name] is names[name] for name in names):
            return function
        closure = tuple(map(CellType, inner)) if cells else None
        everything = {**function.__globals__, **globals_}
        new = FunctionType(
            function.__code__, everything, function.__name__, function.__defaults__, closure
        )
        new.__kwdefaults__, new.__dict__ = function.__kwdefaults__, {**function.__dict__}
        return new

    def _global(self, name: str, value: Any) -> Any:
        """A global value: a prompt has its own name, since several nodes may use it."""
        lowered = name.lower()
        if isinstance(value, str) and any(each in lowered for each in _PROMPT_NAMES):
            return self._swap(name, value)
        if isinstance(value, SystemMessage):
            return self._message(name, value, shared=True)
        return self.of(value) if isinstance(value, Runnable) else value

    def _object(self, value: Any) -> Any:
        """A runnable of LangChain: its parts are its attributes."""
        if isinstance(value, partial):
            whole = cast("partial[Any]", value)
            function, arguments = self.of(whole.func), self.of({**whole.keywords})
            return partial(function, *self.of(whole.args), **arguments)
        attributes = cast("dict[str, Any]", {**vars(value)})
        if isinstance(value, BaseChatModel):
            temperature = attributes.get("temperature")
            if isinstance(temperature, int | float):
                new = {"temperature": self._new("model.temperature", temperature)}
                return value.model_copy(update=new) if new["temperature"] != temperature else value
            return value
        changed = {
            name: new for name, each in attributes.items() if (new := self.of(each)) is not each
        }
        if not changed:
            return value
        other: Any = copy(value)
        other.__dict__.update(changed)
        return other


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is not filled yet
        return None


def _global_names(function: FunctionType) -> tuple[str, ...]:
    """The global names in a function, and in the functions inside it."""
    names, codes = list[str](), [function.__code__]
    for code in codes:
        names += code.co_names
        codes += [each for each in code.co_consts if isinstance(each, type(code))]
    return tuple(dict.fromkeys(names))
