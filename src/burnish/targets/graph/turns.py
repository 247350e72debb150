"""One turn through a graph, round by round."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from burnish.core.cases import Attachment, Case, Message, Turn
from burnish.core.errors import BurnishError
from burnish.core.outcomes import Outcome, Step
from burnish.core.protocols import Effects
from burnish.journal.executors import failure_of
from burnish.targets.agent.conversation import AgentParts, run_case
from burnish.targets.graph.graphs import (
    QUESTION,
    AgentNode,
    Flow,
    FunctionNode,
    Graph,
    GraphEdge,
    NodeInput,
    asks_for,
    filled,
    output_value,
)
from burnish.targets.graph.surfaces import node_id
from burnish.targets.user_code import agent_failure, of_value


@dataclass(frozen=True, kw_only=True)
class Job:
    """One step to run."""

    step: str
    input: NodeInput
    case: Case
    """The input for an agent, named after the case: it must not see its own demonstration."""
    draw: int


@dataclass(frozen=True, kw_only=True)
class Work:
    """Runs the steps of a graph under one candidate."""

    parts: Mapping[str, AgentParts]
    """The agents, by node."""
    effects: Effects

    async def agent(self, node: AgentNode, job: Job) -> Outcome:
        parts = self.parts[node.name]
        return await run_case(parts, job.case, draw=job.draw, effects=self.effects)

    async def function(self, node: FunctionNode, job: Job) -> Outcome:
        """Call the function; what it raises is its failure."""
        try:
            result = await node.function.call(job.input.text if node.takes_text else job.input)
        except SystemExit as error:
            message = f"{node.function.name} ended the program: sys.exit({error.code!r})"
            return agent_failure(message, "SystemExit")
        except BurnishError:
            raise
        except Exception as error:  # noqa: BLE001 - the border to the user's function: law 4
            return Outcome(failure=failure_of(error))
        outcome = of_value(result)
        # Like a tool, a function costs what it says, and nothing where it says nothing.
        return outcome if isinstance(result, Outcome) else replace(outcome, nano_usd=0)

    async def holds(self, edge: GraphEdge, step: str, output: Outcome) -> bool:
        """Whether the condition of an edge holds after this step."""
        del step
        assert edge.when is not None
        if edge.when.function is None:
            return edge.when.reads(output.output)
        return bool(await edge.when.function.call(output_value(output)))


@dataclass(frozen=True, kw_only=True)
class Visit:
    """One run of a node, and the edges it took."""

    node: str
    step: Step
    outcome: Outcome
    taken: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Passed:
    """A node that has finished in this round."""

    visit: Visit | None = None
    broken: bool = False
    """It failed, or could not run because one before it did."""


@dataclass(kw_only=True)
class TurnRun:
    """A turn while it runs.

    In a round the nodes run in the order of the flow, each when those before it have finished, so
    that timing does not change what runs. A failure stops what comes after it, and the turn ends
    with the round.
    """

    graph: Graph
    flow: Flow
    work: Work
    surfaces: Mapping[str, tuple[str, ...]]
    """The surfaces of each node."""
    question: str
    case: str
    draw: int
    number: int
    attachments: tuple[Attachment, ...]
    history: tuple[Message, ...]
    before: tuple[str, ...]
    """The steps that made the previous reply."""
    visits: list[Visit] = field(default_factory=list[Visit])
    _count: Counter[str] = field(default_factory=Counter[str])
    _outputs: dict[str, Outcome] = field(default_factory=dict[str, Outcome])

    async def run(self) -> None:
        """Run through the graph and collect `visits`, predecessors first."""
        starts: dict[str, list[Visit]] = {self.graph.entry: []}
        while starts:
            done = await self._round(starts)
            self.visits += done
            self._outputs |= {visit.node: visit.outcome for visit in done}
            if any(visit.outcome.failure for visit in done):
                return
            starts = {}
            for visit in done:
                for to in visit.taken:
                    if (visit.node, to) in self.flow.back:
                        starts.setdefault(to, []).append(visit)

    async def _round(self, starts: Mapping[str, Sequence[Visit]]) -> list[Visit]:
        tasks: dict[str, asyncio.Task[_Passed]] = {}
        for node in self.flow.order:
            tasks[node] = asyncio.create_task(self._pass(node, starts, tasks))
        try:
            passed = await asyncio.gather(*tasks.values())
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)
        return [each.visit for each in passed if each.visit is not None]

    async def _pass(
        self,
        node: str,
        starts: Mapping[str, Sequence[Visit]],
        tasks: Mapping[str, asyncio.Task[_Passed]],
    ) -> _Passed:
        """Wait for the predecessors, and run if one leads here."""
        before = [tasks[name] for name in self.flow.before[node]]
        if before:
            await asyncio.wait(before)
        passed = [task.result() for task in before]
        if any(each.broken for each in passed):
            return _Passed(broken=True)
        led = [each.visit for each in passed if each.visit and node in each.visit.taken]
        if not led and node not in starts:
            return _Passed()
        came = [*starts.get(node, ()), *led]
        behind = [
            tasks[name].result() for name in self.flow.order if name in self.flow.behind[node]
        ]
        new = {each.visit.node: each.visit.outcome for each in behind if each.visit}
        visit = await self._visit(node, came, {**self._outputs, **new})
        return _Passed(visit=visit, broken=visit.outcome.failure is not None)

    async def _visit(
        self, name: str, came: Sequence[Visit], outputs: Mapping[str, Outcome]
    ) -> Visit:
        self._count[name] += 1
        node = self.graph.nodes[name]
        job = self._job(name, came, outputs)
        if isinstance(node, AgentNode):
            outcome = await self.work.agent(node, job)
        else:
            outcome = await self.work.function(node, job)
        visit = Visit(node=name, step=self._step(name, job, came, outcome), outcome=outcome)
        return visit if outcome.failure else await self._with_edges(visit)

    def _job(self, name: str, came: Sequence[Visit], outputs: Mapping[str, Outcome]) -> Job:
        template = self.graph.nodes[name].input
        if template:
            text = filled(template, self.question, outputs)
        else:
            parts = [f"{visit.node}:\n{visit.outcome.output}" for visit in came]
            text = "\n\n".join([self.question, *parts])
        node_input = NodeInput(
            question=self.question,
            text=text,
            outputs={node: output_value(each) for node, each in outputs.items()},
            history=self.history,
        )
        turn = f"t{self.number + 1}/" if self.number else ""
        most = max(map(self.graph.visits_of, self.graph.nodes))
        sample = list(self.graph.nodes).index(name) * most + self._count[name] - 1
        # Files belong to the question, and go where it goes.
        has_question = not template or asks_for(template, QUESTION)
        question = Turn(input=text, attachments=self.attachments if has_question else ())
        return Job(
            step=f"{turn}{name}:{self._count[name]}",
            input=node_input,
            case=Case(name=self.case, turns=(question,), history=self.history),
            # Two nodes that ask the same are two samples of the answer.
            draw=self.draw + 10_000 * sample,
        )

    def _step(self, name: str, job: Job, came: Sequence[Visit], outcome: Outcome) -> Step:
        before = tuple(visit.step.id for visit in came) or self.before
        failure = outcome.failure
        return Step(
            id=job.step,
            node=node_id(self.graph, name),
            turn=self.number,
            predecessors=before,
            surfaces=self.surfaces.get(name, ()),
            input=job.input.text,
            output=None if failure else output_value(outcome),
            tools=tuple(call for step in outcome.trace.steps for call in step.tools),
            error=failure.message if failure else "",
            usage=outcome.usage,
            seconds=outcome.seconds,
        )

    async def _with_edges(self, visit: Visit) -> Visit:
        """The visit with the edges that it took; a condition that fails is the node's failure."""
        edges = [edge for edge in self.graph.edges if edge.source == visit.node]
        try:
            held = [
                edge.to
                for edge in edges
                if edge.when is not None
                and await self.work.holds(edge, visit.step.id, visit.outcome)
            ]
        except BurnishError:
            raise
        except Exception as error:  # noqa: BLE001 - the border to the user's condition: law 4
            failure = failure_of(error)
            step = replace(visit.step, error=f"a condition after it failed: {failure.message}")
            outcome = replace(visit.outcome, replies=(), data=None, failure=failure)
            return replace(visit, step=step, outcome=outcome)
        usual = [edge.to for edge in edges if edge.when is None]
        return replace(visit, taken=self._open(held) or self._open(usual))

    def _open(self, names: Sequence[str]) -> tuple[str, ...]:
        """The nodes that may still run in this turn."""
        left = [name for name in names if self._count[name] < self.graph.visits_of(name)]
        return tuple(dict.fromkeys(left))
