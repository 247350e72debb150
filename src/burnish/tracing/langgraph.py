"""Graphs of LangGraph: every execution of a node is a step, with what led to it before it."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import UUID

from burnish.core.errors import BurnishError, MissingExtra

try:
    from langchain_core.callbacks import BaseCallbackHandler
    from langgraph.errors import ParentCommand
    from langgraph.graph.state import CompiledStateGraph

    from burnish.tracing.langgraph_routes import CallTracer, Going, Graph, GraphWalk, Map
except ModuleNotFoundError as error:
    raise MissingExtra(
        f"LangGraph is not installed: there is no module '{error.name}'",
        remedy="pip install 'burnish[langgraph]'",
    ) from error
from burnish.tracing.steps import PLACE, OpenStep

_ROUND = "graph:step:"
"""How the tag of an execution of a node begins."""
_FIRST = "seq:step:1"
"""The tag of what a node itself does, where that has one."""
_PART = "seq:step:"
"""How the tag of what follows inside an execution begins, its conditional edges among it."""


def traced_graph(compiled: Graph) -> Graph:
    """A copy of the graph whose executions of nodes are steps where somebody records.

    Its subgraphs are recorded too, as `node/inner`; so is what LangChain's models and tools say
    of themselves, in the step in which they are called.
    """
    if not isinstance(compiled, CompiledStateGraph):  # pyright: ignore[reportUnnecessaryIsInstance] - users may not check types
        raise BurnishError(
            f"{type(compiled).__name__} is no compiled graph",
            remedy="give what StateGraph.compile() returns",
        )
    return compiled.with_config(callbacks=[GraphTracer(compiled), CallTracer()])


@dataclass(kw_only=True)
class _Execution:
    """A node that is at work."""

    step: OpenStep
    node: str
    walk: GraphWalk
    chosen: list[Going] = field(default_factory=list[Going])


class GraphTracer(BaseCallbackHandler):
    """Listens to a graph and writes down its steps; where nobody records it does nothing."""

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
        """A node, a conditional edge or something else begins."""
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
        """It has ended."""
        del kwargs
        with self._lock:
            self._walks.pop(run_id, None)
            if run_id in self._choosing:
                execution, name = self._choosing.pop(run_id)
                execution.chosen += execution.walk.chosen(execution.node, name, outputs)
            elif execution := self._at_work.pop(run_id, None):
                self._end(execution, outputs, None)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """It has failed."""
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
        """The edges of the graph that a task is in: its namespace is `outer:id|inner:id`."""
        path = [part.split(":")[0] for part in task.split("|")][:-1]
        for first in range(len(path) + 1):
            edges = self._maps.get("|".join(path[first:]))
            if edges is not None and node in edges.nodes:
                return edges
        return None


def _tagged(tags: Sequence[str] | None, beginning: str) -> bool:
    return any(tag.startswith(beginning) for tag in tags or ())
