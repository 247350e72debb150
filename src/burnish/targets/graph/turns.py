"""One turn through a graph, round by round."""

import asyncio
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from burnish.core.cases import (
    Attachment,
    Case,
    Failure,
    FailureKind,
    Message,
    Outcome,
    Step,
    Turn,
    Usage,
)
from burnish.core.errors import BurnishError
from burnish.core.protocols import Effects
from burnish.journal.executors import failure_of
from burnish.targets.graph.elements import Flow
from burnish.targets.graph.graphs import (
    QUESTION,
    AgentNode,
    FunctionNode,
    Graph,
    GraphEdge,
    GroupNode,
    NodeInput,
    asks_for,
    filled,
    output_value,
)
from burnish.targets.user_code import agent_failure, of_value

if TYPE_CHECKING:
    from burnish.targets.agent.conversation import AgentParts


@dataclass(frozen=True, kw_only=True)
class Job:
    """One step to run."""

    step: str
    path: str
    """The node, with the groups it is in: `team/writer`."""
    input: NodeInput
    case: Case
    """The input for an agent, named after the case: it must not see its own demonstration."""
    draw: int


@dataclass(frozen=True, kw_only=True)
class Work:
    """Runs the steps of a graph under one candidate."""

    parts: "Mapping[str, AgentParts]"
    """The agents, by path."""
    effects: Effects

    async def agent(self, node: AgentNode, job: Job) -> Outcome:
        del node
        parts = self.parts[job.path]
        return await parts.run(job.case, draw=job.draw, effects=self.effects)

    async def function(self, node: FunctionNode, job: Job) -> Outcome:
        """Call the function; what it raises is its failure."""
        try:
            result = await node.function.call(job.input.text if node.takes_text else job.input)
        except SystemExit as error:
            message = f"{node.function.name} ended the program: sys.exit({error.code!r})"
            return agent_failure(message, "SystemExit")
        except BurnishError:
            raise
        except Exception as error:  # noqa: BLE001 - the border to the user's function: what they raise is the case's failure
            return Outcome(failure=failure_of(error))
        outcome = of_value(result)
        # Like a tool, a function costs what it says, and nothing where it says nothing.
        return outcome if isinstance(result, Outcome) else replace(outcome, nano_usd=0)

    async def holds(self, edge: GraphEdge, visit: "Visit") -> bool:
        """Whether the condition of an edge holds after this visit."""
        assert edge.when is not None
        if edge.when.function is None:
            return edge.when.reads(visit.outcome.output)
        held = bool(await edge.when.function.call(output_value(visit.outcome)))
        return held is not edge.when.negated


@dataclass(frozen=True, kw_only=True)
class Visit:
    """One run of a node, and the edges it took."""

    node: str
    path: str
    steps: tuple[Step, ...]
    """Its step; of a group, those of its members."""
    last: tuple[str, ...]
    """The steps that made its output."""
    outcome: Outcome
    taken: tuple[str, ...] = ()


class TurnFailed(Exception):
    """A turn that has no reply."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


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
    """The surfaces of each node, by path."""
    ids: Mapping[str, str]
    """The id of each node, by path."""
    question: str
    case: str
    draw: int
    number: int
    steps: str = ""
    """What the ids of its steps begin with: the turn, and the step of the group it is in."""
    path: str = ""
    """What the paths of its nodes begin with: `team/` inside of a group."""
    attachments: tuple[Attachment, ...]
    history: tuple[Message, ...]
    before: tuple[str, ...]
    """The steps that made the previous reply."""
    visits: list[Visit] = field(default_factory=list[Visit])
    _count: Counter[str] = field(default_factory=Counter[str])
    _outputs: dict[str, Outcome] = field(default_factory=dict[str, Outcome])

    async def run(self) -> None:
        """Run through the graph and collect `visits`, predecessors first."""
        starts: dict[str, list[Visit]] = {name: [] for name in self.graph.entries}
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
        if isinstance(node, GroupNode):
            visit = await self._group(node, job, came)
        else:
            run = self.work.agent if isinstance(node, AgentNode) else self.work.function
            outcome = await run(cast("Any", node), job)
            step = self._step(job, came, outcome)
            last = (step.id,)
            visit = Visit(node=name, path=job.path, steps=(step,), last=last, outcome=outcome)
        return visit if visit.outcome.failure else await self._with_edges(visit)

    async def _group(self, node: GroupNode, job: Job, came: Sequence[Visit]) -> Visit:
        """A turn through the members, whose question is the input of the group."""
        (question,) = job.case.turns
        turn = TurnRun(
            graph=node.members,
            flow=node.flow,
            work=self.work,
            surfaces=self.surfaces,
            ids=self.ids,
            question=question.input,
            case=self.case,
            draw=job.draw,
            number=self.number,
            steps=f"{job.step}/",
            path=f"{job.path}/",
            attachments=question.attachments,
            history=self.history,
            before=self._before(came),
        )
        await turn.run()
        last: tuple[Visit, ...] = ()
        try:
            last = turn.ends()
            outcome = summed(turn.visits, last)
        except TurnFailed as error:
            outcome = replace(summed(turn.visits, ()), failure=error.failure)
        return Visit(
            node=node.name,
            path=job.path,
            steps=tuple(step for visit in turn.visits for step in visit.steps),
            last=tuple(step for visit in last for step in visit.last),
            outcome=outcome,
        )

    def ends(self) -> tuple[Visit, ...]:
        """The visits whose outputs are the reply. Raises TurnFailed if there are none."""
        outcomes = [visit.outcome for visit in self.visits]
        failures = [outcome.failure for outcome in outcomes if outcome.failure]
        # What the agent broke stays broken, whoever was away beside it.
        own = [failure for failure in failures if failure.kind is FailureKind.AGENT]
        if failures:
            raise TurnFailed((own or failures)[0])
        latest = {visit.node: visit for visit in self.visits}
        last = [node for node in self.graph.nodes if node in latest and not latest[node].taken]
        output = self.graph.output
        if not output:
            return tuple(latest[node] for node in last)
        if output in latest:
            return (latest[output],)
        there = ", ".join(last)
        message = f"the turn ended at {there}: '{output}', whose output is the reply, never ran"
        raise TurnFailed(
            Failure(kind=FailureKind.AGENT, message=message, error="NoReply", mendable=True)
        )

    def _before(self, came: Sequence[Visit]) -> tuple[str, ...]:
        return tuple(step for visit in came for step in visit.last) or self.before

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
        place = list(self.graph.nodes).index(name) * _most_visits(self.graph)
        sample = (place + self._count[name] - 1) * _widest(self.graph)
        # Files belong to the question, and go where it goes.
        has_question = not template or asks_for(template, QUESTION)
        question = Turn(input=text, attachments=self.attachments if has_question else ())
        return Job(
            step=f"{self.steps}{name}:{self._count[name]}",
            path=f"{self.path}{name}",
            input=node_input,
            case=Case(name=self.case, turns=(question,), history=self.history),
            # Two nodes that ask the same are two samples of the answer.
            draw=self.draw + 10_000 * sample,
        )

    def _step(self, job: Job, came: Sequence[Visit], outcome: Outcome) -> Step:
        failure = outcome.failure
        return Step(
            id=job.step,
            node=self.ids[job.path],
            turn=self.number,
            predecessors=self._before(came),
            surfaces=self.surfaces.get(job.path, ()),
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
                if edge.when is not None and await self.work.holds(edge, visit)
            ]
        except BurnishError:
            raise
        except Exception as error:  # noqa: BLE001 - the border to the user's condition: what they raise is the case's failure
            failure = failure_of(error)
            message = f"a condition after it failed: {failure.message}"
            steps = tuple(
                replace(step, error=message) if step.id in visit.last else step
                for step in visit.steps
            )
            outcome = replace(visit.outcome, replies=(), data=None, failure=failure)
            return replace(visit, steps=steps, outcome=outcome)
        usual = [edge.to for edge in edges if edge.when is None]
        return replace(visit, taken=self._open(held) or self._open(usual))

    def _open(self, names: Sequence[str]) -> tuple[str, ...]:
        """The nodes that may still run in this turn."""
        left = [name for name in names if self._count[name] < self.graph.visits_of(name)]
        return tuple(dict.fromkeys(left))


def summed(visits: Sequence[Visit], last: Sequence[Visit]) -> Outcome:
    """What visits took together; `last` made the output, joined by empty lines."""
    outcomes = [visit.outcome for visit in visits]
    costs = [outcome.nano_usd for outcome in outcomes]
    return Outcome(
        replies=("\n\n".join(visit.outcome.output for visit in last),) if last else (),
        data=last[0].outcome.data if len(last) == 1 else None,
        usage=sum((outcome.usage for outcome in outcomes), Usage()),
        nano_usd=None if None in costs else sum(cost or 0 for cost in costs),
        seconds=math.fsum(outcome.seconds for outcome in outcomes),
    )


def _most_visits(graph: Graph) -> int:
    return max(map(graph.visits_of, graph.nodes))


def _widest(graph: Graph) -> int:
    """How many samples the largest group of a graph may take, so that no two are the same."""
    groups = [node.members for node in graph.nodes.values() if isinstance(node, GroupNode)]
    sizes = [len(each.nodes) * _most_visits(each) * _widest(each) for each in groups]
    return max(sizes, default=1)
