"""What stands at the nodes of a graph: agents, functions, and the edges between them."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.structures import NodeKind
from burnish.system import YamlTree
from burnish.targets.agent.loading import LoadedAgent, read_block, sound_agent
from burnish.targets.graph.calls import GivenFunction, first_parameter
from burnish.targets.graph.conditions import Condition
from burnish.targets.graph.skills import Skill


@dataclass(frozen=True, kw_only=True)
class AgentNode:
    """An agent: of a file, or told in the graph itself."""

    name: str
    agent: LoadedAgent
    file: str = ""
    """Its file as the graph spells it; empty where the graph itself tells the agent."""
    skills: tuple[Skill, ...] = ()
    input: str = ""
    """A template of what it is told; empty for the question and what led here."""
    max_visits: int | None = None
    kind: NodeKind = NodeKind.AGENT

    @property
    def described(self) -> dict[str, Json]:
        """What the agent's own description leaves out."""
        skills: dict[str, Json] = {s.name: s.content.with_text(s.content.text) for s in self.skills}
        given = {name: GivenFunction.of(f).described for name, f in self.agent.functions.items()}
        return {"skills": skills, "functions": given}


@dataclass(frozen=True, kw_only=True)
class FunctionNode:
    """A function of the user's."""

    name: str
    function: GivenFunction
    input: str = ""
    max_visits: int | None = None
    kind: NodeKind = NodeKind.FUNCTION

    def __post_init__(self) -> None:
        if first_parameter(self.function.function) is None:
            where = f"node '{self.name}'"
            remedy = "take one argument: `text: str`, or a NodeInput"
            message = f"{self.function.name} takes nothing"
            raise ConfigError([Problem(where=where, message=message, remedy=remedy)])

    @property
    def takes_text(self) -> bool:
        """Whether it wants the text alone."""
        first = first_parameter(self.function.function)
        return first is not None and (first.name == "text" or first.annotation in (str, "str"))

    @property
    def described(self) -> dict[str, Json]:
        """The function and a hash of its file."""
        return {"function": self.function.described}


GraphNode: TypeAlias = AgentNode | FunctionNode


@dataclass(frozen=True, kw_only=True)
class GraphEdge:
    """A way from one node to another, always open or under a condition."""

    source: str
    to: str
    when: Condition | None = None

    @property
    def described(self) -> Json:
        """The edge as data."""
        return [self.source, self.to, self.when.described if self.when else None]


def told_agent(
    name: str,
    keys: Mapping[str, Json],
    path: Path,
    functions: Mapping[str, Callable[..., Any]] | None = None,
) -> LoadedAgent:
    """An agent that is told in a graph; `path` is the graph's, from which files are found."""
    data: dict[str, Json] = {"name": name, **keys}
    block = read_block(data, source=f"{path.name} nodes.{name}")
    return sound_agent(path, YamlTree(path=path, data=data, text=""), block, functions=functions)


def tool_blocks(
    tools: Sequence[Callable[..., Any] | Mapping[str, Json]],
) -> tuple[list[Json], dict[str, Callable[..., Any]]]:
    """Tools as an agent file has them, and the functions that were given as they are."""
    blocks: list[Json] = []
    functions: dict[str, Callable[..., Any]] = {}
    for tool in tools:
        if isinstance(tool, Mapping):
            blocks.append(cast("Json", {**tool}))
            continue
        name = getattr(tool, "__name__", type(tool).__name__)
        module, _, function = GivenFunction.of(tool).name.partition(":")
        about = (inspect.getdoc(tool) or name).split("\n\n")[0]
        block: Json = {"name": name, "type": "function", "description": about}
        blocks.append({**block, "file": module, "function": function})
        functions[name] = tool
    return blocks, functions
