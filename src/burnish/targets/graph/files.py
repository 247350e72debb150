"""Graph files: their keys, reading them, and everything that is wrong at once."""

from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import Field, JsonValue, model_validator

from burnish.core.content import AtLeastOne, Json
from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.models.model_block import ModelBlock
from burnish.system import YamlTree, read_tree, validate_config
from burnish.system.config_errors import nearest
from burnish.system.user_functions import load_function
from burnish.targets.agent.blocks import (
    AgentModel,
    AgentTool,
    Block,
    DemonstrationBlock,
    ExecutionBlock,
    InstructionsBlock,
    expanded,
)
from burnish.targets.agent.files import Instructions, load_agent, read_instructions
from burnish.targets.graph.functions import GraphFunction, Skill
from burnish.targets.graph.graphs import (
    MAX_VISITS,
    AgentNode,
    Condition,
    Flow,
    FunctionNode,
    Graph,
    reachable,
    template_problems,
    told_agent,
)

_Visits: TypeAlias = AtLeastOne

_AGENT_KEYS = (
    "model",
    "instructions",
    "tools",
    "demonstrations",
    "response_format",
    "embedding_provider",
    "execution",
)
"""The keys of an agent file that a node may have."""


class PythonBlock(Block):
    """Something in Python: `module:name`, found beside the file."""

    python: str


class ConditionBlock(Block):
    """What must hold of a node's output."""

    contains: str | None = None
    equals: str | None = None
    matches: str | None = None
    """A regular expression."""
    python: str | None = None
    """`module:function`, which takes the output and says yes or no."""
    always: Literal[True] | None = None

    @model_validator(mode="after")
    def _one(self) -> "ConditionBlock":
        if len([key for key in type(self).model_fields if getattr(self, key) is not None]) != 1:
            raise ValueError("give one of contains, equals, matches, python, always")
        return self


class EdgeBlock(Block):
    """An edge. `a -> b` is short for `{from: a, to: b}`."""

    source: Annotated[str, Field(alias="from", min_length=1)]
    to: Annotated[str, Field(min_length=1)] | Annotated[list[str], Field(min_length=1)]
    when: ConditionBlock | str | None = None


class NodeBlock(Block):
    """A node: the file of an agent, a Python function, or an agent that is told here."""

    agent: str | None = None
    python: str | None = None
    model: AgentModel | None = None
    instructions: InstructionsBlock | None = None
    tools: list[AgentTool] | None = None
    demonstrations: list[DemonstrationBlock] | None = None
    response_format: dict[str, JsonValue] | str | None = None
    embedding_provider: ModelBlock | None = None
    execution: ExecutionBlock | None = None
    skills: list[str] = Field(default_factory=list[str])
    input: str = ""
    """A template with `{question}` and the names of nodes."""
    max_visits: _Visits | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> "NodeBlock":
        inline = [key for key in _AGENT_KEYS if getattr(self, key) is not None]
        kinds = [key for key in ("agent", "python") if getattr(self, key) is not None]
        if len(kinds) + bool(inline) != 1:
            raise ValueError("give agent, or python, or model and instructions")
        if inline and (self.model is None or self.instructions is None):
            raise ValueError("an agent that is told here needs model and instructions")
        if self.python is not None and self.skills:
            raise ValueError("a function has no skills")
        return self


class GraphBlock(Block):
    """A graph file."""

    kind: Literal["graph"]
    name: Annotated[str, Field(min_length=1)] = ""
    description: str | None = None
    entry: str = ""
    """Where a turn begins; the first node where it is left out."""
    models: JsonValue = None
    """How models are called; read by projects."""
    nodes: dict[str, NodeBlock] = Field(default_factory=dict[str, NodeBlock])
    edges: list[str | EdgeBlock] = Field(default_factory=list[str | EdgeBlock])
    global_instructions: InstructionsBlock | None = None
    max_visits: _Visits = MAX_VISITS
    output: str = ""
    """Whose last output is the reply; where it is left out, of the nodes where the run ended."""
    graph: PythonBlock | None = None
    """A graph that is told in Python, instead of nodes and edges."""
    python_path: str = "."
    """The folder in which functions are found, from this file."""

    @model_validator(mode="after")
    def _described_once(self) -> "GraphBlock":
        keys = {"nodes", "edges", "entry", "output", "global_instructions", "max_visits"}
        both = sorted(keys & self.model_fields_set)
        if self.graph is not None and both:
            raise ValueError(f"a graph in Python says itself: {', '.join(both)}")
        if self.graph is None and (not self.nodes or not self.name):
            raise ValueError("give a name and nodes, or graph with python")
        return self


# -- Whether a graph hangs together ---------------------------------------------------------------


def flow_of(graph: Graph) -> Flow:
    """How the graph flows, or a ConfigError with all that is wrong with it."""
    if problems := list(_graph_problems(graph)):
        raise ConfigError(problems)
    return Flow.of(graph.entry, {node: graph.after(node) for node in graph.nodes})


def _graph_problems(graph: Graph) -> Iterator[Problem]:
    """What does not fit together."""
    if not graph.nodes:
        yield Problem(where=f"graph '{graph.name}'", message="there are no nodes")
        return
    unknown = [*_unknown(graph)]
    yield from unknown
    if not unknown:
        yield from _unreached(graph)
    for node in graph.nodes.values():
        yield from template_problems(node.input, graph.nodes, f"nodes.{node.name}.input")


def _unknown(graph: Graph) -> Iterator[Problem]:
    named = [("entry", graph.entry), ("output", graph.output or graph.entry)]
    named += [
        (f"edge {e.source} -> {e.to}", name) for e in graph.edges for name in (e.source, e.to)
    ]
    nodes = list(graph.nodes)
    for where, name in dict.fromkeys(named):
        if name not in nodes:
            near = nearest(name, nodes)
            remedy = f"did you mean '{near}'?" if near else f"there are: {', '.join(nodes)}"
            yield Problem(where=where, message=f"there is no node '{name}'", remedy=remedy)


def _unreached(graph: Graph) -> Iterator[Problem]:
    there = reachable(graph.entry, {node: graph.after(node) for node in graph.nodes})
    for name in graph.nodes:
        if name not in there:
            remedy = "add an edge to it, or remove it"
            message = f"no way leads to it from the entry '{graph.entry}'"
            yield Problem(where=f"nodes.{name}", message=message, remedy=remedy)


# -- Reading a graph file -------------------------------------------------------------------------


_REMEDY = "it is module.path:name, importable from the folder of the graph file"
_ARROW = "->"


def load_graph(path: Path, *, tree: YamlTree | None = None, beside: Collection[str] = ()) -> Graph:
    """Read a graph file. A link is followed first: what it names is found from where it lies.

    `beside` are keys that the file may have and that are none of the graph's; `tree` is the file
    where it was read already.
    """
    path = path.resolve() if path.is_symlink() else path
    tree = tree or read_tree(path)
    written = tree.data if isinstance(tree.data, dict) else {}
    own: dict[str, Json] = {key: value for key, value in written.items() if key not in beside}
    data = _expanded(own, path.name)
    block = validate_config(data, GraphBlock, source=path.name, tree=tree)
    reader = _Reader(path=path, tree=tree, block=block)
    graph = reader.python_graph() if block.graph is not None else reader.written_graph()
    problems = [*reader.problems]
    # What hangs on a node that could not be read would only be noise.
    problems += [] if problems else [_at(path, each) for each in _graph_problems(graph)]
    if problems:
        raise ConfigError(problems)
    return graph


@dataclass(frozen=True, kw_only=True)
class _Reader:
    """A graph file being read, and what was wrong with it so far."""

    path: Path
    tree: YamlTree
    block: GraphBlock
    problems: list[Problem] = field(default_factory=list[Problem])

    def python_graph(self) -> Graph:
        """The graph that a module holds, or that its function makes."""
        assert self.block.graph is not None
        name = self.block.graph.python
        loaded = self._function(name, "graph")
        try:
            made: object = loaded.function()
        except BurnishError:
            raise
        except Exception as error:
            raise self._wrong_graph(f"{name} raised {type(error).__name__}: {error}") from error
        if isinstance(made, Graph):
            return made
        raise self._wrong_graph(f"{name} gave {type(made).__name__}, not a burnish.Graph")

    def _wrong_graph(self, message: str) -> ConfigError:
        return ConfigError([Problem(where=f"{self.path.name} graph.python", message=message)])

    def written_graph(self) -> Graph:
        """The graph of nodes and edges."""
        block = self.block
        graph = Graph(
            block.name,
            entry=block.entry,
            global_instructions=self._global_instructions(),
            max_visits=block.max_visits,
            output=block.output,
            folder=self.path.parent,
            source=self.tree,
        )
        for name, node in block.nodes.items():
            with self._collecting(f"nodes.{name}"):
                graph.add(self._node(name, node))
        for place, edge in enumerate(block.edges):
            with self._collecting(f"edges[{place}]"):
                self._join(graph, edge)
        return graph

    def _node(self, name: str, block: NodeBlock) -> AgentNode | FunctionNode:
        shared: dict[str, Any] = {
            "name": name,
            "input": block.input,
            "max_visits": block.max_visits,
        }
        if block.python is not None:
            return FunctionNode(**shared, function=self._function(block.python, "node"))
        if block.agent is not None:
            agent = load_agent(self.path.parent / block.agent)
        else:
            nodes = cast("dict[str, dict[str, dict[str, Json]]]", self.tree.data)["nodes"]
            keys = {key: value for key, value in nodes[name].items() if key in _AGENT_KEYS}
            agent = told_agent(name, keys, self.path)
        skills = tuple(Skill.read(path, self.path.parent) for path in block.skills)
        return AgentNode(**shared, agent=agent, file=block.agent or "", skills=skills)

    def _join(self, graph: Graph, edge: str | EdgeBlock) -> None:
        if isinstance(edge, EdgeBlock):
            graph.edge(edge.source, edge.to, when=self._condition(edge.when))
            return
        names = [name.strip() for name in edge.split(_ARROW)]
        if len(names) < 2 or not all(names):
            raise ConfigError([Problem(message=f"'{edge}' is no edge", remedy="write `a -> b`")])
        for source, to in pairwise(names):
            graph.edge(source, to)

    def _condition(self, when: ConditionBlock | str | None) -> Condition | None:
        if when is None or isinstance(when, str):
            return None if when is None else Condition.of(when)
        if when.python is not None:
            return Condition(kind="python", function=self._function(when.python, "condition"))
        if when.always:
            return Condition(kind="always")
        if when.contains is not None:
            return Condition(kind="contains", text=when.contains)
        if when.equals is not None:
            return Condition(kind="equals", text=when.equals)
        return Condition(kind="matches", text=when.matches or "")

    def _global_instructions(self) -> Instructions:
        block = self.block.global_instructions
        if block is None or block.file is None:
            return Instructions(text=(block.inline if block else "") or "")
        with self._collecting("global_instructions.file"):
            return read_instructions(self.path.parent / block.file)
        return Instructions(text="")

    def _function(self, reference: str, what: str) -> GraphFunction:
        folder = self.path.parent / self.block.python_path
        return GraphFunction.loaded(load_function(reference, folder, what=what, remedy=_REMEDY))

    @contextmanager
    def _collecting(self, where: str) -> Generator[None, None, None]:
        """Go on after what is wrong here, so that the rest is said too."""
        try:
            yield
        except ConfigError as error:
            self.problems.extend(_at(self.path, each, where) for each in error.problems)
        except BurnishError as error:
            place = f"{self.path.name} {where}"
            problem = Problem(where=place, message=error.message, remedy=error.remedy)
            self.problems.append(problem)


def _expanded(data: Json, where: str) -> Json:
    """The data with its variables. Nodes share models: a variable that is not set is said once."""
    try:
        return expanded(data, where=where)
    except ConfigError as error:
        first = {problem.message: problem for problem in reversed(error.problems)}
        raise ConfigError(
            [each for each in error.problems if each is first[each.message]]
        ) from None


def _at(path: Path, problem: Problem, where: str = "") -> Problem:
    # What is told in the graph names the graph's file itself.
    inner = problem.where.removeprefix(path.name).lstrip()
    parts: Sequence[str] = (path.name, where, inner)
    return replace(problem, where=" ".join(part for part in parts if part))
