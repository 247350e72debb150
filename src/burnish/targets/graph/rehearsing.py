"""Rehearsing the steps of a graph: agents on effects alone, the user's functions left alone."""

from collections.abc import Mapping
from dataclasses import dataclass

from burnish.core.content import Json
from burnish.core.outcomes import Outcome, Step, Trace
from burnish.targets.agent.rehearsing import beyond, rehearse_case
from burnish.targets.calling.answers import of_value
from burnish.targets.graph.graphs import Graph
from burnish.targets.graph.inputs import Given
from burnish.targets.graph.nodes import AgentNode, FunctionNode, GraphEdge
from burnish.targets.graph.positions import node_id
from burnish.targets.graph.working import Job, Work


@dataclass(frozen=True, kw_only=True)
class RehearsedWork(Work):
    """Does the steps as a run in the past did them, and no more than that."""

    graph: Graph
    past: Outcome

    async def agent(self, node: AgentNode, job: Job) -> Outcome:
        """The agent on effects alone; its tools say what they said in this step."""
        step = self._step(job.step)
        return await rehearse_case(
            self.parts[node.name],
            job.as_case(),
            node.agent.block.tools,
            draw=job.draw,
            effects=self.effects,
            past=Outcome(trace=Trace(steps=(step,) if step else ())),
        )

    async def function(self, node: FunctionNode, job: Job) -> Outcome:
        """What the function gave when it was told the same."""
        step = self._step(job.step)
        same = step is not None and step.input == job.given.text and not step.error
        if step is None or not same or not self._knew(node, job.given.outputs):
            await beyond(self.effects, "function", node.name)
        return of_value(step.output if step else None)

    async def holds(self, edge: GraphEdge, step: str, given: Given) -> bool:
        """A function that decides is not asked: the past tells what it said of this output."""
        if edge.when is None or edge.when.function is None:
            return await super().holds(edge, step, given)
        known = self._step(step)
        if known is None or known.output != given.value:
            await beyond(self.effects, "condition", f"{edge.source} -> {edge.to}")
        to = node_id(self.graph, edge.to)
        return any(each.node == to and step in each.predecessors for each in self._steps)

    @property
    def _steps(self) -> tuple[Step, ...]:
        return self.past.trace.steps

    def _step(self, name: str) -> Step | None:
        return next((step for step in self._steps if step.id == name), None)

    def _knew(self, node: FunctionNode, outputs: Mapping[str, Json]) -> bool:
        """Whether a function that may look at all outputs saw these in the past."""
        if node.takes_text:
            return True
        seen = [(step.node, step.output) for step in self._steps]
        return all((node_id(self.graph, name), value) in seen for name, value in outputs.items())
