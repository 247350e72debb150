"""LangGraph graphs: every execution of a node is a step; routes through a graph."""

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import UUID

from burnish.core.errors import BurnishError, MissingExtra
from burnish.system.extras import install_command

try:
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.messages import AIMessage, ToolMessage
    from langchain_core.outputs import ChatGeneration, LLMResult
    from langgraph.errors import ParentCommand
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.types import Command, Send
except ModuleNotFoundError as error:
    raise MissingExtra(
        f"LangGraph is not installed: there is no module '{error.name}'",
        remedy=install_command("langgraph"),
    ) from error
from burnish.tracing.steps import PLACE, OpenStep, Record, error_text

_PUSHED = ("__pregel_push",)
"""The trigger of a node that was started by a Send."""
Going = str | Send
Graph = CompiledStateGraph[Any, Any, Any, Any]


@dataclass(frozen=True, kw_only=True)
class Map:
    """The edges of a graph as defined."""

    nodes: frozenset[str]
    edges: Mapping[str, tuple[str, ...]]
    joins: tuple[tuple[tuple[str, ...], str], ...]
    """Edges that wait for several nodes."""
    branches: Mapping[str, Mapping[str, Mapping[Any, str] | None]]
    """The targets of a node's conditional edges, by node and name."""

    @classmethod
    def of(cls, graph: Graph) -> "Map":
        drawn = graph.builder
        edges: dict[str, tuple[str, ...]] = {}
        for start, end in sorted(drawn.edges):
            edges[start] = (*edges.get(start, ()), end)
        return cls(
            nodes=frozenset(drawn.nodes),
            edges=edges,
            joins=tuple(sorted(drawn.waiting_edges)),
            branches={
                node: {name: branch.ends for name, branch in named.items()}
                for node, named in drawn.branches.items()
            },
        )


@dataclass(kw_only=True)
class GraphWalk:
    """One invocation of a graph: what has led where so far."""

    map: Map | None
    """None for a graph whose edges are unknown."""
    _led: defaultdict[str, list[OpenStep]] = field(
        default_factory=lambda: defaultdict[str, list[OpenStep]](list)
    )
    _joining: dict[tuple[tuple[str, ...], str], dict[str, OpenStep]] = field(
        default_factory=dict[tuple[tuple[str, ...], str], dict[str, OpenStep]]
    )
    _sent: list[tuple[Send, OpenStep]] = field(default_factory=list[tuple[Send, OpenStep]])
    _predecessors: dict[str, "list[OpenStep] | None"] = field(
        default_factory=dict[str, "list[OpenStep] | None"]
    )
    _rounds: defaultdict[int, list[OpenStep]] = field(
        default_factory=lambda: defaultdict[int, list[OpenStep]](list)
    )

    def before(self, node: str, task: str, now: int, argument: object, triggers: Any) -> Any:
        """The steps that led to an execution; None at the start of the graph.

        A retried node has the same task, and the same predecessors.
        """
        if task not in self._predecessors:
            pushed = tuple(triggers) == _PUSHED
            steps = self._senders(node, argument) if pushed else self._leaders(node)
            # Without known edges, rounds still follow each other.
            earlier = [number for number in self._rounds if number < now]
            previous = list(self._rounds[max(earlier)]) if earlier else None
            self._predecessors[task] = steps or previous
        return self._predecessors[task]

    def ran(self, now: int, step: OpenStep) -> None:
        """Note an execution that started in this round of the graph."""
        self._rounds[now].append(step)

    def leads(self, node: str, step: OpenStep, chosen: Iterable[Going], output: object) -> None:
        """Note where a finished execution leads."""
        for going in (*chosen, *_commanded(output)):
            if isinstance(going, Send):
                self._sent.append((going, step))
            else:
                self._led[going].append(step)
        if self.map is not None:
            for end in self.map.edges.get(node, ()):
                self._led[end].append(step)
            for join in self.map.joins:
                if node in join[0]:
                    self._joining.setdefault(join, {})[node] = step

    def branches(self, node: str) -> Mapping[str, Mapping[Any, str] | None]:
        """The conditional edges of a node and their targets."""
        return self.map.branches.get(node, {}) if self.map is not None else {}

    def chosen(self, node: str, name: str, answer: Any) -> Iterator[Going]:
        """Where a conditional edge leads, by the answer of its function."""
        named = self.branches(node)
        only = next(iter(named.values())) if len(named) == 1 else None
        ends = named.get(name, only)
        for each in _listed(answer):
            yield each if isinstance(each, Send) or ends is None else ends.get(each, str(each))

    def _leaders(self, node: str) -> list[OpenStep]:
        leaders = self._led.pop(node, [])
        for join, came in list(self._joining.items()):
            if join[1] == node and set(join[0]) == set(came):
                leaders += self._joining.pop(join).values()
        return list(dict.fromkeys(leaders))

    def _senders(self, node: str, argument: object) -> list[OpenStep]:
        fits = [(sent, step) for sent, step in self._sent if sent.node == node]
        for sent, step in fits:
            if sent.arg is argument:
                self._sent = [each for each in self._sent if each[0] is not sent]
                return [step]
        return list(dict.fromkeys(step for _, step in fits))


def _commanded(output: object) -> Iterator[Going]:
    for each in _listed(output):
        if isinstance(each, Command):
            yield from cast("Iterable[Going]", _listed(cast("Command[Any]", each).goto))


def _listed(value: object) -> list[Any]:
    return [*cast("Iterable[Any]", value)] if isinstance(value, list | tuple) else [value]


# -- What LangChain's models and tools do inside a step -------------------------------------------


class CallTracer(BaseCallbackHandler):
    """Records model and tool calls in the open step; does nothing where no recording is open."""

    run_inline = True  # in the context of whoever calls

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._used: dict[UUID, tuple[Record, str, dict[str, Any]]] = {}

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        del run_id, kwargs
        record = _under_way()
        if record is None:
            return
        for answer in (each for several in response.generations for each in several):
            message = answer.message if isinstance(answer, ChatGeneration) else None
            used = message.usage_metadata if isinstance(message, AIMessage) else None
            tokens = (used["input_tokens"], used["output_tokens"]) if used else (0, 0)
            record.use(1, *tokens)

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        record = _under_way()
        if record is None:
            return
        name = str(kwargs.get("name") or serialized.get("name", "tool"))
        with self._lock:
            self._used[run_id] = record, name, inputs or {"input": input_str}

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        del kwargs
        failed = isinstance(output, ToolMessage) and output.status == "error"
        content = output.text if isinstance(output, ToolMessage) else output
        self._record_tool(run_id, None if failed else content, str(content) if failed else "")

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        del kwargs
        self._record_tool(run_id, None, error_text(error))

    def _record_tool(self, run: UUID, result: Any, error: str) -> None:
        with self._lock:
            used = self._used.pop(run, None)
        if used is not None:
            record, name, arguments = used
            record.tool(name, arguments, result, error, "")


def _under_way() -> Record | None:
    place = PLACE.get()
    return place.inside if place is not None else None


# -- Graphs ----------------------------------------------------------------------------------------


_ROUND = "graph:step:"
"""Prefix of the tag of a node's execution."""
_FIRST = "seq:step:1"
"""The tag of a node's own work, if it has one."""
_PART = "seq:step:"
"""Prefix of the tags of what follows inside an execution, such as its conditional edges."""


def traced_graph(compiled: Graph) -> Graph:
    """A copy of the graph that records each execution of a node as a step.

    Subgraphs are recorded as `node/inner`; model and tool calls of LangChain are recorded in the
    step that makes them.
    """
    if not isinstance(compiled, CompiledStateGraph):  # pyright: ignore[reportUnnecessaryIsInstance] - users may not check types
        raise BurnishError(
            f"{type(compiled).__name__} is not a compiled graph",
            remedy="pass the result of StateGraph.compile()",
        )
    return compiled.with_config(callbacks=[_GraphTracer(compiled), CallTracer()])


@dataclass(kw_only=True)
class _Execution:
    """A node that is running."""

    step: OpenStep
    node: str
    walk: GraphWalk
    chosen: list[Going] = field(default_factory=list[Going])


class _GraphTracer(BaseCallbackHandler):
    """Records the steps of a graph; does nothing where no recording is open."""

    run_inline = True  # in the context of the node, so that what happens in it is inside its step

    def __init__(self, graph: Graph) -> None:
        self._maps = {"": Map.of(graph)}
        inner = cast("Iterator[tuple[str, Any]]", graph.get_subgraphs(recurse=True))  # pyright: ignore[reportUnknownMemberType]
        self._maps |= {
            path: Map.of(cast("Graph", subgraph))
            for path, subgraph in inner
            if isinstance(subgraph, CompiledStateGraph)
        }
        self._lock = threading.Lock()
        self._walks: dict[UUID, GraphWalk] = {}
        self._at_work: dict[UUID, _Execution] = {}
        self._choosing: dict[UUID, tuple[_Execution, str]] = {}

    def on_chain_start(
        self,
        serialized: dict[str, Any],
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        del serialized
        place = PLACE.get()
        if place is None or parent_run_id is None:
            return
        with self._lock:
            if _tagged(tags, _ROUND) and metadata is not None:
                if place.inside is None or place.inside.mark != run_id:
                    self._begin(run_id, parent_run_id, inputs, metadata)
            elif (execution := self._at_work.get(parent_run_id)) and _tagged(tags, _PART):
                name = str(kwargs.get("name", ""))
                if _FIRST not in (tags or ()) and execution.walk.branches(execution.node):
                    self._choosing[run_id] = execution, name

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        del kwargs
        with self._lock:
            self._walks.pop(run_id, None)
            if run_id in self._choosing:
                execution, name = self._choosing.pop(run_id)
                execution.chosen += execution.walk.chosen(execution.node, name, outputs)
            elif execution := self._at_work.pop(run_id, None):
                self._end(execution, outputs, None)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        del kwargs
        with self._lock:
            self._walks.pop(run_id, None)
            self._choosing.pop(run_id, None)
            if execution := self._at_work.pop(run_id, None):
                if isinstance(error, ParentCommand):  # no error: it leads on in the graph around
                    command = error.args[0]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
                    self._end(execution, command, None)
                else:
                    self._end(execution, None, error)

    def _begin(self, run: UUID, graph: UUID, inputs: Any, metadata: dict[str, Any]) -> None:
        node, now = str(metadata["langgraph_node"]), int(metadata["langgraph_step"])
        task = str(metadata["langgraph_checkpoint_ns"])
        if graph not in self._walks:
            self._walks[graph] = GraphWalk(map=self._map(task, node))
        walk = self._walks[graph]
        before = walk.before(node, task, now, inputs, metadata["langgraph_triggers"])
        step = OpenStep(node, inputs=inputs, after=before).__enter__()
        if step.record is not None:
            step.record.mark = run
        walk.ran(now, step)
        self._at_work[run] = _Execution(step=step, node=node, walk=walk)

    def _end(self, execution: _Execution, output: Any, error: BaseException | None) -> None:
        step = execution.step
        step.output = output
        step.__exit__(type(error) if error else None, error, None)
        if error is None:
            execution.walk.leads(execution.node, step, execution.chosen, output)

    def _map(self, task: str, node: str) -> Map | None:
        """The edges of the graph that a task belongs to: its namespace is `outer:id|inner:id`."""
        path = [part.split(":")[0] for part in task.split("|")][:-1]
        for first in range(len(path) + 1):
            edges = self._maps.get("|".join(path[first:]))
            if edges is not None and node in edges.nodes:
                return edges
        return None


def _tagged(tags: Sequence[str] | None, beginning: str) -> bool:
    return any(tag.startswith(beginning) for tag in tags or ())
