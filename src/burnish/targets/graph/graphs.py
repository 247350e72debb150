"""Graphs: agents and functions joined by edges, told in Python or read from a file."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from burnish.core.codec import codec
from burnish.core.content import Json
from burnish.core.demonstrations import Demonstration
from burnish.core.errors import ConfigError, Problem
from burnish.models.model_block import model_keys
from burnish.system import YamlTree
from burnish.targets.agent.instructions import Instructions
from burnish.targets.agent.loading import load_agent
from burnish.targets.graph.calls import GivenFunction
from burnish.targets.graph.conditions import Condition
from burnish.targets.graph.inputs import QUESTION
from burnish.targets.graph.nodes import (
    AgentNode,
    FunctionNode,
    GraphEdge,
    GraphNode,
    told_agent,
    tool_blocks,
)
from burnish.targets.graph.skills import Skill

MAX_VISITS = 3
"""How often one node may run in one turn."""
_NAME = re.compile(r"[^\W\d][\w-]*")
_NAMES = "a name has letters, digits, _ and -, and begins with a letter or _; `question` is taken"


class Graph:
    """A graph as it is told, node by node and edge by edge; each call gives the graph back.

    Paths are found from `folder`: where the program stands, or `Path(__file__).parent` for a graph
    whose files lie beside its module. A graph that is told in a file keeps the file's tree, so that
    it can be written again.
    """

    def __init__(
        self,
        name: str,
        *,
        entry: str = "",
        global_instructions: str | Instructions = "",
        max_visits: int = MAX_VISITS,
        output: str = "",
        folder: Path | str = ".",
        source: YamlTree | None = None,
    ) -> None:
        if not name or max_visits < 1:
            message = "a graph has a name, and its nodes may run at least once"
            raise ConfigError([Problem(where=f"graph '{name}'", message=message)])
        told = global_instructions
        self.name = name
        self.global_instructions = Instructions(text=told) if isinstance(told, str) else told
        self.max_visits = max_visits
        self.output = output
        self.folder = Path(folder)
        self.source = source
        self.nodes: dict[str, GraphNode] = {}
        self.edges: list[GraphEdge] = []
        self._entry = entry

    def __call__(self) -> "Graph":
        """Itself: where a file names a graph, it may name what makes one or the graph."""
        return self

    @property
    def entry(self) -> str:
        """Where a turn begins: as told, else the first node."""
        return self._entry or next(iter(self.nodes), "")

    def agent(
        self,
        name: str,
        *,
        file: str | Path | None = None,
        model: str | Mapping[str, Json] | None = None,
        instructions: str | Path = "",
        tools: Sequence[Callable[..., Any] | Mapping[str, Json]] = (),
        demonstrations: Sequence[Demonstration] = (),
        response_format: Mapping[str, Json] | None = None,
        skills: Sequence[str | Path] = (),
        input: str = "",  # noqa: A002 - the word that graph files have
        max_visits: int | None = None,
    ) -> "Graph":
        """Add an agent: of a file, or with a model (`openai:gpt-4o`) and instructions.

        Instructions are a text, or the path of a file; tools are functions, or blocks as agent
        files have them.
        """
        keys: dict[str, Json] = {"response_format": dict(response_format or {})}
        keys["demonstrations"] = [codec(Demonstration).encode(each) for each in demonstrations]
        keys["tools"], functions = tool_blocks(tools)
        keys = {key: value for key, value in keys.items() if value}
        if (file is None) == (model is None) or (file is not None and (keys or instructions)):
            raise _wrong(name, "give `file`, or `model` with `instructions` and the rest")
        if file is None:
            keys |= {"model": _model(model), "instructions": _told(instructions)}
            agent = told_agent(name, keys, self.folder / self.name, functions)
        else:
            agent = load_agent(self.folder / file)
        read = tuple(Skill.read(str(path), self.folder) for path in skills)
        return self.add(
            AgentNode(
                name=name,
                agent=agent,
                file=str(file or ""),
                skills=read,
                input=input,
                max_visits=max_visits,
            )
        )

    def node(
        self,
        name: str,
        function: Callable[[Any], Any],
        *,
        input: str = "",  # noqa: A002 - the word that graph files have
        max_visits: int | None = None,
    ) -> "Graph":
        """Add a function, which takes a text or a NodeInput and gives a text or data."""
        given = GivenFunction.of(function)
        return self.add(FunctionNode(name=name, function=given, input=input, max_visits=max_visits))

    def edge(
        self,
        source: str,
        to: str | Sequence[str],
        *,
        when: Condition | Callable[[Any], Any] | str | None = None,
    ) -> "Graph":
        """Add a way from one node to another, or to several.

        `when` is a text that the output must contain, or a function of the output. Of a node's
        edges those whose condition holds are taken; if none does, those without a condition.
        """
        condition = None if when is None else Condition.of(when)
        for name in [to] if isinstance(to, str) else to:
            self.edges.append(GraphEdge(source=source, to=name, when=condition))
        return self

    def add(self, node: GraphNode) -> "Graph":
        """Add a node that is made already."""
        if not _NAME.fullmatch(node.name) or node.name == QUESTION:
            raise _wrong(node.name, _NAMES)
        if node.name in self.nodes:
            raise _wrong(node.name, "there is such a node already")
        if node.max_visits is not None and node.max_visits < 1:
            raise _wrong(node.name, "max_visits is at least 1")
        skills = [skill.name for skill in node.skills] if isinstance(node, AgentNode) else []
        if len(set(skills)) != len(skills):
            raise _wrong(node.name, f"two skills have the same name: {', '.join(skills)}")
        self.nodes[node.name] = node
        return self

    def after(self, node: str) -> list[str]:
        """The nodes that edges lead to from here, each once, in order."""
        return list(dict.fromkeys(edge.to for edge in self.edges if edge.source == node))

    def visits_of(self, node: str) -> int:
        """How often a node may run in one turn."""
        own = self.nodes[node].max_visits
        return self.max_visits if own is None else own


def graph(
    name: str,
    *,
    entry: str = "",
    global_instructions: str = "",
    max_visits: int = MAX_VISITS,
    output: str = "",
    folder: Path | str = ".",
) -> Graph:
    """A graph without nodes, to be told: `graph("support").agent(…).node(…).edge(…)`."""
    return Graph(
        name,
        entry=entry,
        global_instructions=global_instructions,
        max_visits=max_visits,
        output=output,
        folder=folder,
    )


def _model(given: str | Mapping[str, Json] | None) -> Json:
    if not isinstance(given, str):
        return {**(given or {})}
    return {**model_keys(given)}


def _told(instructions: str | Path) -> Json:
    if isinstance(instructions, Path):
        return {"file": str(instructions)}
    return {"inline": instructions}


def _wrong(node: str, message: str) -> ConfigError:
    return ConfigError([Problem(where=f"node '{node}'", message=message)])
