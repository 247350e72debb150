"""An agent file as a target: surfaces by path, candidates by editing, runs and rehearsals."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

from burnish.core.cases import Case, Outcome
from burnish.core.money import Spend
from burnish.core.protocols import Effects, Receipt
from burnish.core.surfaces import Candidate, Node, Origin, Position, Structure, Value, node_path
from burnish.metrics.turns import DEFAULT_TURNS
from burnish.targets.agent.blocks import DEMONSTRATIONS, demonstrations_of
from burnish.targets.agent.files import (
    INSTRUCTIONS,
    edit,
    export_agent,
    is_instructions,
    positions_of,
    value_at,
)
from burnish.targets.agent.runner import AgentRunner, forecast


class AgentTarget(AgentRunner):
    """An agent as its file describes it."""

    leaf = False

    @property
    def structure(self) -> Structure:
        """A graph of one node."""
        name = self.agent.block.name
        node = node_path(name)
        return Structure.of(node, [Node(id=node, name=name)], (), self.positions(node))

    def positions(self, node: str) -> tuple[Position, ...]:
        """What can be edited, as positions of this node."""
        positions = positions_of(self.agent, node, self.schemas)
        offered = {
            INSTRUCTIONS[0] if is_instructions(surface.id) else surface.id: surface.id
            for surface in self.surfaces
        }
        return tuple(replace(each, surface=offered.get(each.surface, "")) for each in positions)

    @property
    def baseline(self) -> Candidate:
        values = {surface.id: self._current_value(surface.id) for surface in self.surfaces}
        return Candidate(values=values, origin=Origin(kind="baseline"))

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects
    ) -> Receipt[Outcome]:
        parts = await self.parts(candidate)
        outcome = await parts.run(case, draw=draw, effects=effects)
        return Receipt(value=outcome, missing=outcome.missing)

    async def rehearse(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects, past: Outcome
    ) -> Outcome:
        """Run the case as far as `effects` know it, without calling the user's tools."""
        from burnish.targets.agent.conversation import rehearse_case

        parts, tools = await self.parts(candidate), self.agent.block.tools
        return await rehearse_case(parts, case, tools, draw=draw, effects=effects, past=past)

    def estimate(self, case: Case) -> Spend:
        """One call per turn; tools may take more."""
        turns = len(case.turns)
        if case.scenario is not None:
            turns = case.scenario.max_turns or DEFAULT_TURNS
        return self.client.estimate().times(turns)

    def forecast(self, case: Case) -> Spend:
        """The estimate with tokens and money."""
        spend = self.estimate(case)
        return forecast(self.agent, self.client, case, spend) if spend.calls else spend

    @property
    def plan_summary(self) -> str:
        """Its name and its model."""
        return f"{self.agent.block.name}, {self.client.ref.label}"

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        """The agent file with these values in it, so that it loads from `home`."""
        return export_agent(self.agent, edit(self.agent, candidate.values), home)

    def _current_value(self, path: str) -> Value:
        if is_instructions(path):
            return self.agent.instructions.text
        if path == DEMONSTRATIONS:
            return demonstrations_of(self.agent.block)
        return cast("Value", value_at(self.agent.block, path))
