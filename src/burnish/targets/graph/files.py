"""Graph files: their keys, and reading them with all problems at once."""

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, model_validator

from burnish.core.content import AtLeastOne, Json
from burnish.core.errors import BurnishError, ConfigError, Problem, first_problems
from burnish.models.factory import ModelBlock
from burnish.system import YamlTree, read_tree, validate_config
from burnish.system.config import near
from burnish.system.user_code import load_function
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
from burnish.targets.graph.elements import Condition, Flow, GraphFunction, Skill, reachable
from burnish.targets.graph.graphs import (
    MAX_VISITS,
    QUESTION,
    AgentNode,
    FunctionNode,
    Graph,
    GroupNode,
    Order,
    inline_agent,
    unfilled,
)

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


_GROUPS: Mapping[str, Order] = {
    "nodes": "graph",
    "chain": "chain",
    "parallel": "parallel",
    "cycle": "cycle",
}
"""The keys of a node that is a group, each with the order of its members."""


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
    """`module:function`, which takes the output and returns true or false."""
    always: Literal[True] | None = None

    @model_validator(mode="after")
    def _one(self) -> "ConditionBlock":
        if len([key for key in type(self).model_fields if getattr(self, key) is not None]) != 1:
            raise ValueError("give exactly one of contains, equals, matches, python, always")
        return self


class EdgeBlock(Block):
    """An edge. `a -> b` is short for `{from: a, to: b}`."""

    source: Annotated[str, Field(alias="from", min_length=1)]
    to: Annotated[str, Field(min_length=1)] | Annotated[list[str], Field(min_length=1)]
    when: ConditionBlock | str | None = None


class NodeBlock(Block):
    """A node: an agent file, a Python function, an inline agent, or a group of nodes."""

    nodes: "dict[str, NodeBlock] | None" = None
    """A graph as a node: its nodes, with `edges`, `entry` and `output`."""
    chain: "dict[str, NodeBlock] | None" = None
    """Nodes that run one after the other."""
    parallel: "dict[str, NodeBlock] | None" = None
    """Nodes that run at the same time, with the same input."""
    cycle: "dict[str, NodeBlock] | None" = None
    """Nodes that run in turn, again and again, up to `max_iterations` or `until` a condition."""
    edges: list[str | EdgeBlock] = Field(default_factory=list[str | EdgeBlock])
    entry: str = ""
    output: str = ""
    max_iterations: AtLeastOne | None = None
    until: ConditionBlock | str | None = None
    """Ends a cycle when it holds for the output of a member."""
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
    max_visits: AtLeastOne | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> "NodeBlock":
        inline = [key for key in _AGENT_KEYS if getattr(self, key) is not None]
        kinds = [key for key in ("agent", "python", *_GROUPS) if getattr(self, key) is not None]
        if len(kinds) + bool(inline) != 1:
            raise ValueError(
                "give either agent, or python, or model and instructions, "
                "or one of nodes, chain, parallel, cycle"
            )
        if inline and (self.model is None or self.instructions is None):
            raise ValueError("an inline agent needs model and instructions")
        if self.python is not None and self.skills:
            raise ValueError("a function has no skills")
        self._check_group(kinds[0] if kinds else "")
        return self

    def _check_group(self, kind: str) -> None:
        if kind in _GROUPS and not getattr(self, kind):
            raise ValueError(f"{kind} has no members")
        if kind in _GROUPS and self.skills:
            raise ValueError(f"{kind} has no skills; its members do")
        for key, owner in {
            "edges": "nodes",
            "entry": "nodes",
            "output": "nodes",
            "max_iterations": "cycle",
            "until": "cycle",
        }.items():
            if key in self.model_fields_set and owner != kind:
                raise ValueError(f"{key} belongs to a node with {owner}")


class GraphBlock(Block):
    """A graph file."""

    kind: Literal["graph"]
    name: Annotated[str, Field(min_length=1)] = ""
    description: str | None = None
    entry: str = ""
    """Where a turn begins; the first node by default."""
    models: JsonValue = None
    """How models are called; read by projects."""
    nodes: dict[str, NodeBlock] = Field(default_factory=dict[str, NodeBlock])
    edges: list[str | EdgeBlock] = Field(default_factory=list[str | EdgeBlock])
    global_instructions: InstructionsBlock | None = None
    max_visits: AtLeastOne = MAX_VISITS
    output: str = ""
    """The node whose last output is the reply; by default, the nodes where the run ended."""
    graph: PythonBlock | None = None
    """A graph defined in Python, instead of nodes and edges."""
    python_path: str = "."
    """The folder in which functions are found, relative to this file."""

    @model_validator(mode="after")
    def _described_once(self) -> "GraphBlock":
        keys = {"nodes", "edges", "entry", "output", "global_instructions", "max_visits"}
        both = sorted(keys & self.model_fields_set)
        if self.graph is not None and both:
            raise ValueError(f"a graph in Python defines these itself: {', '.join(both)}")
        if self.graph is None and (not self.nodes or not self.name):
            raise ValueError("give name and nodes, or graph.python")
        return self


def flow_of(graph: Graph) -> Flow:
    """The flow of a graph; raises a ConfigError with all its problems."""
    if problems := list(_graph_problems(graph)):
        raise ConfigError(problems)
    return graph.flow


def _graph_problems(graph: Graph, at: str = "") -> Iterator[Problem]:
    if not graph.nodes:
        yield Problem(where=f"{at}graph '{graph.name}'", message="the graph has no nodes")
        return
    unknown = [(f"{at}{where}", name) for where, name in _unknown(graph)]
    nodes = [*graph.nodes]
    yield from first_problems(unknown, lambda each: _no_node(*each, nodes))
    if not unknown:
        for problem in _unreached(graph):
            yield replace(problem, where=f"{at}{problem.where}")
    places = [
        (f"{at}nodes.{node.name}.input", name)
        for node in graph.nodes.values()
        for name in unfilled(node.input, graph.nodes)
    ]
    yield from first_problems(places, lambda each: _no_place(*each, [QUESTION, *nodes]))
    for node in graph.nodes.values():
        if isinstance(node, GroupNode):
            yield from _graph_problems(node.members, f"{at}nodes.{node.name}: ")


def _unknown(graph: Graph) -> list[tuple[str, str]]:
    """Where a node is named that the graph does not have, and its name."""
    named = [("entry", graph.entry), ("output", graph.output or graph.entry)]
    named += [
        (f"edge {e.source} -> {e.to}", name) for e in graph.edges for name in (e.source, e.to)
    ]
    return [(where, name) for where, name in dict.fromkeys(named) if name not in graph.nodes]


def _no_node(where: str, name: str, nodes: Sequence[str]) -> Problem:
    return Problem(where=where, message=f"there is no node '{name}'", remedy=near(name, nodes))


def _no_place(where: str, name: str, names: Sequence[str]) -> Problem:
    message = f"the template has a place for '{name}', which is not a node"
    return Problem(where=where, message=message, remedy=near(name, names))


def _unreached(graph: Graph) -> Iterator[Problem]:
    there = reachable(graph.entries, graph.successors)
    for name in graph.nodes:
        if name not in there:
            remedy = "add an edge to it, or remove it"
            message = f"it cannot be reached from the entry '{graph.entry}'"
            yield Problem(where=f"nodes.{name}", message=message, remedy=remedy)


def load_graph(path: Path, *, tree: YamlTree | None = None, beside: Collection[str] = ()) -> Graph:
    """Read a graph file; symlinks are resolved, because relative paths start at the real file.

    `beside` are keys of the file that do not belong to the graph; `tree` is the file if it was read
    already.
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
    """A graph file while it is read, and its problems so far."""

    path: Path
    tree: YamlTree
    block: GraphBlock
    problems: list[Problem] = field(default_factory=list[Problem])

    def python_graph(self) -> Graph:
        """The graph in a module, or the result of its function."""
        assert self.block.graph is not None
        name, where = self.block.graph.python, f"{self.path.name} graph.python"
        loaded = self._function(name, "graph")
        try:
            made: object = loaded.function()
        except BurnishError:
            raise
        except Exception as error:  # the border to the user's function
            message = f"{name} raised {type(error).__name__}: {error}"
            raise ConfigError([Problem(where=where, message=message)]) from error
        if isinstance(made, Graph):
            return made
        message = f"{name} returned {type(made).__name__}, not a burnish.Graph"
        raise ConfigError([Problem(where=where, message=message)])

    def written_graph(self) -> Graph:
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
        self._fill(graph, block.nodes, block.edges, ("nodes",))
        return graph

    def _fill(
        self,
        graph: Graph,
        nodes: Mapping[str, NodeBlock],
        edges: Sequence[str | EdgeBlock],
        at: tuple[str, ...],
    ) -> None:
        """Add the nodes, those of groups too, and the edges; `at` are the keys of the nodes."""
        for name, node in nodes.items():
            with self._collecting(".".join((*at, name))):
                self._add(graph, name, node, (*at, name))
        for place, edge in enumerate(edges):
            with self._collecting(".".join((*at[:-1], f"edges[{place}]"))):
                self._join(graph, edge)

    def _add(self, graph: Graph, name: str, block: NodeBlock, at: tuple[str, ...]) -> None:
        key = next((key for key in _GROUPS if getattr(block, key) is not None), None)
        if key is None:
            graph.add(self._node(name, block, at))
            return
        members = Graph(
            name,
            entry=block.entry,
            max_visits=graph.max_visits,
            output=block.output,
            folder=graph.folder,
        )
        known = len(self.problems)
        self._fill(members, getattr(block, key), block.edges, (*at, key))
        if len(self.problems) > known:
            return
        graph.group(
            name,
            members,
            order=_GROUPS[key],
            max_iterations=block.max_iterations or MAX_VISITS,
            until=self._condition(block.until),
            input=block.input,
            max_visits=block.max_visits,
        )

    def _node(self, name: str, block: NodeBlock, at: tuple[str, ...]) -> AgentNode | FunctionNode:
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
            written: Any = self.tree.data
            for key in at:
                written = written[key]
            keys = {key: value for key, value in written.items() if key in _AGENT_KEYS}
            agent = inline_agent(name, keys, self.path)
        skills = tuple(Skill.read(path, self.path.parent) for path in block.skills)
        return AgentNode(**shared, agent=agent, file=block.agent or "", skills=skills)

    def _join(self, graph: Graph, edge: str | EdgeBlock) -> None:
        if isinstance(edge, EdgeBlock):
            graph.edge(edge.source, edge.to, when=self._condition(edge.when))
            return
        names = [name.strip() for name in edge.split("->")]
        if len(names) < 2 or not all(names):
            raise ConfigError(
                [Problem(message=f"'{edge}' is not an edge", remedy="write `a -> b`")]
            )
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
        remedy = "write module.path:name, importable from the folder of the graph file"
        loaded = load_function(reference, folder, what=what, remedy=remedy)
        return GraphFunction(
            function=loaded.function, name=loaded.reference, fingerprint=loaded.fingerprint
        )

    @contextmanager
    def _collecting(self, where: str) -> Generator[None, None, None]:
        """Collect problems, so that the rest of the file is checked too."""
        try:
            yield
        except ConfigError as error:
            self.problems.extend(_at(self.path, each, where) for each in error.problems)
        except BurnishError as error:
            place = f"{self.path.name} {where}"
            problem = Problem(where=place, message=error.message, remedy=error.remedy)
            self.problems.append(problem)


def _expanded(data: Json, where: str) -> Json:
    """Expand variables. Nodes share models, so a missing variable is reported once."""
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
