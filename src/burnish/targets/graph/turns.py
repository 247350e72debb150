"""One turn through a graph: round after round until nothing leads on."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from burnish.core.cases import Attachment, Case, Message, Turn
from burnish.core.errors import BurnishError
from burnish.core.outcomes import Failure, Outcome, Step
from burnish.core.protocols import Effects
from burnish.journal.executors import failure_of
from burnish.targets.agent.conversation import AgentParts, run_case
from burnish.targets.callables.target import failed, of_value
from burnish.targets.graph.graphs import (
    QUESTION,
    AgentNode,
    Flow,
    FunctionNode,
    Graph,
    GraphEdge,
    NodeInput,
    NodeOutput,
    asks_for,
    default_input,
    filled,
)
from burnish.targets.graph.surfaces import node_id


@dataclass(frozen=True, kw_only=True)
class Job:
    """One step to be done."""

    step: str
    """The id of the step."""
    input: NodeInput
    case: str
    """The case it is done for: no agent is shown its own answer as an example."""
    draw: int
    attachments: tuple[Attachment, ...] = ()

    def as_case(self) -> Case:
        """What an agent is asked here."""
        turn = Turn(input=self.input.text, attachments=self.attachments)
        return Case(name=self.case, turns=(turn,), history=self.input.history)


@dataclass(frozen=True, kw_only=True)
class Work:
    """Does the steps of a graph under one candidate."""

    parts: Mapping[str, AgentParts]
    """The agents, by node."""
    effects: Effects

    async def agent(self, node: AgentNode, job: Job) -> Outcome:
        """Ask the agent. What goes wrong is an outcome."""
        parts = self.parts[node.name]
        return await run_case(parts, job.as_case(), draw=job.draw, effects=self.effects)

    async def function(self, node: FunctionNode, job: Job) -> Outcome:
        """Call the function. What it raises is its failure, as law 4 has it."""
        try:
            result = await node.function.call(job.input.text if node.takes_text else job.input)
        except SystemExit as error:
            message = f"{node.function.name} ended the program: sys.exit({error.code!r})"
            return failed(message, "SystemExit")
        except BurnishError:
            raise
        except Exception as error:  # noqa: BLE001 - the border to the user's function: law 4
            return Outcome(failure=failure_of(error))
        outcome = of_value(result)
        # Like a tool, a function costs what it says, and nothing where it says nothing.
        return outcome if isinstance(result, Outcome) else replace(outcome, nano_usd=0)

    async def holds(self, edge: GraphEdge, step: str, output: NodeOutput) -> bool:
        """Whether an edge with a condition is open after this step."""
        del step
        assert edge.when is not None
        if edge.when.function is None:
            return edge.when.reads(output.text)
        return bool(await edge.when.function.call(output.value))


# -- One turn through a graph ---------------------------------------------------------------------


_APART = 10_000
"""Between the draws of two steps: two nodes that ask the same are two samples of the answer."""


@dataclass(frozen=True, kw_only=True)
class Asking:
    """What a turn is about."""

    question: str
    case: str
    draw: int
    number: int = 0
    attachments: tuple[Attachment, ...] = ()
    history: tuple[Message, ...] = ()
    before: tuple[str, ...] = ()
    """The steps that made the reply before this turn."""


@dataclass(frozen=True, kw_only=True)
class Visit:
    """One run of a node, and where it led."""

    node: str
    step: Step
    outcome: Outcome
    taken: tuple[str, ...] = ()

    @property
    def output(self) -> NodeOutput:
        """What the node gave."""
        return NodeOutput(text=self.outcome.output, data=self.outcome.data)

    @property
    def failure(self) -> Failure | None:
        """Why it gave nothing."""
        return self.outcome.failure


@dataclass(frozen=True, kw_only=True)
class _Passed:
    """A node that this round is done with."""

    visit: Visit | None = None
    broken: bool = False
    """It failed, or could not run since one before it did."""


@dataclass(kw_only=True)
class TurnRun:
    """A turn under way.

    In a round the nodes go in the order of the flow, each when those before it are done with, so
    that what runs, and on what, is the same however long anybody takes. A failure ends what lies
    behind it, and the turn with the round.
    """

    graph: Graph
    flow: Flow
    work: Work
    asking: Asking
    surfaces: Mapping[str, tuple[str, ...]]
    """The surfaces of each node."""
    visits: list[Visit] = field(default_factory=list[Visit])
    _count: Counter[str] = field(default_factory=Counter[str])
    _outputs: dict[str, NodeOutput] = field(default_factory=dict[str, NodeOutput])

    async def run(self) -> None:
        """Go through the graph; what happened is in `visits`, those before first."""
        starts: dict[str, list[Visit]] = {self.graph.entry: []}
        while starts:
            done = await self._round(starts)
            self.visits += done
            self._outputs |= {visit.node: visit.output for visit in done}
            if any(visit.failure for visit in done):
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
        """Wait for whoever may lead here, and run if somebody does."""
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
        new = {each.visit.node: each.visit.output for each in behind if each.visit}
        visit = await self._visit(node, came, {**self._outputs, **new})
        return _Passed(visit=visit, broken=visit.failure is not None)

    async def _visit(
        self, name: str, came: Sequence[Visit], outputs: Mapping[str, NodeOutput]
    ) -> Visit:
        self._count[name] += 1
        node = self.graph.nodes[name]
        job = self._job(name, came, outputs)
        if isinstance(node, AgentNode):
            outcome = await self.work.agent(node, job)
        else:
            outcome = await self.work.function(node, job)
        visit = Visit(node=name, step=self._step(name, job, came, outcome), outcome=outcome)
        return visit if visit.failure else await self._led_on(visit)

    def _job(self, name: str, came: Sequence[Visit], outputs: Mapping[str, NodeOutput]) -> Job:
        asking, template = self.asking, self.graph.nodes[name].input
        if template:
            text = filled(template, asking.question, outputs)
        else:
            text = default_input(asking.question, [(visit.node, visit.output) for visit in came])
        node_input = NodeInput(
            question=asking.question,
            text=text,
            outputs={node: each.value for node, each in outputs.items()},
            history=asking.history,
        )
        turn = f"t{asking.number + 1}/" if asking.number else ""
        # Files belong to the question, and go where it goes.
        has_question = not template or asks_for(template, QUESTION)
        return Job(
            step=f"{turn}{name}:{self._count[name]}",
            input=node_input,
            case=asking.case,
            draw=asking.draw + _APART * self._sample(name),
            attachments=asking.attachments if has_question else (),
        )

    def _sample(self, name: str) -> int:
        most = max(map(self.graph.visits_of, self.graph.nodes))
        return list(self.graph.nodes).index(name) * most + self._count[name] - 1

    def _step(self, name: str, job: Job, came: Sequence[Visit], outcome: Outcome) -> Step:
        before = tuple(visit.step.id for visit in came) or self.asking.before
        gave = NodeOutput(text=outcome.output, data=outcome.data)
        failure = outcome.failure
        return Step(
            id=job.step,
            node=node_id(self.graph, name),
            turn=self.asking.number,
            predecessors=before,
            surfaces=self.surfaces.get(name, ()),
            input=job.input.text,
            output=None if failure else gave.value,
            tools=tuple(call for step in outcome.trace.steps for call in step.tools),
            error=failure.message if failure else "",
            usage=outcome.usage,
            seconds=outcome.seconds,
        )

    async def _led_on(self, visit: Visit) -> Visit:
        """The visit with the edges that it took; a condition that fails is the node's failure."""
        edges = [edge for edge in self.graph.edges if edge.source == visit.node]
        try:
            held = [
                edge.to
                for edge in edges
                if edge.when is not None
                and await self.work.holds(edge, visit.step.id, visit.output)
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
        """Those that may still run in this turn."""
        left = [name for name in names if self._count[name] < self.graph.visits_of(name)]
        return tuple(dict.fromkeys(left))
