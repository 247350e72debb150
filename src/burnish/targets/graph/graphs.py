"""Graphs: agents and functions joined by edges, in Python or from a file."""

import heapq
import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from burnish.core.cases import Message
from burnish.core.content import Json, codec
from burnish.core.errors import ConfigError, Problem
from burnish.core.structures import NodeKind
from burnish.core.surfaces import Demonstration
from burnish.models.model_block import model_keys
from burnish.system import YamlTree
from burnish.system.config_errors import nearest
from burnish.targets.agent.files import (
    Instructions,
    LoadedAgent,
    load_agent,
    read_block,
    sound_agent,
)
from burnish.targets.graph.functions import GraphFunction, Skill, first_parameter

_Kind: TypeAlias = Literal["always", "contains", "equals", "matches", "python"]


@dataclass(frozen=True, kw_only=True)
class Condition:
    """What must hold of a node's output for an edge to be taken."""

    kind: _Kind
    text: str = ""
    function: GraphFunction | None = None

    def __post_init__(self) -> None:
        if self.kind == "matches":
            try:
                re.compile(self.text)
            except re.error as error:
                message = f"'{self.text}' is no regular expression: {error}"
                raise ConfigError([Problem(where="when.matches", message=message)]) from error

    @classmethod
    def of(cls, condition: "Condition | Callable[[Any], Any] | str") -> "Condition":
        """A text means that the output contains it; a function takes the output."""
        if isinstance(condition, Condition):
            return condition
        if isinstance(condition, str):
            return cls(kind="contains", text=condition)
        return cls(kind="python", function=GraphFunction.of(condition))

    @property
    def described(self) -> Json:
        """The condition as data."""
        detail: Json = self.function.described if self.function else self.text
        return {self.kind: detail}

    def reads(self, text: str) -> bool:
        """Whether it holds of a text; a function is asked elsewhere."""
        match self.kind:
            case "contains":
                return self.text in text
            case "equals":
                return self.text.strip() == text.strip()
            case "matches":
                return re.search(self.text, text) is not None
            case _:
                return True


# -- How a graph flows ----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Flow:
    """The order of a graph's nodes once the edges that go back are left out."""

    order: tuple[str, ...]
    """Every node after those before it; among equals, in the order of the file."""
    back: frozenset[tuple[str, str]]
    """The edges that close a cycle."""
    before: Mapping[str, tuple[str, ...]]
    """The nodes that lead straight to each, ways back left out."""
    behind: Mapping[str, frozenset[str]]
    """All nodes from which each can be reached, ways back left out."""

    @classmethod
    def of(cls, entry: str, after: Mapping[str, Sequence[str]]) -> "Flow":
        """The flow of a graph that is entered here; `after` has every node, in order."""
        back = frozenset(_back_edges(entry, after))
        ahead = {
            node: [to for to in leads if (node, to) not in back] for node, leads in after.items()
        }
        order = _sorted(ahead)
        before = {node: tuple(n for n in order if node in ahead[n]) for node in order}
        behind: dict[str, frozenset[str]] = {}
        for node in order:
            behind[node] = frozenset(before[node]).union(*(behind[n] for n in before[node]))
        return cls(order=order, back=back, before=before, behind=behind)


def reachable(entry: str, after: Mapping[str, Sequence[str]]) -> set[str]:
    """The nodes that a run can come to."""
    reached, waiting = {entry}, [entry]
    while waiting:
        new = [to for to in after[waiting.pop()] if to not in reached]
        reached.update(new)
        waiting += new
    return reached


def _back_edges(entry: str, after: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """The edges of a depth-first walk that lead to a node it is still inside of."""
    seen = {entry}
    way = {entry: iter(after[entry])}
    while way:
        node = next(reversed(way))
        to = next(way[node], None)
        if to is None:
            del way[node]
        elif to in way:
            yield node, to
        elif to not in seen:
            seen.add(to)
            way[to] = iter(after[to])


def _sorted(ahead: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    places = {node: place for place, node in enumerate(ahead)}
    names = list(ahead)
    waits = dict.fromkeys(ahead, 0)
    for to in (to for leads in ahead.values() for to in leads):
        waits[to] += 1
    ready = [places[node] for node in ahead if not waits[node]]
    order: list[str] = []
    while ready:
        node = names[heapq.heappop(ready)]
        order.append(node)
        for to in ahead[node]:
            waits[to] -= 1
            if not waits[to]:
                heapq.heappush(ready, places[to])
    return tuple(order)


# -- What a node is told --------------------------------------------------------------------------


QUESTION = "question"
"""The name under which templates find what was asked."""
_PLACE = re.compile(r"(?<!\{)\{([^\W\d][\w-]*)\}(?!\})")


@dataclass(frozen=True, kw_only=True)
class NodeOutput:
    """What a node gave: as text, and as data where it is structured."""

    text: str
    data: Json = None

    @property
    def value(self) -> Json:
        """The data, or else the text."""
        return self.text if self.data is None else self.data


@dataclass(frozen=True, kw_only=True)
class NodeInput:
    """What a function in a graph is called with."""

    question: str
    """What was asked in this turn."""
    text: str
    """The same as an agent would read here: the question with what came before, or a template."""
    outputs: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What each node that ran before gave last, by its name: text, or data."""
    history: tuple[Message, ...] = ()
    """What was said in earlier turns."""


def default_input(question: str, came: Sequence[tuple[str, NodeOutput]]) -> str:
    """What a node without a template reads: the question, then each node that led here."""
    parts = [f"{node}:\n{output.text}" for node, output in came]
    return "\n\n".join([question, *parts])


def filled(template: str, question: str, outputs: Mapping[str, NodeOutput]) -> str:
    """The template with what is known; a node that did not run yet gave nothing."""
    values = {QUESTION: question, **{node: output.text for node, output in outputs.items()}}
    return _PLACE.sub(lambda match: values.get(match[1], ""), template)


def asks_for(template: str, name: str) -> bool:
    """Whether a template has a place for this."""
    return name in _PLACE.findall(template)


def template_problems(template: str, nodes: Collection[str], where: str) -> Iterator[Problem]:
    """The places of a template that nothing can fill."""
    names = [QUESTION, *nodes]
    for name in dict.fromkeys(_PLACE.findall(template)):
        if name not in names:
            near = nearest(name, names)
            remedy = f"did you mean '{near}'?" if near else f"there are: {', '.join(names)}"
            message = f"the template has a place for '{name}', which is no node"
            yield Problem(where=where, message=message, remedy=remedy)


# -- What stands at the nodes of a graph ----------------------------------------------------------


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
        functions = {
            name: GraphFunction.of(f).described for name, f in self.agent.functions.items()
        }
        return {"skills": skills, "functions": functions}


@dataclass(frozen=True, kw_only=True)
class FunctionNode:
    """A function of the user's."""

    name: str
    function: GraphFunction
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


_GraphNode: TypeAlias = AgentNode | FunctionNode


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


def _tool_blocks(
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
        module, _, function = GraphFunction.of(tool).name.partition(":")
        about = (inspect.getdoc(tool) or name).split("\n\n")[0]
        block: Json = {"name": name, "type": "function", "description": about}
        blocks.append({**block, "file": module, "function": function})
        functions[name] = tool
    return blocks, functions


# -- Graphs ---------------------------------------------------------------------------------------


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
        keys["tools"], functions = _tool_blocks(tools)
        keys = {key: value for key, value in keys.items() if value}
        if (file is None) == (model is None) or (file is not None and (keys or instructions)):
            raise _wrong(name, "give `file`, or `model` with `instructions` and the rest")
        if file is None:
            keys |= {"model": _model(model), "instructions": _instructions_block(instructions)}
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
        wrapped = GraphFunction.of(function)
        return self.add(
            FunctionNode(name=name, function=wrapped, input=input, max_visits=max_visits)
        )

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

    def add(self, node: _GraphNode) -> "Graph":
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


def _model(reference: str | Mapping[str, Json] | None) -> Json:
    if not isinstance(reference, str):
        return {**(reference or {})}
    return {**model_keys(reference)}


def _instructions_block(instructions: str | Path) -> Json:
    if isinstance(instructions, Path):
        return {"file": str(instructions)}
    return {"inline": instructions}


def _wrong(node: str, message: str) -> ConfigError:
    return ConfigError([Problem(where=f"node '{node}'", message=message)])
