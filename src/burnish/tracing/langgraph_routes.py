"""Routes through a LangGraph graph, and what its models and tools do in a step."""

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Send

from burnish.tracing.recorder import Record
from burnish.tracing.steps import PLACE, OpenStep, error_text

_PUSHED = ("__pregel_push",)
"""The trigger of a node that was sent something of its own."""
Going = str | Send
Graph = CompiledStateGraph[Any, Any, Any, Any]


@dataclass(frozen=True, kw_only=True)
class Map:
    """The edges of a graph as they were drawn."""

    nodes: frozenset[str]
    edges: Mapping[str, tuple[str, ...]]
    joins: tuple[tuple[tuple[str, ...], str], ...]
    """Edges that wait for several nodes."""
    branches: Mapping[str, Mapping[str, Mapping[Any, str] | None]]
    """What the answers of a node's conditional edges stand for, by node and name."""

    @classmethod
    def of(cls, graph: Graph) -> "Map":
        """The edges of a compiled graph."""
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
    """None for a graph that nobody knows the edges of."""
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
        """The steps that led to an execution; None at the beginning of the graph.

        A node that is tried again has the same task, and the same ones before it.
        """
        if task not in self._predecessors:
            pushed = tuple(triggers) == _PUSHED
            steps = self._senders(node, argument) if pushed else self._leaders(node)
            self._predecessors[task] = steps or self._round_before(now)
        return self._predecessors[task]

    def ran(self, now: int, step: OpenStep) -> None:
        """An execution began in this round of the graph."""
        self._rounds[now].append(step)

    def leads(self, node: str, step: OpenStep, chosen: Iterable[Going], output: object) -> None:
        """An execution has ended: remember where it leads."""
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
        """The conditional edges of a node, each with what its answers stand for."""
        return self.map.branches.get(node, {}) if self.map is not None else {}

    def chosen(self, node: str, name: str, answer: Any) -> Iterator[Going]:
        """Where a conditional edge leads, by what its function answered."""
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

    def _round_before(self, now: int) -> list[OpenStep] | None:
        """Where nothing is known of edges, rounds still follow each other."""
        earlier = [number for number in self._rounds if number < now]
        return list(self._rounds[max(earlier)]) if earlier else None


def _commanded(output: object) -> Iterator[Going]:
    for each in _listed(output):
        if isinstance(each, Command):
            yield from cast("Iterable[Going]", _listed(cast("Command[Any]", each).goto))


def _listed(value: object) -> list[Any]:
    return [*cast("Iterable[Any]", value)] if isinstance(value, list | tuple) else [value]


# -- What LangChain's models and tools do inside a step -------------------------------------------


class CallTracer(BaseCallbackHandler):
    """Tells the step under way what is called in it; where nobody records it does nothing."""

    run_inline = True  # in the context of whoever calls

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._used: dict[UUID, tuple[Record, str, dict[str, Any]]] = {}

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """A model has answered."""
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
        """A tool is called."""
        record = _under_way()
        if record is None:
            return
        name = str(kwargs.get("name") or serialized.get("name", "tool"))
        with self._lock:
            self._used[run_id] = record, name, inputs or {"input": input_str}

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """A tool has answered."""
        del kwargs
        failed = isinstance(output, ToolMessage) and output.status == "error"
        content = output.text if isinstance(output, ToolMessage) else output
        self._record_tool(run_id, None if failed else content, str(content) if failed else "")

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """A tool has raised."""
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
