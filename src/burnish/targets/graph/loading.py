"""Reading a graph file: its nodes, their files and functions, with all that is wrong at once."""

from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from burnish.core.content import Json
from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.system import YamlTree, read_tree, validate_config
from burnish.system.user_functions import load_function
from burnish.targets.agent.instructions import Instructions, read_instructions
from burnish.targets.agent.loading import load_agent
from burnish.targets.agent.variables import expanded
from burnish.targets.graph.blocks import (
    AGENT_KEYS,
    ConditionBlock,
    EdgeBlock,
    GraphBlock,
    NodeBlock,
)
from burnish.targets.graph.calls import GivenFunction
from burnish.targets.graph.conditions import Condition
from burnish.targets.graph.graphs import Graph
from burnish.targets.graph.nodes import AgentNode, FunctionNode, told_agent
from burnish.targets.graph.skills import Skill
from burnish.targets.graph.sound import graph_problems

_REMEDY = "it is module.path:name, importable from the folder of the graph file"
_ARROW = "->"


def load_graph(path: Path, *, tree: YamlTree | None = None, beside: Collection[str] = ()) -> Graph:
    """Read a graph file. A link is followed first: what it names is found from where it lies.

    `beside` are keys that the file may have and that are none of the graph's; `tree` is the file
    where it was read already.
    """
    path = path.resolve() if path.is_symlink() else path
    tree = tree or read_tree(path)
    told = tree.data if isinstance(tree.data, dict) else {}
    own: dict[str, Json] = {key: value for key, value in told.items() if key not in beside}
    data = _expanded(own, path.name)
    block = validate_config(data, GraphBlock, source=path.name, tree=tree)
    reader = _Reader(path=path, tree=tree, block=block)
    found = reader.python_graph() if block.graph is not None else reader.told_graph()
    problems = [*reader.problems]
    # What hangs on a node that could not be read would only be noise.
    problems += [] if problems else [_at(path, each) for each in graph_problems(found)]
    if problems:
        raise ConfigError(problems)
    return found


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
        found = self._function(name, "graph")
        try:
            made: object = found.function()
        except BurnishError:
            raise
        except Exception as error:
            raise self._wrong_graph(f"{name} raised {type(error).__name__}: {error}") from error
        if isinstance(made, Graph):
            return made
        raise self._wrong_graph(f"{name} gave {type(made).__name__}, not a burnish.Graph")

    def _wrong_graph(self, message: str) -> ConfigError:
        return ConfigError([Problem(where=f"{self.path.name} graph.python", message=message)])

    def told_graph(self) -> Graph:
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
            keys = {key: value for key, value in nodes[name].items() if key in AGENT_KEYS}
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

    def _function(self, reference: str, what: str) -> GivenFunction:
        folder = self.path.parent / self.block.python_path
        return GivenFunction.loaded(load_function(reference, folder, what=what, remedy=_REMEDY))

    @contextmanager
    def _collecting(self, where: str) -> Generator[None, None, None]:
        """Go on after what is wrong here, so that the rest is said too."""
        try:
            yield
        except ConfigError as error:
            self.problems.extend(_at(self.path, each, where) for each in error.problems)
        except BurnishError as error:
            place = f"{self.path.name} {where}"
            told = Problem(where=place, message=error.message, remedy=error.remedy)
            self.problems.append(told)


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
