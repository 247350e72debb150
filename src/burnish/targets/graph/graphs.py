"""Graphs: agents and functions joined by edges, in Python or from a file."""

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from burnish.core.cases import Message, Outcome
from burnish.core.content import Json, codec
from burnish.core.errors import ConfigError, Problem
from burnish.core.surfaces import Demonstration, NodeKind
from burnish.models.factory import model_keys
from burnish.system import YamlTree
from burnish.targets.agent.files import (
    Instructions,
    LoadedAgent,
    load_agent,
    read_block,
    sound_agent,
)
from burnish.targets.graph.elements import Condition, Flow, GraphFunction, Skill, first_parameter

QUESTION = "question"
"""The name of the question in templates."""
_PLACE = re.compile(r"(?<!\{)\{([^\W\d][\w-]*)\}(?!\})")


def output_value(outcome: Outcome) -> Json:
    """The data of an output, or else its text."""
    return outcome.output if outcome.data is None else outcome.data


@dataclass(frozen=True, kw_only=True)
class NodeInput:
    """The argument of a function in a graph."""

    question: str
    """The question of this turn."""
    text: str
    """What an agent would read here: the question with the outputs before it, or a template."""
    outputs: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """The last output of each node that ran before, by name: text or data."""
    history: tuple[Message, ...] = ()
    """The messages of earlier turns."""


def filled(template: str, question: str, outputs: Mapping[str, Outcome]) -> str:
    """Fill a template; a node that has not run yet is empty."""
    values = {QUESTION: question, **{node: output.output for node, output in outputs.items()}}
    return _PLACE.sub(lambda match: values.get(match[1], ""), template)


def asks_for(template: str, name: str) -> bool:
    return name in _PLACE.findall(template)


def unfilled(template: str, nodes: Collection[str]) -> list[str]:
    """The places of a template that nothing can fill: neither the question nor a node."""
    names = dict.fromkeys(_PLACE.findall(template))
    return [name for name in names if name != QUESTION and name not in nodes]


@dataclass(frozen=True, kw_only=True)
class AgentNode:
    """An agent: from a file, or defined in the graph."""

    name: str
    agent: LoadedAgent
    file: str = ""
    """Its file as written in the graph; empty for an inline agent."""
    skills: tuple[Skill, ...] = ()
    input: str = ""
    """A template; empty for the question and what led here."""
    max_visits: int | None = None
    kind: NodeKind = NodeKind.AGENT

    @property
    def described(self) -> dict[str, Json]:
        """What the agent's own description leaves out."""
        skills: dict[str, Json] = {s.name: s.content.with_text(s.content.text) for s in self.skills}
        functions = {
            name: GraphFunction.of(f).described for name, f in self.agent.functions.items()
        }
        return {"skills": skills, "functions": functions}


@dataclass(frozen=True, kw_only=True)
class FunctionNode:
    """A Python function as a node."""

    name: str
    function: GraphFunction
    input: str = ""
    max_visits: int | None = None
    kind: NodeKind = NodeKind.FUNCTION

    def __post_init__(self) -> None:
        if first_parameter(self.function.function) is None:
            where = f"node '{self.name}'"
            remedy = "take one argument: `text: str`, or a NodeInput"
            message = f"{self.function.name} takes no argument"
            raise ConfigError([Problem(where=where, message=message, remedy=remedy)])

    @property
    def takes_text(self) -> bool:
        """Whether it takes the text alone."""
        first = first_parameter(self.function.function)
        return first is not None and (first.name == "text" or first.annotation in (str, "str"))

    @property
    def described(self) -> dict[str, Json]:
        return {"function": self.function.described}


Order: TypeAlias = Literal["graph", "chain", "parallel", "cycle"]
"""How the members of a group run: by their edges, one after the other, all at once, or in turn
until a condition holds."""


@dataclass(frozen=True, kw_only=True)
class GroupNode:
    """A graph as a node of another; its members read its input as their question."""

    name: str
    members: "Graph"
    order: Order = "graph"
    input: str = ""
    max_visits: int | None = None
    kind: NodeKind = NodeKind.AGENT

    @cached_property
    def flow(self) -> Flow:
        return self.members.flow

    @property
    def described(self) -> dict[str, Json]:
        """Its members are described one by one."""
        about = self.members
        edges = [edge.described for edge in about.edges]
        return {"order": self.order, "entry": about.entry, "output": about.output, "edges": edges}


_GraphNode: TypeAlias = AgentNode | FunctionNode | GroupNode


@dataclass(frozen=True, kw_only=True)
class GraphEdge:
    """An edge from one node to another, with or without a condition."""

    source: str
    to: str
    when: Condition | None = None

    @property
    def described(self) -> Json:
        return [self.source, self.to, self.when.described if self.when else None]


def inline_agent(
    name: str,
    keys: Mapping[str, Json],
    path: Path,
    functions: Mapping[str, Callable[..., Any]] | None = None,
) -> LoadedAgent:
    """Define an agent inside a graph; its files are found from `path`, the graph's file."""
    data: dict[str, Json] = {"name": name, **keys}
    block = read_block(data, source=f"{path.name} nodes.{name}")
    return sound_agent(path, YamlTree(path=path, data=data, text=""), block, functions=functions)


def _tool_blocks(
    tools: Sequence[Callable[..., Any] | Mapping[str, Json]],
) -> tuple[list[Json], dict[str, Callable[..., Any]]]:
    """Tools as an agent file has them, and the functions among them."""
    blocks: list[Json] = []
    functions: dict[str, Callable[..., Any]] = {}
    for tool in tools:
        if isinstance(tool, Mapping):
            blocks.append(cast("Json", {**tool}))
            continue
        name = getattr(tool, "__name__", type(tool).__name__)
        module, _, function = GraphFunction.of(tool).name.partition(":")
        about = (inspect.getdoc(tool) or name).split("\n\n")[0]
        block: Json = {"name": name, "type": "function", "description": about}
        blocks.append({**block, "file": module, "function": function})
        functions[name] = tool
    return blocks, functions


MAX_VISITS = 3
"""How often one node may run in one turn."""
_NAME = re.compile(r"[^\W\d][\w-]*")


class Graph:
    """A graph, defined node by node and edge by edge; each method returns the graph.

    Paths start at `folder`: by default the current folder, or `Path(__file__).parent` for a graph
    whose files are beside its module. A graph from a file keeps the file's tree, so that it can be
    written again.
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
        at_once: bool = False,
    ) -> None:
        """`at_once` starts a turn at every node instead of one entry."""
        if not name or max_visits < 1:
            message = "a graph needs a name, and max_visits must be at least 1"
            raise ConfigError([Problem(where=f"graph '{name}'", message=message)])
        instructions = global_instructions
        self.name = name
        self.global_instructions = (
            Instructions(text=instructions) if isinstance(instructions, str) else instructions
        )
        self.max_visits = max_visits
        self.output = output
        self.folder = Path(folder)
        self.source = source
        self.nodes: dict[str, _GraphNode] = {}
        self.edges: list[GraphEdge] = []
        self._entry = entry
        self._at_once = at_once

    def __call__(self) -> "Graph":
        """Return itself: a file may name a graph, or a function that makes one."""
        return self

    @property
    def entry(self) -> str:
        """Where a turn begins; the first node by default."""
        return self._entry or next(iter(self.nodes), "")

    @property
    def entries(self) -> tuple[str, ...]:
        """The nodes that run first: the entry, or all of a parallel group."""
        return tuple(self.nodes) if self._at_once else (self.entry,)

    @property
    def flow(self) -> Flow:
        return Flow.of(self.entries, self.successors)

    @property
    def leaves(self) -> dict[str, AgentNode | FunctionNode]:
        """The agents and functions by their path, those in groups too: `team/writer`."""
        found: dict[str, AgentNode | FunctionNode] = {}
        for name, node in self.nodes.items():
            if isinstance(node, GroupNode):
                found |= {f"{name}/{path}": leaf for path, leaf in node.members.leaves.items()}
            else:
                found[name] = node
        return found

    @property
    def agents(self) -> dict[str, AgentNode]:
        """The agents among the leaves."""
        return {path: n for path, n in self.leaves.items() if isinstance(n, AgentNode)}

    @property
    def graphs(self) -> dict[str, "Graph"]:
        """The graph itself, and those of its groups, by path: `""`, `team/`, `team/inner/`."""
        found: dict[str, Graph] = {"": self}
        for name, node in self.nodes.items():
            if isinstance(node, GroupNode):
                inner = node.members.graphs
                found |= {f"{name}/{path}": members for path, members in inner.items()}
        return found

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
        """Add an agent: from a file, or with a model (`openai:gpt-4o`) and instructions.

        Instructions are a text, or the path of a file; tools are functions, or blocks as in agent
        files.
        """
        keys: dict[str, Json] = {"response_format": dict(response_format or {})}
        keys["demonstrations"] = [codec(Demonstration).encode(each) for each in demonstrations]
        keys["tools"], functions = _tool_blocks(tools)
        keys = {key: value for key, value in keys.items() if value}
        if (file is None) == (model is None) or (file is not None and (keys or instructions)):
            raise _wrong(name, "give either `file`, or `model` with `instructions` and the rest")
        if file is None:
            keys["model"] = dict(model_keys(model)) if isinstance(model, str) else {**(model or {})}
            where = "file" if isinstance(instructions, Path) else "inline"
            keys["instructions"] = {where: str(instructions)}
            agent = inline_agent(name, keys, self.folder / self.name, functions)
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
        """Add a function, which takes a text or a NodeInput and returns a text or data."""
        wrapped = GraphFunction.of(function)
        return self.add(
            FunctionNode(name=name, function=wrapped, input=input, max_visits=max_visits)
        )

    def group(
        self,
        name: str,
        members: "Graph",
        *,
        order: Order = "graph",
        max_iterations: int = MAX_VISITS,
        until: Condition | Callable[[Any], Any] | str | None = None,
        input: str = "",  # noqa: A002 - the word that graph files have
        max_visits: int | None = None,
    ) -> "Graph":
        """Add a graph as one node.

        In the order `graph` its own edges count; `chain`, `parallel` and `cycle` make them. A cycle
        ends after `max_iterations`, or when `until` holds for the output of a member.
        """
        made = members if order == "graph" else _ordered(name, members, order, max_iterations)
        if order == "cycle":
            names, condition = list(made.nodes), None if until is None else Condition.of(until)
            going = condition and replace(condition, negated=not condition.negated)
            for source, to in zip(names, [*names[1:], names[0]], strict=True):
                made.edge(source, to, when=going)
        elif until is not None or max_iterations != MAX_VISITS:
            raise _wrong(name, "only a cycle has max_iterations and until")
        return self.add(
            GroupNode(name=name, members=made, order=order, input=input, max_visits=max_visits)
        )

    def edge(
        self,
        source: str,
        to: str | Sequence[str],
        *,
        when: Condition | Callable[[Any], Any] | str | None = None,
    ) -> "Graph":
        """Add an edge from one node to another, or to several.

        `when` is a text that the output must contain, or a function of the output. Of a node's
        edges, those whose condition holds are taken; if none does, those without a condition.
        """
        condition = None if when is None else Condition.of(when)
        for name in [to] if isinstance(to, str) else to:
            self.edges.append(GraphEdge(source=source, to=name, when=condition))
        return self

    def add(self, node: _GraphNode) -> "Graph":
        """Add an existing node."""
        if not _NAME.fullmatch(node.name) or node.name == QUESTION:
            rule = "a name consists of letters, digits, _ and -, and starts with a letter or _"
            raise _wrong(node.name, f"{rule}; `question` is reserved")
        if node.name in self.nodes:
            raise _wrong(node.name, "the node already exists")
        if node.max_visits is not None and node.max_visits < 1:
            raise _wrong(node.name, "max_visits must be at least 1")
        skills = [skill.name for skill in node.skills] if isinstance(node, AgentNode) else []
        if len(set(skills)) != len(skills):
            raise _wrong(node.name, f"two skills have the same name: {', '.join(skills)}")
        self.nodes[node.name] = node
        return self

    @property
    def successors(self) -> dict[str, list[str]]:
        """The nodes after each node, in order."""
        after: dict[str, dict[str, None]] = {node: {} for node in self.nodes}
        for edge in self.edges:
            after.setdefault(edge.source, {})[edge.to] = None
        return {node: [*to] for node, to in after.items()}

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
    """An empty graph to build on: `graph("support").agent(…).node(…).edge(…)`."""
    return Graph(
        name,
        entry=entry,
        global_instructions=global_instructions,
        max_visits=max_visits,
        output=output,
        folder=folder,
    )


def _ordered(name: str, members: Graph, order: Order, max_iterations: int) -> Graph:
    """The members in this order; a cycle is closed by the caller."""
    if not members.nodes:
        raise _wrong(name, f"the {order} has no members")
    if members.edges:
        raise _wrong(name, f"a {order} makes its own edges; give none")
    for node in members.nodes.values():
        if node.max_visits is not None:
            raise _wrong(node.name, f"a member of a {order} has no max_visits of its own")
    made = Graph(
        members.name,
        max_visits=max_iterations if order == "cycle" else 1,
        folder=members.folder,
        at_once=order == "parallel",
    )
    for node in members.nodes.values():
        made.add(node)
    if order == "chain":
        for source, to in pairwise(made.nodes):
            made.edge(source, to)
    return made


def _wrong(node: str, message: str) -> ConfigError:
    return ConfigError([Problem(where=f"node '{node}'", message=message)])
