"""A graph as a target: each turn of a case goes through it once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from burnish.core.cases import Attachment, Case, Failure, FailureKind, Message, Outcome, Step, Trace
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem, RoleFailed, first_problems
from burnish.core.money import Spend, total
from burnish.core.protocols import Description, Effects, Receipt, Role
from burnish.core.surfaces import Candidate, Origin, Structure, Surface, Value
from burnish.metrics.turns import DEFAULT_TURNS, NextRemark, TalkSoFar, play
from burnish.models.chat import ModelClient
from burnish.models.factory import Models
from burnish.targets.agent.files import edit
from burnish.targets.agent.runner import AgentRunner, forecast
from burnish.targets.graph.elements import Flow, skill_section
from burnish.targets.graph.files import flow_of
from burnish.targets.graph.graphs import (
    AgentNode,
    FunctionNode,
    Graph,
    GraphEdge,
    GroupNode,
)
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
from burnish.targets.graph.turns import Job, TurnFailed, TurnRun, Visit, Work, summed
from burnish.targets.user_code import of_value

if TYPE_CHECKING:
    from burnish.targets.agent.conversation import AgentParts


@dataclass(frozen=True, kw_only=True)
class _RehearsedWork(Work):
    """Repeats the steps of an earlier run, and nothing else."""

    graph: Graph
    past: Outcome

    async def agent(self, node: AgentNode, job: Job) -> Outcome:
        from burnish.targets.agent.conversation import rehearse_case

        step = self._step(job.step)
        return await rehearse_case(
            self.parts[job.path],
            job.case,
            node.agent.block.tools,
            draw=job.draw,
            effects=self.effects,
            past=Outcome(trace=Trace(steps=(step,) if step else ())),
        )

    async def function(self, node: FunctionNode, job: Job) -> Outcome:
        step = self._step(job.step)
        same = step is not None and step.input == job.input.text and not step.error
        if step is None or not same or not self._knew(node, job):
            await self._beyond("function", node.name)
        return of_value(step.output if step else None)

    async def holds(self, edge: GraphEdge, visit: Visit) -> bool:
        """A function that decides is not called: the earlier run shows its decision."""
        if edge.when is None or edge.when.function is None:
            return await super().holds(edge, visit)
        ends = [step for step in visit.steps if step.id in visit.last]
        pasts = [(self._step(step.id), step.output) for step in ends]
        if any(past is None or past.output != output for past, output in pasts):
            await self._beyond("condition", f"{edge.source} -> {edge.to}")
        to = node_id(self.graph, f"{visit.path.removesuffix(visit.node)}{edge.to}")
        return any(
            f"{step.node}/".startswith(f"{to}/") and {*visit.last} & {*step.predecessors}
            for step in self.past.trace.steps
        )

    async def _beyond(self, kind: str, what: str) -> None:
        from burnish.targets.agent.conversation import beyond

        await beyond(self.effects, kind, what)

    def _step(self, name: str) -> Step | None:
        return next((step for step in self.past.trace.steps if step.id == name), None)

    def _knew(self, node: FunctionNode, job: Job) -> bool:
        """Whether a function that may read all outputs saw these in the earlier run."""
        if node.takes_text:
            return True
        group = job.path.removesuffix(node.name)
        seen = [(step.node, step.output) for step in self.past.trace.steps]
        outputs = job.input.outputs.items()
        return all((node_id(self.graph, group + name), value) in seen for name, value in outputs)


@dataclass(kw_only=True)
class _GraphTalk:
    """A running conversation."""

    graph: Graph
    flow: Flow
    work: Work
    case: Case
    draw: int
    surfaces: Mapping[str, tuple[str, ...]]
    ids: Mapping[str, str]
    visits: list[Visit] = field(default_factory=list[Visit])
    replies: list[str] = field(default_factory=list[str])
    history: list[Message] = field(default_factory=list[Message])
    _last: tuple[Visit, ...] = ()
    """What the latest reply was made of."""

    async def say(self, text: str, attachments: Sequence[Attachment] = ()) -> str:
        """Run one turn and return the reply."""
        number = len(self.replies)
        turn = TurnRun(
            graph=self.graph,
            flow=self.flow,
            work=self.work,
            surfaces=self.surfaces,
            ids=self.ids,
            question=text,
            case=self.case.id,
            draw=self.draw,
            number=number,
            steps=f"t{number + 1}/" if number else "",
            attachments=tuple(attachments),
            history=(*self.case.history, *self.history),
            before=tuple(step for visit in self._last for step in visit.last),
        )
        try:
            await turn.run()
        finally:
            self.visits += turn.visits
        self._last = turn.ends()
        self.replies.append(summed(turn.visits, self._last).output)
        self.history += [
            Message(role="user", content=text),
            Message(role="assistant", content=self.replies[-1]),
        ]
        return self.replies[-1]

    def outcome(self, *, failure: Failure | None = None, remarks: Sequence[str] = ()) -> Outcome:
        whole = summed(self.visits, self._last)
        return replace(
            whole,
            replies=tuple(self.replies) if failure is None else (),
            asked=tuple(remarks),
            data=whole.data if failure is None else None,
            trace=Trace(steps=tuple(step for visit in self.visits for step in visit.steps)),
            failure=failure,
        )


class GraphTarget:
    """A graph of agents and functions; the id of a surface is that of its position."""

    leaf = False

    def __init__(
        self,
        graph: Graph,
        models: Models,
        *,
        surfaces: Sequence[Surface] = (),
        user: Role[TalkSoFar, NextRemark] | None = None,
        start: Mapping[str, Value] | None = None,
    ) -> None:
        """`start` has values by surface that the baseline has instead of the graph's."""
        self.graph = graph
        self._start = start or {}
        self.surfaces: Sequence[Surface] = tuple(surfaces)
        self._user = user
        self._flow = flow_of(graph)
        self._agents = {
            path: AgentRunner(node.agent, models) for path, node in graph.agents.items()
        }
        schemas = {name: target.schemas for name, target in self._agents.items()}
        self._positions = {each.id: each for each in positions_of_graph(graph, schemas)}
        if unknown := [each.id for each in surfaces if each.id not in self._positions]:
            raise ConfigError(
                first_problems(unknown, lambda name: unknown_position(name, self._positions))
            )

    @property
    def description(self) -> Description:
        graph = self.graph
        config: dict[str, Json] = {
            "name": graph.name,
            "entry": graph.entry,
            "output": graph.output,
            "global_instructions": graph.global_instructions.text,
            "nodes": self._described(graph, ""),
            "edges": [edge.described for edge in graph.edges],
        }
        return Description(kind="graph", config=config)

    def _described(self, graph: Graph, path: str) -> list[Json]:
        described: list[Json] = []
        for name, node in graph.nodes.items():
            runner = self._agents.get(f"{path}{name}")
            about: dict[str, Json] = {
                "name": name,
                "input": node.input,
                "max_visits": graph.visits_of(name),
                "agent": dict(runner.description.config) if runner else {},
                **node.described,
            }
            if isinstance(node, GroupNode):
                about["nodes"] = self._described(node.members, f"{path}{name}/")
            described.append(about)
        return described

    def secrets(self) -> Sequence[str]:
        """What the tools of its agents are sent and nobody may store."""
        return [secret for runner in self._agents.values() for secret in runner.secrets()]

    @property
    def notes(self) -> list[str]:
        """What the user should know before the start."""
        pairs = [(n, note) for n, target in self._agents.items() for note in target.notes]
        return [f"node {name}: {note}" for name, note in pairs]

    @property
    def clients(self) -> Mapping[str, ModelClient]:
        """The model of each agent, by path."""
        return {name: target.client for name, target in self._agents.items()}

    @cached_property
    def structure(self) -> Structure:
        offered = {surface.id for surface in self.surfaces}
        return structure_of(self.graph, self._positions, offered)

    @property
    def baseline(self) -> Candidate:
        values = {surface.id: self._positions[surface.id].value for surface in self.surfaces}
        return Candidate(values={**values, **self._start}, origin=Origin(kind="baseline"))

    def check(self, candidate: Candidate) -> Sequence[Problem]:
        positions = self._positions
        unknown = [name for name in candidate.values if name not in positions]
        if unknown:
            return first_problems(unknown, lambda name: unknown_position(name, positions))
        by_name = self._by_node(candidate)
        return [
            replace(problem, where=f"node {name}: {problem.where}")
            for name, values in by_name.items()
            if name in self._agents
            for problem in self._agents[name].check(
                Candidate(values=values.agent, origin=candidate.origin)
            )
        ]

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects
    ) -> Receipt[Outcome]:
        work = Work(parts=await self._parts(candidate), effects=effects)
        outcome = await self._talk(work, case, draw)
        return Receipt(value=outcome, missing=outcome.missing)

    async def rehearse(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects, past: Outcome
    ) -> Outcome:
        """Run the case as far as `effects` know it, without calling the user's functions."""

        parts = await self._parts(candidate)
        work = _RehearsedWork(parts=parts, effects=effects, graph=self.graph, past=past)
        return await self._talk(work, case, draw)

    def estimate(self, case: Case) -> Spend:
        """One call per agent and turn; cycles and tools take more."""
        turns = len(case.turns)
        if case.scenario is not None:
            turns = case.scenario.max_turns or DEFAULT_TURNS
        return total(client.estimate() for client in self.clients.values()).times(turns)

    def forecast(self, case: Case) -> Spend:
        """The estimate with tokens and money: every agent once a turn, with the question alone."""
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
        return len(self.graph.leaves) > len(self._agents)

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        """The graph file with these values in it, so that it loads from `home`.

        A graph defined in Python has no file: its values go into surfaces.yaml.
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
        for target in self._agents.values():
            await target.close()

    async def _talk(self, work: Work, case: Case, draw: int) -> Outcome:
        """Run the conversation; what goes wrong in it is part of the outcome."""
        talk = _GraphTalk(
            graph=self.graph,
            flow=self._flow,
            work=work,
            case=case,
            draw=draw,
            surfaces=self._in_force,
            ids={path: node_id(self.graph, path) for path in self.graph.leaves},
        )
        try:
            remarks = await play(case, talk.say, user=self._user, draw=draw, effects=work.effects)
        except RoleFailed as error:
            kind = FailureKind.INFRASTRUCTURE
            away = Failure(kind=kind, message=error.message, error="RoleFailed")
            return talk.outcome(failure=away)
        except TurnFailed as error:
            return talk.outcome(failure=error.failure)
        return talk.outcome(remarks=remarks)

    @cached_property
    def _in_force(self) -> dict[str, tuple[str, ...]]:
        """The surfaces of each node: its own, and for an agent the shared ones."""
        shared = root_position(self.graph)
        surfaces: dict[str, tuple[str, ...]] = {}
        for name in self.graph.leaves:
            node = node_id(self.graph, name)
            surfaces[name] = tuple(
                surface.id
                for surface in self.surfaces
                if self._positions[surface.id].node == node
                or (surface.id == shared and name in self._agents)
            )
        return surfaces

    async def _parts(self, candidate: Candidate) -> "dict[str, AgentParts]":
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
        """The shared instructions, the agent's own, and its skills."""
        skills = self.graph.agents[name].skills
        texts = {skill.name: skill.content.text for skill in skills} | values.skills
        parts = [shared, own, *(skill_section(skill, text) for skill, text in texts.items())]
        present = [part for part in parts if part.strip()]
        return present[0] if len(present) == 1 else "\n\n".join(part.strip() for part in present)

    def _by_node(self, candidate: Candidate) -> dict[str, NodeValues]:
        return by_node(self.graph, self._positions, candidate.values)

    def _shared(self, candidate: Candidate) -> str:
        now: Value = self.graph.global_instructions.text
        return str(candidate.values.get(root_position(self.graph), now))
