"""A graph as a target: each turn of a case goes through it once."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from burnish.core.cases import Attachment, Case, Message
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem, RoleFailed
from burnish.core.money import Spend, total
from burnish.core.outcomes import Failure, FailureKind, Outcome, Step, Trace, Usage
from burnish.core.protocols import Description, Effects, Receipt, Role
from burnish.core.structures import Structure
from burnish.core.surfaces import Candidate, Origin, Surface, Value
from burnish.metrics.turns import DEFAULT_TURNS, NextRemark, TalkSoFar
from burnish.models.chat import ModelClient
from burnish.models.factory import Models
from burnish.targets.agent.conversation import AgentParts, play
from burnish.targets.agent.files import edit
from burnish.targets.agent.target import (
    AgentTarget,
    EditableTarget,
    beyond,
    forecast,
    rehearse_case,
)
from burnish.targets.callables.target import of_value
from burnish.targets.graph.files import flow_of
from burnish.targets.graph.functions import skill_section
from burnish.targets.graph.graphs import AgentNode, Flow, FunctionNode, Graph, GraphEdge, NodeOutput
from burnish.targets.graph.surfaces import (
    EditedGraph,
    NodeValues,
    by_node,
    export_graph,
    export_values,
    node_id,
    positions_of_graph,
    root_position,
    structure_of,
    unknown_position,
)
from burnish.targets.graph.turns import Asking, Job, TurnRun, Visit, Work


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
        same = step is not None and step.input == job.input.text and not step.error
        if step is None or not same or not self._knew(node, job.input.outputs):
            await beyond(self.effects, "function", node.name)
        return of_value(step.output if step else None)

    async def holds(self, edge: GraphEdge, step: str, output: NodeOutput) -> bool:
        """A function that decides is not asked: the past tells what it said of this output."""
        if edge.when is None or edge.when.function is None:
            return await super().holds(edge, step, output)
        past = self._step(step)
        if past is None or past.output != output.value:
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


# -- The conversation of a case with a graph ------------------------------------------------------


class TurnFailed(Exception):
    """A turn gave no reply; nobody outside of this file sees it."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(kw_only=True)
class _GraphTalk:
    """A conversation under way, and what is known of it so far."""

    graph: Graph
    flow: Flow
    work: Work
    case: Case
    draw: int
    surfaces: Mapping[str, tuple[str, ...]]
    visits: list[Visit] = field(default_factory=list[Visit])
    replies: list[str] = field(default_factory=list[str])
    history: list[Message] = field(default_factory=list[Message])
    _last: tuple[Visit, ...] = ()
    """What the latest reply was made of."""

    async def say(self, text: str, attachments: Sequence[Attachment] = ()) -> str:
        """One turn: what the graph replies."""
        turn = TurnRun(
            graph=self.graph,
            flow=self.flow,
            work=self.work,
            surfaces=self.surfaces,
            asking=Asking(
                question=text,
                case=self.case.id,
                draw=self.draw,
                number=len(self.replies),
                attachments=tuple(attachments),
                history=(*self.case.history, *self.history),
                before=tuple(visit.step.id for visit in self._last),
            ),
        )
        try:
            await turn.run()
        finally:
            self.visits += turn.visits
        self._last = _ends(self.graph, turn.visits)
        self.replies.append("\n\n".join(visit.output.text for visit in self._last))
        self.history += [
            Message(role="user", content=text),
            Message(role="assistant", content=self.replies[-1]),
        ]
        return self.replies[-1]

    def outcome(self, *, failure: Failure | None = None, remarks: Sequence[str] = ()) -> Outcome:
        """What came of it; all that the nodes used adds up."""
        outcomes = [visit.outcome for visit in self.visits]
        costs = [outcome.nano_usd for outcome in outcomes]
        data = self._last[0].outcome.data if len(self._last) == 1 else None
        return Outcome(
            replies=tuple(self.replies) if failure is None else (),
            asked=tuple(remarks),
            data=data if failure is None else None,
            trace=Trace(steps=tuple(visit.step for visit in self.visits)),
            usage=sum((outcome.usage for outcome in outcomes), Usage()),
            nano_usd=None if None in costs else sum(cost or 0 for cost in costs),
            seconds=math.fsum(outcome.seconds for outcome in outcomes),
            failure=failure,
        )


async def _run_talk(talk: _GraphTalk, user: Role[TalkSoFar, NextRemark] | None) -> Outcome:
    """The conversation of the case. What goes wrong in it is an outcome, not an exception."""
    effects = talk.work.effects
    try:
        remarks = await play(talk.case, talk.say, user=user, draw=talk.draw, effects=effects)
    except RoleFailed as error:
        away = Failure(kind=FailureKind.INFRASTRUCTURE, message=error.message, error="RoleFailed")
        return talk.outcome(failure=away)
    except TurnFailed as error:
        return talk.outcome(failure=error.failure)
    return talk.outcome(remarks=remarks)


def _ends(graph: Graph, visits: Sequence[Visit]) -> tuple[Visit, ...]:
    """The visits whose outputs are the reply. Raises TurnFailed where there is none."""
    failures = [visit.failure for visit in visits if visit.failure]
    # What the agent broke stays broken, whoever was away beside it.
    own = [failure for failure in failures if failure.kind is FailureKind.AGENT]
    if failures:
        raise TurnFailed((own or failures)[0])
    latest = {visit.node: visit for visit in visits}
    if not graph.output:
        return tuple(latest[node] for node in graph.nodes if _ended(latest.get(node)))
    if graph.output in latest:
        return (latest[graph.output],)
    there = ", ".join(node for node in graph.nodes if _ended(latest.get(node)))
    message = f"the turn ended at {there}: '{graph.output}', whose output is the reply, never ran"
    raise TurnFailed(Failure(kind=FailureKind.AGENT, message=message, error="NoReply"))


def _ended(visit: Visit | None) -> bool:
    return visit is not None and not visit.taken


# -- A graph as a target --------------------------------------------------------------------------


class GraphTarget(EditableTarget):
    """A graph of agents and functions; the id of a surface is that of the position it edits."""

    def __init__(
        self,
        graph: Graph,
        models: Models,
        *,
        surfaces: Sequence[Surface] = (),
        user: Role[TalkSoFar, NextRemark] | None = None,
    ) -> None:
        super().__init__(surfaces, user)
        self.graph = graph
        self._flow = flow_of(graph)
        self._agents = {
            name: AgentTarget(node.agent, models)
            for name, node in graph.nodes.items()
            if isinstance(node, AgentNode)
        }
        schemas = {name: target.schemas for name, target in self._agents.items()}
        self._positions = {each.id: each for each in positions_of_graph(graph, schemas)}
        if unknown := [each.id for each in surfaces if each.id not in self._positions]:
            raise ConfigError([unknown_position(name, self._positions) for name in unknown])

    @property
    def description(self) -> Description:
        """The nodes and edges, what each agent is, and hashes of the files that decide it."""
        graph = self.graph
        nodes: list[Json] = [
            {
                "name": name,
                "input": node.input,
                "max_visits": graph.visits_of(name),
                "agent": dict(self._agents[name].description.config)
                if name in self._agents
                else {},
                **node.described,
            }
            for name, node in graph.nodes.items()
        ]
        config: dict[str, Json] = {
            "name": graph.name,
            "entry": graph.entry,
            "output": graph.output,
            "global_instructions": graph.global_instructions.text,
            "nodes": nodes,
            "edges": [edge.described for edge in graph.edges],
        }
        return Description(kind="graph", config=config)

    @property
    def notes(self) -> list[str]:
        """What the user should know before the start."""
        pairs = [(n, note) for n, target in self._agents.items() for note in target.notes]
        return [f"node {name}: {note}" for name, note in pairs]

    @property
    def clients(self) -> Mapping[str, ModelClient]:
        """The model of each agent, by node."""
        return {name: target.client for name, target in self._agents.items()}

    @cached_property
    def structure(self) -> Structure:
        """Nodes, edges, and what can be edited at each."""
        offered = {surface.id: surface for surface in self._surfaces}
        return structure_of(self.graph, self._positions, offered)

    @property
    def baseline(self) -> Candidate:
        """The values of now."""
        values = {surface.id: self._positions[surface.id].value for surface in self._surfaces}
        return Candidate(values=values, origin=Origin(kind="baseline"))

    def check(self, candidate: Candidate) -> Sequence[Problem]:
        """Whether every agent still loads with these values in it."""
        positions = self._positions
        unknown = [
            unknown_position(name, positions) for name in candidate.values if name not in positions
        ]
        return unknown or list(self._wrong(candidate))

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects
    ) -> Receipt[Outcome]:
        """Have the case's conversation with the graph."""
        from burnish.targets.graph.turns import Work

        work = Work(parts=await self._parts(candidate), effects=effects)
        outcome = await self._talk(work, case, draw)
        return Receipt(value=outcome, missing=outcome.missing)

    async def rehearse(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects, past: Outcome
    ) -> Outcome:
        """The case's conversation as far as `effects` know it; the user's functions are left."""

        parts = await self._parts(candidate)
        work = RehearsedWork(parts=parts, effects=effects, graph=self.graph, past=past)
        return await self._talk(work, case, draw)

    def estimate(self, case: Case) -> Spend:
        """One call for each agent a turn, as well as can be told: cycles and tools take more."""
        turns = len(case.turns)
        if case.scenario is not None:
            turns = case.scenario.max_turns or DEFAULT_TURNS
        return total(client.estimate() for client in self.clients.values()).times(turns)

    def forecast(self, case: Case) -> Spend:
        """The same with tokens and money: every agent once a turn, asked the question alone."""
        spend = self.estimate(case)
        if not spend.calls:
            return spend
        turns = spend.calls // len(self.clients)
        return total(
            forecast(target.agent, target.client, case, target.client.estimate().times(turns))
            for target in self._agents.values()
        )

    @property
    def calls_function(self) -> bool:
        """Whether one of its nodes is a function."""
        return any(isinstance(node, FunctionNode) for node in self.graph.nodes.values())

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        """The graph file with these values in it, so that it loads from `home`.

        A graph that is told in Python has no file: its values go into surfaces.yaml.
        """
        if self.graph.source is None:
            return export_values(candidate.values)
        values = self._by_node(candidate)
        edited = EditedGraph(
            graph=self.graph,
            agents={n: edit(t.agent, values[n].agent) for n, t in self._agents.items()},
            skills={name: each.skills for name, each in values.items()},
            global_instructions=self._shared(candidate),
        )
        return export_graph(edited, self.graph.source, home)

    async def close(self) -> None:
        """Let go of what the agents hold."""
        for target in self._agents.values():
            await target.close()

    async def _talk(self, work: Work, case: Case, draw: int) -> Outcome:

        talk = _GraphTalk(
            graph=self.graph,
            flow=self._flow,
            work=work,
            case=case,
            draw=draw,
            surfaces=self._in_force,
        )
        return await _run_talk(talk, self._user)

    @cached_property
    def _in_force(self) -> dict[str, tuple[str, ...]]:
        """The surfaces of each node: its own, and for an agent what all agents share."""
        shared = root_position(self.graph)
        surfaces: dict[str, tuple[str, ...]] = {}
        for name in self.graph.nodes:
            homes = {node_id(self.graph, name)}
            mine = [s.id for s in self._surfaces if self._positions[s.id].node in homes
                    or (s.id == shared and name in self._agents)]  # fmt: skip
            surfaces[name] = tuple(mine)
        return surfaces

    async def _parts(self, candidate: Candidate) -> dict[str, AgentParts]:
        values, shared = self._by_node(candidate), self._shared(candidate)
        by_name: dict[str, AgentParts] = {}
        for name, target in self._agents.items():
            own = Candidate(values=values[name].agent, origin=candidate.origin)
            parts = await target.parts(own)
            instructions = self._instructions(name, parts.instructions, shared, values[name])
            # The files of a case lie where the graph does, not where an agent's file does.
            by_name[name] = replace(parts, instructions=instructions, folder=self.graph.folder)
        return by_name

    def _instructions(self, name: str, own: str, shared: str, values: NodeValues) -> str:
        """What an agent is told: what all are told, its instructions, its skills."""
        node = self.graph.nodes[name]
        skills = node.skills if isinstance(node, AgentNode) else ()
        texts = {skill.name: skill.content.text for skill in skills} | values.skills
        parts = [shared, own, *(skill_section(skill, text) for skill, text in texts.items())]
        present = [part for part in parts if part.strip()]
        return present[0] if len(present) == 1 else "\n\n".join(part.strip() for part in present)

    def _by_node(self, candidate: Candidate) -> dict[str, NodeValues]:
        return by_node(self.graph, self._positions, candidate.values)

    def _shared(self, candidate: Candidate) -> str:
        now: Value = self.graph.global_instructions.text
        return str(candidate.values.get(root_position(self.graph), now))

    def _wrong(self, candidate: Candidate) -> Iterator[Problem]:
        for name, values in self._by_node(candidate).items():
            if name in self._agents:
                own = Candidate(values=values.agent, origin=candidate.origin)
                for problem in self._agents[name].check(own):
                    yield replace(problem, where=f"node {name}: {problem.where}")
