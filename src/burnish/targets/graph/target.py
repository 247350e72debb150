"""A graph as a target: surfaces by position, candidates by editing its agents, runs by turns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from burnish.core.candidates import Candidate, Origin
from burnish.core.cases import Case
from burnish.core.content import Json
from burnish.core.effects import Effects, Receipt
from burnish.core.errors import ConfigError, Problem
from burnish.core.money import Spend, total
from burnish.core.outcomes import Outcome
from burnish.core.protocols import Description, Role
from burnish.core.structures import Structure
from burnish.core.surfaces import Surface, Value
from burnish.evaluation.simulation import DEFAULT_TURNS, NextRemark, TalkSoFar
from burnish.models.chat import ModelClient
from burnish.models.factory import Models
from burnish.targets.agent.costs import forecast
from burnish.targets.agent.editing import edit
from burnish.targets.agent.target import AgentTarget
from burnish.targets.graph.exporting import EditedGraph, export_graph, export_values
from burnish.targets.graph.graphs import Graph
from burnish.targets.graph.nodes import AgentNode, FunctionNode
from burnish.targets.graph.positions import (
    NodeValues,
    by_node,
    node_id,
    positions_of_graph,
    root_position,
    structure_of,
    unknown_position,
)
from burnish.targets.graph.skills import told as told_skill
from burnish.targets.graph.sound import flow_of

if TYPE_CHECKING:
    from burnish.targets.agent.running import AgentParts
    from burnish.targets.graph.working import Work


class GraphTarget:
    """A graph of agents and functions; the id of a surface is that of the position it edits."""

    leaf = False

    def __init__(
        self,
        graph: Graph,
        models: Models,
        *,
        surfaces: Sequence[Surface] = (),
        user: Role[TalkSoFar, NextRemark] | None = None,
    ) -> None:
        self.graph = graph
        self._flow = flow_of(graph)
        self._surfaces = tuple(surfaces)
        self._user = user
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
        told = [(n, note) for n, target in self._agents.items() for note in target.notes]
        return [f"node {name}: {note}" for name, note in told]

    @property
    def clients(self) -> Mapping[str, ModelClient]:
        """The model of each agent, by node."""
        return {name: target.client for name, target in self._agents.items()}

    @property
    def surfaces(self) -> Sequence[Surface]:
        """What may be edited."""
        return self._surfaces

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
        known = self._positions
        unknown = [unknown_position(name, known) for name in candidate.values if name not in known]
        return unknown or list(self._wrong(candidate))

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects
    ) -> Receipt[Outcome]:
        """Have the case's conversation with the graph."""
        from burnish.targets.graph.working import Work

        work = Work(parts=await self._parts(candidate), effects=effects)
        outcome = await self._talk(work, case, draw)
        return Receipt(value=outcome, missing=outcome.missing)

    async def rehearse(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects, past: Outcome
    ) -> Outcome:
        """The case's conversation as far as `effects` know it; the user's functions are left."""
        from burnish.targets.graph.rehearsing import RehearsedWork

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

    async def _talk(self, work: "Work", case: Case, draw: int) -> Outcome:
        from burnish.targets.graph.talking import GraphTalk, run_talk

        talk = GraphTalk(
            graph=self.graph,
            flow=self._flow,
            work=work,
            case=case,
            draw=draw,
            surfaces=self._in_force,
        )
        return await run_talk(talk, self._user)

    @cached_property
    def _in_force(self) -> dict[str, tuple[str, ...]]:
        """The surfaces of each node: its own, and for an agent what all agents share."""
        shared = root_position(self.graph)
        found: dict[str, tuple[str, ...]] = {}
        for name in self.graph.nodes:
            homes = {node_id(self.graph, name)}
            mine = [s.id for s in self._surfaces if self._positions[s.id].node in homes
                    or (s.id == shared and name in self._agents)]  # fmt: skip
            found[name] = tuple(mine)
        return found

    async def _parts(self, candidate: Candidate) -> dict[str, "AgentParts"]:
        values, shared = self._by_node(candidate), self._shared(candidate)
        found: dict[str, AgentParts] = {}
        for name, target in self._agents.items():
            own = Candidate(values=values[name].agent, origin=candidate.origin)
            parts = await target.parts(own)
            told = self._told(name, parts.instructions, shared, values[name])
            # The files of a case lie where the graph does, not where an agent's file does.
            found[name] = replace(parts, instructions=told, folder=self.graph.folder)
        return found

    def _told(self, name: str, own: str, shared: str, values: NodeValues) -> str:
        """What an agent is told: what all are told, its instructions, its skills."""
        node = self.graph.nodes[name]
        skills = node.skills if isinstance(node, AgentNode) else ()
        texts = {skill.name: skill.content.text for skill in skills} | values.skills
        parts = [shared, own, *(told_skill(skill, text) for skill, text in texts.items())]
        kept = [part for part in parts if part.strip()]
        return kept[0] if len(kept) == 1 else "\n\n".join(part.strip() for part in kept)

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
